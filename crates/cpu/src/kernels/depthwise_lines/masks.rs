//! Planes that are read where they lie: vectors are loaded with masks, which leave out what is beyond the ends of a line.
//! Nothing is copied between zeros, and nothing that was just written is read.

use super::super::epilogue::{Epilogue, Row};
use super::{LINES, Lines};
use crate::pool::Shared;
use crate::vmath::simd::Vector;

/// Some neighboring outputs of a line: where the elements lie that their windows take, and which of them are inside.
struct Columns<V: Vector, const K: usize, const S: usize> {
    /// The column of the input that the first tap of the first output takes.
    first: isize,
    /// With stride 1 for each tap, with stride 2 for each pair of taps: two vectors, whose elements are pulled apart.
    masks: [[V::M; 2]; K],
    /// Whether the first of two vectors has all of them.
    is_short: bool,
}

impl<V: Vector<E = f32>, const K: usize, const S: usize> Columns<V, K, S> {
    #[inline(always)]
    fn new(s: &Lines, col: usize) -> Self {
        let first = (col * S) as isize - s.pad[1] as isize;
        let mut lanes = [0f32; 16];
        for i in 0..16 {
            lanes[i] = i as f32;
        }
        // SAFETY: no vector has more lanes.
        let lanes = unsafe { V::load(lanes.as_ptr()) };
        let mut masks = [[V::zero().eq(V::zero()); 2]; K];
        // Loops, since what a closure computes would not be compiled for the instructions.
        for i in 0..K {
            for half in 0..2 {
                let at = first + (i * S + half * V::N) as isize;
                let (low, high) = (V::c(-at as f64), V::c((s.from[1] as isize - at) as f64));
                masks[i][half] = V::both(low.le(lanes), lanes.lt(high));
            }
        }
        Columns { first, masks, is_short: s.from[1] as isize <= first + V::N as isize }
    }

    /// The elements that each tap of a row takes from a line.
    #[inline(always)]
    unsafe fn load<const SHORT: bool>(&self, line: *const f32) -> [V; K] {
        let (line, mut all) = (line.wrapping_offset(self.first), [V::zero(); K]);
        // SAFETY: the caller's promise; masks hold for elements of the line.
        unsafe {
            if S == 1 {
                for k in 0..K {
                    all[k] = V::load_where(line.wrapping_add(k), self.masks[k][0]);
                }
                return all;
            }
            for k in (0..K).step_by(2) {
                let (p, [low, high]) = (line.wrapping_add(k), self.masks[k / 2]);
                let a = V::load_where(p, low);
                let b = if SHORT { V::zero() } else { V::load_where(p.wrapping_add(V::N), high) };
                all[k] = V::evens(a, b);
                if k + 1 < K {
                    all[k + 1] = V::odds(a, b);
                }
            }
        }
        all
    }
}

/// All outputs of `count` planes, which are the rows of the epilogue from `row` on.
///
/// # Safety
/// The planes and taps are there, the result is apart from them, and vectors have masks.
#[inline(always)]
pub(super) unsafe fn planes<V: Vector<E = f32>>(
    s: &Lines,
    count: usize,
    x: *const f32,
    taps: *const f32,
    e: &Epilogue<Shared<u8>>,
    row: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match (s.side, s.stride) {
            (3, 1) => sums::<V, 3, 1>(s, count, x, taps, e, row),
            (3, _) => sums::<V, 3, 2>(s, count, x, taps, e, row),
            (5, 1) => sums::<V, 5, 1>(s, count, x, taps, e, row),
            (5, _) => sums::<V, 5, 2>(s, count, x, taps, e, row),
            (_, 1) => sums::<V, 7, 1>(s, count, x, taps, e, row),
            (_, _) => sums::<V, 7, 2>(s, count, x, taps, e, row),
        }
    }
}

/// Windows of `K` × `K` with stride `S`.
#[inline(always)]
unsafe fn sums<V: Vector<E = f32>, const K: usize, const S: usize>(
    s: &Lines,
    count: usize,
    x: *const f32,
    taps: *const f32,
    e: &Epilogue<Shared<u8>>,
    row: usize,
) {
    let size = s.from[0] * s.from[1];
    for col in (0..s.to[1]).step_by(V::N) {
        let columns = Columns::<V, K, S>::new(s, col);
        for i in 0..count {
            // SAFETY: the caller's promise.
            unsafe {
                let (x, taps) = (x.add(i * size), s.taps::<V, K>(taps.add(i * K * K)));
                let to = e.row::<V>(row + i);
                if S > 1 && columns.is_short {
                    each_line::<V, K, S, true>(s, &columns, &taps, x, col, &to);
                } else {
                    each_line::<V, K, S, false>(s, &columns, &taps, x, col, &to);
                }
            }
        }
    }
}

/// Some columns of all lines of outputs; `SHORT`: as [`Columns::is_short`].
#[inline(always)]
unsafe fn each_line<V: Vector<E = f32>, const K: usize, const S: usize, const SHORT: bool>(
    s: &Lines,
    columns: &Columns<V, K, S>,
    taps: &[[V; K]; K],
    x: *const f32,
    col: usize,
    to: &Row<V>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if s.to[0] < LINES {
            for line in 0..s.to[0] {
                lines::<V, K, S, 1, SHORT>(s, columns, taps, x, (line, col), 0, to);
            }
            return;
        }
        // The last lines are summed with some before them once more, which are finished already.
        let last = s.to[0] - LINES;
        for line in (0..s.to[0]).step_by(LINES) {
            let first = line.min(last);
            lines::<V, K, S, LINES, SHORT>(s, columns, taps, x, (first, col), line - first, to);
        }
    }
}

/// `L` lines of outputs from a line and column on, without the first `done`: every vector of the input is read once for
/// all of them.
#[inline(always)]
unsafe fn lines<V: Vector<E = f32>, const K: usize, const S: usize, const L: usize, const SHORT: bool>(
    s: &Lines,
    columns: &Columns<V, K, S>,
    taps: &[[V; K]; K],
    x: *const f32,
    (line, col): (usize, usize),
    done: usize,
    to: &Row<V>,
) {
    let mut acc = [V::zero(); L];
    // Every line of the input that the outputs take, each written out so that no sum is indexed by a variable.
    macro_rules! lines {
        ($($r:literal)*) => { $( if $r < (L - 1) * S + K {
            let at = (line * S + $r).wrapping_sub(s.pad[0]);
            if at < s.from[0] {
                // SAFETY: a line of the plane.
                let row = unsafe { columns.load::<SHORT>(x.add(at * s.from[1])) };
                for l in 0..L {
                    if $r >= l * S && $r - l * S < K {
                        for kx in 0..K {
                            acc[l] = taps[$r - l * S][kx].fma(row[kx], acc[l]);
                        }
                    }
                }
            }
        } )* };
    }
    lines!(0 1 2 3 4 5 6 7 8 9 10 11 12);
    let n = V::N.min(s.to[1] - col);
    for l in 0..L {
        if l >= done {
            // SAFETY: lines and columns of the plane.
            unsafe { to.put(acc[l], (line + l) * s.to[1] + col, n) };
        }
    }
}
