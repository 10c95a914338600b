//! Loops over stored floats of 16 bits that are computed as `f32` in registers: one pass instead of three.
//!
//! For processors with AVX-512 and AVX512_BF16; elsewhere numbers are widened into tiles, computed and narrowed.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "one comment holds for every block of the file")]
// SAFETY of all blocks: functions here run only where [`is_available`] holds; memory is the caller's promise, and what
// lies beyond it is masked.

use super::loops::{Op1, Op2};
use super::x86::F32x16;
use super::{Level, level};
use std::arch::x86_64::*;

/// Whether the machine has the instructions.
pub fn is_available() -> bool {
    level() == Level::Avx512 && std::is_x86_feature_detected!("avx512bf16")
}

/// How sixteen numbers are stored.
pub trait Stored {
    /// The lanes of a mask; others are 0.
    ///
    /// # Safety
    /// The lanes can be read.
    unsafe fn load(p: *const u16, m: __mmask16) -> F32x16;
    /// Writes the lanes of a mask, rounded to nearest.
    ///
    /// # Safety
    /// The lanes can be written.
    unsafe fn store(v: F32x16, p: *mut u16, m: __mmask16);
}

/// `bf16`.
pub struct Brain;
/// `f16`.
pub struct Half;

impl Stored for Brain {
    #[inline(always)]
    unsafe fn load(p: *const u16, m: __mmask16) -> F32x16 {
        unsafe {
            let bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p.cast()));
            F32x16(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits)))
        }
    }
    #[inline(always)]
    unsafe fn store(v: F32x16, p: *mut u16, m: __mmask16) {
        const SUBNORMAL: i32 = 0x20;
        unsafe {
            // The instruction takes subnormal numbers for zero.
            let bits = if _mm512_fpclass_ps_mask::<SUBNORMAL>(v.0) == 0 {
                std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(v.0))
            } else {
                by_bits(v.0)
            };
            _mm256_mask_storeu_epi16(p.cast(), m, bits);
        }
    }
}

/// Rounds to `bf16` by integer arithmetic.
#[inline(always)]
unsafe fn by_bits(v: __m512) -> __m256i {
    unsafe {
        let bits = _mm512_castps_si512(v);
        let upper = _mm512_srli_epi32::<16>(bits);
        let up = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), _mm512_and_si512(upper, _mm512_set1_epi32(1)));
        let rounded = _mm512_srli_epi32::<16>(_mm512_add_epi32(bits, up));
        let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v);
        let quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
        _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, is_nan, quiet))
    }
}

impl Stored for Half {
    #[inline(always)]
    unsafe fn load(p: *const u16, m: __mmask16) -> F32x16 {
        unsafe { F32x16(_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, p.cast()))) }
    }
    #[inline(always)]
    unsafe fn store(v: F32x16, p: *mut u16, m: __mmask16) {
        unsafe { _mm256_mask_storeu_epi16(p.cast(), m, _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v.0)) }
    }
}

const N: usize = 16;

/// Calls `f(first element, mask)` for every vector of `n` elements.
#[inline(always)]
fn each(n: usize, mut f: impl FnMut(usize, __mmask16)) {
    let whole = n / N * N;
    for i in (0..whole).step_by(N) {
        f(i, !0);
    }
    if whole < n {
        f(whole, ((1u32 << (n - whole)) - 1) as __mmask16);
    }
}

/// `y[i] = f(x[i])`.
///
/// # Safety
/// [`is_available`]; `n` elements behind each pointer, equal or apart.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,bmi1,bmi2")]
pub unsafe fn unary<S: Stored, F: Op1<F32x16>>(x: *const u8, y: *mut u8, n: usize) {
    let (x, y) = (x.cast::<u16>(), y.cast::<u16>());
    each(n, |i, m| unsafe { S::store(F::apply(S::load(x.add(i), m)), y.add(i), m) });
}

/// `y[i] = f(a[i], b[i])`.
///
/// # Safety
/// As for [`unary`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,bmi1,bmi2")]
pub unsafe fn binary<S: Stored, F: Op2<F32x16>>(a: *const u8, b: *const u8, y: *mut u8, n: usize) {
    let (a, b, y) = (a.cast::<u16>(), b.cast::<u16>(), y.cast::<u16>());
    each(n, |i, m| unsafe { S::store(F::apply(S::load(a.add(i), m), S::load(b.add(i), m)), y.add(i), m) });
}

/// `y[i] = f(a[i], b)` for one `f32`, or, flipped, `f(a, b[i])`.
///
/// # Safety
/// As for [`unary`]; one `f32` behind the other pointer.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,bmi1,bmi2")]
pub unsafe fn with_number<S: Stored, F: Op2<F32x16>, const FLIPPED: bool>(
    a: *const u8,
    b: *const u8,
    y: *mut u8,
    n: usize,
) {
    let (x, number) = if FLIPPED { (b, a) } else { (a, b) };
    let (x, y) = (x.cast::<u16>(), y.cast::<u16>());
    let number = unsafe { F32x16(_mm512_set1_ps(*number.cast::<f32>())) };
    each(n, |i, m| unsafe {
        let v = S::load(x.add(i), m);
        S::store(if FLIPPED { F::apply(number, v) } else { F::apply(v, number) }, y.add(i), m);
    });
}

/// `y[i]` is 1 where `a[i]` compares so with `b[i]`, else 0.
///
/// # Safety
/// As for [`unary`]; `y` has bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,bmi1,bmi2")]
pub unsafe fn compare<S: Stored, const HOW: i32>(a: *const u8, b: *const u8, y: *mut u8, n: usize) {
    let (a, b) = (a.cast::<u16>(), b.cast::<u16>());
    each(n, |i, m| unsafe {
        let is = _mm512_cmp_ps_mask::<HOW>(S::load(a.add(i), m).0, S::load(b.add(i), m).0);
        _mm_mask_storeu_epi8(y.add(i).cast(), m, _mm_maskz_set1_epi8(is, 1));
    });
}

/// The same with one `f32` on the right, or, flipped, on the left.
///
/// # Safety
/// As for [`compare`]; one `f32` behind the other pointer.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,bmi1,bmi2")]
pub unsafe fn compare_number<S: Stored, const HOW: i32, const FLIPPED: bool>(
    a: *const u8,
    b: *const u8,
    y: *mut u8,
    n: usize,
) {
    let (x, number) = if FLIPPED { (b, a) } else { (a, b) };
    let x = x.cast::<u16>();
    let number = unsafe { _mm512_set1_ps(*number.cast::<f32>()) };
    each(n, |i, m| unsafe {
        let v = S::load(x.add(i), m).0;
        let is = if FLIPPED { _mm512_cmp_ps_mask::<HOW>(number, v) } else { _mm512_cmp_ps_mask::<HOW>(v, number) };
        _mm_mask_storeu_epi8(y.add(i).cast(), m, _mm_maskz_set1_epi8(is, 1));
    });
}

#[cfg(test)]
mod tests {
    use super::super::{convert, f32s};
    use super::*;
    use half::{bf16, f16};

    /// Every number of the type, with its neighbors in a table for two operands.
    fn check<H: convert::Narrow, S: Stored>(all: Vec<H>, bits: fn(H) -> u16) {
        if !is_available() {
            eprintln!("skipped: no AVX512_BF16 here");
            return;
        }
        let n = all.len();
        let other: Vec<H> = (0..n).map(|i| all[(i * 7919 + 13) % n]).collect();
        let wide = |v: &[H]| {
            let mut y = vec![0f32; v.len()];
            convert::widen(v, &mut y);
            y
        };
        let narrow = |v: &[f32]| {
            let mut y = all.clone();
            convert::narrow(v, &mut y);
            y.into_iter().map(bits).collect::<Vec<u16>>()
        };
        let (x, z) = (wide(&all), wide(&other));
        // An odd number, for the masks.
        let count = n - 5;
        let run = |f: &dyn Fn(*const u8, *const u8, *mut u8)| {
            let mut y = vec![0u16; n];
            f(all.as_ptr().cast(), other.as_ptr().cast(), y.as_mut_ptr().cast());
            y.truncate(count);
            y
        };
        let mut want = vec![0f32; n];
        f32s::add(&x, &z, &mut want);
        assert!(run(&|a, b, y| unsafe { binary::<S, f32s::Add>(a, b, y, count) })[..] == narrow(&want)[..count]);
        f32s::sqrt(&x, &mut want);
        assert!(run(&|a, _, y| unsafe { unary::<S, f32s::Sqrt>(a, y, count) })[..] == narrow(&want)[..count]);
        let three = 3.0f32;
        want.iter_mut().zip(&x).for_each(|(y, x)| *y = x / three);
        let number = (&raw const three).cast::<u8>();
        let got = run(&|a, _, y| unsafe { with_number::<S, f32s::Div, false>(a, number, y, count) });
        assert!(got[..] == narrow(&want)[..count]);
        want.iter_mut().zip(&x).for_each(|(y, x)| *y = three / x);
        let got = run(&|a, _, y| unsafe { with_number::<S, f32s::Div, true>(number, a, y, count) });
        assert!(got[..] == narrow(&want)[..count]);
        check_compare::<H, S>(&all, &other, (&x, &z), count);
    }

    /// Comparisons with each other and with a number on both sides; NaN is among the numbers.
    fn check_compare<H, S: Stored>(all: &[H], other: &[H], (x, z): (&[f32], &[f32]), count: usize) {
        let half = 0.5f32;
        let number = (&raw const half).cast::<u8>();
        let (a, b) = (all.as_ptr().cast::<u8>(), other.as_ptr().cast::<u8>());
        let bytes = |f: &dyn Fn(*mut u8)| {
            let mut y = vec![7u8; count + 1];
            f(y.as_mut_ptr());
            assert_eq!(y.pop(), Some(7));
            y
        };
        let want = |f: &dyn Fn(usize) -> bool| (0..count).map(|i| u8::from(f(i))).collect::<Vec<u8>>();
        let got = bytes(&|y| unsafe { compare::<S, _CMP_LT_OQ>(a, b, y, count) });
        assert!(got == want(&|i| x[i] < z[i]));
        let got = bytes(&|y| unsafe { compare::<S, _CMP_NEQ_UQ>(a, b, y, count) });
        assert!(got == want(&|i| x[i] != z[i]));
        let got = bytes(&|y| unsafe { compare_number::<S, _CMP_GE_OQ, false>(a, number, y, count) });
        assert!(got == want(&|i| x[i] >= half));
        let got = bytes(&|y| unsafe { compare_number::<S, _CMP_GE_OQ, true>(number, a, y, count) });
        assert!(got == want(&|i| half >= x[i]));
    }

    #[test]
    fn numbers_are_those_of_three_passes() {
        check::<bf16, Brain>((0..=u16::MAX).map(bf16::from_bits).collect(), bf16::to_bits);
        check::<f16, Half>((0..=u16::MAX).map(f16::from_bits).collect(), f16::to_bits);
    }
}
