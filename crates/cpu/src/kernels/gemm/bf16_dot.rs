//! Products of `bf16` where the processor multiplies pairs (AVX512_BF16, or BF16 of ARM): twice the rate of `f32`.
//!
//! Two neighbors along `k` make one element of 32 bits. Such elements are packed, cut and swept over
//! as if they were `f32`, half as many; only the innermost step differs. It adds two products to an
//! `f32` sum with one rounding each, and takes numbers below the smallest normal one as zeros.

#![allow(unsafe_code)]

use super::super::scratch::Scratch;
use super::micro::Sweep;
use super::orient::Oriented;
use super::{Gemm, Mat, Patch};
use crate::pool::{self, Shared};
use crate::vmath::dispatch;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::vmath::{Level, level};
use half::bf16;

/// Whether the processor multiplies pairs.
pub(crate) fn is_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    return level() == Level::Avx512 && std::is_x86_feature_detected!("avx512bf16");
    #[cfg(target_arch = "aarch64")]
    return level() == Level::Neon && std::arch::is_aarch64_feature_detected!("bf16");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

/// Computes a product; [`is_available`] holds.
///
/// # Safety
/// As for [`Gemm::run`].
pub(super) unsafe fn run(q: &Gemm<bf16, f32>, done: &(dyn Fn(Patch) + Sync)) {
    let half = q.k.div_ceil(2);
    // SAFETY: the caller's promise; the rooms live until the product is there.
    unsafe {
        let (left_room, left) = paired(q.a, q.m, q.k);
        let (right_room, right) = paired(q.b.t(), q.n, q.k);
        let pairs: Gemm<f32, f32> =
            Gemm { alpha: q.alpha, accumulate: q.accumulate, ..Gemm::new(q.m, q.n, half, left, right.t(), q.c) };
        let mut transposed = Oriented::new(&pairs, left, right.t(), q.c, q.c_row);
        (transposed.pairs, transposed.is_free) = (true, true);
        transposed.run(done);
        drop((left_room, right_room));
    }
}

/// Computes a product with a single column or row whose other side has its lines along `k`, which are read once, where
/// they lie; whether it did.
///
/// # Safety
/// As for [`Gemm::run`].
pub(super) unsafe fn run_lines(q: &Gemm<bf16, f32>, done: &(dyn Fn(Patch) + Sync)) -> bool {
    let (lines, count, step, x) = match (q.m, q.n) {
        (_, 1) => (q.a, q.m, q.c_row, q.b.t()),
        (1, _) => (q.b.t(), q.n, 1, q.a),
        _ => return false,
    };
    if !(cfg!(target_arch = "x86_64") && lines.col == 1 && is_available()) {
        return false;
    }
    let gathered = (x.col != 1).then(|| Scratch::<bf16>::new(q.k));
    if let Some(room) = &gathered {
        // SAFETY: the caller's promise; there is room for all of `x`.
        (0..q.k).for_each(|p| unsafe { room.ptr().add(p).write(*x.p.offset(p as isize * x.col)) });
    }
    let x = Shared::new(gathered.as_ref().map_or(x.p.cast_mut(), |room| room.ptr()));
    let (from, to, each) = (Shared::new(lines.p.cast_mut()), Shared::new(q.c), (LINES / q.k.max(1)).max(1));
    let (alpha, k, apart, is_added) = (q.alpha, q.k, lines.row, q.accumulate);
    pool::parallel_for(count.div_ceil(each), &|task| {
        for j in task * each..((task + 1) * each).min(count) {
            // SAFETY: the caller's promise; each element of C belongs to one task.
            unsafe {
                let sum = alpha * dot(from.get().offset(j as isize * apart).cast(), x.get().cast(), k);
                let to = to.get().offset(j as isize * step);
                *to = if is_added { *to + sum } else { sum };
            }
        }
    });
    done(Patch { row: 0, rows: q.m, col: 0, cols: q.n });
    true
}

/// Elements of lines that a task multiplies.
const LINES: usize = 1 << 16;

/// The sum of products of two lines; [`is_available`] holds.
unsafe fn dot(a: *const u16, b: *const u16, k: usize) -> f32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise.
    unsafe {
        x86::dot(a, b, k)
    }
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("lines are multiplied otherwise: {a:?}, {b:?}, {k}")
}

/// Lines along `k` as pairs: where they lie, or, where no two neighbors can be read at once, in room
/// of their own. A line of odd length ends with a zero.
unsafe fn paired(x: Mat<bf16>, lines: usize, k: usize) -> (Option<Scratch<f32>>, Mat<f32>) {
    let half = k.div_ceil(2);
    let p = x.p.cast::<f32>();
    if k == 0 {
        return (None, Mat { p, row: 0, col: 1 });
    }
    if x.col == 1 && k.is_multiple_of(2) && x.row % 2 == 0 && p.is_aligned() {
        return (None, Mat { p, row: x.row / 2, col: 1 });
    }
    let room = Scratch::<f32>::new(lines * half);
    let (from, to) = (Shared::new(x.p.cast_mut()), Shared::new(room.ptr().cast::<u32>()));
    let across = x.row == 1;
    // Steps of k across the lines, or lines.
    let units = if across { half } else { lines };
    let each = (TASK / (lines * half / units.max(1)).max(1)).max(1);
    pool::parallel_for(units.div_ceil(each), &|task| {
        for i in task * each..((task + 1) * each).min(units) {
            // SAFETY: the caller's promise; each unit is written by one task.
            unsafe {
                if across {
                    let low = from.get().offset(2 * i as isize * x.col).cast_const();
                    let high = if 2 * i + 1 < k { low.offset(x.col) } else { std::ptr::null() };
                    pair_lines(low.cast(), high.cast(), lines, to.get().add(i * lines));
                } else if x.col == 1 {
                    // Neighbors lie together already; only the line's place or its end does not suit.
                    let line = from.get().offset(i as isize * x.row).cast_const().cast::<u16>();
                    let pairs = to.get().add(i * half);
                    pairs.add(half - 1).write(0);
                    std::ptr::copy_nonoverlapping(line, pairs.cast::<u16>(), k);
                } else {
                    let line = from.get().offset(i as isize * x.row).cast_const();
                    for p in 0..half {
                        let at = |p: usize| if p < k { (*line.offset(p as isize * x.col)).to_bits() as u32 } else { 0 };
                        to.get().add(i * half + p).write(at(2 * p) | at(2 * p + 1) << 16);
                    }
                }
            }
        }
    });
    let (row, col) = if across { (1, lines as isize) } else { (half as isize, 1) };
    let p = room.ptr().cast_const();
    (Some(room), Mat { p, row, col })
}

/// Pairs that a task makes.
const TASK: usize = 1 << 14;

dispatch! {
    /// Element by element of two lines; the second may be missing.
    unsafe fn pair_lines(low: *const u16, high: *const u16, n: usize, to: *mut u32) {
        _I => {
            if high.is_null() {
                (0..n).for_each(|i| to.add(i).write(*low.add(i) as u32));
            } else {
                (0..n).for_each(|i| to.add(i).write(*low.add(i) as u32 | (*high.add(i) as u32) << 16));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::micro::{Step, Sweep, sweep};
    use crate::vmath::x86::F32x16;
    use std::arch::x86_64::*;

    /// Two products a step.
    struct Two;
    impl Step<F32x16> for Two {
        #[inline(always)]
        fn add(x: F32x16, y: F32x16, sum: F32x16) -> F32x16 {
            // SAFETY: the bits of 16 pairs each; only used where the processor has the instruction.
            unsafe {
                let [x, y] = [x.0, y.0].map(|v| std::mem::transmute::<__m512, __m512bh>(v));
                F32x16(_mm512_dpbf16_ps(sum.0, x, y))
            }
        }
    }

    /// The sum of products of two lines.
    ///
    /// # Safety
    /// `k` elements behind each pointer, and pairs must be available.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,bmi1,bmi2")]
    pub(super) unsafe fn dot(a: *const u16, b: *const u16, k: usize) -> f32 {
        const N: usize = 32;
        const SUMS: usize = 4;
        let mut sums = [_mm512_setzero_ps(); SUMS];
        let mut p = 0;
        // SAFETY: indexes stay below `k`, the caller's promise; the lanes beyond are masked.
        unsafe {
            let pairs = |v: __m512i| std::mem::transmute::<__m512i, __m512bh>(v);
            while p + SUMS * N <= k {
                for i in 0..SUMS {
                    let at = p + i * N;
                    let (x, y) = (_mm512_loadu_si512(a.add(at).cast()), _mm512_loadu_si512(b.add(at).cast()));
                    sums[i] = _mm512_dpbf16_ps(sums[i], pairs(x), pairs(y));
                }
                p += SUMS * N;
            }
            while p < k {
                let mask = if k - p >= N { !0 } else { (1u32 << (k - p)) - 1 };
                let (x, y) =
                    (_mm512_maskz_loadu_epi16(mask, a.add(p).cast()), _mm512_maskz_loadu_epi16(mask, b.add(p).cast()));
                sums[0] = _mm512_dpbf16_ps(sums[0], pairs(x), pairs(y));
                p += N;
            }
            _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])))
        }
    }

    /// A sweep over pairs.
    ///
    /// # Safety
    /// What the sweep describes must be valid memory, and pairs must be available.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,bmi1,bmi2")]
    pub(super) unsafe fn sweep_pairs(q: &Sweep<f32>) {
        // SAFETY: the caller's promise.
        unsafe { sweep::<F32x16, Two, 8>(q) }
    }
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use super::super::micro::{Step, Sweep, sweep};
    use crate::vmath::neon::F32x8;
    use std::arch::aarch64::float32x4_t;

    /// Two products a step.
    struct Two;
    impl Step<F32x8> for Two {
        #[inline(always)]
        fn add(x: F32x8, y: F32x8, sum: F32x8) -> F32x8 {
            // SAFETY: the bits of 4 pairs each; only used where the processor has the instruction.
            unsafe { F32x8(dot(x.0, y.0, sum.0), dot(x.1, y.1, sum.1)) }
        }
    }

    /// Vectors of `bf16` are not stable in Rust yet: the instruction is written out.
    #[inline(always)]
    unsafe fn dot(x: float32x4_t, y: float32x4_t, mut sum: float32x4_t) -> float32x4_t {
        // SAFETY: the caller's promise.
        unsafe {
            std::arch::asm!(".arch_extension bf16", "bfdot {s:v}.4s, {x:v}.8h, {y:v}.8h", s = inout(vreg) sum,
                x = in(vreg) x, y = in(vreg) y, options(pure, nomem, nostack, preserves_flags));
        }
        sum
    }

    /// A sweep over pairs.
    ///
    /// # Safety
    /// What the sweep describes must be valid memory, and pairs must be available.
    #[target_feature(enable = "neon,bf16")]
    pub(super) unsafe fn sweep_pairs(q: &Sweep<f32>) {
        // SAFETY: the caller's promise.
        unsafe { sweep::<F32x8, Two, 4>(q) }
    }
}

/// A sweep over pairs.
///
/// # Safety
/// What the sweep describes must be valid memory, and [`is_available`] holds.
pub(super) unsafe fn sweep(q: &Sweep<f32>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise.
    unsafe {
        x86::sweep_pairs(q)
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller's promise.
    unsafe {
        neon::sweep_pairs(q)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    unreachable!("pairs are not available: {}", q.m);
}
