//! Conversions between float types over slices: `bf16`, `f16` and the two of 8 bits from and to `f32`.
//!
//! Rounding is to nearest, ties to even; NaN stays NaN.

#![allow(unsafe_code)]

use super::dispatch;
use super::loops::each1;
use half::{bf16, f16};
use ir::{f8e4m3, f8e5m2};

/// A type of fewer bits that stands for floats.
pub trait Narrow: Copy + Send + Sync + 'static {
    /// To `f32`, exactly.
    ///
    /// # Safety
    /// `n` elements behind each pointer, apart.
    unsafe fn widen(x: *const Self, y: *mut f32, n: usize);
    /// From `f32`, to nearest.
    ///
    /// # Safety
    /// `n` elements behind each pointer, apart.
    unsafe fn narrow(x: *const f32, y: *mut Self, n: usize);
    /// `f32` rounded to what the type can hold.
    ///
    /// # Safety
    /// `n` elements behind each pointer; `x` and `y` equal or apart.
    unsafe fn round(x: *const f32, y: *mut f32, n: usize);
    /// One number to `f32`.
    fn to_f32(self) -> f32;
    /// One number from `f32`.
    fn from_f32(x: f32) -> Self;
}

#[inline(always)]
pub(crate) fn widen_bf16(x: u16) -> f32 {
    f32::from_bits((x as u32) << 16)
}

#[inline(always)]
fn narrow_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
    let quiet = (bits >> 16) as u16 | 0x40;
    if x.is_nan() { quiet } else { rounded }
}

/// By integer arithmetic and one multiplication, in a form that vectorizes.
#[inline(always)]
pub(crate) fn widen_f16(x: u16) -> f32 {
    let sign = (x as u32 & 0x8000) << 16;
    let magnitude = (x as u32 & 0x7fff) << 13;
    // The exponent is rebased by multiplying with 2^112, which also normalizes subnormals.
    let scaled = f32::from_bits(magnitude) * f32::from_bits(0x7780_0000);
    let special = if magnitude >= 0x0f80_0000 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | sign)
}

dispatch! { unsafe fn widen_bf16s(x: *const u16, y: *mut f32, n: usize) { _I => each1(x, y, n, widen_bf16) } }
dispatch! { unsafe fn narrow_bf16s_by_bits(x: *const f32, y: *mut u16, n: usize) { _I => each1(x, y, n, narrow_bf16) } }
dispatch! {
    unsafe fn round_bf16s_by_bits(x: *const f32, y: *mut f32, n: usize) {
        _I => each1(x, y, n, |v| widen_bf16(narrow_bf16(v)))
    }
}

unsafe fn narrow_bf16s(x: *const f32, y: *mut u16, n: usize) {
    #[cfg(target_arch = "x86_64")]
    if super::level() == super::Level::Avx512 && std::arch::is_x86_feature_detected!("avx512bf16") {
        // SAFETY: the machine has the instructions; bounds are the caller's promise.
        return unsafe { avx512_bf16::narrow(x, y, n) };
    }
    // SAFETY: the caller's promise.
    unsafe { narrow_bf16s_by_bits(x, y, n) }
}

unsafe fn round_bf16s(x: *const f32, y: *mut f32, n: usize) {
    #[cfg(target_arch = "x86_64")]
    if super::level() == super::Level::Avx512 && std::arch::is_x86_feature_detected!("avx512bf16") {
        // SAFETY: as above.
        return unsafe { avx512_bf16::round(x, y, n) };
    }
    // SAFETY: the caller's promise.
    unsafe { round_bf16s_by_bits(x, y, n) }
}

/// One instruction rounds sixteen numbers, but takes subnormal ones for zero: vectors that have any go by their bits.
#[cfg(target_arch = "x86_64")]
mod avx512_bf16 {
    use super::{narrow_bf16, widen_bf16};
    use std::arch::x86_64::*;

    const N: usize = 16;
    const SUBNORMAL: i32 = 0x20;

    /// Calls `whole` for vectors without subnormal numbers, `one` for each element of the others.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    unsafe fn each<T>(x: *const f32, y: *mut T, n: usize, whole: impl Fn(__m256i, *mut T), one: impl Fn(f32) -> T) {
        let mut i = 0;
        // SAFETY: indexes stay below `n`, the caller's promise; a vector is read before it is written.
        unsafe {
            while i + N <= n {
                let v = _mm512_loadu_ps(x.add(i));
                if _mm512_fpclass_ps_mask::<SUBNORMAL>(v) == 0 {
                    whole(std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(v)), y.add(i));
                } else {
                    (i..i + N).for_each(|k| *y.add(k) = one(*x.add(k)));
                }
                i += N;
            }
            (i..n).for_each(|k| *y.add(k) = one(*x.add(k)));
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    pub(super) unsafe fn narrow(x: *const f32, y: *mut u16, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { each(x, y, n, |v, y| _mm256_storeu_si256(y.cast(), v), narrow_bf16) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    pub(super) unsafe fn round(x: *const f32, y: *mut f32, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            each(
                x,
                y,
                n,
                |v, y| _mm512_storeu_si512(y.cast(), _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(v))),
                |v| widen_bf16(narrow_bf16(v)),
            )
        }
    }
}

unsafe fn widen_f16s(x: *const u16, y: *mut f32, n: usize) {
    #[cfg(target_arch = "x86_64")]
    if super::level() >= super::Level::Avx2 {
        // SAFETY: the level says that the machine has F16C; bounds are the caller's promise.
        return unsafe { f16c::widen_at(super::level(), x, y, n) };
    }
    #[cfg(target_arch = "aarch64")]
    if super::level() == super::Level::Neon {
        // SAFETY: bounds are the caller's promise.
        return unsafe { neon::widen(x, y, n) };
    }
    // SAFETY: the caller's promise.
    unsafe { each1(x, y, n, widen_f16) }
}

unsafe fn narrow_f16s(x: *const f32, y: *mut u16, n: usize) {
    #[cfg(target_arch = "x86_64")]
    if super::level() >= super::Level::Avx2 {
        // SAFETY: as above.
        return unsafe { f16c::narrow_at(super::level(), x, y, n) };
    }
    #[cfg(target_arch = "aarch64")]
    if super::level() == super::Level::Neon {
        // SAFETY: bounds are the caller's promise.
        return unsafe { neon::narrow(x, y, n) };
    }
    // SAFETY: the caller's promise.
    unsafe { each1(x, y, n, |v| f16::from_f32_const(v).to_bits()) }
}

unsafe fn round_f16s(x: *const f32, y: *mut f32, n: usize) {
    #[cfg(target_arch = "x86_64")]
    if super::level() >= super::Level::Avx2 {
        // SAFETY: as above.
        return unsafe { f16c::round_at(super::level(), x, y, n) };
    }
    // SAFETY: the caller's promise.
    unsafe { in_pieces::<f16>(x, y, n) }
}

/// Rounds by way of a piece of narrow numbers.
unsafe fn in_pieces<H: Narrow>(x: *const f32, y: *mut f32, n: usize) {
    const PIECE: usize = 128;
    let mut half = [H::from_f32(0.0); PIECE];
    let mut i = 0;
    while i < n {
        let m = PIECE.min(n - i);
        // SAFETY: indexes stay below `n`, the caller's promise; a piece is read before it is written.
        unsafe {
            H::narrow(x.add(i), half.as_mut_ptr(), m);
            H::widen(half.as_ptr(), y.add(i), m);
        }
        i += m;
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(clippy::undocumented_unsafe_blocks, reason = "one comment holds for the blocks of conversions")]
mod f16c {
    use super::super::Level;
    use std::arch::x86_64::*;

    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

    /// A conversion, sixteen numbers at a time where the machine can, else eight; the last ones under a mask or through
    /// copies.
    macro_rules! conversion {
        ($at:ident, $wide:ident, $half:ident, $a:ty, $b:ty, $load16:expr, $store16:expr, $f16:expr, $load8:expr, $store8:expr, $f8:expr) => {
            /// # Safety
            /// The machine has the level; `n` elements behind each pointer.
            pub(super) unsafe fn $at(level: Level, x: *const $a, y: *mut $b, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { if level == Level::Avx512 { $wide(x, y, n) } else { $half(x, y, n) } }
            }
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn $wide(x: *const $a, y: *mut $b, n: usize) {
                let (load, store, f) = ($load16, $store16, $f16);
                // SAFETY: indexes stay below `n`, the caller's promise; others are masked.
                unsafe {
                    let whole = n / 16 * 16;
                    for i in (0..whole).step_by(16) {
                        store(y.add(i), !0, f(load(x.add(i), !0)));
                    }
                    if whole < n {
                        let mask = ((1u32 << (n - whole)) - 1) as u16;
                        store(y.add(whole), mask, f(load(x.add(whole), mask)));
                    }
                }
            }
            #[target_feature(enable = "avx,f16c")]
            unsafe fn $half(x: *const $a, y: *mut $b, n: usize) {
                let (load, store, f) = ($load8, $store8, $f8);
                // SAFETY: indexes stay below `n`, the caller's promise.
                unsafe {
                    let whole = n / 8 * 8;
                    for i in (0..whole).step_by(8) {
                        store(y.add(i), f(load(x.add(i))));
                    }
                    if whole < n {
                        let (mut p, mut q) = ([<$a>::default(); 8], [<$b>::default(); 8]);
                        std::ptr::copy_nonoverlapping(x.add(whole), p.as_mut_ptr(), n - whole);
                        store(q.as_mut_ptr(), f(load(p.as_ptr())));
                        std::ptr::copy_nonoverlapping(q.as_ptr(), y.add(whole), n - whole);
                    }
                }
            }
        };
    }
    // SAFETY of the blocks below: memory and instructions are the promise of the functions that they stand in.
    conversion!(
        widen_at,
        widen_16,
        widen_8,
        u16,
        f32,
        |p: *const u16, m: u16| unsafe { _mm256_maskz_loadu_epi16(m, p.cast()) },
        |p: *mut f32, m: u16, v: __m512| unsafe { _mm512_mask_storeu_ps(p, m, v) },
        |v: __m256i| _mm512_cvtph_ps(v),
        |p: *const u16| unsafe { _mm_loadu_si128(p.cast()) },
        |p: *mut f32, v: __m256| unsafe { _mm256_storeu_ps(p, v) },
        |v: __m128i| _mm256_cvtph_ps(v)
    );
    conversion!(
        narrow_at,
        narrow_16,
        narrow_8,
        f32,
        u16,
        |p: *const f32, m: u16| unsafe { _mm512_maskz_loadu_ps(m, p) },
        |p: *mut u16, m: u16, v: __m256i| unsafe { _mm256_mask_storeu_epi16(p.cast(), m, v) },
        |v: __m512| _mm512_cvtps_ph::<NEAREST>(v),
        |p: *const f32| unsafe { _mm256_loadu_ps(p) },
        |p: *mut u16, v: __m128i| unsafe { _mm_storeu_si128(p.cast(), v) },
        |v: __m256| _mm256_cvtps_ph::<NEAREST>(v)
    );
    conversion!(
        round_at,
        round_16,
        round_8,
        f32,
        f32,
        |p: *const f32, m: u16| unsafe { _mm512_maskz_loadu_ps(m, p) },
        |p: *mut f32, m: u16, v: __m512| unsafe { _mm512_mask_storeu_ps(p, m, v) },
        |v: __m512| _mm512_cvtph_ps(_mm512_cvtps_ph::<NEAREST>(v)),
        |p: *const f32| unsafe { _mm256_loadu_ps(p) },
        |p: *mut f32, v: __m256| unsafe { _mm256_storeu_ps(p, v) },
        |v: __m256| _mm256_cvtph_ps(_mm256_cvtps_ph::<NEAREST>(v))
    );
}

/// Every 64-bit ARM converts four at a time, but the vectors of `f16` that compilers know are not
/// stable yet: the instructions are written out.
#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::{aarch64::*, asm};

    pub(super) unsafe fn widen(x: *const u16, y: *mut f32, n: usize) {
        // SAFETY: the caller's promise; whole vectors are read from `x` or a copy of its end.
        unsafe {
            in_fours(x, y, n, |x, y| {
                let wide: float32x4_t;
                asm!("fcvtl {y:v}.4s, {x:v}.4h", x = in(vreg) vld1_u16(x), y = lateout(vreg) wide,
                    options(pure, nomem, nostack, preserves_flags));
                vst1q_f32(y, wide);
            });
        }
    }

    pub(super) unsafe fn narrow(x: *const f32, y: *mut u16, n: usize) {
        // SAFETY: as above.
        unsafe {
            in_fours(x, y, n, |x, y| {
                let half: uint16x4_t;
                asm!("fcvtn {y:v}.4h, {x:v}.4s", x = in(vreg) vld1q_f32(x), y = lateout(vreg) half,
                    options(pure, nomem, nostack, preserves_flags));
                vst1_u16(y, half);
            });
        }
    }

    /// Runs `f` for every four elements; the last ones through copies.
    #[inline(always)]
    unsafe fn in_fours<A: Copy + Default, B: Copy + Default>(
        x: *const A,
        y: *mut B,
        n: usize,
        f: impl Fn(*const A, *mut B),
    ) {
        let whole = n / 4 * 4;
        // SAFETY: indexes stay below `n`, the caller's promise.
        unsafe {
            for i in (0..whole).step_by(4) {
                f(x.add(i), y.add(i));
            }
            if whole < n {
                let (mut p, mut q) = ([A::default(); 4], [B::default(); 4]);
                std::ptr::copy_nonoverlapping(x.add(whole), p.as_mut_ptr(), n - whole);
                f(p.as_ptr(), q.as_mut_ptr());
                std::ptr::copy_nonoverlapping(q.as_ptr(), y.add(whole), n - whole);
            }
        }
    }
}

macro_rules! narrow {
    ($t:ident, $widen:ident, $narrow:ident, $round:path) => {
        impl Narrow for $t {
            unsafe fn round(x: *const f32, y: *mut f32, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { $round(x, y, n) }
            }
            unsafe fn widen(x: *const $t, y: *mut f32, n: usize) {
                // SAFETY: floats of 16 bits are their bits, transparently; bounds are the caller's promise.
                unsafe { $widen(x.cast(), y, n) }
            }
            unsafe fn narrow(x: *const f32, y: *mut $t, n: usize) {
                // SAFETY: as above.
                unsafe { $narrow(x, y.cast(), n) }
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                $t::to_f32(self)
            }
            #[inline(always)]
            fn from_f32(x: f32) -> $t {
                $t::from_f32(x)
            }
        }
    };
}
narrow!(bf16, widen_bf16s, narrow_bf16s, round_bf16s);
narrow!(f16, widen_f16s, narrow_f16s, round_f16s);

macro_rules! quarters {
    ($t:ident, $widen:ident, $narrow:ident) => {
        dispatch! { unsafe fn $widen(x: *const $t, y: *mut f32, n: usize) { _I => each1(x, y, n, $t::to_f32) } }
        dispatch! { unsafe fn $narrow(x: *const f32, y: *mut $t, n: usize) { _I => each1(x, y, n, $t::from_f32) } }
        narrow!($t, $widen, $narrow, in_pieces::<$t>);
    };
}
quarters!(f8e4m3, widen_e4m3s, narrow_e4m3s);
quarters!(f8e5m2, widen_e5m2s, narrow_e5m2s);

/// `bf16` or `f16` to `f32`.
pub fn widen<H: Narrow>(x: &[H], y: &mut [f32]) {
    assert!(x.len() == y.len(), "slices of equal length expected, got {} and {}", x.len(), y.len());
    // SAFETY: both slices have the length given.
    unsafe { H::widen(x.as_ptr(), y.as_mut_ptr(), x.len()) }
}

/// `f32` to `bf16` or `f16`, to nearest.
pub fn narrow<H: Narrow>(x: &[f32], y: &mut [H]) {
    assert!(x.len() == y.len(), "slices of equal length expected, got {} and {}", x.len(), y.len());
    // SAFETY: both slices have the length given.
    unsafe { H::narrow(x.as_ptr(), y.as_mut_ptr(), x.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Around every `bf16`: itself, halfway to the next one and next to it, subnormal numbers and NaN too.
    #[test]
    fn floats_are_rounded_as_by_their_bits() {
        let around = |h: u32| [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff].map(|low| f32::from_bits(h << 16 | low));
        let x: Vec<f32> = (0..=0xffff).flat_map(around).chain([1.5, 1e-40, -3e-39]).collect();
        let want: Vec<u16> = x.iter().map(|&v| narrow_bf16(v)).collect();
        for &level in super::super::Level::ALL {
            super::super::limit_level(level);
            let (mut narrow, mut round) = (vec![0u16; x.len()], x.clone());
            // SAFETY: as many elements behind each pointer; rounding may be in place.
            unsafe {
                narrow_bf16s(x.as_ptr(), narrow.as_mut_ptr(), x.len());
                round_bf16s(round.as_ptr(), round.as_mut_ptr(), x.len());
            }
            let is_wrong = |i: &usize| narrow[*i] != want[*i] || round[*i].to_bits() != u32::from(want[*i]) << 16;
            let wrong = (0..x.len()).find(is_wrong);
            assert_eq!(wrong.map(|i| (x[i].to_bits(), narrow[i], want[i])), None, "{level:?}");
        }
        super::super::limit_level(super::super::Level::Avx512);
    }
}
