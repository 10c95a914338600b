//! What this machine can do at most, measured: the two roofs that benchmarks are held against.
//!
//! [`flops`] multiplies and adds in registers, [`bandwidth`] copies memory; both with all of
//! [`crate::pool`]'s threads and nothing else in the way.

#![allow(unsafe_code)]

use crate::pool::{self, Shared};
use crate::vmath::simd::{Isa, Portable, Vector};
use crate::vmath::{Level, dispatch, level};
use std::time::Instant;

/// Sums that do not wait for each other: more than the latency of one times those started a cycle.
const SUMS: usize = 16;
/// Tries of each measurement, of which the best counts: others only ever add time.
const TRIES: usize = 8;

/// Multiplications and additions of `f32` a second.
pub fn flops() -> f64 {
    const ROUNDS: usize = if cfg!(debug_assertions) { 2_000 } else { 400_000 };
    let each = |_| {
        // SAFETY: touches registers only; the level is the machine's.
        std::hint::black_box(unsafe { multiply_add(ROUNDS) });
    };
    let tasks = pool::threads();
    let lanes = lanes();
    best(|| pool::parallel_for(tasks, &each)).map_or(0.0, |s| (tasks * ROUNDS * SUMS * lanes * 2) as f64 / s)
}

/// Bytes a second, read and written together, of a copy that touches `bytes` in all: what a cache
/// can hold is as fast as the cache.
pub fn bandwidth(bytes: usize) -> f64 {
    // A piece is a task of its own that stays with a page or more.
    const PIECE: usize = 1 << 14;
    let len = (bytes / 2).clamp(PIECE, 1 << 29).next_multiple_of(PIECE);
    let (from, mut to) = (vec![1u8; len], vec![0u8; len]);
    let out = Shared::new(to.as_mut_ptr());
    // Small copies are repeated, so that waking threads does not show; each thread keeps to its
    // own part, as it does in a step.
    let rounds = ((1 << 25) / len).max(1);
    let part = (len / PIECE).div_ceil(pool::threads()) * PIECE;
    let copy = |t: usize| {
        let range = t * part..((t + 1) * part).min(len);
        for _ in 0..rounds {
            // SAFETY: parts are apart, inside the vector, and written before.
            let to = unsafe { out.slice(range.start, range.len()) };
            to.copy_from_slice(&from[range.clone()]);
            std::hint::black_box(to);
        }
    };
    best(|| pool::parallel_for(len.div_ceil(part), &copy)).map_or(0.0, |s| (2 * len * rounds) as f64 / s)
}

/// Seconds of the quickest try.
fn best(f: impl Fn()) -> Option<f64> {
    f();
    let time = || {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    };
    (0..TRIES).map(|_| time()).min_by(f64::total_cmp)
}

/// Lanes of a vector of `f32` of the instruction set in use.
fn lanes() -> usize {
    match level() {
        Level::Avx512 => 16,
        Level::Avx2 | Level::Neon => 8,
        Level::Portable => <<Portable as Isa>::S as Vector>::N,
    }
}

dispatch! {
    /// `rounds` fused steps of each of [`SUMS`] vectors.
    unsafe fn multiply_add(rounds: usize) -> f32 { I => steps::<<I as Isa>::S>(rounds) }
}

/// # Safety
/// The machine has the vector's instructions.
#[inline(always)]
unsafe fn steps<V: Vector<E = f32>>(rounds: usize) -> f32 {
    let (by, plus) = (V::splat(0.999_999), V::splat(1e-7));
    let mut sums = [V::splat(1.0); SUMS];
    for _ in 0..rounds {
        for s in &mut sums {
            *s = s.fma(by, plus);
        }
    }
    let all = sums.into_iter().fold(V::splat(0.0), |a, b| a + b);
    let mut lanes = [0.0f32; 64];
    // SAFETY: no vector has more lanes.
    unsafe { all.store(lanes.as_mut_ptr()) };
    lanes.iter().sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_roofs_are_those_of_a_computer() {
        let (flops, cache, memory) = (super::flops(), super::bandwidth(1 << 16), super::bandwidth(1 << 28));
        assert!((1e8..1e15).contains(&flops), "{flops} a second");
        for b in [cache, memory] {
            assert!((1e7..1e14).contains(&b), "{b} bytes a second");
        }
    }
}
