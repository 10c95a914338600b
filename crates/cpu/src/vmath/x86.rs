//! [`Vector`] for x86: AVX2 with FMA, and AVX-512.
//!
//! Every `unsafe` block here is one instruction. SAFETY for all of them: values of these types
//! are made only inside the clones of [`dispatch!`](super::dispatch), which run only after the
//! processor was found to have the instructions; memory is the caller's promise, passed on.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "one comment holds for every block of the file")]

use super::simd::{Isa, Vector};
use std::arch::x86_64::*;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub struct Avx2;

/// AVX-512 F, BW, DQ and VL.
#[derive(Clone, Copy, Debug)]
pub struct Avx512;

/// Eight floats.
#[derive(Clone, Copy, Debug)]
pub struct F32x8(pub __m256);
/// Four doubles.
#[derive(Clone, Copy, Debug)]
pub struct F64x4(pub __m256d);
/// Sixteen floats.
#[derive(Clone, Copy, Debug)]
pub struct F32x16(pub __m512);
/// Eight doubles.
#[derive(Clone, Copy, Debug)]
pub struct F64x8(pub __m512d);

impl Isa for Avx2 {
    type S = F32x8;
    type D = F64x4;

    #[inline(always)]
    fn widen(v: F32x8) -> (F64x4, F64x4) {
        unsafe {
            (
                F64x4(_mm256_cvtps_pd(_mm256_castps256_ps128(v.0))),
                F64x4(_mm256_cvtps_pd(_mm256_extractf128_ps::<1>(v.0))),
            )
        }
    }
    #[inline(always)]
    fn narrow(low: F64x4, high: F64x4) -> F32x8 {
        unsafe { F32x8(_mm256_set_m128(_mm256_cvtpd_ps(high.0), _mm256_cvtpd_ps(low.0))) }
    }
}

impl Isa for Avx512 {
    type S = F32x16;
    type D = F64x8;

    #[inline(always)]
    fn widen(v: F32x16) -> (F64x8, F64x8) {
        unsafe {
            (
                F64x8(_mm512_cvtps_pd(_mm512_castps512_ps256(v.0))),
                F64x8(_mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(v.0))),
            )
        }
    }
    #[inline(always)]
    fn narrow(low: F64x8, high: F64x8) -> F32x16 {
        unsafe {
            F32x16(_mm512_insertf32x8::<1>(_mm512_castps256_ps512(_mm512_cvtpd_ps(low.0)), _mm512_cvtpd_ps(high.0)))
        }
    }
}

macro_rules! operators {
    ($v:ident, $add:ident, $sub:ident, $mul:ident, $div:ident, $xor:ident, $set:ident) => {
        impl Add for $v {
            type Output = $v;
            #[inline(always)]
            fn add(self, b: $v) -> $v {
                unsafe { $v($add(self.0, b.0)) }
            }
        }
        impl Sub for $v {
            type Output = $v;
            #[inline(always)]
            fn sub(self, b: $v) -> $v {
                unsafe { $v($sub(self.0, b.0)) }
            }
        }
        impl Mul for $v {
            type Output = $v;
            #[inline(always)]
            fn mul(self, b: $v) -> $v {
                unsafe { $v($mul(self.0, b.0)) }
            }
        }
        impl Div for $v {
            type Output = $v;
            #[inline(always)]
            fn div(self, b: $v) -> $v {
                unsafe { $v($div(self.0, b.0)) }
            }
        }
        impl Neg for $v {
            type Output = $v;
            #[inline(always)]
            fn neg(self) -> $v {
                unsafe { $v($xor(self.0, $set(-0.0))) }
            }
        }
    };
}
operators!(F32x8, _mm256_add_ps, _mm256_sub_ps, _mm256_mul_ps, _mm256_div_ps, _mm256_xor_ps, _mm256_set1_ps);
operators!(F64x4, _mm256_add_pd, _mm256_sub_pd, _mm256_mul_pd, _mm256_div_pd, _mm256_xor_pd, _mm256_set1_pd);
operators!(F32x16, _mm512_add_ps, _mm512_sub_ps, _mm512_mul_ps, _mm512_div_ps, _mm512_xor_ps, _mm512_set1_ps);
operators!(F64x8, _mm512_add_pd, _mm512_sub_pd, _mm512_mul_pd, _mm512_div_pd, _mm512_xor_pd, _mm512_set1_pd);

/// What the two widths share.
macro_rules! shared {
    ($v:ident, $e:ty, $n:literal, $set:ident, $load:ident, $store:ident, $fma:ident, $min:ident, $max:ident, $sqrt:ident,
     $and:ident, $andnot:ident, $or:ident) => {
        type E = $e;
        const N: usize = $n;
        const FUSED: bool = true;

        #[inline(always)]
        fn splat(x: $e) -> Self {
            unsafe { $v($set(x)) }
        }
        #[inline(always)]
        unsafe fn load(p: *const $e) -> Self {
            unsafe { $v($load(p)) }
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut $e) {
            unsafe { $store(p, self.0) }
        }
        #[inline(always)]
        fn fma(self, b: Self, c: Self) -> Self {
            unsafe { $v($fma(self.0, b.0, c.0)) }
        }
        #[inline(always)]
        fn min(self, b: Self) -> Self {
            unsafe { $v($min(self.0, b.0)) }
        }
        #[inline(always)]
        fn max(self, b: Self) -> Self {
            unsafe { $v($max(self.0, b.0)) }
        }
        #[inline(always)]
        fn abs(self) -> Self {
            unsafe { $v($andnot($set(-0.0), self.0)) }
        }
        #[inline(always)]
        fn sqrt(self) -> Self {
            unsafe { $v($sqrt(self.0)) }
        }
        #[inline(always)]
        fn copysign(self, sign: Self) -> Self {
            unsafe { $v($or($andnot($set(-0.0), self.0), $and($set(-0.0), sign.0))) }
        }
    };
}

macro_rules! avx2 {
    ($v:ident, $e:ty, $reg:ty, $n:literal, $maskload:ident, $maskstore:ident, $round:ident, $cmp:ident, $blend:ident,
     $and:ident, $movemask:ident, $bias:literal, $magic:literal, $cast:ident, $uncast:ident, $slli:ident, $mask:expr,
     $split:expr, $evens:ident, $odds:ident, $($shared:ident),*) => {
        impl Vector for $v {
            type M = $reg;
            shared!($v, $e, $n, $($shared),*);

            #[inline(always)]
            unsafe fn load_n(p: *const $e, n: usize) -> Self {
                debug_assert!(n <= $n);
                unsafe { $v($maskload(p, $mask(n))) }
            }
            #[inline(always)]
            unsafe fn store_n(self, p: *mut $e, n: usize) {
                debug_assert!(n <= $n);
                unsafe { $maskstore(p, $mask(n), self.0) }
            }
            #[inline(always)]
            fn round(self) -> Self {
                unsafe { $v($round::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)) }
            }
            #[inline(always)]
            fn floor(self) -> Self {
                unsafe { $v($round::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0)) }
            }
            #[inline(always)]
            fn lt(self, b: Self) -> Self::M {
                unsafe { $cmp::<_CMP_LT_OQ>(self.0, b.0) }
            }
            #[inline(always)]
            fn le(self, b: Self) -> Self::M {
                unsafe { $cmp::<_CMP_LE_OQ>(self.0, b.0) }
            }
            #[inline(always)]
            fn eq(self, b: Self) -> Self::M {
                unsafe { $cmp::<_CMP_EQ_OQ>(self.0, b.0) }
            }
            #[inline(always)]
            fn select(m: Self::M, a: Self, b: Self) -> Self {
                unsafe { $v($blend(b.0, a.0, m)) }
            }
            #[inline(always)]
            fn both(a: Self::M, b: Self::M) -> Self::M {
                unsafe { $and(a, b) }
            }
            #[inline(always)]
            fn bits(m: Self::M) -> u32 {
                unsafe { $movemask(m) as u32 }
            }
            #[inline(always)]
            fn ldexp(self, n: Self) -> Self {
                // Two factors, so that neither leaves the range of normal numbers.
                let limit = 2.0 * ($bias as f64 - 1.0);
                let n = Self::c(-limit).max(Self::c(limit).min(n));
                let half = (n * Self::c(0.5)).floor();
                let power = |v: Self| unsafe {
                    let biased = v + Self::splat($magic + $bias as $e);
                    $v($uncast($slli(biased.0)))
                };
                self * power(half) * power(n - half)
            }
            #[inline(always)]
            fn split(self, low: $e) -> (Self, Self) {
                unsafe { $split(self, low) }
            }
            #[inline(always)]
            fn evens(a: Self, b: Self) -> Self {
                unsafe { $evens(a, b) }
            }
            #[inline(always)]
            fn odds(a: Self, b: Self) -> Self {
                unsafe { $odds(a, b) }
            }
            const HAS_MASKS: bool = true;
            #[inline(always)]
            unsafe fn load_where(p: *const $e, m: Self::M) -> Self {
                unsafe { $v($maskload(p, $cast(m))) }
            }
        }
    };
}

#[inline(always)]
unsafe fn evens_of8(a: F32x8, b: F32x8) -> F32x8 {
    unsafe { F32x8(ordered8(_mm256_shuffle_ps::<0x88>(a.0, b.0))) }
}

#[inline(always)]
unsafe fn odds_of8(a: F32x8, b: F32x8) -> F32x8 {
    unsafe { F32x8(ordered8(_mm256_shuffle_ps::<0xdd>(a.0, b.0))) }
}

/// Pairs of lanes in the order that shuffling within halves takes from them.
#[inline(always)]
unsafe fn ordered8(v: __m256) -> __m256 {
    unsafe { _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(_mm256_castps_pd(v))) }
}

#[inline(always)]
unsafe fn evens_of4(a: F64x4, b: F64x4) -> F64x4 {
    unsafe { F64x4(_mm256_permute4x64_pd::<0xd8>(_mm256_unpacklo_pd(a.0, b.0))) }
}

#[inline(always)]
unsafe fn odds_of4(a: F64x4, b: F64x4) -> F64x4 {
    unsafe { F64x4(_mm256_permute4x64_pd::<0xd8>(_mm256_unpackhi_pd(a.0, b.0))) }
}

#[inline(always)]
unsafe fn lanes32(n: usize) -> __m256i {
    unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
}

#[inline(always)]
unsafe fn lanes64(n: usize) -> __m256i {
    unsafe { _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), _mm256_setr_epi64x(0, 1, 2, 3)) }
}

#[inline(always)]
unsafe fn shl23(v: __m256) -> __m256i {
    unsafe { _mm256_slli_epi32::<23>(_mm256_castps_si256(v)) }
}

#[inline(always)]
unsafe fn shl52(v: __m256d) -> __m256i {
    unsafe { _mm256_slli_epi64::<52>(_mm256_castpd_si256(v)) }
}

#[inline(always)]
unsafe fn split8(v: F32x8, low: f32) -> (F32x8, F32x8) {
    unsafe {
        let bits = _mm256_castps_si256(v.0);
        let shifted = _mm256_sub_epi32(bits, _mm256_set1_epi32(low.to_bits() as i32));
        let e = _mm256_srai_epi32::<23>(shifted);
        let m = _mm256_sub_epi32(bits, _mm256_slli_epi32::<23>(e));
        (F32x8(_mm256_castsi256_ps(m)), F32x8(_mm256_cvtepi32_ps(e)))
    }
}

#[inline(always)]
unsafe fn split4(v: F64x4, low: f64) -> (F64x4, F64x4) {
    unsafe {
        let one = _mm256_set1_epi64x(1.0f64.to_bits() as i64);
        let bits = _mm256_castpd_si256(v.0);
        let shifted = _mm256_add_epi64(_mm256_sub_epi64(bits, _mm256_set1_epi64x(low.to_bits() as i64)), one);
        let biased = _mm256_srli_epi64::<52>(shifted);
        let m = _mm256_add_epi64(_mm256_sub_epi64(bits, _mm256_slli_epi64::<52>(biased)), one);
        // A small integer in the low bits of 2^52 is that integer plus 2^52.
        let two52 = 4503599627370496.0f64;
        let e = _mm256_castsi256_pd(_mm256_or_si256(biased, _mm256_set1_epi64x(two52.to_bits() as i64)));
        (F64x4(_mm256_castsi256_pd(m)), F64x4(_mm256_sub_pd(e, _mm256_set1_pd(two52 + 1023.0))))
    }
}

avx2!(
    F32x8,
    f32,
    __m256,
    8,
    _mm256_maskload_ps,
    _mm256_maskstore_ps,
    _mm256_round_ps,
    _mm256_cmp_ps,
    _mm256_blendv_ps,
    _mm256_and_ps,
    _mm256_movemask_ps,
    127,
    12582912.0,
    _mm256_castps_si256,
    _mm256_castsi256_ps,
    shl23,
    lanes32,
    split8,
    evens_of8,
    odds_of8,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_fmadd_ps,
    _mm256_min_ps,
    _mm256_max_ps,
    _mm256_sqrt_ps,
    _mm256_and_ps,
    _mm256_andnot_ps,
    _mm256_or_ps
);
avx2!(
    F64x4,
    f64,
    __m256d,
    4,
    _mm256_maskload_pd,
    _mm256_maskstore_pd,
    _mm256_round_pd,
    _mm256_cmp_pd,
    _mm256_blendv_pd,
    _mm256_and_pd,
    _mm256_movemask_pd,
    1023,
    6755399441055744.0,
    _mm256_castpd_si256,
    _mm256_castsi256_pd,
    shl52,
    lanes64,
    split4,
    evens_of4,
    odds_of4,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_fmadd_pd,
    _mm256_min_pd,
    _mm256_max_pd,
    _mm256_sqrt_pd,
    _mm256_and_pd,
    _mm256_andnot_pd,
    _mm256_or_pd
);

macro_rules! avx512 {
    ($v:ident, $e:ty, $n:literal, $mask:ty, $loadn:ident, $storen:ident, $round:ident, $cmp:ident, $blend:ident,
     $scalef:ident, $split:ident, $sum:ident, $evens:ident, $odds:ident, $entry:ident, $($shared:ident),*) => {
        impl Vector for $v {
            type M = $mask;
            shared!($v, $e, $n, $($shared),*);

            #[inline(always)]
            unsafe fn load_n(p: *const $e, n: usize) -> Self {
                debug_assert!(n <= $n);
                unsafe { $v($loadn(((1u32 << n) - 1) as $mask, p)) }
            }
            #[inline(always)]
            unsafe fn store_n(self, p: *mut $e, n: usize) {
                debug_assert!(n <= $n);
                unsafe { $storen(p, ((1u32 << n) - 1) as $mask, self.0) }
            }
            #[inline(always)]
            fn round(self) -> Self {
                unsafe { $v($round::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)) }
            }
            #[inline(always)]
            fn floor(self) -> Self {
                unsafe { $v($round::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0)) }
            }
            #[inline(always)]
            fn lt(self, b: Self) -> Self::M {
                unsafe { $cmp::<_CMP_LT_OQ>(self.0, b.0) }
            }
            #[inline(always)]
            fn le(self, b: Self) -> Self::M {
                unsafe { $cmp::<_CMP_LE_OQ>(self.0, b.0) }
            }
            #[inline(always)]
            fn eq(self, b: Self) -> Self::M {
                unsafe { $cmp::<_CMP_EQ_OQ>(self.0, b.0) }
            }
            #[inline(always)]
            fn select(m: Self::M, a: Self, b: Self) -> Self {
                unsafe { $v($blend(m, b.0, a.0)) }
            }
            #[inline(always)]
            fn both(a: Self::M, b: Self::M) -> Self::M {
                a & b
            }
            #[inline(always)]
            fn bits(m: Self::M) -> u32 {
                m as u32
            }
            #[inline(always)]
            fn bytes(bits: u32) -> [u8; 16] {
                // SAFETY: both are 16 bytes; the machine has the instructions.
                unsafe { std::mem::transmute::<__m128i, [u8; 16]>(_mm_maskz_set1_epi8(bits as u16, 1)) }
            }
            #[inline(always)]
            fn ldexp(self, n: Self) -> Self {
                unsafe { $v($scalef(self.0, n.0)) }
            }
            #[inline(always)]
            fn split(self, low: $e) -> (Self, Self) {
                unsafe { $split(self, low) }
            }
            #[inline(always)]
            fn sum(self) -> $e {
                unsafe { $sum(self.0) }
            }
            #[inline(always)]
            fn evens(a: Self, b: Self) -> Self {
                unsafe { $evens(a, b) }
            }
            #[inline(always)]
            fn odds(a: Self, b: Self) -> Self {
                unsafe { $odds(a, b) }
            }
            const HAS_MASKS: bool = true;
            #[inline(always)]
            unsafe fn load_where(p: *const $e, m: Self::M) -> Self {
                unsafe { $v($loadn(m, p)) }
            }
            const HAS_TABLES: bool = true;
            #[inline(always)]
            fn entry(self, table: &[$e]) -> Self {
                assert!(table.len() == 2 * $n);
                unsafe { $entry(self, table) }
            }
        }
    };
}

#[inline(always)]
unsafe fn evens16(a: F32x16, b: F32x16) -> F32x16 {
    unsafe {
        let at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        F32x16(_mm512_permutex2var_ps(a.0, at, b.0))
    }
}

#[inline(always)]
unsafe fn odds16(a: F32x16, b: F32x16) -> F32x16 {
    unsafe {
        let at = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
        F32x16(_mm512_permutex2var_ps(a.0, at, b.0))
    }
}

#[inline(always)]
unsafe fn odds8(a: F64x8, b: F64x8) -> F64x8 {
    unsafe {
        let at = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
        F64x8(_mm512_permutex2var_pd(a.0, at, b.0))
    }
}

#[inline(always)]
unsafe fn evens8(a: F64x8, b: F64x8) -> F64x8 {
    unsafe {
        let at = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
        F64x8(_mm512_permutex2var_pd(a.0, at, b.0))
    }
}

#[inline(always)]
unsafe fn entry16(v: F32x16, table: &[f32]) -> F32x16 {
    unsafe {
        let (low, high) = (_mm512_loadu_ps(table.as_ptr()), _mm512_loadu_ps(table.as_ptr().add(16)));
        F32x16(_mm512_permutex2var_ps(low, _mm512_castps_si512(v.0), high))
    }
}

#[inline(always)]
unsafe fn entry8(v: F64x8, table: &[f64]) -> F64x8 {
    unsafe {
        let (low, high) = (_mm512_loadu_pd(table.as_ptr()), _mm512_loadu_pd(table.as_ptr().add(8)));
        F64x8(_mm512_permutex2var_pd(low, _mm512_castpd_si512(v.0), high))
    }
}

#[inline(always)]
unsafe fn split16(v: F32x16, low: f32) -> (F32x16, F32x16) {
    unsafe {
        let bits = _mm512_castps_si512(v.0);
        let e = _mm512_srai_epi32::<23>(_mm512_sub_epi32(bits, _mm512_set1_epi32(low.to_bits() as i32)));
        let m = _mm512_sub_epi32(bits, _mm512_slli_epi32::<23>(e));
        (F32x16(_mm512_castsi512_ps(m)), F32x16(_mm512_cvtepi32_ps(e)))
    }
}

#[inline(always)]
unsafe fn split_8(v: F64x8, low: f64) -> (F64x8, F64x8) {
    unsafe {
        let bits = _mm512_castpd_si512(v.0);
        let e = _mm512_srai_epi64::<52>(_mm512_sub_epi64(bits, _mm512_set1_epi64(low.to_bits() as i64)));
        let m = _mm512_sub_epi64(bits, _mm512_slli_epi64::<52>(e));
        (F64x8(_mm512_castsi512_pd(m)), F64x8(_mm512_cvtepi64_pd(e)))
    }
}

avx512!(
    F32x16,
    f32,
    16,
    __mmask16,
    _mm512_maskz_loadu_ps,
    _mm512_mask_storeu_ps,
    _mm512_roundscale_ps,
    _mm512_cmp_ps_mask,
    _mm512_mask_blend_ps,
    _mm512_scalef_ps,
    split16,
    _mm512_reduce_add_ps,
    evens16,
    odds16,
    entry16,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_fmadd_ps,
    _mm512_min_ps,
    _mm512_max_ps,
    _mm512_sqrt_ps,
    _mm512_and_ps,
    _mm512_andnot_ps,
    _mm512_or_ps
);
avx512!(
    F64x8,
    f64,
    8,
    __mmask8,
    _mm512_maskz_loadu_pd,
    _mm512_mask_storeu_pd,
    _mm512_roundscale_pd,
    _mm512_cmp_pd_mask,
    _mm512_mask_blend_pd,
    _mm512_scalef_pd,
    split_8,
    _mm512_reduce_add_pd,
    evens8,
    odds8,
    entry8,
    _mm512_set1_pd,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_fmadd_pd,
    _mm512_min_pd,
    _mm512_max_pd,
    _mm512_sqrt_pd,
    _mm512_and_pd,
    _mm512_andnot_pd,
    _mm512_or_pd
);
