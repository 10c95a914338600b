//! A buffer pool: memory fresh from the system costs as much as sending it, and a repeated step should
//! allocate none.

use parking_lot::Mutex;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

/// Longer buffers are as long as was asked for; others have a power of two of elements.
const LARGE: usize = 1 << 14;
const SMALL_CLASSES: usize = LARGE.trailing_zeros() as usize + 1;
/// Small buffers of one length that lie idle at most.
const SMALL_MAX: usize = 1024;
/// Elements that lie idle at most.
const IDLE_MAX: usize = 64 << 20;

/// Idle buffers of one element type.
pub struct Pool<T> {
    small: [Vec<Arc<Vec<T>>>; SMALL_CLASSES],
    large: Vec<Arc<Vec<T>>>,
    idle: usize,
}

/// Element types with a pool.
pub trait Pooled: Copy + Default + fmt::Debug + PartialEq + 'static {
    /// Their pool.
    fn pool() -> &'static Mutex<Pool<Self>>;
}
macro_rules! pooled {
    ($($t:ty),*) => {$(
        impl Pooled for $t {
            fn pool() -> &'static Mutex<Pool<$t>> {
                static POOL: Mutex<Pool<$t>> =
                    Mutex::new(Pool { small: [const { Vec::new() }; SMALL_CLASSES], large: Vec::new(), idle: 0 });
                &POOL
            }
        }
    )*};
}
pooled!(f32, u32, u64);

static EMPTY: LazyLock<Arc<Vec<f32>>> = LazyLock::new(Arc::default);

impl<T> Pool<T> {
    fn take(&mut self, len: usize) -> Option<Arc<Vec<T>>> {
        let b = if len <= LARGE {
            self.small[len.next_power_of_two().trailing_zeros() as usize].pop()?
        } else {
            // The last that came may still be in the cache.
            let fits = |b: &Arc<Vec<T>>| b.capacity() >= len && b.capacity() / 2 <= len;
            let i = self.large.iter().rposition(fits)?;
            self.large.remove(i)
        };
        assert!(self.idle >= b.capacity() && b.capacity() >= len, "a pooled buffer has the size of its class");
        self.idle -= b.capacity();
        Some(b)
    }
    fn give(&mut self, b: Arc<Vec<T>>) {
        let len = b.capacity();
        let (list, most) = if len <= LARGE {
            (&mut self.small[len.ilog2() as usize], SMALL_MAX)
        } else {
            (&mut self.large, usize::MAX)
        };
        assert!(self.idle <= IDLE_MAX, "idle memory is bounded");
        if list.len() < most && self.idle + len <= IDLE_MAX {
            self.idle += len;
            list.push(b);
        }
    }
}

/// A buffer of that length, which is not 0, without another holder; its content is unspecified.
fn take_any<T: Pooled>(len: usize) -> Arc<Vec<T>> {
    let spare = T::pool().lock().take(len);
    let mut b = spare.unwrap_or_else(|| {
        let capacity = if len <= LARGE { len.next_power_of_two() } else { len };
        // What is zeroed here comes from the system that way.
        Arc::new(if capacity > len { Vec::with_capacity(capacity) } else { vec![T::default(); len] })
    });
    if let Some(b) = Arc::get_mut(&mut b) {
        b.resize(len, T::default());
    }
    b
}
fn give_any<T: Pooled>(mut data: Arc<Vec<T>>) {
    if data.capacity() == 0 {
        return;
    }
    // Under the lock, so that two who give it at once are not both refused.
    let mut spare = T::pool().lock();
    if Arc::get_mut(&mut data).is_some() {
        spare.give(data);
    }
}

/// A buffer of that length without another holder; its content is unspecified.
pub(crate) fn take(len: usize) -> Arc<Vec<f32>> {
    if len == 0 { EMPTY.clone() } else { take_any(len) }
}

/// A buffer with these elements.
pub(crate) fn copy(values: &[f32]) -> Arc<Vec<f32>> {
    let mut b = take(values.len());
    make_mut(&mut b).copy_from_slice(values);
    b
}

/// A buffer with these elements, which will not be read soon.
pub(crate) fn copy_past_caches(values: &[f32]) -> Arc<Vec<f32>> {
    let mut b = take(values.len());
    let room = bytemuck::cast_slice_mut(make_mut(&mut b).as_mut_slice());
    net::copy_past_caches(bytemuck::cast_slice(values), room);
    b
}

/// Keeps a buffer for the next request, unless it is still held elsewhere. Of several who
/// hold it, the last to give it is heard.
pub(crate) fn give(data: Arc<Vec<f32>>) {
    give_any(data);
}

/// A value to change: in place if there is no other holder, otherwise a copy.
pub(crate) fn make_mut(data: &mut Arc<Vec<f32>>) -> &mut Vec<f32> {
    if Arc::get_mut(data).is_none() {
        let fresh = if data.is_empty() { Arc::default() } else { copy(data) };
        give(std::mem::replace(data, fresh));
    }
    Arc::get_mut(data).expect("there is no other holder")
}

/// Shared, immutable values; the last holder to drop them keeps their memory for the
/// next who needs some.
pub struct PooledVec<T: Pooled>(Option<Arc<Vec<T>>>);

impl<T: Pooled> PooledVec<T> {
    /// These numbers.
    pub fn of(numbers: impl ExactSizeIterator<Item = T>) -> PooledVec<T> {
        let len = numbers.len();
        if len == 0 {
            return PooledVec(None);
        }
        let mut b = take_any(len);
        if let Some(b) = Arc::get_mut(&mut b) {
            b.iter_mut().zip(numbers).for_each(|(to, n)| *to = n);
        }
        PooledVec(Some(b))
    }
    /// The values, mutable if there is no other holder.
    pub(crate) fn get_mut(&mut self) -> Option<&mut [T]> {
        self.0.as_mut().and_then(Arc::get_mut).map(Vec::as_mut_slice)
    }
}
impl<T: Pooled> Drop for PooledVec<T> {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(give_any);
    }
}
impl<T: Pooled> Deref for PooledVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |b| b.as_slice())
    }
}
impl<T: Pooled> Clone for PooledVec<T> {
    fn clone(&self) -> PooledVec<T> {
        PooledVec(self.0.clone())
    }
}
impl<T: Pooled> Default for PooledVec<T> {
    fn default() -> PooledVec<T> {
        PooledVec(None)
    }
}
impl<T: Pooled> From<Vec<T>> for PooledVec<T> {
    fn from(numbers: Vec<T>) -> PooledVec<T> {
        PooledVec(if numbers.is_empty() { None } else { Some(Arc::new(numbers)) })
    }
}
impl<T: Pooled> PartialEq for PooledVec<T> {
    fn eq(&self, other: &PooledVec<T>) -> bool {
        **self == **other
    }
}
impl<T: Pooled> fmt::Debug for PooledVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
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
    fn the_last_to_drop_a_list_gives_its_memory_back() {
        // A length that no other test uses.
        let first = PooledVec::of((0..3000u32).map(|i| u64::from(i) * u64::from(i)));
        let (at, second) = (first.as_ptr(), first.clone());
        drop(first);
        assert_eq!(second[2999], 2999 * 2999);
        drop(second);
        assert_eq!(PooledVec::of([7u64; 2500].into_iter()).as_ptr(), at);
        assert!(
            PooledVec::<u32>::from(Vec::new()).is_empty()
                && PooledVec::<u32>::default() == PooledVec::of([].into_iter())
        );
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
