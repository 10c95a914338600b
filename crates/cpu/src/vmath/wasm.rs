//! [`Vector`] for WebAssembly with vectors of 128 bits (`simd128`).
//!
//! A vector is two registers: as many lanes as portable code has, in the same order, so that every function and
//! reduction gives the bits of portable code. Hosts on x86-64 have 15 registers to give: a tile of a product is one
//! vector wide, see [`PANEL`](crate::kernels::gemm).
//!
//! Modules with `relaxed-simd` multiply and add in one instruction where the processor has it. Whether that rounds once
//! is the host's choice, so [`Vector::FUSED`] does not promise it.

#![allow(unsafe_code)]

use super::simd::{Isa, Vector};
use std::arch::wasm32::*;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// Vectors of 128 bits.
#[derive(Clone, Copy, Debug)]
pub struct Simd128;

/// Eight floats.
#[derive(Clone, Copy, Debug)]
pub struct F32x8(pub v128, pub v128);
/// Four doubles.
#[derive(Clone, Copy, Debug)]
pub struct F64x4(pub v128, pub v128);

impl Isa for Simd128 {
    type S = F32x8;
    type D = F64x4;

    #[inline(always)]
    fn widen(v: F32x8) -> (F64x4, F64x4) {
        let half = |v: v128| {
            let high = i64x2_shuffle::<1, 1>(v, v);
            F64x4(f64x2_promote_low_f32x4(v), f64x2_promote_low_f32x4(high))
        };
        (half(v.0), half(v.1))
    }
    #[inline(always)]
    fn narrow(low: F64x4, high: F64x4) -> F32x8 {
        let half = |v: F64x4| i64x2_shuffle::<0, 2>(f32x4_demote_f64x2_zero(v.0), f32x4_demote_f64x2_zero(v.1));
        F32x8(half(low), half(high))
    }
}

macro_rules! operator {
    ($v:ident, $trait:ident, $name:ident, $op:ident) => {
        impl $trait for $v {
            type Output = $v;
            #[inline(always)]
            fn $name(self, b: $v) -> $v {
                $v($op(self.0, b.0), $op(self.1, b.1))
            }
        }
    };
}
operator!(F32x8, Add, add, f32x4_add);
operator!(F32x8, Sub, sub, f32x4_sub);
operator!(F32x8, Mul, mul, f32x4_mul);
operator!(F32x8, Div, div, f32x4_div);
operator!(F64x4, Add, add, f64x2_add);
operator!(F64x4, Sub, sub, f64x2_sub);
operator!(F64x4, Mul, mul, f64x2_mul);
operator!(F64x4, Div, div, f64x2_div);

macro_rules! vector {
    ($v:ident, $e:ty, $n:literal, $i:ty, $shift:literal, $bias:literal, $magic:literal;
     $neg:ident $splat:ident $fma:ident $min:ident $max:ident $abs:ident $sqrt:ident $round:ident $floor:ident
     $lt:ident $le:ident $eq:ident $bitmask:ident $evens:ident;
     $dup:ident $plus:ident $minus:ident $left:ident $right:ident $convert:ident $sum:ident) => {
        impl Neg for $v {
            type Output = $v;
            #[inline(always)]
            fn neg(self) -> $v {
                $v($neg(self.0), $neg(self.1))
            }
        }
        impl Vector for $v {
            type E = $e;
            type M = (v128, v128);
            const N: usize = $n;
            const FUSED: bool = false;

            #[inline(always)]
            fn splat(x: $e) -> Self {
                let x = $splat(x);
                $v(x, x)
            }
            #[inline(always)]
            unsafe fn load(p: *const $e) -> Self {
                // SAFETY: the caller's promise; any alignment is allowed.
                unsafe { $v(v128_load(p.cast()), v128_load(p.add($n / 2).cast())) }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $e) {
                // SAFETY: the caller's promise; any alignment is allowed.
                unsafe {
                    v128_store(p.cast(), self.0);
                    v128_store(p.add($n / 2).cast(), self.1);
                }
            }
            #[inline(always)]
            unsafe fn load_n(p: *const $e, n: usize) -> Self {
                debug_assert!(n <= $n);
                let mut room = [0.0; $n];
                // SAFETY: only indexes below `n` are read.
                unsafe {
                    (0..n.min($n)).for_each(|i| room[i] = *p.add(i));
                    Self::load(room.as_ptr())
                }
            }
            #[inline(always)]
            unsafe fn store_n(self, p: *mut $e, n: usize) {
                debug_assert!(n <= $n);
                let mut room = [0.0; $n];
                // SAFETY: only indexes below `n` are written.
                unsafe {
                    self.store(room.as_mut_ptr());
                    (0..n.min($n)).for_each(|i| *p.add(i) = room[i]);
                }
            }
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                $v($fma(self.0, b.0, c.0), $fma(self.1, b.1, c.1))
            }
            #[inline(always)]
            fn min(self, b: Self) -> Self {
                // The instruction returns its first operand if either is NaN.
                $v($min(b.0, self.0), $min(b.1, self.1))
            }
            #[inline(always)]
            fn max(self, b: Self) -> Self {
                $v($max(b.0, self.0), $max(b.1, self.1))
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $v($abs(self.0), $abs(self.1))
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $v($sqrt(self.0), $sqrt(self.1))
            }
            #[inline(always)]
            fn round(self) -> Self {
                $v($round(self.0), $round(self.1))
            }
            #[inline(always)]
            fn floor(self) -> Self {
                $v($floor(self.0), $floor(self.1))
            }
            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                let m = $splat(-0.0);
                $v(v128_bitselect(sign.0, self.0, m), v128_bitselect(sign.1, self.1, m))
            }
            #[inline(always)]
            fn lt(self, b: Self) -> Self::M {
                ($lt(self.0, b.0), $lt(self.1, b.1))
            }
            #[inline(always)]
            fn le(self, b: Self) -> Self::M {
                ($le(self.0, b.0), $le(self.1, b.1))
            }
            #[inline(always)]
            fn eq(self, b: Self) -> Self::M {
                ($eq(self.0, b.0), $eq(self.1, b.1))
            }
            #[inline(always)]
            fn select(m: Self::M, a: Self, b: Self) -> Self {
                $v(v128_bitselect(a.0, b.0, m.0), v128_bitselect(a.1, b.1, m.1))
            }
            #[inline(always)]
            fn both(a: Self::M, b: Self::M) -> Self::M {
                (v128_and(a.0, b.0), v128_and(a.1, b.1))
            }
            #[inline(always)]
            fn bits(m: Self::M) -> u32 {
                u32::from($bitmask(m.0)) | u32::from($bitmask(m.1)) << ($n / 2)
            }
            #[inline(always)]
            fn ldexp(self, n: Self) -> Self {
                // Two factors, so that neither leaves the range of normal numbers.
                let limit = 2.0 * ($bias as f64 - 1.0);
                let n = Self::c(-limit).max(Self::c(limit).min(n));
                let half = (n * Self::c(0.5)).floor();
                let power = |v: Self| {
                    let biased = v + Self::splat($magic + $bias as $e);
                    $v($left(biased.0, $shift), $left(biased.1, $shift))
                };
                self * power(half) * power(n - half)
            }
            #[inline(always)]
            fn split(self, low: $e) -> (Self, Self) {
                let part = |bits: v128| {
                    let one = $splat(1.0);
                    // The exponent, biased so that it stays positive.
                    let e = $right($plus($minus(bits, $dup(low.to_bits() as $i)), one), $shift);
                    let m = $plus($minus(bits, $left(e, $shift)), one);
                    (m, $convert(e))
                };
                let ((m0, e0), (m1, e1)) = (part(self.0), part(self.1));
                ($v(m0, m1), $v(e0, e1) - Self::splat($bias as $e))
            }
            #[inline(always)]
            fn evens(a: Self, b: Self) -> Self {
                $v($evens(a.0, a.1), $evens(b.0, b.1))
            }
            #[inline(always)]
            fn sum(self) -> $e {
                $sum(self.0, self.1)
            }
        }
    };
}

#[inline(always)]
fn madd4(a: v128, b: v128, c: v128) -> v128 {
    #[cfg(target_feature = "relaxed-simd")]
    return f32x4_relaxed_madd(a, b, c);
    #[cfg(not(target_feature = "relaxed-simd"))]
    return f32x4_add(f32x4_mul(a, b), c);
}

#[inline(always)]
fn madd2(a: v128, b: v128, c: v128) -> v128 {
    #[cfg(target_feature = "relaxed-simd")]
    return f64x2_relaxed_madd(a, b, c);
    #[cfg(not(target_feature = "relaxed-simd"))]
    return f64x2_add(f64x2_mul(a, b), c);
}

#[inline(always)]
fn evens4(a: v128, b: v128) -> v128 {
    i32x4_shuffle::<0, 2, 4, 6>(a, b)
}

#[inline(always)]
fn evens2(a: v128, b: v128) -> v128 {
    i64x2_shuffle::<0, 2>(a, b)
}

/// Integers below 2⁵² as doubles: there is no instruction for it.
#[inline(always)]
fn doubles(e: v128) -> v128 {
    const BIG: f64 = 4503599627370496.0;
    f64x2_sub(v128_or(e, f64x2_splat(BIG)), f64x2_splat(BIG))
}

/// The tree of the trait: the upper half onto the lower.
#[inline(always)]
fn sum8(low: v128, high: v128) -> f32 {
    let four = f32x4_add(low, high);
    let two = f32x4_add(four, i64x2_shuffle::<1, 1>(four, four));
    f32x4_extract_lane::<0>(two) + f32x4_extract_lane::<1>(two)
}

#[inline(always)]
fn sum4(low: v128, high: v128) -> f64 {
    let two = f64x2_add(low, high);
    f64x2_extract_lane::<0>(two) + f64x2_extract_lane::<1>(two)
}

vector!(
    F32x8, f32, 8, i32, 23, 127, 12582912.0;
    f32x4_neg f32x4_splat madd4 f32x4_pmin f32x4_pmax f32x4_abs f32x4_sqrt f32x4_nearest f32x4_floor
    f32x4_lt f32x4_le f32x4_eq i32x4_bitmask evens4;
    i32x4_splat i32x4_add i32x4_sub i32x4_shl u32x4_shr f32x4_convert_u32x4 sum8
);
vector!(
    F64x4, f64, 4, i64, 52, 1023, 6755399441055744.0;
    f64x2_neg f64x2_splat madd2 f64x2_pmin f64x2_pmax f64x2_abs f64x2_sqrt f64x2_nearest f64x2_floor
    f64x2_lt f64x2_le f64x2_eq i64x2_bitmask evens2;
    i64x2_splat i64x2_add i64x2_sub i64x2_shl u64x2_shr doubles sum4
);
