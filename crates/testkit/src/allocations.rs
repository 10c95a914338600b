//! Counts what a process allocates: a test file that asks for it has to be alone in its process.
//!
//! ```
//! use talweg_testkit::allocations::{Counting, least};
//! #[global_allocator]
//! static COUNTING: Counting = Counting;
//! assert_eq!(least(3, 1, || {}).calls, 0);
//! assert_eq!(least(3, 1, || drop(vec![1u8; 100])).bytes, 100);
//! ```

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with a counter before it, for `#[global_allocator]`.
pub struct Counting;
static CALLS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        BYTES.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }
}

/// What was allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// How often.
    pub calls: usize,
    /// How much.
    pub bytes: usize,
}

/// What all threads of the process allocate while `f` runs.
pub fn cost(f: impl FnOnce()) -> Cost {
    let before = (CALLS.load(Relaxed), BYTES.load(Relaxed));
    f();
    Cost { calls: CALLS.load(Relaxed) - before.0, bytes: BYTES.load(Relaxed) - before.1 }
}

/// The least that this many rounds of `f` in a row allocate, over several tries: what each round
/// allocates shows in every try, what other threads do now and then (heartbeats) not in all.
pub fn least(tries: usize, rounds: usize, mut f: impl FnMut()) -> Cost {
    let mut one = || cost(|| (0..rounds).for_each(|_| f()));
    (0..tries).map(|_| one()).min().unwrap_or_default()
}
