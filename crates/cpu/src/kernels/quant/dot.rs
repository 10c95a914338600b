//! Dot products of unpacked panels with 8-bit activations.
//!
//! Lanes are rows of weights. The integer sum of a sub-block is exact; sums of sub-blocks are added in order, in f32,
//! so a result has the same bits whatever else is in the batch.

#![allow(unsafe_code)]

use super::ROWS;
use super::decode::{self, Panel, Shape, Words};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::vmath::{Level, level};
use ir::blocks::Format;

/// Rows of activations in a strip, at most.
pub(super) const STRIP: usize = 8;

/// A panel times a strip of activations.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// Sub-blocks.
    pub subs: usize,
    pub panel: Panel,
    /// Four activations a word, `[k / 4][width]`.
    pub words: *const u32,
    /// Scales of the activations, `[sub-blocks][width]`.
    pub scales: *const f32,
    /// With a minimum: the sums of the activations of a sub-block, f32. Else what an integer sum begins with, i32.
    pub sums: *const u32,
    /// Rows of activations: 1, 2, 4 or 8.
    pub width: usize,
    /// Results, `[width][ROWS]`, which are added to.
    pub acc: *mut f32,
}

/// How panels are unpacked and multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    #[cfg(target_arch = "x86_64")]
    Vnni512,
    #[cfg(target_arch = "x86_64")]
    Vnni256,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "aarch64")]
    Dotprod,
    #[cfg(target_arch = "aarch64")]
    Neon,
    Portable,
}

impl Way {
    /// The fastest of this machine, no wider than the level in use.
    pub(super) fn best() -> Way {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            match level() {
                Level::Avx512 if has!("avx512vnni") => Way::Vnni512,
                Level::Portable => Way::Portable,
                _ if has!("avxvnni") => Way::Vnni256,
                _ => Way::Avx2,
            }
        }
        #[cfg(target_arch = "aarch64")]
        match level() {
            Level::Portable => Way::Portable,
            _ if std::arch::is_aarch64_feature_detected!("dotprod") => Way::Dotprod,
            _ => Way::Neon,
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        Way::Portable
    }
    /// Whether bytes of weights are multiplied as unsigned ones.
    fn is_unsigned(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Way::Vnni512 | Way::Vnni256 => true,
            _ => false,
        }
    }
    /// How the bytes of a format are flipped, and what is then taken from each.
    pub(super) fn offset(self, shape: Shape) -> (u32, i32) {
        match shape.is_wide {
            false => (0, shape.offset),
            true if self.is_unsigned() => (0x8080_8080, shape.offset),
            true => (0, 0),
        }
    }
    /// Unpacks blocks of 16 rows, `stride` bytes apart or, if there is none, interleaved.
    ///
    /// # Safety
    /// The rows are valid for reading, and the panel has room.
    pub(super) unsafe fn decode(self, format: Format, p: *const u8, stride: Option<usize>, blocks: usize, to: Panel) {
        let flip = self.offset(decode::shape(format)).0;
        // SAFETY: the caller's promise; the way was chosen for this machine.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Way::Vnni512 => x86::decode512(format, p, stride, blocks, to, flip),
                #[cfg(target_arch = "x86_64")]
                Way::Vnni256 | Way::Avx2 => x86::decode256(format, p, stride, blocks, to, flip),
                _ => decode_of::<u32>(format, p, stride, blocks, to, flip),
            }
        }
    }
    /// Multiplies a panel of that shape with a strip.
    ///
    /// # Safety
    /// Panel and strip hold as many sub-blocks as the tile says.
    pub(super) unsafe fn tile(self, shape: Shape, t: &Tile) {
        // SAFETY: the caller's promise; the way was chosen for this machine.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Way::Vnni512 => x86::tile_vnni512(shape, t),
                #[cfg(target_arch = "x86_64")]
                Way::Vnni256 => x86::tile_vnni256(shape, t),
                #[cfg(target_arch = "x86_64")]
                Way::Avx2 => x86::tile_avx2(shape, t),
                #[cfg(target_arch = "aarch64")]
                Way::Dotprod => neon::tile_dotprod(shape, t),
                #[cfg(target_arch = "aarch64")]
                Way::Neon => neon::tile_neon(shape, t),
                Way::Portable => tile_of::<Eight>(shape, t),
            }
        }
    }
}

#[inline(always)]
unsafe fn decode_of<W: Words>(f: Format, p: *const u8, stride: Option<usize>, blocks: usize, to: Panel, flip: u32) {
    for lane in (0..ROWS).step_by(W::N) {
        // SAFETY: the caller's promise.
        unsafe {
            match stride {
                Some(stride) => decode::decode::<W, false>(f, p, stride, blocks, to, lane, flip),
                None => decode::decode::<W, true>(f, p, 0, blocks, to, lane, flip),
            }
        }
    }
}

/// Vectors of one instruction set.
trait Dot {
    /// Integer sums.
    type I: Copy;
    /// Floats.
    type F: Copy;
    /// Lanes.
    const N: usize;
    /// Rows of activations that fit in registers.
    const ROWS_MAX: usize;

    unsafe fn splat(x: u32) -> Self::I;
    unsafe fn load(p: *const u32) -> Self::I;
    /// Adds the products of four bytes of weights and of activations; `WIDE` weights use all 8 bits.
    unsafe fn dot<const WIDE: bool>(sum: Self::I, w: Self::I, x: Self::I) -> Self::I;
    unsafe fn splat_float(x: f32) -> Self::F;
    unsafe fn load_float(p: *const f32) -> Self::F;
    unsafe fn store_float(x: Self::F, p: *mut f32);
    unsafe fn float(x: Self::I) -> Self::F;
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`.
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
}

#[inline(always)]
unsafe fn tile_of<D: Dot>(shape: Shape, t: &Tile) {
    // SAFETY: the caller's promise.
    unsafe {
        match (shape.sub, shape.has_min, shape.is_wide) {
            (16, ..) => tile_shaped::<D, 4, false, false>(t),
            (_, true, _) => tile_shaped::<D, 8, true, false>(t),
            (_, _, true) => tile_shaped::<D, 8, false, true>(t),
            _ => tile_shaped::<D, 8, false, false>(t),
        }
    }
}

#[inline(always)]
unsafe fn tile_shaped<D: Dot, const W: usize, const MIN: bool, const WIDE: bool>(t: &Tile) {
    let step = t.width.min(D::ROWS_MAX);
    for lane in (0..ROWS).step_by(D::N) {
        for row in (0..t.width).step_by(step) {
            // SAFETY: the caller's promise.
            unsafe {
                match step {
                    1 => rows_of::<D, 1, W, MIN, WIDE>(t, row, lane),
                    2 => rows_of::<D, 2, W, MIN, WIDE>(t, row, lane),
                    4 => rows_of::<D, 4, W, MIN, WIDE>(t, row, lane),
                    _ => rows_of::<D, 8, W, MIN, WIDE>(t, row, lane),
                }
            }
        }
    }
}

/// `R` rows of activations from `row` on, with the lanes from `lane` on; `W` words a sub-block.
#[inline(always)]
unsafe fn rows_of<D: Dot, const R: usize, const W: usize, const MIN: bool, const WIDE: bool>(
    t: &Tile,
    row: usize,
    lane: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (mut words, mut scales, mut mins) =
            (t.panel.words.add(lane), t.panel.scales.add(lane), t.panel.mins.wrapping_add(lane));
        let (mut x, mut dx, mut sx) = (t.words.add(row), t.scales.add(row), t.sums.add(row));
        let acc = t.acc.add(row * ROWS + lane);
        let mut totals = [D::splat_float(0.0); R];
        for r in 0..R {
            totals[r] = D::load_float(acc.add(r * ROWS));
        }
        for _ in 0..t.subs {
            let mut sums = [D::splat(0); R];
            if !MIN {
                for r in 0..R {
                    sums[r] = D::splat(*sx.add(r));
                }
            }
            for i in 0..W {
                let w = D::load(words.add(i * ROWS));
                for r in 0..R {
                    sums[r] = D::dot::<WIDE>(sums[r], w, D::splat(*x.add(i * t.width + r)));
                }
            }
            let d = D::load_float(scales);
            for r in 0..R {
                totals[r] = D::fma(D::float(sums[r]), D::mul(d, D::splat_float(*dx.add(r))), totals[r]);
            }
            if MIN {
                let m = D::load_float(mins);
                for r in 0..R {
                    totals[r] = D::fma(m, D::splat_float(f32::from_bits(*sx.add(r))), totals[r]);
                }
                mins = mins.add(ROWS);
            }
            (words, scales) = (words.add(W * ROWS), scales.add(ROWS));
            (x, dx, sx) = (x.add(W * t.width), dx.add(t.width), sx.add(t.width));
        }
        for r in 0..R {
            D::store_float(totals[r], acc.add(r * ROWS));
        }
    }
}

/// Eight lanes in plain Rust.
struct Eight;

impl Dot for Eight {
    type I = [i32; 8];
    type F = [f32; 8];
    const N: usize = 8;
    const ROWS_MAX: usize = 2;
    #[inline(always)]
    unsafe fn splat(x: u32) -> [i32; 8] {
        [x as i32; 8]
    }
    #[inline(always)]
    unsafe fn load(p: *const u32) -> [i32; 8] {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[i32; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn dot<const WIDE: bool>(sum: [i32; 8], w: [i32; 8], x: [i32; 8]) -> [i32; 8] {
        let byte = |x: i32, b: u32| x << (24 - 8 * b) >> 24;
        std::array::from_fn(|i| sum[i] + (0..4).map(|b| byte(w[i], b) * byte(x[i], b)).sum::<i32>())
    }
    #[inline(always)]
    unsafe fn splat_float(x: f32) -> [f32; 8] {
        [x; 8]
    }
    #[inline(always)]
    unsafe fn load_float(p: *const f32) -> [f32; 8] {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[f32; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_float(x: [f32; 8], p: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[f32; 8]>().write_unaligned(x) }
    }
    #[inline(always)]
    unsafe fn float(x: [i32; 8]) -> [f32; 8] {
        x.map(|x| x as f32)
    }
    #[inline(always)]
    unsafe fn mul(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn fma(a: [f32; 8], b: [f32; 8], c: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::decode::x86::{Eight, Sixteen};
    use super::{Dot, Format, Panel, Shape, Tile, decode_of, tile_of};
    use std::arch::x86_64::*;

    /// Vectors whose words are multiplied by one expression.
    macro_rules! dot {
        (
            $name:ident, $i:ty, $f:ty, $n:literal, $rows:literal, $set:ident, $load:ident, $set_float:ident,
            $load_float:ident, $store:ident, $convert:ident, $mul:ident, $fma:ident,
            |$sum:ident, $w:ident, $x:ident, $wide:ident| $dot:expr
        ) => {
            struct $name;
            // SAFETY: of every block below, the caller's promise; used only in functions compiled for the instructions.
            impl Dot for $name {
                type I = $i;
                type F = $f;
                const N: usize = $n;
                const ROWS_MAX: usize = $rows;
                #[inline(always)]
                unsafe fn splat(x: u32) -> $i {
                    // SAFETY: see above.
                    unsafe { $set(x as i32) }
                }
                #[inline(always)]
                unsafe fn load(p: *const u32) -> $i {
                    // SAFETY: see above.
                    unsafe { $load(p.cast()) }
                }
                #[inline(always)]
                unsafe fn dot<const WIDE: bool>($sum: $i, $w: $i, $x: $i) -> $i {
                    let $wide = WIDE;
                    // SAFETY: see above.
                    unsafe { $dot }
                }
                #[inline(always)]
                unsafe fn splat_float(x: f32) -> $f {
                    // SAFETY: see above.
                    unsafe { $set_float(x) }
                }
                #[inline(always)]
                unsafe fn load_float(p: *const f32) -> $f {
                    // SAFETY: see above.
                    unsafe { $load_float(p) }
                }
                #[inline(always)]
                unsafe fn store_float(x: $f, p: *mut f32) {
                    // SAFETY: see above.
                    unsafe { $store(p, x) }
                }
                #[inline(always)]
                unsafe fn float(x: $i) -> $f {
                    // SAFETY: see above.
                    unsafe { $convert(x) }
                }
                #[inline(always)]
                unsafe fn mul(a: $f, b: $f) -> $f {
                    // SAFETY: see above.
                    unsafe { $mul(a, b) }
                }
                #[inline(always)]
                unsafe fn fma(a: $f, b: $f, c: $f) -> $f {
                    // SAFETY: see above.
                    unsafe { $fma(a, b, c) }
                }
            }
        };
        // Vectors of 256 bits.
        ($name:ident, |$sum:ident, $w:ident, $x:ident, $wide:ident| $dot:expr) => {
            dot!(
                $name,
                __m256i,
                __m256,
                8,
                4,
                _mm256_set1_epi32,
                _mm256_loadu_si256,
                _mm256_set1_ps,
                _mm256_loadu_ps,
                _mm256_storeu_ps,
                _mm256_cvtepi32_ps,
                _mm256_mul_ps,
                _mm256_fmadd_ps,
                |$sum, $w, $x, $wide| $dot
            );
        };
    }
    dot!(
        Vnni512,
        __m512i,
        __m512,
        16,
        8,
        _mm512_set1_epi32,
        _mm512_loadu_si512,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_cvtepi32_ps,
        _mm512_mul_ps,
        _mm512_fmadd_ps,
        |sum, w, x, _wide| _mm512_dpbusd_epi32(sum, w, x)
    );
    dot!(Vnni256, |sum, w, x, _wide| _mm256_dpbusd_avx_epi32(sum, w, x));
    dot!(Avx2, |sum, w, x, wide| {
        if wide {
            // Even and odd bytes as numbers of 16 bits, whose products are added in pairs.
            let even = |v: __m256i| _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(v));
            let low = _mm256_madd_epi16(even(w), even(x));
            let high = _mm256_madd_epi16(_mm256_srai_epi16::<8>(w), _mm256_srai_epi16::<8>(x));
            _mm256_add_epi32(sum, _mm256_add_epi32(low, high))
        } else {
            // Weights of 6 bits at most: pairs of products fit in 16 bits.
            let pairs = _mm256_maddubs_epi16(w, x);
            _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }
    });

    macro_rules! tile {
        ($name:ident, $v:ident, $features:literal) => {
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $name(shape: Shape, t: &Tile) {
                // SAFETY: the caller's promise.
                unsafe { tile_of::<$v>(shape, t) }
            }
        };
    }
    tile!(tile_vnni512, Vnni512, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma");
    tile!(tile_vnni256, Vnni256, "avx2,fma,avxvnni");
    tile!(tile_avx2, Avx2, "avx2,fma");

    macro_rules! decode {
        ($name:ident, $w:ident, $features:literal) => {
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $name(f: Format, p: *const u8, s: Option<usize>, blocks: usize, to: Panel, flip: u32) {
                // SAFETY: the caller's promise.
                unsafe { decode_of::<$w>(f, p, s, blocks, to, flip) }
            }
        };
    }
    decode!(decode512, Sixteen, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2");
    decode!(decode256, Eight, "avx2,fma,f16c,bmi1,bmi2");
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use super::{Dot, Shape, Tile, tile_of};
    use std::arch::aarch64::*;

    /// Four lanes, whose words are multiplied by one expression.
    macro_rules! dot {
        ($name:ident, $tile:ident, $features:literal, |$sum:ident, $w:ident, $x:ident| $dot:expr) => {
            struct $name;
            // SAFETY: of every block below: every 64-bit ARM has the instructions, or the caller's promise.
            impl Dot for $name {
                type I = int32x4_t;
                type F = float32x4_t;
                const N: usize = 4;
                const ROWS_MAX: usize = 8;
                #[inline(always)]
                unsafe fn splat(x: u32) -> int32x4_t {
                    // SAFETY: see above.
                    unsafe { vdupq_n_s32(x as i32) }
                }
                #[inline(always)]
                unsafe fn load(p: *const u32) -> int32x4_t {
                    // SAFETY: see above.
                    unsafe { vld1q_s32(p.cast()) }
                }
                #[inline(always)]
                unsafe fn dot<const WIDE: bool>($sum: int32x4_t, w: int32x4_t, x: int32x4_t) -> int32x4_t {
                    // SAFETY: see above.
                    unsafe {
                        let ($w, $x) = (vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(x));
                        $dot
                    }
                }
                #[inline(always)]
                unsafe fn splat_float(x: f32) -> float32x4_t {
                    // SAFETY: see above.
                    unsafe { vdupq_n_f32(x) }
                }
                #[inline(always)]
                unsafe fn load_float(p: *const f32) -> float32x4_t {
                    // SAFETY: see above.
                    unsafe { vld1q_f32(p) }
                }
                #[inline(always)]
                unsafe fn store_float(x: float32x4_t, p: *mut f32) {
                    // SAFETY: see above.
                    unsafe { vst1q_f32(p, x) }
                }
                #[inline(always)]
                unsafe fn float(x: int32x4_t) -> float32x4_t {
                    // SAFETY: see above.
                    unsafe { vcvtq_f32_s32(x) }
                }
                #[inline(always)]
                unsafe fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t {
                    // SAFETY: see above.
                    unsafe { vmulq_f32(a, b) }
                }
                #[inline(always)]
                unsafe fn fma(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
                    // SAFETY: see above.
                    unsafe { vfmaq_f32(c, a, b) }
                }
            }
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $tile(shape: Shape, t: &Tile) {
                // SAFETY: the caller's promise.
                unsafe { tile_of::<$name>(shape, t) }
            }
        };
    }
    // The intrinsic is not stable in Rust yet: the instruction is written out.
    dot!(Fours, tile_dotprod, "neon,dotprod", |sum, w, x| {
        let mut sum = sum;
        std::arch::asm!(".arch_extension dotprod", "sdot {s:v}.4s, {a:v}.16b, {b:v}.16b", s = inout(vreg) sum,
            a = in(vreg) w, b = in(vreg) x, options(pure, nomem, nostack, preserves_flags));
        sum
    });
    // Products of 16 bits, added in pairs, and the pairs' sums of a word.
    dot!(Pairs, tile_neon, "neon", |sum, w, x| {
        let low = vpaddlq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)));
        let high = vpaddlq_s16(vmull_high_s8(w, x));
        vaddq_s32(sum, vpaddq_s32(low, high))
    });
}
