//! Slices of `f32`; the functions are in `floats.rs`, which serves both widths.

#![allow(unsafe_code)]

use super::dispatch;
use super::loops::{Op1, Op2};
use super::power;
use super::simd::{Isa, Vector};

type T = f32;
type V<I> = <I as Isa>::S;

#[path = "floats.rs"]
mod floats;
pub use floats::*;

/// A function computed in `f64`.
#[inline(always)]
unsafe fn double1<I: Isa, F: Op1<I::D>>(x: *const f32, y: *mut f32, n: usize) {
    let mut i = 0;
    // SAFETY: indexes stay below `n`, the caller's promise.
    unsafe {
        while i < n {
            let m = (n - i).min(<I::S as Vector>::N);
            let (low, high) = I::widen(I::S::load_n(x.add(i), m));
            I::narrow(F::apply(low), F::apply(high)).store_n(y.add(i), m);
            i += m;
        }
    }
}

/// A function of two operands computed in `f64`.
#[inline(always)]
unsafe fn double2<I: Isa, F: Op2<I::D>>(a: *const f32, b: *const f32, y: *mut f32, n: usize) {
    let mut i = 0;
    // SAFETY: as above.
    unsafe {
        while i < n {
            let m = (n - i).min(<I::S as Vector>::N);
            let (a0, a1) = I::widen(I::S::load_n(a.add(i), m));
            let (b0, b1) = I::widen(I::S::load_n(b.add(i), m));
            I::narrow(F::apply(a0, b0), F::apply(a1, b1)).store_n(y.add(i), m);
            i += m;
        }
    }
}

#[inline(always)]
unsafe fn pow_loop<I: Isa>(a: *const f32, b: *const f32, y: *mut f32, n: usize) {
    let mut i = 0;
    // SAFETY: indexes stay below `n`, the caller's promise.
    unsafe {
        while i < n {
            let m = (n - i).min(<I::S as Vector>::N);
            let r = power::short::<I>(I::S::load_n(a.add(i), m), I::S::load_n(b.add(i), m));
            r.store_n(y.add(i), m);
            i += m;
        }
    }
}

dispatch! {
    /// `a` to the power `b`.
    unsafe fn pow_raw(a: *const f32, b: *const f32, y: *mut f32, n: usize) { I => pow_loop::<I>(a, b, y, n) }
}
