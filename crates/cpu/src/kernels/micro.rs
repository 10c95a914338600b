//! The innermost loop of the matrix product: a tile of C in registers.

#![allow(unsafe_code)]

use crate::vmath::simd::Vector;

/// Where a tile goes and what happens to what is there.
#[derive(Clone, Copy)]
pub(crate) struct Tile<E> {
    pub c: *mut E,
    pub c_row: isize,
    /// Columns of the tile that exist.
    pub cols: usize,
    pub alpha: E,
    /// Add to C instead of overwriting it.
    pub add: bool,
    /// Memory to bring into cache meanwhile: one line a step of `k`.
    pub ahead: *const u8,
    pub ahead_step: isize,
}

/// `C[R, V*N] (+)= alpha * A[R, k] B[k, V*N]`, with A packed by columns of `R` and rows of B
/// `b_step` elements apart.
///
/// # Safety
/// `k * R` elements of A, `k` rows of `NV * V::N` elements of B, and `R` rows of `cols` elements
/// of C must be valid, with `cols <= NV * V::N`.
#[inline(always)]
pub(crate) unsafe fn tile<V: Vector, const R: usize, const NV: usize>(
    k: usize,
    a: *const V::E,
    b: *const V::E,
    b_step: isize,
    t: Tile<V::E>,
) {
    let mut acc = [[V::zero(); NV]; R];
    let (mut pa, mut pb, mut ahead) = (a, b, t.ahead);
    // SAFETY: the caller's promise; addresses past the end are only prefetched.
    unsafe {
        for _ in 0..k {
            let mut row = [V::zero(); NV];
            for v in 0..NV {
                row[v] = V::load(pb.add(v * V::N));
            }
            prefetch(ahead);
            for r in 0..R {
                let x = V::splat(*pa.add(r));
                for v in 0..NV {
                    acc[r][v] = x.fma(row[v], acc[r][v]);
                }
            }
            pa = pa.add(R);
            pb = pb.offset(b_step);
            ahead = ahead.wrapping_offset(t.ahead_step);
        }
        store::<V, R, NV>(&acc, t);
    }
}

/// Straight-line code only touches `acc` here: were it indexed by a variable, it would live in
/// memory during the loop above.
#[inline(always)]
unsafe fn store<V: Vector, const R: usize, const NV: usize>(acc: &[[V; NV]; R], t: Tile<V::E>) {
    let alpha = V::splat(t.alpha);
    // SAFETY: rows and columns as promised to `tile`; the buffer holds the whole tile.
    unsafe {
        let mut ragged = std::mem::MaybeUninit::<[[V; NV]; R]>::uninit();
        let whole = t.cols == NV * V::N;
        let (to, step) =
            if whole { (t.c, t.c_row) } else { (ragged.as_mut_ptr().cast::<V::E>(), (NV * V::N) as isize) };
        if whole && t.add {
            for r in 0..R {
                for v in 0..NV {
                    let p = to.offset(r as isize * step).add(v * V::N);
                    acc[r][v].fma(alpha, V::load(p)).store(p);
                }
            }
        } else {
            for r in 0..R {
                for v in 0..NV {
                    (acc[r][v] * alpha).store(to.offset(r as isize * step).add(v * V::N));
                }
            }
        }
        if !whole {
            for r in 0..R {
                store_row::<V>(to.add(r * NV * V::N), t.c.offset(r as isize * t.c_row), t.cols, t.add);
            }
        }
    }
}

#[inline(always)]
unsafe fn store_row<V: Vector>(from: *const V::E, to: *mut V::E, cols: usize, add: bool) {
    let mut j = 0;
    // SAFETY: `cols` elements behind each pointer, whole vectors behind `from`.
    unsafe {
        while j < cols {
            let n = V::N.min(cols - j);
            let x = V::load(from.add(j));
            (if add { x + V::load_n(to.add(j), n) } else { x }).store_n(to.add(j), n);
            j += n;
        }
    }
}

/// Brings a cache line closer; any address is allowed.
#[inline(always)]
pub(crate) fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can see.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}
