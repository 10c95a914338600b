//! Buffers that are used again: memory fresh from the system costs as much as sending it does.

use parking_lot::Mutex;
use std::sync::Arc;

/// Shorter buffers come from the allocator at no cost.
const LEN_MIN: usize = 16 << 10;
/// Elements that lie idle at most.
const IDLE_MAX: usize = 64 << 20;

struct Spare {
    buffers: Vec<Vec<f32>>,
    idle: usize,
}
static SPARE: Mutex<Spare> = Mutex::new(Spare { buffers: Vec::new(), idle: 0 });

/// A buffer of that length; what it contains is of no meaning.
pub(crate) fn take(len: usize) -> Vec<f32> {
    if len >= LEN_MIN {
        let mut spare = SPARE.lock();
        // The last that came may still be in the cache.
        let fits = |b: &Vec<f32>| b.capacity() >= len && b.capacity() / 2 <= len;
        if let Some(i) = spare.buffers.iter().rposition(fits) {
            let mut b = spare.buffers.remove(i);
            spare.idle -= b.capacity();
            drop(spare);
            b.resize(len, 0.0);
            return b;
        }
    }
    vec![0.0; len]
}

/// A buffer with these elements.
pub(crate) fn copy(values: &[f32]) -> Vec<f32> {
    let mut b = take(values.len());
    b.copy_from_slice(values);
    b
}

/// Keeps a buffer for the next who needs one, unless somebody else still holds it.
pub(crate) fn give(data: Arc<Vec<f32>>) {
    let Some(b) = Arc::into_inner(data).filter(|b| b.capacity() >= LEN_MIN) else { return };
    let mut spare = SPARE.lock();
    if spare.idle + b.capacity() <= IDLE_MAX {
        spare.idle += b.capacity();
        spare.buffers.push(b);
    }
}

/// A value to change: in place if nobody else holds it, otherwise a copy.
pub(crate) fn make_mut(data: &mut Arc<Vec<f32>>) -> &mut Vec<f32> {
    if Arc::get_mut(data).is_none() {
        let fresh = Arc::new(copy(data));
        give(std::mem::replace(data, fresh));
    }
    Arc::get_mut(data).expect("nobody else holds it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_unless_it_is_held() {
        // A length that no other test uses.
        let len = LEN_MIN + 12_345;
        let first = Arc::new(take(len));
        let (at, held) = (first.as_ptr(), first.clone());
        give(first);
        let second = take(len);
        assert_ne!(second.as_ptr(), at, "it is held");
        give(held);
        let third = take(len);
        assert_eq!(third.as_ptr(), at);
    }

    #[test]
    fn what_others_hold_is_not_changed() {
        let mut a = Arc::new(vec![1.0; 3]);
        let b = a.clone();
        make_mut(&mut a)[0] = 2.0;
        assert_eq!((a[0], b[0]), (2.0, 1.0));
        let at = a.as_ptr();
        make_mut(&mut a)[0] = 3.0;
        assert_eq!(a.as_ptr(), at);
    }
}
