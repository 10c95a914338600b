//! Weights that were brought into the form of their kernel: made once for each form, and shared by all programs of the
//! process that use the same weights, such as those for several batch sizes of one model.

use crate::kernels::gemm::Packed;
use ir::{Bytes, Literal};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

/// Which form: the kernel and the sizes that decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// The kernel.
    pub kernel: &'static str,
    /// Matrices, their rows and their columns.
    pub sizes: [usize; 3],
}

/// The forms of one block of memory. As long as this holds on to it, no other block has its address.
struct Known {
    memory: Weak<Bytes>,
    forms: HashMap<Form, Weak<Packed>>,
}

static KNOWN: LazyLock<Mutex<HashMap<usize, Known>>> = LazyLock::new(Mutex::default);

fn address(value: &Literal) -> usize {
    Arc::as_ptr(value.buffer()).addr()
}

/// A weight in a form: one that a program already has, or a new one.
pub fn shared(value: &Literal, form: Form, make: impl FnOnce() -> Packed) -> Arc<Packed> {
    let find = |known: &HashMap<usize, Known>| known.get(&address(value))?.forms.get(&form)?.upgrade();
    if let Some(packed) = find(&KNOWN.lock()) {
        return packed;
    }
    // Without the lock: packing takes long.
    let packed = Arc::new(make());
    let mut known = KNOWN.lock();
    known.retain(|_, k| {
        k.forms.retain(|_, p| p.strong_count() > 0);
        !k.forms.is_empty() && k.memory.strong_count() > 0
    });
    if let Some(other) = find(&known) {
        return other;
    }
    let new = || Known { memory: Arc::downgrade(value.buffer()), forms: HashMap::new() };
    known.entry(address(value)).or_insert_with(new).forms.insert(form, Arc::downgrade(&packed));
    packed
}

/// Bytes of all forms of a weight that programs hold now.
pub fn bytes_of(value: &Literal) -> usize {
    let known = KNOWN.lock();
    let forms = known.get(&address(value)).map(|k| k.forms.values()).into_iter().flatten();
    forms.filter_map(Weak::upgrade).map(|p| p.bytes()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::conv::Conv;
    use crate::kernels::window::Window;

    #[test]
    fn a_form_is_made_once_and_goes_with_its_last_user() {
        let window = Window::new(&[8, 8], &[3, 3], &[1, 1], &[(1, 1), (1, 1)], &[1, 1]);
        let conv = |batch: usize| Conv { batch, channels: 16, out_channels: 16, groups: 1, window };
        let w = Literal::generate([16 * 16 * 9], |i| i as f32);
        let packed = |batch: usize| conv(batch).prepacked(&w).expect("windows of 3×3 are transformed");
        // Many tiles are 4×4 outputs large, few 2×2.
        let (few, many) = (16 * 16 * 16 * 4, 36 * 16 * 16 * 4);
        let (one, two, sixteen) = (packed(1), packed(2), packed(16));
        assert_eq!(bytes_of(&w), few + many, "two sizes share one form");
        drop(one);
        assert_eq!(bytes_of(&w), few + many);
        drop(two);
        assert_eq!(bytes_of(&w), many);
        drop(sixteen);
        assert_eq!(bytes_of(&w), 0);
        assert_eq!(bytes_of(&Literal::zeros(ir::DType::F32, [16 * 16 * 9])), 0);
    }
}
