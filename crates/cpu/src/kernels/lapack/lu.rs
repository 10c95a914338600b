//! LU with partial pivoting: panels of a few columns, then one GEMM for what is right of and below them.

#![allow(unsafe_code)]

use super::triangular::{self, Triangle};
use super::{Real, axpy, multiply};
use crate::kernels::gemm::Mat;
use crate::vmath::simd::{Scalar, Vector};

/// Columns of a panel.
const PANEL: usize = 32;

/// A factorization in place: unit lower and upper factor share the matrix.
pub struct Pivots {
    /// Row `order[i]` of the input stands at `i`.
    pub order: Vec<usize>,
    /// Whether the order is an odd permutation.
    pub is_odd: bool,
    /// Whether a column had no pivot.
    pub is_singular: bool,
}

/// Columns `first..first + width` of an `m × n` matrix, and what has been found about its rows.
pub struct Panel<'a, T> {
    a: *mut T,
    m: usize,
    n: usize,
    first: usize,
    width: usize,
    pivots: &'a mut Pivots,
}

/// Factors an `m × n` matrix.
pub fn factor<T: Real>(a: &mut [T], m: usize, n: usize) -> Pivots {
    assert_eq!(a.len(), m * n);
    let mut pivots = Pivots { order: (0..m).collect(), is_odd: false, is_singular: false };
    let (a, k) = (a.as_mut_ptr(), m.min(n));
    for first in (0..k).step_by(PANEL) {
        let width = PANEL.min(k - first);
        let (below, right) = (m - first - width, n - first - width);
        // SAFETY: parts of the one matrix, which do not overlap.
        unsafe {
            T::lu_panel(&mut Panel { a, m, n, first, width, pivots: &mut pivots });
            if right == 0 {
                continue;
            }
            let corner = a.add(first * n + first);
            let above = corner.add(width);
            let lower = Mat::row_major(corner, n);
            triangular::solve(lower, Triangle::UNIT_LOWER, width, above, n, right);
            if below > 0 {
                let left = Mat::row_major(corner.add(width * n), n);
                let rest = above.add(width * n);
                multiply([below, right, width], -1.0, left, Mat::row_major(above, n), rest, n, true);
            }
        }
    }
    pivots
}

/// Eliminates the columns of a panel; rows are swapped over the whole width of the matrix.
#[inline(always)]
pub(super) unsafe fn panel<V: Vector>(p: &mut Panel<V::E>) {
    let end = p.first + p.width;
    // SAFETY: indices below `m` and `n`.
    unsafe {
        let at = |i: usize, j: usize| p.a.add(i * p.n + j);
        let size = |i: usize, j: usize| (*at(i, j)).to_f64().abs();
        let search = |j: usize| (j..p.m).fold(j, |b, i| if size(i, j) > size(b, j) { i } else { b });
        let mut best = search(p.first);
        for j in p.first..end {
            if (*at(best, j)).to_f64() == 0.0 {
                p.pivots.is_singular = true;
                best = if j + 1 < end { search(j + 1) } else { j };
                continue;
            }
            if best != j {
                std::ptr::swap_nonoverlapping(at(j, 0), at(best, 0), p.n);
                p.pivots.order.swap(j, best);
                p.pivots.is_odd = !p.pivots.is_odd;
            }
            let pivot = (*at(j, j)).to_f64();
            let (mut most, mut next) = (-1.0, j + 1);
            for i in j + 1..p.m {
                let f = V::E::from_f64((*at(i, j)).to_f64() / pivot);
                *at(i, j) = f;
                axpy::<V>(V::E::default() - f, at(j, j + 1), at(i, j + 1), end - j - 1);
                if j + 1 < end && size(i, j + 1) > most {
                    (most, next) = (size(i, j + 1), i);
                }
            }
            best = next;
        }
    }
}

/// `x` with `A x = b` for the factors of A: `x` holds `k` right sides of `b` as rows, on entry in the order of A.
pub fn solve<T: Real>(factors: &[T], pivots: &Pivots, n: usize, b: &[T], x: &mut [T], k: usize) {
    for (i, &from) in pivots.order.iter().enumerate() {
        x[i * k..(i + 1) * k].copy_from_slice(&b[from * k..(from + 1) * k]);
    }
    let a = Mat::row_major(factors.as_ptr(), n);
    // SAFETY: `n × n` factors and `n × k` right sides.
    unsafe {
        triangular::solve(a, Triangle::UNIT_LOWER, n, x.as_mut_ptr(), k, k);
        triangular::solve(a, Triangle::UPPER, n, x.as_mut_ptr(), k, k);
    }
}

/// The inverse of a matrix from its factors.
pub fn invert<T: Real>(factors: &[T], pivots: &Pivots, n: usize, x: &mut [T]) {
    x.fill(T::ZERO);
    for (i, &from) in pivots.order.iter().enumerate() {
        x[i * n + from] = T::ONE;
    }
    let a = Mat::row_major(factors.as_ptr(), n);
    // SAFETY: `n × n` factors and as large an inverse.
    unsafe {
        triangular::solve(a, Triangle::UNIT_LOWER, n, x.as_mut_ptr(), n, n);
        triangular::solve(a, Triangle::UPPER, n, x.as_mut_ptr(), n, n);
    }
}

/// The determinant from the factors.
pub fn det<T: Real>(factors: &[T], pivots: &Pivots, n: usize) -> f64 {
    let sign = if pivots.is_odd { -1.0 } else { 1.0 };
    (0..n).map(|i| factors[i * n + i].to_f64()).product::<f64>() * sign
}

/// Sign and logarithm of the magnitude of the determinant from the factors.
pub fn log_det<T: Real>(factors: &[T], pivots: &Pivots, n: usize) -> (f64, f64) {
    let diagonal = (0..n).map(|i| factors[i * n + i].to_f64());
    let sign = if pivots.is_odd { -1.0 } else { 1.0 };
    let sign = if pivots.is_singular { 0.0 } else { diagonal.clone().map(f64::signum).product::<f64>() * sign };
    (sign, diagonal.map(|x| x.abs().ln()).sum())
}
