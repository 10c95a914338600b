//! Slices of `f64`; the functions are in `floats.rs`, which serves both widths.

#![allow(unsafe_code)]

use super::simd::Isa;

type T = f64;
type V<I> = <I as Isa>::D;

// One file for both widths, on purpose.
#[allow(clippy::duplicate_mod)]
#[path = "floats.rs"]
mod floats;
pub use floats::*;

unsafe fn pow_raw(a: *const f64, b: *const f64, y: *mut f64, n: usize) {
    for i in 0..n {
        // SAFETY: below `n`, the caller's promise.
        unsafe { *y.add(i) = (*a.add(i)).powf(*b.add(i)) };
    }
}
