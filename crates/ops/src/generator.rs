//! The default random generator of a thread: a seed and a count of draws.
//!
//! A draw takes the next key in program order; the numbers are a pure function of the key, so
//! they do not depend on when, where or in what order tensors are computed.
//!
//! The body of a loop and a function under `vmap` are traced once. A draw inside takes one key for
//! all iterations and examples, and folds the index of each into it.

use crate::Tensor;
use crate::random::fold;
use ir::{DType, Literal, Shape, Site, Value};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that were not seeded draw different numbers.
static THREADS: AtomicU64 = AtomicU64::new(0);
thread_local! {
    static STATE: Cell<(u64, u64)> = Cell::new((THREADS.fetch_add(1, Ordering::Relaxed), 0));
    /// The loops and batches that are being traced, outermost first.
    static TRACED: RefCell<Vec<Indexed>> = const { RefCell::new(Vec::new()) };
}

/// A loop or a batch that is being traced.
struct Indexed {
    /// The number of the iteration or example, an i64 scalar.
    index: Tensor,
    /// True if something was drawn inside.
    is_drawn: bool,
}

/// Puts back the loops and batches that were being traced.
struct Restore(Vec<Indexed>);
impl Drop for Restore {
    fn drop(&mut self) {
        TRACED.replace(std::mem::take(&mut self.0));
    }
}

/// Traces the body of a loop or a batch: draws inside differ by `index`, an i64 scalar. The flag is
/// true if there were any.
pub(crate) fn indexed<R>(index: &Tensor, f: impl FnOnce() -> R) -> (R, bool) {
    struct Pop;
    impl Drop for Pop {
        fn drop(&mut self) {
            TRACED.with_borrow_mut(|t| t.pop());
        }
    }
    TRACED.with_borrow_mut(|t| t.push(Indexed { index: index.clone(), is_drawn: false }));
    let _pop = Pop;
    let result = f();
    (result, TRACED.with_borrow(|t| t.last().is_some_and(|i| i.is_drawn)))
}
/// True while the body of a loop or a batch is traced.
pub fn is_indexed() -> bool {
    TRACED.with_borrow(|t| !t.is_empty())
}
/// Runs `f` as if no loop and no batch were being traced.
pub fn apart<R>(f: impl FnOnce() -> R) -> R {
    let _restore = Restore(TRACED.take());
    f()
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
/// The key of the next draw; inside a loop or a batch, one for each iteration and example.
#[track_caller]
pub fn next_key() -> Tensor {
    let (seed, draw) = take(1);
    let key = [seed as i64, draw as i64];
    let key = Value::key(Literal::generate([2], |i| key[i]), Site::here()).into();
    let indices: Vec<Tensor> = TRACED.with_borrow_mut(|t| {
        t.iter_mut().for_each(|i| i.is_drawn = true);
        t.iter().map(|i| i.index.clone()).collect()
    });
    indices.iter().fold(key, |key, index| fold(&key, index))
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
    /// Uniform numbers in [0, 1) of a floating type, from this thread's generator.
    #[track_caller]
    pub fn rand_of(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        Tensor::random_uniform_of(&next_key(), shape, 0.0, 1.0, dtype)
    }
    /// Normal numbers (mean 0, variance 1) of a floating type, from this thread's generator.
    #[track_caller]
    pub fn randn_of(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        Tensor::random_normal_of(&next_key(), shape, dtype)
    }
    /// Integers in a range from this thread's generator.
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
