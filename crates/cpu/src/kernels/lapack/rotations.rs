//! Sequences of plane rotations, applied to the rows of a matrix column strip by column strip: a row stays in
//! registers from one rotation to the next.

#![allow(unsafe_code)]

use super::Real;
use crate::pool::{self, Shared};
use crate::vmath::simd::Vector;

/// Rotations that are collected before they are applied.
const BATCH: usize = 1 << 15;
/// Columns of a task.
const COLUMNS: usize = 64;

/// Rotations of rows `start` and `start + step`, then of `start + step` and `start + 2 step`, ….
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    start: usize,
    step: isize,
    /// Which of the coefficients are its own.
    first: usize,
    count: usize,
}

/// Rotations of the rows of an `n × columns` matrix that starts as the identity.
pub struct Rotations<T> {
    z: Vec<T>,
    columns: usize,
    sweeps: Vec<Sweep>,
    turns: Vec<[T; 2]>,
}

/// A column strip, and what is applied to it.
pub struct Strip<'a, T> {
    z: *mut T,
    row: usize,
    width: usize,
    sweeps: &'a [Sweep],
    turns: &'a [[T; 2]],
}

impl<T: Real> Rotations<T> {
    /// Of `n` rows.
    pub fn new(n: usize) -> Rotations<T> {
        let mut z = vec![T::ZERO; n * n];
        (0..n).for_each(|i| z[i * n + i] = T::ONE);
        Rotations { z, columns: n, sweeps: Vec::new(), turns: Vec::new() }
    }
    /// Begins a sweep at a row.
    pub fn begin(&mut self, start: usize, step: isize) {
        if self.turns.len() > BATCH {
            self.flush();
        }
        self.sweeps.push(Sweep { start, step, first: self.turns.len(), count: 0 });
    }
    /// The next rotation of the sweep: `x' = c x + s y` for the row it is at, `y' = c y - s x` for the next.
    pub fn turn(&mut self, c: f64, s: f64) {
        self.turns.push([T::from_f64(c), T::from_f64(s)]);
        if let Some(sweep) = self.sweeps.last_mut() {
            sweep.count += 1;
        }
    }
    fn flush(&mut self) {
        let (row, columns) = (self.columns, self.columns);
        let z = Shared::new(self.z.as_mut_ptr());
        let (sweeps, turns) = (&self.sweeps, &self.turns);
        pool::parallel_for(columns.div_ceil(COLUMNS), &|task| {
            let first = task * COLUMNS;
            // SAFETY: each task has its own columns of all rows.
            unsafe {
                let z = z.get().add(first);
                T::rotate(&Strip { z, row, width: COLUMNS.min(columns - first), sweeps, turns });
            }
        });
        self.sweeps.clear();
        self.turns.clear();
    }
    /// The rows after all rotations.
    pub fn finish(mut self) -> Vec<T> {
        self.flush();
        self.z
    }
}

/// Applies all sweeps to a strip.
#[inline(always)]
pub(super) unsafe fn strip<V: Vector>(q: &Strip<V::E>) {
    let mut j = 0;
    // SAFETY: the strip's columns of every row that a sweep names.
    unsafe {
        while j + 2 * V::N <= q.width {
            q.sweeps.iter().for_each(|s| sweep::<V, 2>(q, s, j));
            j += 2 * V::N;
        }
        while j < q.width {
            q.sweeps.iter().for_each(|s| tail::<V>(q, s, j, V::N.min(q.width - j)));
            j += V::N;
        }
    }
}

#[inline(always)]
unsafe fn sweep<V: Vector, const W: usize>(q: &Strip<V::E>, s: &Sweep, j: usize) {
    let step = s.step * q.row as isize;
    // SAFETY: the caller's promise.
    unsafe {
        let mut at = q.z.add(s.start * q.row + j);
        let mut held: [V; W] = std::array::from_fn(|w| V::load(at.add(w * V::N)));
        for &[c, sin] in q.turns.get_unchecked(s.first..s.first + s.count) {
            let (c, sin) = (V::splat(c), V::splat(sin));
            let next = at.offset(step);
            for (w, held) in held.iter_mut().enumerate() {
                let y = V::load(next.add(w * V::N));
                let x = *held;
                sin.fma(y, c * x).store(at.add(w * V::N));
                *held = (-sin).fma(x, c * y);
            }
            at = next;
        }
        for (w, held) in held.iter().enumerate() {
            held.store(at.add(w * V::N));
        }
    }
}

#[inline(always)]
unsafe fn tail<V: Vector>(q: &Strip<V::E>, s: &Sweep, j: usize, n: usize) {
    let step = s.step * q.row as isize;
    // SAFETY: the caller's promise.
    unsafe {
        let mut at = q.z.add(s.start * q.row + j);
        let mut x = V::load_n(at, n);
        for &[c, sin] in &q.turns[s.first..s.first + s.count] {
            let (c, sin) = (V::splat(c), V::splat(sin));
            let next = at.offset(step);
            let y = V::load_n(next, n);
            sin.fma(y, c * x).store_n(at, n);
            x = (-sin).fma(x, c * y);
            at = next;
        }
        x.store_n(at, n);
    }
}

/// The length of a vector of two elements.
pub(super) fn length(a: f64, b: f64) -> f64 {
    let squares = a * a + b * b;
    // Squares of small numbers vanish.
    if squares > 1e-280 && squares < 1e280 { squares.sqrt() } else { a.hypot(b) }
}

/// Flips vector `i` (row of `z`) so that its largest component is positive; returns whether it was flipped. Of
/// components that are equal but for rounding, the first counts.
pub(super) fn is_flipped<T: Real>(v: impl Iterator<Item = T>) -> bool {
    let slack = 1.0 + 4096.0 * T::EPSILON.to_f64();
    let mut best = T::ZERO;
    for x in v {
        if x.abs().to_f64() > best.abs().to_f64() * slack {
            best = x;
        }
    }
    best < T::ZERO
}
