//! Buffers that are used again: memory fresh from the system costs as much as sending it does, and
//! a step that repeats itself should ask for none.

use parking_lot::Mutex;
use std::sync::{Arc, LazyLock};

/// Longer buffers are as long as was asked for; others have a power of two of elements.
const LARGE: usize = 1 << 14;
const SMALL_CLASSES: usize = LARGE.trailing_zeros() as usize + 1;
/// Small buffers of one length that lie idle at most.
const SMALL_MAX: usize = 1024;
/// Elements that lie idle at most.
const IDLE_MAX: usize = 64 << 20;

struct Spare {
    small: [Vec<Arc<Vec<f32>>>; SMALL_CLASSES],
    large: Vec<Arc<Vec<f32>>>,
    idle: usize,
}
static SPARE: Mutex<Spare> =
    Mutex::new(Spare { small: [const { Vec::new() }; SMALL_CLASSES], large: Vec::new(), idle: 0 });
static EMPTY: LazyLock<Arc<Vec<f32>>> = LazyLock::new(Arc::default);

impl Spare {
    fn take(&mut self, len: usize) -> Option<Arc<Vec<f32>>> {
        let b = if len <= LARGE {
            self.small[len.next_power_of_two().trailing_zeros() as usize].pop()?
        } else {
            // The last that came may still be in the cache.
            let fits = |b: &Arc<Vec<f32>>| b.capacity() >= len && b.capacity() / 2 <= len;
            let i = self.large.iter().rposition(fits)?;
            self.large.remove(i)
        };
        self.idle -= b.capacity();
        Some(b)
    }
    fn give(&mut self, b: Arc<Vec<f32>>) {
        let len = b.capacity();
        let (list, most) = if len <= LARGE {
            (&mut self.small[len.ilog2() as usize], SMALL_MAX)
        } else {
            (&mut self.large, usize::MAX)
        };
        if list.len() < most && self.idle + len <= IDLE_MAX {
            self.idle += len;
            list.push(b);
        }
    }
}

/// A buffer of that length that nobody else holds; what it contains is of no meaning.
pub(crate) fn take(len: usize) -> Arc<Vec<f32>> {
    if len == 0 {
        return EMPTY.clone();
    }
    let spare = SPARE.lock().take(len);
    let mut b = spare.unwrap_or_else(|| {
        let capacity = if len <= LARGE { len.next_power_of_two() } else { len };
        // What is zeroed here comes from the system that way.
        Arc::new(if capacity > len { Vec::with_capacity(capacity) } else { vec![0.0; len] })
    });
    if let Some(b) = Arc::get_mut(&mut b) {
        b.resize(len, 0.0);
    }
    b
}

/// A buffer with these elements.
pub(crate) fn copy(values: &[f32]) -> Arc<Vec<f32>> {
    let mut b = take(values.len());
    make_mut(&mut b).copy_from_slice(values);
    b
}

/// Keeps a buffer for the next who needs one, unless somebody else still holds it. Of several who
/// hold it, the last to give it is heard.
pub(crate) fn give(mut data: Arc<Vec<f32>>) {
    if data.capacity() == 0 {
        return;
    }
    // Under the lock, so that two who give it at once are not both refused.
    let mut spare = SPARE.lock();
    if Arc::get_mut(&mut data).is_some() {
        spare.give(data);
    }
}

/// A value to change: in place if nobody else holds it, otherwise a copy.
pub(crate) fn make_mut(data: &mut Arc<Vec<f32>>) -> &mut Vec<f32> {
    if Arc::get_mut(data).is_none() {
        let fresh = if data.is_empty() { Arc::default() } else { copy(data) };
        give(std::mem::replace(data, fresh));
    }
    Arc::get_mut(data).expect("nobody else holds it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_unless_it_is_held() {
        // Lengths that no other test uses: long ones come back as they are, short ones by the
        // power of two.
        for (len, like) in [(LARGE + 12_345, LARGE + 12_300), (LARGE / 4 - 3, LARGE / 4 - 700)] {
            let first = take(len);
            let (at, held) = (first.as_ptr(), first.clone());
            give(first);
            let second = take(len);
            assert_ne!(second.as_ptr(), at, "it is held");
            give(held);
            let third = take(like);
            assert_eq!((third.as_ptr(), third.len()), (at, like));
        }
        assert!(take(0).is_empty());
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
