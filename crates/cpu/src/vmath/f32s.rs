//! Slices of `f32`; the functions are in `floats.rs`, which serves both widths.

#![allow(unsafe_code)]

use super::dispatch;
use super::math;
use super::simd::{Isa, Vector};

type T = f32;
type V<I> = <I as Isa>::S;

#[path = "floats.rs"]
mod floats;
pub use floats::*;

#[inline(always)]
unsafe fn pow_loop<I: Isa>(a: *const f32, b: *const f32, y: *mut f32, n: usize) {
    let mut i = 0;
    // SAFETY: indexes stay below `n`, the caller's promise.
    unsafe {
        while i < n {
            let m = (n - i).min(<I::S as Vector>::N);
            let r = math::pow::<I>(I::S::load_n(a.add(i), m), I::S::load_n(b.add(i), m));
            r.store_n(y.add(i), m);
            i += m;
        }
    }
}

dispatch! {
    /// `a` to the power `b`.
    unsafe fn pow_raw(a: *const f32, b: *const f32, y: *mut f32, n: usize) { I => pow_loop::<I>(a, b, y, n) }
}
