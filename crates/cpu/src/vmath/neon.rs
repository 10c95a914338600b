//! [`Vector`](super::simd::Vector) for 64-bit ARM: NEON, which every such processor has.
//!
//! A vector is two registers: as many lanes as portable code has, in the same order, so that every
//! function and reduction gives the bits of portable code; two sums in flight at a time; and, with
//! four rows of three vectors, a tile of a product that fills 24 of the 32 registers.
//!
//! SAFETY of every `unsafe` block: it is one instruction a register, which every 64-bit ARM has; memory is the caller's
//! promise, passed on.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "one comment holds for every block of the file")]

use super::simd::{Isa, Vector};
use std::arch::aarch64::*;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// NEON.
#[derive(Clone, Copy, Debug)]
pub struct Neon;

/// Eight floats.
#[derive(Clone, Copy, Debug)]
pub struct F32x8(pub float32x4_t, pub float32x4_t);
/// Four doubles.
#[derive(Clone, Copy, Debug)]
pub struct F64x4(pub float64x2_t, pub float64x2_t);

impl Isa for Neon {
    type S = F32x8;
    type D = F64x4;

    #[inline(always)]
    fn widen(v: F32x8) -> (F64x4, F64x4) {
        let half = |v: float32x4_t| unsafe { F64x4(vcvt_f64_f32(vget_low_f32(v)), vcvt_high_f64_f32(v)) };
        (half(v.0), half(v.1))
    }
    #[inline(always)]
    fn narrow(low: F64x4, high: F64x4) -> F32x8 {
        let half = |v: F64x4| unsafe { vcvt_high_f32_f64(vcvt_f32_f64(v.0), v.1) };
        F32x8(half(low), half(high))
    }
}

macro_rules! operator {
    ($v:ident, $trait:ident, $name:ident, $op:ident) => {
        impl $trait for $v {
            type Output = $v;
            #[inline(always)]
            fn $name(self, b: $v) -> $v {
                unsafe { $v($op(self.0, b.0), $op(self.1, b.1)) }
            }
        }
    };
}
operator!(F32x8, Add, add, vaddq_f32);
operator!(F32x8, Sub, sub, vsubq_f32);
operator!(F32x8, Mul, mul, vmulq_f32);
operator!(F32x8, Div, div, vdivq_f32);
operator!(F64x4, Add, add, vaddq_f64);
operator!(F64x4, Sub, sub, vsubq_f64);
operator!(F64x4, Mul, mul, vmulq_f64);
operator!(F64x4, Div, div, vdivq_f64);

macro_rules! vector {
    ($v:ident, $e:ty, $n:literal, $u:ident, $shift:literal, $bias:literal, $magic:literal;
     $neg:ident $splat:ident $load:ident $store:ident $fma:ident $abs:ident $sqrt:ident $round:ident $floor:ident
     $lt:ident $le:ident $eq:ident $select:ident $both:ident $uzp:ident;
     $dup:ident $bits:ident $float:ident $plus:ident $minus:ident $left:ident $right:ident $convert:ident;
     $mask_bits:expr, $sum:expr) => {
        impl Neg for $v {
            type Output = $v;
            #[inline(always)]
            fn neg(self) -> $v {
                unsafe { $v($neg(self.0), $neg(self.1)) }
            }
        }
        // SAFETY of every block: one instruction a register, which every 64-bit ARM has; memory is
        // the caller's promise, passed on.
        impl Vector for $v {
            type E = $e;
            type M = ($u, $u);
            const N: usize = $n;
            const FUSED: bool = true;

            #[inline(always)]
            fn splat(x: $e) -> Self {
                unsafe { $v($splat(x), $splat(x)) }
            }
            #[inline(always)]
            unsafe fn load(p: *const $e) -> Self {
                unsafe { $v($load(p), $load(p.add($n / 2))) }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $e) {
                unsafe {
                    $store(p, self.0);
                    $store(p.add($n / 2), self.1);
                }
            }
            #[inline(always)]
            unsafe fn load_n(p: *const $e, n: usize) -> Self {
                debug_assert!(n <= $n);
                let mut room = [0.0; $n];
                unsafe {
                    (0..n.min($n)).for_each(|i| room[i] = *p.add(i));
                    Self::load(room.as_ptr())
                }
            }
            #[inline(always)]
            unsafe fn store_n(self, p: *mut $e, n: usize) {
                debug_assert!(n <= $n);
                let mut room = [0.0; $n];
                unsafe {
                    self.store(room.as_mut_ptr());
                    (0..n.min($n)).for_each(|i| *p.add(i) = room[i]);
                }
            }
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                unsafe { $v($fma(c.0, self.0, b.0), $fma(c.1, self.1, b.1)) }
            }
            #[inline(always)]
            fn min(self, b: Self) -> Self {
                // The instruction of that name gives NaN if either is.
                Self::select(self.lt(b), self, b)
            }
            #[inline(always)]
            fn max(self, b: Self) -> Self {
                Self::select(b.lt(self), self, b)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                unsafe { $v($abs(self.0), $abs(self.1)) }
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                unsafe { $v($sqrt(self.0), $sqrt(self.1)) }
            }
            #[inline(always)]
            fn round(self) -> Self {
                unsafe { $v($round(self.0), $round(self.1)) }
            }
            #[inline(always)]
            fn floor(self) -> Self {
                unsafe { $v($floor(self.0), $floor(self.1)) }
            }
            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                unsafe {
                    let m = $dup((-0.0 as $e).to_bits());
                    $v($select(m, sign.0, self.0), $select(m, sign.1, self.1))
                }
            }
            #[inline(always)]
            fn lt(self, b: Self) -> Self::M {
                unsafe { ($lt(self.0, b.0), $lt(self.1, b.1)) }
            }
            #[inline(always)]
            fn le(self, b: Self) -> Self::M {
                unsafe { ($le(self.0, b.0), $le(self.1, b.1)) }
            }
            #[inline(always)]
            fn eq(self, b: Self) -> Self::M {
                unsafe { ($eq(self.0, b.0), $eq(self.1, b.1)) }
            }
            #[inline(always)]
            fn select(m: Self::M, a: Self, b: Self) -> Self {
                unsafe { $v($select(m.0, a.0, b.0), $select(m.1, a.1, b.1)) }
            }
            #[inline(always)]
            fn both(a: Self::M, b: Self::M) -> Self::M {
                unsafe { ($both(a.0, b.0), $both(a.1, b.1)) }
            }
            #[inline(always)]
            fn bits(m: Self::M) -> u32 {
                unsafe { $mask_bits(m.0) | $mask_bits(m.1) << ($n / 2) }
            }
            #[inline(always)]
            fn ldexp(self, n: Self) -> Self {
                // Two factors, so that neither leaves the range of normal numbers.
                let limit = 2.0 * ($bias as f64 - 1.0);
                let n = Self::c(-limit).max(Self::c(limit).min(n));
                let half = (n * Self::c(0.5)).floor();
                let power = |v: Self| unsafe {
                    let biased = v + Self::splat($magic + $bias as $e);
                    $v($float($left::<$shift>($bits(biased.0))), $float($left::<$shift>($bits(biased.1))))
                };
                self * power(half) * power(n - half)
            }
            #[inline(always)]
            fn split(self, low: $e) -> (Self, Self) {
                let part = |v| unsafe {
                    let (bits, one) = ($bits(v), $dup((1.0 as $e).to_bits()));
                    // The exponent, biased so that it stays positive.
                    let e = $right::<$shift>($plus($minus(bits, $dup(low.to_bits())), one));
                    let m = $plus($minus(bits, $left::<$shift>(e)), one);
                    ($float(m), $convert(e))
                };
                let ((m0, e0), (m1, e1)) = (part(self.0), part(self.1));
                ($v(m0, m1), $v(e0, e1) - Self::splat($bias as $e))
            }
            #[inline(always)]
            fn evens(a: Self, b: Self) -> Self {
                unsafe { $v($uzp(a.0, a.1), $uzp(b.0, b.1)) }
            }
            #[inline(always)]
            fn sum(self) -> $e {
                // The tree of the trait: the upper half onto the lower.
                unsafe { $sum(self.0, self.1) }
            }
        }
    };
}

#[inline(always)]
unsafe fn bits4(m: uint32x4_t) -> u32 {
    unsafe { vaddvq_u32(vandq_u32(m, vld1q_u32([1, 2, 4, 8].as_ptr()))) }
}

#[inline(always)]
unsafe fn bits2(m: uint64x2_t) -> u32 {
    unsafe { (vgetq_lane_u64::<0>(m) & 1 | vgetq_lane_u64::<1>(m) & 2) as u32 }
}

#[inline(always)]
unsafe fn sum8(low: float32x4_t, high: float32x4_t) -> f32 {
    unsafe {
        let four = vaddq_f32(low, high);
        vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)))
    }
}

#[inline(always)]
unsafe fn sum4(low: float64x2_t, high: float64x2_t) -> f64 {
    unsafe { vpaddd_f64(vaddq_f64(low, high)) }
}

vector!(
    F32x8, f32, 8, uint32x4_t, 23, 127, 12582912.0;
    vnegq_f32 vdupq_n_f32 vld1q_f32 vst1q_f32 vfmaq_f32 vabsq_f32 vsqrtq_f32 vrndnq_f32 vrndmq_f32
    vcltq_f32 vcleq_f32 vceqq_f32 vbslq_f32 vandq_u32 vuzp1q_f32;
    vdupq_n_u32 vreinterpretq_u32_f32 vreinterpretq_f32_u32 vaddq_u32 vsubq_u32 vshlq_n_u32 vshrq_n_u32 vcvtq_f32_u32;
    bits4, sum8
);
vector!(
    F64x4, f64, 4, uint64x2_t, 52, 1023, 6755399441055744.0;
    vnegq_f64 vdupq_n_f64 vld1q_f64 vst1q_f64 vfmaq_f64 vabsq_f64 vsqrtq_f64 vrndnq_f64 vrndmq_f64
    vcltq_f64 vcleq_f64 vceqq_f64 vbslq_f64 vandq_u64 vuzp1q_f64;
    vdupq_n_u64 vreinterpretq_u64_f64 vreinterpretq_f64_u64 vaddq_u64 vsubq_u64 vshlq_n_u64 vshrq_n_u64 vcvtq_f64_u64;
    bits2, sum4
);
