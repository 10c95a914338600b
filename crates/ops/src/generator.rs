//! The default random generator of a thread: a seed and a count of draws.
//!
//! A draw takes the next key in program order; the numbers are a pure function of the key, so
//! they do not depend on when, where or in what order tensors are computed.

use crate::Tensor;
use ir::{Literal, Shape, Site, Value};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that were not seeded draw different numbers.
static THREADS: AtomicU64 = AtomicU64::new(0);
thread_local! {
    static STATE: Cell<(u64, u64)> = Cell::new((THREADS.fetch_add(1, Ordering::Relaxed), 0));
}

/// Starts this thread's generator from a seed.
pub fn manual_seed(seed: u64) {
    STATE.set((seed, 0));
}
/// This thread's seed and how many draws it has made: all there is to save.
pub fn state() -> (u64, u64) {
    STATE.get()
}
/// Goes on from a saved state.
pub fn set_state((seed, draws): (u64, u64)) {
    STATE.set((seed, draws));
}
/// Reserves `n` draws; returns the seed and the number of the first.
pub fn take(n: u64) -> (u64, u64) {
    let (seed, draws) = STATE.get();
    STATE.set((seed, draws + n));
    (seed, draws)
}
/// The key of the next draw.
#[track_caller]
pub fn next_key() -> Tensor {
    let (seed, draw) = take(1);
    let key = [seed as i64, draw as i64];
    Value::key(Literal::generate([2], |i| key[i]), Site::here()).into()
}

impl Tensor {
    /// Uniform numbers in [0, 1) from this thread's generator.
    ///
    /// ```
    /// # use talweg_ops::{Tensor, manual_seed};
    /// manual_seed(7);
    /// let a = Tensor::rand([3]).to_vec::<f32>().unwrap();
    /// manual_seed(7);
    /// assert_eq!(a, Tensor::rand([3]).to_vec::<f32>().unwrap());
    /// ```
    #[track_caller]
    pub fn rand(shape: impl Into<Shape>) -> Tensor {
        Tensor::random_uniform(&next_key(), shape, 0.0, 1.0)
    }
    /// Uniform numbers in [lo, hi) from this thread's generator.
    #[track_caller]
    pub fn uniform(shape: impl Into<Shape>, lo: f64, hi: f64) -> Tensor {
        Tensor::random_uniform(&next_key(), shape, lo, hi)
    }
    /// Normal numbers (mean 0, variance 1) from this thread's generator.
    #[track_caller]
    pub fn randn(shape: impl Into<Shape>) -> Tensor {
        Tensor::random_normal(&next_key(), shape)
    }
    /// Whole numbers in a range from this thread's generator.
    #[track_caller]
    pub fn randint(shape: impl Into<Shape>, range: std::ops::Range<i64>) -> Tensor {
        Tensor::random_integers(&next_key(), shape, range)
    }
    /// The numbers 0 to n - 1 in a random order, from this thread's generator.
    #[track_caller]
    pub fn randperm(n: usize) -> Tensor {
        Tensor::random_permutation(&next_key(), n)
    }
}
