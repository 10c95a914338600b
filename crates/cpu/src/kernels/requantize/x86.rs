//! The epilogue by AVX-512: sixteen columns at a time, the last of them with masks. The same operations in the same
//! order as one number at a time.

use super::{Middle, Quantized, Requantize, Residual, WHOLE};
use crate::kernels::gemm::Patch;
use std::arch::x86_64::*;

/// Lanes of a vector.
const LANES: usize = 16;
/// Nothing is added to the numbers of the sums.
const NOTHING: u8 = 0;
/// Bytes are, which are never NaN.
const BYTES: u8 = 1;
/// Some other residual is.
const OTHER: u8 = 2;

/// What turns the sums of some columns into numbers.
#[derive(Clone, Copy)]
struct Factors {
    mask: __mmask16,
    offset: __m512i,
    scale: __m512,
    bias: __m512,
    middle: Option<Middle>,
}

impl Factors {
    /// Those of columns from `j` on where the mask holds.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn new(
        (j, mask): (usize, __mmask16),
        offset: Option<*mut u8>,
        scale: *mut u8,
        bias: Option<*mut u8>,
        middle: Option<Middle>,
    ) -> Factors {
        // SAFETY: the caller's promise.
        unsafe {
            let scale = _mm512_maskz_loadu_ps(mask, scale.cast::<f32>().add(j));
            // Whatever is added to -0.0 stays as it is.
            let mut f = Factors { mask, offset: _mm512_setzero_si512(), scale, bias: _mm512_set1_ps(-0.0), middle };
            if let Some(p) = offset {
                f.offset = _mm512_maskz_loadu_epi32(mask, p.cast::<i32>().add(j));
            }
            if let Some(p) = bias {
                f.bias = _mm512_maskz_loadu_ps(mask, p.cast::<f32>().add(j));
            }
            f
        }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn numbers(&self, sums: *const i32) -> __m512 {
        // SAFETY: the caller's promise.
        let sums = unsafe { _mm512_maskz_loadu_epi32(self.mask, sums) };
        let v = _mm512_cvtepi32_ps(_mm512_add_epi32(sums, self.offset));
        let v = _mm512_add_ps(_mm512_mul_ps(v, self.scale), self.bias);
        let Some(m) = self.middle else { return v };
        let steps = _mm512_add_ps(held(_mm512_mul_ps(v, _mm512_set1_ps(m.by)), m.range), _mm512_set1_ps(WHOLE));
        _mm512_mul_ps(_mm512_sub_ps(steps, _mm512_set1_ps(WHOLE)), _mm512_set1_ps(m.scale))
    }
}

/// Puts a tile of sums, rows `width` apart, where its bytes go.
///
/// # Safety
/// As for [`super::Bound::take`](super::super::gemm::int8::windows::Place::take); the machine has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn take(r: &Requantize<*mut u8>, tile: *const i32, width: usize, part: Patch) {
    let is_plain = r.bytes.len() == 1 && r.bytes[0].numbers.is_none();
    let kind = match r.residual {
        None => NOTHING,
        Some(Residual::Bytes { .. }) => BYTES,
        Some(_) => OTHER,
    };
    // SAFETY: the caller's promise.
    unsafe {
        match (kind, r.real.is_some(), is_plain) {
            (NOTHING, false, true) => rows::<NOTHING, false, true>(r, tile, width, part),
            (NOTHING, false, false) => rows::<NOTHING, false, false>(r, tile, width, part),
            (NOTHING, true, _) => rows::<NOTHING, true, false>(r, tile, width, part),
            (BYTES, false, true) => rows::<BYTES, false, true>(r, tile, width, part),
            (_, false, true) => rows::<OTHER, false, true>(r, tile, width, part),
            (_, false, false) => rows::<OTHER, false, false>(r, tile, width, part),
            (_, true, _) => rows::<OTHER, true, false>(r, tile, width, part),
        }
    }
}

/// `PLAIN`: bytes of one kind are all that is kept.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn rows<const RESIDUAL: u8, const REAL: bool, const PLAIN: bool>(
    r: &Requantize<*mut u8>,
    tile: *const i32,
    width: usize,
    part: Patch,
) {
    // SAFETY: the caller's promise; masks leave out what is beyond the columns.
    unsafe {
        for c in (0..part.cols).step_by(LANES) {
            let (j, left) = (part.col + c, part.cols - c);
            let mask = if left < LANES { (1u16 << left) - 1 } else { u16::MAX };
            let f = Factors::new((j, mask), r.offset, r.scale, r.bias, r.middle);
            let mut others = f;
            if let Some(Residual::Sums { offset, scale, bias, middle, .. }) = r.residual {
                others = Factors::new((j, mask), offset, scale, bias, middle);
            }
            for row in 0..part.rows {
                let at = (part.row + row) * r.columns + j;
                let mut v = f.numbers(tile.add(row * width + c));
                if RESIDUAL != NOTHING {
                    v = _mm512_add_ps(v, beside(r.residual.unwrap_unchecked(), &others, at));
                }
                if REAL {
                    // NaN stays: the second operand is taken then.
                    v = _mm512_max_ps(_mm512_set1_ps(r.range.0), v);
                    v = _mm512_min_ps(_mm512_set1_ps(r.range.1), v);
                    _mm512_mask_storeu_ps(r.real.unwrap_unchecked().cast::<f32>().add(at), mask, v);
                }
                if PLAIN {
                    quantize(&r.bytes[0], v, mask, at, RESIDUAL == OTHER);
                    continue;
                }
                for b in &r.bytes {
                    let steps = quantize(b, v, mask, at, RESIDUAL == OTHER);
                    if let Some((scale, to)) = b.numbers {
                        let whole = _mm512_sub_ps(steps, _mm512_set1_ps(WHOLE));
                        let numbers = _mm512_mul_ps(whole, _mm512_set1_ps(scale));
                        _mm512_mask_storeu_ps(to.cast::<f32>().add(at), mask, numbers);
                    }
                }
            }
        }
    }
}

/// The numbers of a residual from element `at` on; `others` turns its sums into them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn beside(residual: Residual<*mut u8>, others: &Factors, at: usize) -> __m512 {
    // SAFETY: the caller's promise; nothing is read where the mask is false.
    unsafe {
        match residual {
            Residual::Real(p) => _mm512_maskz_loadu_ps(others.mask, p.cast::<f32>().add(at)),
            Residual::Sums { at: p, .. } => others.numbers(p.cast::<i32>().add(at)),
            Residual::Bytes { at: p, is_signed, zero, scale } => {
                let bytes = _mm_maskz_loadu_epi8(others.mask, p.add(at).cast());
                let whole = if is_signed { _mm512_cvtepi8_epi32(bytes) } else { _mm512_cvtepu8_epi32(bytes) };
                let steps = _mm512_sub_ps(_mm512_cvtepi32_ps(whole), _mm512_set1_ps(zero));
                _mm512_mul_ps(steps, _mm512_set1_ps(scale))
            }
        }
    }
}

/// Stores numbers, perhaps NaN, as bytes; their steps, moved by [`WHOLE`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn quantize(b: &Quantized<*mut u8>, v: __m512, mask: __mmask16, at: usize, has_nan: bool) -> __m512 {
    let mut q = _mm512_mul_ps(v, _mm512_set1_ps(b.by));
    if has_nan {
        // NaN becomes the byte 0, as a cast makes it.
        let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(q, q);
        q = _mm512_mask_blend_ps(is_nan, q, _mm512_set1_ps(-b.zero));
    }
    let steps = _mm512_add_ps(held(q, b.range), _mm512_set1_ps(WHOLE));
    // The last byte of the sum is that of the integer.
    let whole = _mm512_add_epi32(_mm512_castps_si512(steps), _mm512_set1_epi32(b.zero as i32));
    let bytes = _mm512_cvtepi32_epi8(whole);
    // SAFETY: the caller's promise.
    unsafe {
        if mask == u16::MAX {
            _mm_storeu_si128(b.to.add(at).cast(), bytes);
        } else {
            _mm_mask_storeu_epi8(b.to.add(at).cast(), mask, bytes);
        }
    }
    steps
}

/// Numbers in a range; NaN becomes its beginning.
#[inline]
#[target_feature(enable = "avx512f")]
fn held(x: __m512, range: (f32, f32)) -> __m512 {
    _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(range.0)), _mm512_set1_ps(range.1))
}
