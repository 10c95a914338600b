//! Eigenvalues and eigenvectors of symmetric matrices: tridiagonal form by Householder reflections, then QL with
//! implicit shifts.
//!
//! A step of the reduction reads and writes the matrix once: the rank-2 update of the step before and the product
//! with the new vector share a pass.

#![allow(unsafe_code)]

use super::householder::{Reflectors, reflector};
use super::rotations::{Rotations, is_flipped, length};
use super::{Real, scale_of};
use crate::pool::{self, Shared};
use crate::vmath::simd::Vector;

/// Rows of a task.
const ROWS: usize = 64;
/// Elements of a step from which on threads share it.
const SHARED_MIN: usize = 1 << 16;
/// Steps of QL for one eigenvalue after which it gives up; two or three are usual.
const STEPS_MAX: usize = 60;

/// One pass over some rows: `A -= v wᵀ + w vᵀ`, then `p = A u`.
pub struct Update<T> {
    a: *mut T,
    row: usize,
    rows: usize,
    len: usize,
    /// `v` and `w` from the column on where the rows begin.
    v: *const T,
    w: *const T,
    /// Their elements of the first row.
    at: usize,
    u: *const T,
    p: *mut T,
}

/// The pass, four rows at a time.
#[inline(always)]
pub(super) unsafe fn update<V: Vector>(q: &Update<V::E>) {
    let mut i = 0;
    // SAFETY: `rows` rows of `len` elements; vectors of `len`, and elements of them for each row.
    unsafe {
        while i + 4 <= q.rows {
            update_rows::<V, 4>(q, i);
            i += 4;
        }
        (i..q.rows).for_each(|i| update_rows::<V, 1>(q, i));
    }
}

#[inline(always)]
unsafe fn update_rows<V: Vector, const R: usize>(q: &Update<V::E>, i: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = |r: usize| q.a.add((i + r) * q.row);
        let minus = |p: *const V::E, r: usize| V::splat(V::E::default() - *p.add(q.at + i + r));
        let (vi, wi): ([V; R], [V; R]) =
            (std::array::from_fn(|r| minus(q.v, r)), std::array::from_fn(|r| minus(q.w, r)));
        let mut sums = [V::zero(); R];
        let mut j = 0;
        while j + V::N <= q.len {
            let (v, w, u) = (V::load(q.v.add(j)), V::load(q.w.add(j)), V::load(q.u.add(j)));
            for r in 0..R {
                let a = wi[r].fma(v, vi[r].fma(w, V::load(row(r).add(j))));
                a.store(row(r).add(j));
                sums[r] = a.fma(u, sums[r]);
            }
            j += V::N;
        }
        if j < q.len {
            let n = q.len - j;
            let (v, w, u) = (V::load_n(q.v.add(j), n), V::load_n(q.w.add(j), n), V::load_n(q.u.add(j), n));
            for r in 0..R {
                let a = wi[r].fma(v, vi[r].fma(w, V::load_n(row(r).add(j), n)));
                a.store_n(row(r).add(j), n);
                sums[r] = a.fma(u, sums[r]);
            }
        }
        (0..R).for_each(|r| *q.p.add(i + r) = sums[r].sum());
    }
}

/// Diagonal and off-diagonal of the tridiagonal form of an `n × n` matrix, which is overwritten, and the reflections
/// that lead there.
fn tridiagonal<T: Real>(a: &mut [T], n: usize) -> (Vec<f64>, Vec<f64>, Reflectors<T>) {
    let mut reflectors = Reflectors::new(n.saturating_sub(1), n, 1);
    let (mut d, mut e) = (Vec::with_capacity(n), Vec::with_capacity(n));
    let (mut v, mut w) = (vec![T::ZERO; n], vec![T::ZERO; n]);
    for j in 0..n {
        // Row `j` as the pending update leaves it; `v` and `w` belong to the columns from `j` on.
        let row = &mut a[j * n + j..(j + 1) * n];
        T::add_scaled(-v[0], &w, row);
        T::add_scaled(-w[0], &v, row);
        d.push(row[0].to_f64());
        if j + 1 == n {
            e.push(0.0);
            break;
        }
        let mut u = row[1..].to_vec();
        let (tau, beta) = reflector(&mut u);
        e.push(beta.to_f64());
        reflectors.set(j, &u, tau);
        let mut p = vec![T::ZERO; u.len()];
        pass(&mut a[(j + 1) * n..], n, j + 1, &v[1..], &w[1..], &u, &mut p);
        p.iter_mut().for_each(|p| *p = *p * tau);
        let half = T::dot(&p, &u) * tau * T::from_f64(-0.5);
        T::add_scaled(half, &u, &mut p);
        (v, w) = (u, p);
    }
    (d, e, reflectors)
}

/// The rows from `first` on, on all threads where that pays.
fn pass<T: Real>(a: &mut [T], n: usize, first: usize, v: &[T], w: &[T], u: &[T], p: &mut [T]) {
    let len = u.len();
    let tasks = if len * len < SHARED_MIN { 1 } else { len.div_ceil(ROWS) };
    let rows = len.div_ceil(tasks);
    let (a, p) = (Shared::new(a.as_mut_ptr()), Shared::new(p.as_mut_ptr()));
    pool::parallel_for(tasks, &|task| {
        let at = task * rows;
        // SAFETY: each task has its own rows.
        unsafe {
            let a = a.get().add(at * n + first);
            let (v, w, u, p) = (v.as_ptr(), w.as_ptr(), u.as_ptr(), p.get().add(at));
            T::rank_two(&Update { a, row: n, rows: rows.min(len - at), len, v, w, at, u, p });
        }
    });
}

/// QL with implicit shifts: `d` becomes the eigenvalues, in any order; `e` ends with a zero. `z` takes the rotations.
fn ql<T: Real>(d: &mut [f64], e: &mut [f64], mut z: Option<&mut Rotations<T>>) {
    let n = d.len();
    let epsilon = f64::EPSILON.max(T::EPSILON.to_f64() * 1e-3);
    for l in 0..n {
        for _ in 0..STEPS_MAX {
            let is_small = |m: &usize| e[*m].abs() <= epsilon * (d[*m].abs() + d[*m + 1].abs());
            let m = (l..n - 1).find(is_small).unwrap_or(n - 1);
            if m == l {
                break;
            }
            let g = (d[l + 1] - d[l]) / (2.0 * e[l]);
            let mut g = d[m] - d[l] + e[l] / (g + length(g, 1.0).copysign(g));
            let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
            if let Some(z) = z.as_deref_mut() {
                z.begin(m, -1);
            }
            let mut is_split = false;
            for i in (l..m).rev() {
                let (f, b) = (s * e[i], c * e[i]);
                let r = length(f, g);
                e[i + 1] = r;
                if r == 0.0 {
                    d[i + 1] -= p;
                    is_split = true;
                    break;
                }
                (s, c) = (f / r, g / r);
                g = d[i + 1] - p;
                let r = (d[i] - g) * s + 2.0 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                if let Some(z) = z.as_deref_mut() {
                    z.turn(c, s);
                }
            }
            if !is_split {
                d[l] -= p;
                e[l] = g;
            }
            e[m] = 0.0;
        }
    }
}

/// Eigenvalues of a symmetric matrix, ascending, into `values`, and its eigenvectors as columns of `vectors`, each
/// with a positive largest component. Both triangles are read.
pub fn eigh<T: Real>(a: &[T], n: usize, values: &mut [T], vectors: Option<&mut [T]>) {
    let Some((scale, back)) = scale_of(a) else {
        values.fill(T::from_f64(f64::NAN));
        vectors.into_iter().for_each(|v| v.fill(T::from_f64(f64::NAN)));
        return;
    };
    if n == 0 {
        return;
    }
    let mut a: Vec<T> = a.iter().map(|x| *x * scale).collect();
    let (mut d, mut e, reflectors) = tridiagonal(&mut a, n);
    let mut rotations = vectors.is_some().then(|| Rotations::<T>::new(n));
    ql(&mut d, &mut e, rotations.as_mut());
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| d[i].total_cmp(&d[j]));
    for (to, &i) in values.iter_mut().zip(&order) {
        *to = T::from_f64(d[i]) * back;
    }
    if let (Some(vectors), Some(rotations)) = (vectors, rotations) {
        let rows = rotations.finish();
        for (j, &from) in order.iter().enumerate() {
            (0..n).for_each(|i| vectors[i * n + j] = rows[from * n + i]);
        }
        reflectors.apply(vectors, n, false);
        settle(vectors, n, n);
    }
}

/// Gives each column of an `m × n` matrix a positive largest component; returns which were flipped.
pub(super) fn settle<T: Real>(x: &mut [T], m: usize, n: usize) -> Vec<bool> {
    let flipped: Vec<bool> = (0..n).map(|j| is_flipped((0..m).map(|i| x[i * n + j]))).collect();
    for row in x.chunks_exact_mut(n.max(1)) {
        row.iter_mut().zip(&flipped).filter(|(_, t)| **t).for_each(|(x, _)| *x = -*x);
    }
    flipped
}
