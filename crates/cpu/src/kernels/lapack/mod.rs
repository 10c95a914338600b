//! Dense linear algebra on row-major matrices of `f32` and `f64`: blocked factorizations whose bulk is GEMM.
//!
//! - [`lu`]: LU with partial pivoting, determinants, solves, inverses;
//! - [`triangular`]: triangular systems; [`cholesky`]: Cholesky;
//! - [`householder`]: QR, blocked reflectors (compact WY);
//! - [`eigh`]: symmetric eigenproblems; [`svd`]: singular values; both on [`rotations`];
//! - [`exp`]: the matrix exponential.
//!
//! Panels are small loops of vectors, compiled for every instruction set. GEMMs use the threads where a batch
//! does not. Results do not depend on the number of threads.

#![allow(unsafe_code)]

pub mod cholesky;
pub mod eigh;
pub mod exp;
pub mod householder;
pub mod lu;
mod rotations;
pub mod svd;
#[cfg(test)]
mod tests;
pub mod triangular;

use super::gemm::{Float, Gemm, Mat, Multiply};
use crate::vmath::dispatch;
use crate::vmath::loops::dot_leaf;
use crate::vmath::simd::{Isa, Vector};
use std::ops::{Div, Neg};

/// A type that factorizations are computed in.
pub trait Real: Float + Multiply<Acc = Self> + Div<Output = Self> + Neg<Output = Self> {
    /// Distance between 1 and the next number.
    const EPSILON: Self;
    /// Zero.
    const ZERO: Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Magnitude.
    fn abs(self) -> Self;
    /// The inner product.
    fn dot(x: &[Self], y: &[Self]) -> Self;
    /// `y += s x`.
    fn add_scaled(s: Self, x: &[Self], y: &mut [Self]);
    /// See [`lu`].
    #[doc(hidden)]
    unsafe fn lu_panel(p: &mut lu::Panel<Self>);
    /// See [`triangular`].
    #[doc(hidden)]
    unsafe fn substitute(s: &triangular::Block<Self>);
    /// See [`eigh`].
    #[doc(hidden)]
    unsafe fn rank_two(r: &eigh::Update<Self>);
    /// See [`svd`].
    #[doc(hidden)]
    unsafe fn rank_one_pair(r: &svd::Update<Self>);
    /// See [`rotations`].
    #[doc(hidden)]
    unsafe fn rotate(r: &rotations::Strip<Self>);
}

macro_rules! real {
    ($t:ident, $v:ident, $dot:ident, $axpy:ident, $lu:ident, $solve:ident, $two:ident, $pair:ident, $rotate:ident) => {
        dispatch! { unsafe fn $dot(x: &[$t], y: &[$t]) -> $t { I => dot_leaf::<<I as Isa>::$v>(x.as_ptr(), y.as_ptr(), x.len()) } }
        dispatch! { unsafe fn $axpy(s: $t, x: &[$t], y: &mut [$t]) { I => axpy::<<I as Isa>::$v>(s, x.as_ptr(), y.as_mut_ptr(), x.len()) } }
        dispatch! { unsafe fn $lu(p: &mut lu::Panel<$t>) { I => lu::panel::<<I as Isa>::$v>(p) } }
        dispatch! { unsafe fn $solve(s: &triangular::Block<$t>) { I => triangular::block::<<I as Isa>::$v>(s) } }
        dispatch! { unsafe fn $two(r: &eigh::Update<$t>) { I => eigh::update::<<I as Isa>::$v>(r) } }
        dispatch! { unsafe fn $pair(r: &svd::Update<$t>) { I => svd::update::<<I as Isa>::$v>(r) } }
        dispatch! { unsafe fn $rotate(r: &rotations::Strip<$t>) { I => rotations::strip::<<I as Isa>::$v>(r) } }
        impl Real for $t {
            const EPSILON: $t = $t::EPSILON;
            const ZERO: $t = 0.0;
            fn sqrt(self) -> $t {
                $t::sqrt(self)
            }
            fn abs(self) -> $t {
                $t::abs(self)
            }
            fn dot(x: &[$t], y: &[$t]) -> $t {
                assert_eq!(x.len(), y.len());
                // SAFETY: slices of equal length.
                unsafe { $dot(x, y) }
            }
            fn add_scaled(s: $t, x: &[$t], y: &mut [$t]) {
                assert_eq!(x.len(), y.len());
                // SAFETY: slices of equal length.
                unsafe { $axpy(s, x, y) }
            }
            unsafe fn lu_panel(p: &mut lu::Panel<$t>) {
                // SAFETY: the caller's promise.
                unsafe { $lu(p) }
            }
            unsafe fn substitute(s: &triangular::Block<$t>) {
                // SAFETY: the caller's promise.
                unsafe { $solve(s) }
            }
            unsafe fn rank_two(r: &eigh::Update<$t>) {
                // SAFETY: the caller's promise.
                unsafe { $two(r) }
            }
            unsafe fn rank_one_pair(r: &svd::Update<$t>) {
                // SAFETY: the caller's promise.
                unsafe { $pair(r) }
            }
            unsafe fn rotate(r: &rotations::Strip<$t>) {
                // SAFETY: the caller's promise.
                unsafe { $rotate(r) }
            }
        }
    };
}
real!(f32, S, dot_f32, axpy_f32, lu_f32, solve_f32, two_f32, pair_f32, rotate_f32);
real!(f64, D, dot_f64, axpy_f64, lu_f64, solve_f64, two_f64, pair_f64, rotate_f64);

/// `y += s x` for `n` elements.
///
/// # Safety
/// `n` elements behind each pointer.
#[inline(always)]
unsafe fn axpy<V: Vector>(s: V::E, x: *const V::E, y: *mut V::E, n: usize) {
    let s = V::splat(s);
    let mut i = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while i + V::N <= n {
            s.fma(V::load(x.add(i)), V::load(y.add(i))).store(y.add(i));
            i += V::N;
        }
        if i < n {
            s.fma(V::load_n(x.add(i), n - i), V::load_n(y.add(i), n - i)).store_n(y.add(i), n - i);
        }
    }
}

/// `C (+)= alpha A B` for a row-major C of `m × n` whose rows are `row` apart.
///
/// # Safety
/// As for [`Gemm::run`].
unsafe fn multiply<T: Real>(
    [m, n, k]: [usize; 3],
    alpha: f64,
    a: Mat<T>,
    b: Mat<T>,
    c: *mut T,
    row: usize,
    accumulate: bool,
) {
    let q = Gemm { alpha: T::from_f64(alpha), c_row: row as isize, accumulate, ..Gemm::new(m, n, k, a, b, c) };
    // SAFETY: the caller's promise.
    unsafe { q.run() }
}

/// The transpose of an `m × n` matrix whose rows are `row` apart, in tiles.
///
/// # Safety
/// The matrix is readable and `to` holds `m n` elements, with rows of `m`.
unsafe fn transpose<T: Copy>(from: *const T, row: usize, m: usize, n: usize, to: *mut T, to_row: usize) {
    const TILE: usize = 8;
    for i in (0..m).step_by(TILE) {
        for j in (0..n).step_by(TILE) {
            for a in i..m.min(i + TILE) {
                for b in j..n.min(j + TILE) {
                    // SAFETY: the caller's promise.
                    unsafe { *to.add(b * to_row + a) = *from.add(a * row + b) };
                }
            }
        }
    }
}

/// The power of two that brings the greatest magnitude near 1, and its inverse; `None` where an element is not
/// finite.
fn scale_of<T: Real>(a: &[T]) -> Option<(T, T)> {
    let mut most = 0f64;
    for x in a {
        let x = x.to_f64().abs();
        if !x.is_finite() {
            return None;
        }
        most = most.max(x);
    }
    let limit = if size_of::<T>() == 4 { 120 } else { 1000 };
    let exponent = if most == 0.0 { 0 } else { (most.log2() as i32).clamp(-limit, limit) };
    Some((T::from_f64(2f64.powi(-exponent)), T::from_f64(2f64.powi(exponent))))
}
