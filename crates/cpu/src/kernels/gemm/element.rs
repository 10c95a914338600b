//! What the element types of products can do, each compiled for every instruction set.

#![allow(unsafe_code)]

use super::super::depthwise::{self, Plane};
use super::bf16_dot;
use super::matvec::{self, MatVec};
use super::micro::{One, Sweep, sweep};
use super::orient::Oriented;
use super::pack::{Operand, panel, strips};
use super::{Gemm, Patch};
use crate::vmath::convert::Narrow;
use crate::vmath::simd::Isa;
use crate::vmath::{Level, dispatch, f32s, f64s, level};
use half::{bf16, f16};

/// A type that products are computed in.
pub trait Float: Operand<Acc = Self> + Output<Self> + crate::vmath::simd::Scalar {
    /// One.
    const ONE: Self;
    /// Lanes of a vector and rows of a tile, on this machine.
    #[doc(hidden)]
    fn tile() -> (usize, usize);
    #[doc(hidden)]
    unsafe fn sweep(q: &SweepOf<Self>);
    #[doc(hidden)]
    unsafe fn rows(q: &MatVecOf<Self>);
    #[doc(hidden)]
    unsafe fn dots(q: &MatVecOf<Self>);
    /// `y += s x`.
    #[doc(hidden)]
    unsafe fn axpy(s: Self, x: *const Self, y: *mut Self, n: usize);
    /// `y = s x`.
    #[doc(hidden)]
    unsafe fn scaled(s: Self, x: *const Self, y: *mut Self, n: usize);
    /// One plane of a depthwise convolution.
    #[doc(hidden)]
    unsafe fn plane(q: &PlaneOf<Self>);
}

/// Opaque to users of the crate.
#[doc(hidden)]
pub struct SweepOf<E>(pub(super) Sweep<E>);

/// Opaque to users of the crate.
#[doc(hidden)]
pub struct MatVecOf<E>(pub(super) MatVec<E>);

/// Opaque to users of the crate.
#[doc(hidden)]
pub struct PlaneOf<'a, E>(pub(crate) Plane<'a, E>);

/// Rows of a tile of vectors of so many bytes: with three vectors a row, it leaves registers for
/// a row of B and a number of A.
const fn height(bytes: usize) -> usize {
    if bytes == 64 { 8 } else { 4 }
}

macro_rules! float {
    ($t:ident, $v:ident, $sweep:ident, $pairs:expr, $rows:ident, $dots:ident, $plane:ident, $module:ident) => {
        dispatch! {
            unsafe fn $sweep(q: &Sweep<$t>) { I => {
                type V = <I as Isa>::$v;
                sweep::<V, One, { height(size_of::<V>()) }>(q)
            } }
        }
        impl Float for $t {
            const ONE: $t = 1.0;
            fn tile() -> (usize, usize) {
                let bytes = if level() == Level::Avx512 { 64 } else { 32 };
                (bytes / size_of::<$t>(), height(bytes))
            }
            unsafe fn sweep(q: &SweepOf<$t>) {
                // SAFETY: the caller's promise.
                unsafe { if const { ir::is_linked("bf16") } && q.0.pairs { $pairs(&q.0) } else { $sweep(&q.0) } }
            }
            unsafe fn rows(q: &MatVecOf<$t>) {
                // SAFETY: the caller's promise.
                unsafe { matvec::$rows(&q.0) }
            }
            unsafe fn dots(q: &MatVecOf<$t>) {
                // SAFETY: the caller's promise.
                unsafe { matvec::$dots(&q.0) }
            }
            unsafe fn axpy(s: $t, x: *const $t, y: *mut $t, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { $module::raw::axpy(s, x, y, n) }
            }
            unsafe fn scaled(s: $t, x: *const $t, y: *mut $t, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { $module::raw::mul_scalar(x, s, y, n) }
            }
            unsafe fn plane(q: &PlaneOf<$t>) {
                // SAFETY: the caller's promise.
                unsafe { depthwise::$plane(&q.0) }
            }
        }
    };
}
float!(f32, S, sweep_f32, bf16_dot::sweep, rows_f32, dots_f32, plane_f32, f32s);
float!(f64, D, sweep_f64, |_| unreachable!("pairs are of bf16"), rows_f64, dots_f64, plane_f64, f64s);

/// An operand type that can be packed.
pub trait Multiply: Operand<Acc: Float> {
    /// Packs a panel, see [`panel`].
    #[doc(hidden)]
    unsafe fn pack(
        from: *const Self,
        stride_i: isize,
        stride_p: isize,
        count: usize,
        k: usize,
        w: usize,
        to: *mut Self::Acc,
    );
    /// Packs rows into strips, see [`strips`].
    #[doc(hidden)]
    unsafe fn pack_strips(from: *const Self, stride_p: isize, rows: usize, height: usize, k: usize, to: *mut Self::Acc);
    /// Computes one product straight into C where there is a kernel that does; whether it did.
    #[doc(hidden)]
    unsafe fn one_into<C: Output<Self::Acc>>(_q: &Gemm<Self, C>) -> bool {
        false
    }
    /// Computes one product, and calls `done` for each part of C when it is ready.
    #[doc(hidden)]
    unsafe fn one(q: &Gemm<Self, Self::Acc>, done: &(dyn Fn(Patch) + Sync)) {
        let mut oriented = Oriented::new(q, q.a, q.b, q.c, q.c_row);
        oriented.is_free = true;
        // SAFETY: the caller's promise.
        unsafe { oriented.run(done) };
    }
}

/// Whether a product of `bf16` of these sizes is computed by the processor's matrix unit.
pub(crate) fn has_tiles(m: usize, n: usize, k: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    return m.min(n) >= 16 && k >= 32 && super::amx::is_available(super::amx::Kind::Bf16);
    #[cfg(not(target_arch = "x86_64"))]
    return {
        let _ = (m, n, k);
        false
    };
}

macro_rules! multiply {
    ($t:ident, $e:ident, $name:ident, $strips:ident $($more:item)*) => {
        dispatch! {
            unsafe fn $strips(from: *const $t, sp: isize, rows: usize, height: usize, k: usize, to: *mut $e) {
                _I => strips::<$t>(from, sp, rows, height, k, to)
            }
        }
        dispatch! {
            unsafe fn $name(from: *const $t, si: isize, sp: isize, count: usize, k: usize, w: usize, to: *mut $e) {
                _I => panel::<$t>(from, si, sp, count, k, w, to)
            }
        }
        impl Multiply for $t {
            unsafe fn pack(from: *const $t, si: isize, sp: isize, count: usize, k: usize, w: usize, to: *mut $e) {
                // SAFETY: the caller's promise.
                unsafe { $name(from, si, sp, count, k, w, to) }
            }
            unsafe fn pack_strips(from: *const $t, sp: isize, rows: usize, height: usize, k: usize, to: *mut $e) {
                // SAFETY: the caller's promise.
                unsafe { $strips(from, sp, rows, height, k, to) }
            }
            $($more)*
        }
    };
}
multiply!(f32, f32, pack_f32, strips_f32);
multiply!(f64, f64, pack_f64, strips_f64);
multiply!(bf16, f32, pack_bf16, strips_bf16
    unsafe fn one_into<C: Output<f32>>(q: &Gemm<bf16, C>) -> bool {
        #[cfg(target_arch = "x86_64")]
        if has_tiles(q.m, q.n, q.k) {
            // SAFETY: the caller's promise.
            unsafe { super::amx::run(q, &|_| {}) };
            return true;
        }
        let _ = q;
        false
    }
    unsafe fn one(q: &Gemm<bf16, f32>, done: &(dyn Fn(Patch) + Sync)) {
        // SAFETY: the caller's promise.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if has_tiles(q.m, q.n, q.k) {
                return super::amx::run(q, done);
            }
            if bf16_dot::run_lines(q, done) {
                return;
            }
            if bf16_dot::is_available() { bf16_dot::run(q, done) } else { Oriented::new(q, q.a, q.b, q.c, q.c_row).run(done) }
        }
    }
);
multiply!(f16, f32, pack_f16, strips_f16);

/// A type that results are stored in: the type of the computation, or a half type.
pub trait Output<E>: Copy + Send + Sync + 'static {
    /// Whether it is the type of the computation itself.
    const SAME: bool;
    #[doc(hidden)]
    unsafe fn load(x: *const Self, y: *mut E, n: usize);
    #[doc(hidden)]
    unsafe fn store(x: *const E, y: *mut Self, n: usize);
}

macro_rules! output {
    ($c:ty, $e:ty, $same:literal, $load:expr, $store:expr) => {
        impl Output<$e> for $c {
            const SAME: bool = $same;
            unsafe fn load(x: *const $c, y: *mut $e, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { $load(x, y, n) }
            }
            unsafe fn store(x: *const $e, y: *mut $c, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { $store(x, y, n) }
            }
        }
    };
}
output!(f32, f32, true, std::ptr::copy_nonoverlapping, std::ptr::copy_nonoverlapping);
output!(f64, f64, true, std::ptr::copy_nonoverlapping, std::ptr::copy_nonoverlapping);
output!(bf16, f32, false, <bf16 as Narrow>::widen, <bf16 as Narrow>::narrow);
output!(f16, f32, false, <f16 as Narrow>::widen, <f16 as Narrow>::narrow);
