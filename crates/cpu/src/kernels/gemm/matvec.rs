//! Products with one row (or very few): bound by memory, so nothing is packed.
//!
//! [`rows`] runs down the rows of B, a few at a time, adding into the output, which stays in
//! cache; [`dots`] forms dot products along contiguous columns of B.

#![allow(unsafe_code)]

use super::super::scratch::Scratch;
use super::micro::prefetch;
use crate::vmath::dispatch;
use crate::vmath::simd::{Isa, Scalar, Vector};

/// What a row times a matrix needs: `y[j] (+)= alpha * sum_p x[p] b[p, j]`.
#[derive(Clone, Copy)]
pub(crate) struct MatVec<E> {
    pub n: usize,
    pub k: usize,
    pub alpha: E,
    pub x: *const E,
    pub x_step: isize,
    pub b: *const E,
    /// Elements between rows of B ([`rows`]) or between its columns ([`dots`]).
    pub b_step: isize,
    pub y: *mut E,
    pub y_step: isize,
    pub add: bool,
    /// Size of the whole matrix.
    pub bytes: usize,
}

/// Rows of B that one sweep over the output covers.
const SWEEP: usize = 4;

#[inline(always)]
unsafe fn rows<V: Vector>(q: &MatVec<V::E>) {
    let sums = Scratch::<V::E>::new(q.n + V::N);
    let y = sums.ptr();
    // SAFETY: `n` outputs, `k` rows of `n` elements and `k` elements of x, the caller's promise.
    unsafe {
        let mut p = 0;
        while p < q.k {
            let count = SWEEP.min(q.k - p);
            let x: [V; SWEEP] = std::array::from_fn(|r| {
                if r < count { V::splat(*q.x.offset((p + r) as isize * q.x_step)) } else { V::zero() }
            });
            // Rows that do not exist repeat the last one, times zero would spoil infinities.
            let b = q.b.offset(p as isize * q.b_step);
            if count == SWEEP {
                sweep::<V, SWEEP>(&x, b, q.b_step, y, q.n, p == 0);
            } else {
                for r in 0..count {
                    sweep::<V, 1>(&[x[r]], b.offset(r as isize * q.b_step), q.b_step, y, q.n, p + r == 0);
                }
            }
            p += count;
        }
        for j in 0..q.n {
            let to = q.y.offset(j as isize * q.y_step);
            let v = if q.k == 0 { V::E::default() } else { *y.add(j) * q.alpha };
            *to = if q.add { *to + v } else { v };
        }
    }
}

/// `y (+)= x[0] b[0, :] + … + x[R - 1] b[R - 1, :]`.
#[inline(always)]
unsafe fn sweep<V: Vector, const R: usize>(
    x: &[V; R],
    b: *const V::E,
    step: isize,
    y: *mut V::E,
    n: usize,
    first: bool,
) {
    let mut j = 0;
    // SAFETY: `n` columns, the caller's promise.
    unsafe {
        while j + V::N <= n {
            let mut s = if first { V::zero() } else { V::load(y.add(j)) };
            for r in 0..R {
                s = x[r].fma(V::load(b.offset(r as isize * step).add(j)), s);
            }
            s.store(y.add(j));
            j += V::N;
        }
        if j < n {
            let m = n - j;
            let mut s = if first { V::zero() } else { V::load_n(y.add(j), m) };
            for r in 0..R {
                s = x[r].fma(V::load_n(b.offset(r as isize * step).add(j), m), s);
            }
            s.store_n(y.add(j), m);
        }
    }
}

/// Columns whose dot products are formed together when they come from memory: streams enough to
/// keep it busy. From cache, one stream at a time is fastest.
const TOGETHER: usize = 4;
/// Vectors of each column that are multiplied at a time.
const VECTORS: usize = 4;
/// Bytes that each stream from memory is fetched ahead.
const AHEAD: usize = 1024;
/// Bytes from which on a matrix is taken to come from memory.
const FAR: usize = 16 << 20;

#[inline(always)]
unsafe fn dots<V: Vector>(q: &MatVec<V::E>) {
    let mut j = 0;
    // SAFETY: `n` columns of `k` contiguous elements, the caller's promise.
    unsafe {
        while q.bytes >= FAR && j + TOGETHER <= q.n {
            let sums = dot_columns::<V, TOGETHER, true>(q, j);
            (0..TOGETHER).for_each(|c| put(q, j + c, sums[c]));
            j += TOGETHER;
        }
        for j in j..q.n {
            put(q, j, dot_columns::<V, 1, false>(q, j)[0]);
        }
    }
}

#[inline(always)]
unsafe fn put<E: Scalar>(q: &MatVec<E>, j: usize, sum: E) {
    // SAFETY: output `j` is one of `n`.
    unsafe {
        let to = q.y.offset(j as isize * q.y_step);
        *to = if q.add { *to + sum * q.alpha } else { sum * q.alpha };
    }
}

/// The dot products of `x` with `C` columns from `j` on; each is summed in the same order whatever
/// `C` is.
#[inline(always)]
unsafe fn dot_columns<V: Vector, const C: usize, const FETCH: bool>(q: &MatVec<V::E>, j: usize) -> [V::E; C] {
    let mut acc = [[V::zero(); VECTORS]; C];
    let mut p = 0;
    // SAFETY: the caller's promise; addresses past the end are only prefetched.
    unsafe {
        let b = q.b.offset(j as isize * q.b_step);
        while p + VECTORS * V::N <= q.k {
            for v in 0..VECTORS {
                let x = V::load(q.x.add(p + v * V::N));
                for c in 0..C {
                    let column = b.offset(c as isize * q.b_step).add(p + v * V::N);
                    if FETCH {
                        prefetch(column.cast::<u8>().wrapping_add(AHEAD));
                    }
                    acc[c][v] = x.fma(V::load(column), acc[c][v]);
                }
            }
            p += VECTORS * V::N;
        }
        // Whole vectors first, as rows mostly end with one: masks cost more than a vector.
        for v in 0..VECTORS - 1 {
            if p + V::N > q.k {
                break;
            }
            let x = V::load(q.x.add(p));
            for c in 0..C {
                acc[c][v] = x.fma(V::load(b.offset(c as isize * q.b_step).add(p)), acc[c][v]);
            }
            p += V::N;
        }
        if p < q.k {
            let x = V::load_n(q.x.add(p), q.k - p);
            for c in 0..C {
                let column = b.offset(c as isize * q.b_step).add(p);
                acc[c][VECTORS - 1] = x.fma(V::load_n(column, q.k - p), acc[c][VECTORS - 1]);
            }
        }
    }
    acc.map(|a| ((a[0] + a[1]) + (a[2] + a[3])).sum())
}

dispatch! {
    /// B by rows, `f32`.
    pub(crate) unsafe fn rows_f32(q: &MatVec<f32>) { I => rows::<<I as Isa>::S>(q) }
}
dispatch! {
    /// B by rows, `f64`.
    pub(crate) unsafe fn rows_f64(q: &MatVec<f64>) { I => rows::<<I as Isa>::D>(q) }
}
dispatch! {
    /// B by columns and x contiguous, `f32`.
    pub(crate) unsafe fn dots_f32(q: &MatVec<f32>) { I => dots::<<I as Isa>::S>(q) }
}
dispatch! {
    /// B by columns and x contiguous, `f64`.
    pub(crate) unsafe fn dots_f64(q: &MatVec<f64>) { I => dots::<<I as Isa>::D>(q) }
}
