//! Householder reflections, applied in blocks: `H₀ H₁ … = I - V T Vᵀ` (compact WY), so that most of the work is GEMM.

#![allow(unsafe_code)]

use super::{Real, multiply, transpose};
use crate::kernels::gemm::Mat;
use crate::kernels::scratch::Scratch;

/// Reflections that are applied together.
const BLOCK: usize = 32;

/// Reflections `I - tau v vᵀ` of vectors with `len` elements. Row `j` of `v` is zero before `start + j`, where it is 1.
pub struct Reflectors<T> {
    v: Vec<T>,
    tau: Vec<T>,
    len: usize,
    start: usize,
}

/// Replaces `x` by the `v` of a reflection that takes it to a multiple of its first direction, with `v[0] = 1`.
/// Returns `tau` and that multiple.
pub(super) fn reflector<T: Real>(x: &mut [T]) -> (T, T) {
    let alpha = x[0];
    let tail = T::dot(&x[1..], &x[1..]);
    x[0] = T::ONE;
    if tail == T::ZERO {
        x[1..].fill(T::ZERO);
        return (T::ZERO, alpha);
    }
    let length = (alpha * alpha + tail).sqrt();
    let beta = if alpha >= T::ZERO { -length } else { length };
    let scale = T::ONE / (alpha - beta);
    x[1..].iter_mut().for_each(|x| *x = *x * scale);
    ((beta - alpha) / beta, beta)
}

impl<T: Real> Reflectors<T> {
    /// Room for `count` reflections whose first elements are `start`, `start + 1`, ….
    pub(super) fn new(count: usize, len: usize, start: usize) -> Reflectors<T> {
        Reflectors { v: vec![T::ZERO; count * len], tau: vec![T::ZERO; count], len, start }
    }
    /// Stores a reflection, given its elements from its first one on.
    pub(super) fn set(&mut self, j: usize, v: &[T], tau: T) {
        self.v[(j + 1) * self.len - v.len()..(j + 1) * self.len].copy_from_slice(v);
        self.tau[j] = tau;
    }
    /// The triangular T of the reflections `first..first + count`.
    fn triangle(&self, first: usize, count: usize) -> Vec<T> {
        let row = |j: usize| &self.v[(first + j) * self.len..(first + j + 1) * self.len][self.start + first..];
        let mut t = vec![T::ZERO; count * count];
        for j in 0..count {
            let tau = self.tau[first + j];
            let inner: Vec<T> = (0..j).map(|i| -tau * T::dot(row(i), row(j))).collect();
            for i in 0..j {
                t[i * count + j] = (i..j).fold(T::ZERO, |s, l| s + t[i * count + l] * inner[l]);
            }
            t[j * count + j] = tau;
        }
        t
    }
    /// Applies the reflections `first..first + count` to the last `len - start - first` rows of X.
    ///
    /// # Safety
    /// `x` is the first of those rows, `row` apart, with `columns` elements.
    unsafe fn apply_block(
        &self,
        first: usize,
        count: usize,
        x: *mut T,
        row: usize,
        columns: usize,
        is_transposed: bool,
    ) {
        let from = self.start + first;
        let rows = self.len - from;
        let t = self.triangle(first, count);
        let (w, tw) = (Scratch::<T>::new(count * columns), Scratch::<T>::new(count * columns));
        // SAFETY: `count × rows` of V, `rows × columns` of X.
        unsafe {
            let v = Mat::row_major(self.v.as_ptr().add(first * self.len + from), self.len);
            multiply([count, columns, rows], 1.0, v, Mat::row_major(x, row), w.ptr(), columns, false);
            let t = Mat::row_major(t.as_ptr(), count);
            let t = if is_transposed { t.t() } else { t };
            multiply([count, columns, count], 1.0, t, Mat::row_major(w.ptr(), columns), tw.ptr(), columns, false);
            multiply([rows, columns, count], -1.0, v.t(), Mat::row_major(tw.ptr(), columns), x, row, true);
        }
    }
    /// `H₀ H₁ … X` for an X of `len` rows. With `is_identity`, X is one, and what stays zero is not computed.
    pub fn apply(&self, x: &mut [T], columns: usize, is_identity: bool) {
        assert_eq!(x.len(), self.len * columns);
        for first in (0..self.tau.len()).step_by(BLOCK).rev() {
            let from = self.start + first;
            let skipped = if is_identity { from.min(columns) } else { 0 };
            // SAFETY: the rows from `from` on, without the columns that are skipped.
            unsafe {
                let at = x.as_mut_ptr().add(from * columns + skipped);
                self.apply_block(first, BLOCK.min(self.tau.len() - first), at, columns, columns - skipped, false);
            }
        }
    }
    /// `… H₁ H₀ X` for an X of `len` rows.
    pub fn apply_transposed(&self, x: &mut [T], columns: usize) {
        assert_eq!(x.len(), self.len * columns);
        for first in (0..self.tau.len()).step_by(BLOCK) {
            // SAFETY: the rows from the first element of the block on.
            unsafe {
                let at = x.as_mut_ptr().add((self.start + first) * columns);
                self.apply_block(first, BLOCK.min(self.tau.len() - first), at, columns, columns, true);
            }
        }
    }
}

/// Replaces the upper triangle of an `m × n` matrix by R; what is below it is undefined.
pub fn qr<T: Real>(a: &mut [T], m: usize, n: usize) -> Reflectors<T> {
    assert_eq!(a.len(), m * n);
    let k = m.min(n);
    let mut all = Reflectors::new(k, m, 0);
    let panel = Scratch::<T>::new(BLOCK.min(k) * m);
    for first in (0..k).step_by(BLOCK) {
        let (width, rows) = (BLOCK.min(k - first), m - first);
        let corner = first * n + first;
        // SAFETY: the panel's columns as rows of the scratch.
        let columns = unsafe {
            transpose(a.as_ptr().add(corner), n, rows, width, panel.ptr(), rows);
            std::slice::from_raw_parts_mut(panel.ptr(), width * rows)
        };
        for j in 0..width {
            let (front, rest) = columns.split_at_mut((j + 1) * rows);
            let v = &mut front[j * rows + j..];
            let (tau, beta) = reflector(v);
            for other in rest.chunks_exact_mut(rows) {
                let s = -tau * T::dot(v, &other[j..]);
                T::add_scaled(s, v, &mut other[j..]);
            }
            a[corner + j * n + j] = beta;
            all.set(first + j, v, tau);
        }
        for j in 0..width {
            (0..j).for_each(|i| a[corner + i * n + j] = columns[j * rows + i]);
        }
        if first + width < n {
            // SAFETY: what is right of the panel.
            unsafe {
                let right = a.as_mut_ptr().add(corner + width);
                all.apply_block(first, width, right, n, n - first - width, true);
            }
        }
    }
    all
}
