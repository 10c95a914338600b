//! The default random generator of a thread: a seed and a count of draws.
//!
//! A draw takes the next key in program order; the numbers are a pure function of the key, so
//! they do not depend on when, where or in what order tensors are computed.

use crate::Tensor;
use ir::{Literal, Site, Value};
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
