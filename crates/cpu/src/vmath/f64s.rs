//! Slices of `f64`; the functions are in `floats.rs`, which serves both widths.

#![allow(unsafe_code)]

use super::loops::{self, Op1, Op2};
use super::simd::{Isa, Vector};
use super::{dispatch, power};

type T = f64;
type V<I> = <I as Isa>::D;

// One file for both widths, on purpose.
#[allow(clippy::duplicate_mod)]
#[path = "floats.rs"]
mod floats;
pub use floats::*;

/// A function in its own width.
#[inline(always)]
unsafe fn double1<I: Isa, F: Op1<I::D>>(x: *const f64, y: *mut f64, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { loops::map1::<I::D, F>(x, y, n) }
}

/// A function of two operands in its own width.
#[inline(always)]
unsafe fn double2<I: Isa, F: Op2<I::D>>(a: *const f64, b: *const f64, y: *mut f64, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { loops::map2::<I::D, F>(a, b, y, n) }
}

struct Pow;
impl<V: Vector<E = f64>> Op2<V> for Pow {
    #[inline(always)]
    fn apply(a: V, b: V) -> V {
        if V::FUSED { power::wide(a, b) } else { a.zip(b, f64::powf) }
    }
}
dispatch! {
    /// `a` to the power `b`.
    unsafe fn pow_raw(a: *const f64, b: *const f64, y: *mut f64, n: usize) { I => double2::<I, Pow>(a, b, y, n) }
}
