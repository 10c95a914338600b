//! Packing of strided matrices into panels, with conversion to the type of the computation.
//!
//! A panel of width `w` holds, for each step of `k`, `w` neighboring elements: rows for the left
//! operand, columns for the right one.

#![allow(unsafe_code)]

use super::micro::prefetch;
use crate::vmath::convert::Narrow;
use half::{bf16, f16};

/// An element type of an operand, computed with as [`Operand::Acc`].
pub trait Operand: Copy + Send + Sync + 'static {
    /// What products are summed in.
    type Acc: Copy + Default;
    /// Whether packing may be skipped, because the type is that of the computation.
    const SAME: bool;

    /// One element, converted.
    fn acc(self) -> Self::Acc;

    /// `n` consecutive elements, converted.
    ///
    /// # Safety
    /// `n` elements behind each pointer, apart.
    unsafe fn copy(x: *const Self, y: *mut Self::Acc, n: usize);
}

macro_rules! same {
    ($t:ty) => {
        impl Operand for $t {
            type Acc = $t;
            const SAME: bool = true;
            #[inline(always)]
            fn acc(self) -> $t {
                self
            }
            #[inline(always)]
            unsafe fn copy(x: *const $t, y: *mut $t, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { std::ptr::copy_nonoverlapping(x, y, n) }
            }
        }
    };
}
same!(f32);
same!(f64);

macro_rules! widened {
    ($t:ty) => {
        impl Operand for $t {
            type Acc = f32;
            const SAME: bool = false;
            #[inline(always)]
            fn acc(self) -> f32 {
                Narrow::to_f32(self)
            }
            #[inline(always)]
            unsafe fn copy(x: *const $t, y: *mut f32, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { <$t as Narrow>::widen(x, y, n) }
            }
        }
    };
}
widened!(bf16);
widened!(f16);

/// Packs one panel: `to[p * w + i] = from[i * stride_i + p * stride_p]` for `i < count`, `p < k`,
/// and zero for the other `i < w`.
///
/// # Safety
/// All of that memory must be valid.
#[inline(always)]
pub(crate) unsafe fn panel<S: Operand>(
    from: *const S,
    stride_i: isize,
    stride_p: isize,
    count: usize,
    k: usize,
    w: usize,
    to: *mut S::Acc,
) {
    debug_assert!(count <= w);
    // SAFETY: the caller's promise.
    unsafe {
        if stride_i == 1 {
            // Lengths that the compiler knows become single moves.
            match count {
                8 => lines::<S>(from, stride_p, 8, k, w, to),
                16 => lines::<S>(from, stride_p, 16, k, w, to),
                32 => lines::<S>(from, stride_p, 32, k, w, to),
                48 => lines::<S>(from, stride_p, 48, k, w, to),
                _ => lines::<S>(from, stride_p, count, k, w, to),
            }
        } else if stride_p == 1 {
            transpose(from, stride_i, count, k, w, to);
        } else {
            for p in 0..k {
                let dst = to.add(p * w);
                for i in 0..count {
                    let x = *from.offset(i as isize * stride_i + p as isize * stride_p);
                    dst.add(i).write(x.acc());
                }
                for i in count..w {
                    dst.add(i).write(S::Acc::default());
                }
            }
        }
    }
}

/// The case of a panel whose source runs across `k`.
#[inline(always)]
unsafe fn lines<S: Operand>(from: *const S, stride_p: isize, count: usize, k: usize, w: usize, to: *mut S::Acc) {
    for p in 0..k {
        // SAFETY: the caller's promise.
        unsafe {
            let dst = to.add(p * w);
            S::copy(from.offset(p as isize * stride_p), dst, count);
            for i in count..w {
                dst.add(i).write(S::Acc::default());
            }
        }
    }
}

/// Packs `rows` neighboring rows whose steps of `k` are `stride_p` apart into strips of `height`,
/// one after the other: several at a time, so that lines of cache are read once.
///
/// # Safety
/// All of that memory must be valid, and `rows` a multiple of `height`.
#[inline(always)]
pub(crate) unsafe fn strips<S: Operand>(
    from: *const S,
    stride_p: isize,
    rows: usize,
    height: usize,
    k: usize,
    to: *mut S::Acc,
) {
    debug_assert!(rows.is_multiple_of(height));
    // Lengths that the compiler knows become single moves.
    // SAFETY: the caller's promise.
    unsafe {
        match height {
            8 => strips_of::<S, 8>(from, stride_p, rows, k, to),
            _ => {
                for r in (0..rows).step_by(height) {
                    lines::<S>(from.add(r), stride_p, height, k, height, to.add(r * k));
                }
            }
        }
    }
}

/// Strips that are packed at a time.
const TOGETHER: usize = 4;

#[inline(always)]
unsafe fn strips_of<S: Operand, const H: usize>(
    from: *const S,
    stride_p: isize,
    rows: usize,
    k: usize,
    to: *mut S::Acc,
) {
    for r in (0..rows).step_by(TOGETHER * H) {
        // SAFETY: the caller's promise.
        unsafe {
            let (from, to) = (from.add(r), to.add(r * k));
            match (rows - r) / H {
                1 => strips_together::<S, H, 1>(from, stride_p, k, to),
                2 => strips_together::<S, H, 2>(from, stride_p, k, to),
                3 => strips_together::<S, H, 3>(from, stride_p, k, to),
                _ => strips_together::<S, H, TOGETHER>(from, stride_p, k, to),
            }
        }
    }
}

/// Steps that are brought closer ahead of packing: each lies in another page of memory, where a
/// processor does not look ahead by itself.
const SOON: isize = 16;

#[inline(always)]
unsafe fn strips_together<S: Operand, const H: usize, const N: usize>(
    from: *const S,
    stride_p: isize,
    k: usize,
    to: *mut S::Acc,
) {
    // SAFETY: the caller's promise; addresses past the end are only prefetched.
    unsafe {
        for p in 0..k {
            let x = from.offset(p as isize * stride_p);
            let soon = x.wrapping_offset(SOON * stride_p);
            prefetch(soon.cast());
            if N > 1 {
                prefetch(soon.wrapping_add(N * H - 1).cast());
            }
            for s in 0..N {
                S::copy(x.add(s * H), to.add(s * H * k + p * H), H);
            }
        }
    }
}

/// The case of a panel whose source runs along `k`: blocks of 8 by 8 through registers.
#[inline(always)]
unsafe fn transpose<S: Operand>(from: *const S, stride_i: isize, count: usize, k: usize, w: usize, to: *mut S::Acc) {
    const B: usize = 8;
    // SAFETY: indexes stay inside the panel and its source.
    unsafe {
        let mut i = 0;
        while i + B <= count {
            let mut p = 0;
            while p + B <= k {
                let src = from.offset(i as isize * stride_i + p as isize);
                transpose_block(src, stride_i, to.add(p * w + i), w);
                p += B;
            }
            for p in p..k {
                for j in i..i + B {
                    to.add(p * w + j).write((*from.offset(j as isize * stride_i + p as isize)).acc());
                }
            }
            i += B;
        }
        for j in i..count {
            let src = from.offset(j as isize * stride_i);
            for p in 0..k {
                to.add(p * w + j).write((*src.add(p)).acc());
            }
        }
        for j in count..w {
            for p in 0..k {
                to.add(p * w + j).write(S::Acc::default());
            }
        }
    }
}

/// Transposes 8 rows of 8 elements, converting them.
#[inline(always)]
unsafe fn transpose_block<S: Operand>(from: *const S, stride: isize, to: *mut S::Acc, w: usize) {
    // SAFETY: the caller's promise; `S` is the type of the computation where it says so.
    unsafe {
        if S::SAME {
            return transpose8(from.cast::<S::Acc>(), stride, to, w);
        }
        let mut rows = [[S::Acc::default(); 8]; 8];
        for (r, row) in rows.iter_mut().enumerate() {
            S::copy(from.offset(r as isize * stride), row.as_mut_ptr(), 8);
        }
        transpose8(rows.as_ptr().cast(), 8, to, w);
    }
}

/// Transposes 8 rows of 8 elements, `stride` apart, to rows `w` apart.
///
/// # Safety
/// All of that memory must be valid.
#[inline(always)]
pub(crate) unsafe fn transpose8<E: Copy>(from: *const E, stride: isize, to: *mut E, w: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if size_of::<E>() == 4 && crate::vmath::level() >= crate::vmath::Level::Avx2 {
            return x86::transpose8(from.cast(), stride, to.cast(), w);
        }
        #[cfg(target_arch = "aarch64")]
        if size_of::<E>() == 4 && crate::vmath::level() == crate::vmath::Level::Neon {
            return neon::transpose8(from.cast(), stride, to.cast(), w);
        }
        for p in 0..8 {
            for r in 0..8 {
                to.add(p * w + r).write(*from.offset(r as isize * stride + p as isize));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Eight rows of eight floats, `stride` apart, to rows `w` apart.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn transpose8(from: *const f32, stride: isize, to: *mut f32, w: usize) {
        // SAFETY: 8 floats behind each row.
        unsafe {
            let r: [__m256; 8] = [
                _mm256_loadu_ps(from),
                _mm256_loadu_ps(from.offset(stride)),
                _mm256_loadu_ps(from.offset(2 * stride)),
                _mm256_loadu_ps(from.offset(3 * stride)),
                _mm256_loadu_ps(from.offset(4 * stride)),
                _mm256_loadu_ps(from.offset(5 * stride)),
                _mm256_loadu_ps(from.offset(6 * stride)),
                _mm256_loadu_ps(from.offset(7 * stride)),
            ];
            let lo = |i: usize| _mm256_unpacklo_ps(r[i], r[i + 1]);
            let hi = |i: usize| _mm256_unpackhi_ps(r[i], r[i + 1]);
            let (t0, t1, t2, t3) = (lo(0), hi(0), lo(2), hi(2));
            let (t4, t5, t6, t7) = (lo(4), hi(4), lo(6), hi(6));
            let quads = [
                (_mm256_shuffle_ps::<0x44>(t0, t2), _mm256_shuffle_ps::<0x44>(t4, t6)),
                (_mm256_shuffle_ps::<0xee>(t0, t2), _mm256_shuffle_ps::<0xee>(t4, t6)),
                (_mm256_shuffle_ps::<0x44>(t1, t3), _mm256_shuffle_ps::<0x44>(t5, t7)),
                (_mm256_shuffle_ps::<0xee>(t1, t3), _mm256_shuffle_ps::<0xee>(t5, t7)),
            ];
            for (i, (a, b)) in quads.into_iter().enumerate() {
                _mm256_storeu_ps(to.add(i * w), _mm256_permute2f128_ps::<0x20>(a, b));
                _mm256_storeu_ps(to.add((i + 4) * w), _mm256_permute2f128_ps::<0x31>(a, b));
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::aarch64::*;

    /// Eight rows of eight floats, `stride` apart, to rows `w` apart.
    #[inline]
    pub(super) unsafe fn transpose8(from: *const f32, stride: isize, to: *mut f32, w: usize) {
        // SAFETY: 8 floats behind each row.
        unsafe {
            for (r, c) in [(0, 0), (0, 4), (4, 0), (4, 4)] {
                transpose4(from.offset(r as isize * stride).add(c), stride, to.add(c * w + r), w);
            }
        }
    }

    /// The same for four rows of four.
    #[inline(always)]
    unsafe fn transpose4(from: *const f32, stride: isize, to: *mut f32, w: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let row = |i: isize| vld1q_f32(from.offset(i * stride));
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let pairs = [vtrn1q_f32(a, b), vtrn2q_f32(a, b), vtrn1q_f32(c, d), vtrn2q_f32(c, d)];
            let [ab0, ab1, cd0, cd1] = pairs.map(|v| vreinterpretq_f64_f32(v));
            let columns = [vtrn1q_f64(ab0, cd0), vtrn1q_f64(ab1, cd1), vtrn2q_f64(ab0, cd0), vtrn2q_f64(ab1, cd1)];
            for (i, column) in columns.into_iter().enumerate() {
                vst1q_f32(to.add(i * w), vreinterpretq_f32_f64(column));
            }
        }
    }
}
