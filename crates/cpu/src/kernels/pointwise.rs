//! Convolutions with windows of one element, of weights as they lie: tiles of a few output channels by neighboring
//! positions. Positions that do not fill a vector are dot products along the channels, which waste no lanes. The epilogue
//! takes sums from registers.
//!
//! Small planes are cut by output channels, large ones by positions, whose inputs are then copied side by side.

#![allow(unsafe_code)]

use super::conv::Conv;
use super::epilogue::Epilogue;
use super::gemm::Patch;
use super::scratch::Scratch;
use crate::pool::{self, Shared};
use crate::vmath::dispatch;
use crate::vmath::simd::{Isa, Vector};

/// Output channels of a tile where there are registers for it, half as many elsewhere; and vectors of positions.
const ROWS: usize = 8;
const VECTORS: usize = 3;
/// Positions beyond whole vectors up to which they are dot products.
const DOTS: usize = 4;
/// Planes of at least this many elements are cut by positions.
const LARGE: usize = 1024;
/// Output channels from which on inputs are copied side by side.
const COPIED_MIN: usize = 64;
/// Multiplications of a task, at least, and tasks at most.
const TASK: usize = 1 << 17;
const TASKS: usize = 16;
/// Fewer input channels are sums too short for a tile.
const DEPTH_MIN: usize = 16;

/// Whether a convolution is of the kind that is computed here.
pub(crate) fn admits(c: &Conv) -> bool {
    let (inputs, outputs) = (c.channels / c.groups, c.out_channels / c.groups);
    c.window.is_pointwise() && inputs >= DEPTH_MIN && outputs >= ROWS
}

/// One product: rows of `w` along `depth`, of `x` along `plane`.
struct Product<'a> {
    outputs: usize,
    depth: usize,
    plane: usize,
    w: *const f32,
    x: *const f32,
    /// The first row of the result.
    row: usize,
    e: &'a Epilogue<Shared<u8>>,
}

/// Computes `y` from `x` and the weight; the epilogue says what becomes of the sums.
///
/// # Safety
/// [`admits`] holds, and all lengths are those of the convolution.
pub(crate) unsafe fn forward(
    c: &Conv,
    x: *const f32,
    w: *const f32,
    e: &Epilogue<Shared<u8>>,
    done: &(dyn Fn(Patch) + Sync),
) {
    let (depth, outputs, plane) = (c.channels / c.groups, c.out_channels / c.groups, c.window.output_len());
    let (px, pw) = (Shared::new(x.cast_mut()), Shared::new(w.cast_mut()));
    let strips = outputs.div_ceil(ROWS);
    // Vectors as wide as a tile's, and what is left.
    let wide = VECTORS * 16;
    let pieces = plane.div_ceil(wide);
    let is_large = plane >= LARGE;
    let units = if is_large { pieces } else { strips };
    let tasks = (outputs * depth * plane / TASK).clamp(1, TASKS).min(units);
    pool::parallel_for(c.batch * c.groups * tasks, &|i| {
        let (n, g, t) = (i / tasks / c.groups, i / tasks % c.groups, i % tasks);
        let (first, end) = (units * t / tasks, units * (t + 1) / tasks);
        let (rows, cols) = match is_large {
            true => (0..outputs, first * wide..plane.min(end * wide)),
            false => (first * ROWS..outputs.min(end * ROWS), 0..plane),
        };
        let row = n * c.out_channels + g * outputs;
        // SAFETY: the caller's promise; tasks have rows or columns of their own.
        unsafe {
            let q = Product {
                outputs: rows.len(),
                depth,
                plane,
                w: pw.get().add((g * outputs + rows.start) * depth).cast_const(),
                x: px.get().add((n * c.channels + g * depth) * plane).cast_const(),
                row: row + rows.start,
                e,
            };
            product(&q, cols.start, cols.end, is_large && outputs >= COPIED_MIN);
        }
        done(Patch { row: row + rows.start, rows: rows.len(), col: cols.start, cols: cols.len() });
    });
}

dispatch! {
    /// Positions `first..end` of all rows.
    unsafe fn product(q: &Product<'_>, first: usize, end: usize, copies: bool) {
        I => product_body::<<I as Isa>::S>(q, first, end, copies)
    }
}

#[inline(always)]
unsafe fn product_body<V: Vector<E = f32>>(q: &Product<'_>, first: usize, end: usize, copies: bool) {
    let rest = (end - first) % V::N;
    let whole = if rest <= DOTS { end - rest } else { end };
    let room = Scratch::<f32>::new(if copies { VECTORS * V::N * q.depth } else { 0 });
    let mut j = first;
    // SAFETY: the caller's promise; there is room for a panel.
    unsafe {
        while j < whole {
            let left = (whole - j).div_ceil(V::N);
            // Two and two vectors instead of three and one.
            let nv = if V::N < 16 || left == 4 { left.min(2) } else { left.min(VECTORS) };
            let cols = (nv * V::N).min(whole - j);
            let (mut b, mut step) = (q.x.add(j), q.plane);
            if copies {
                for k in 0..q.depth {
                    for v in 0..nv {
                        let n = V::N.min(cols - (v * V::N).min(cols));
                        V::load_n(b.add(k * step + v * V::N), n).store(room.ptr().add((k * nv + v) * V::N));
                    }
                }
                (b, step) = (room.ptr().cast_const(), nv * V::N);
            }
            // What is read beyond the end is left out with masks, unless it was copied.
            let is_cut = cols < nv * V::N && !copies;
            match (nv, is_cut) {
                (3, false) => rows::<V, 3, false>(q, b, step, j, cols),
                (3, true) => rows::<V, 3, true>(q, b, step, j, cols),
                (2, false) => rows::<V, 2, false>(q, b, step, j, cols),
                (2, true) => rows::<V, 2, true>(q, b, step, j, cols),
                (_, false) => rows::<V, 1, false>(q, b, step, j, cols),
                (_, true) => rows::<V, 1, true>(q, b, step, j, cols),
            }
            j += cols;
        }
        if whole < end {
            dots::<V>(q, whole, end - whole);
        }
    }
}

/// All rows of `NV` vectors of positions.
#[inline(always)]
unsafe fn rows<V: Vector<E = f32>, const NV: usize, const CUT: bool>(
    q: &Product<'_>,
    b: *const f32,
    step: usize,
    col: usize,
    cols: usize,
) {
    let high = if V::N < 16 { 6 } else { ROWS };
    // SAFETY: the caller's promise.
    unsafe {
        for row in (0..q.outputs).step_by(high) {
            match (q.outputs - row).min(high) {
                1 => tile::<V, 1, NV, CUT>(q, row, b, step, col, cols),
                2 => tile::<V, 2, NV, CUT>(q, row, b, step, col, cols),
                3 => tile::<V, 3, NV, CUT>(q, row, b, step, col, cols),
                4 => tile::<V, 4, NV, CUT>(q, row, b, step, col, cols),
                5 => tile::<V, 5, NV, CUT>(q, row, b, step, col, cols),
                6 => tile::<V, 6, NV, CUT>(q, row, b, step, col, cols),
                7 => tile::<V, 7, NV, CUT>(q, row, b, step, col, cols),
                _ => tile::<V, ROWS, NV, CUT>(q, row, b, step, col, cols),
            }
        }
    }
}

#[inline(always)]
unsafe fn tile<V: Vector<E = f32>, const R: usize, const NV: usize, const CUT: bool>(
    q: &Product<'_>,
    row: usize,
    b: *const f32,
    step: usize,
    col: usize,
    cols: usize,
) {
    let mut acc = [[V::zero(); NV]; R];
    let last = cols - (NV - 1) * V::N;
    // SAFETY: the caller's promise.
    unsafe {
        let (w, mut b) = (q.w.add(row * q.depth), b);
        for k in 0..q.depth {
            let mut x = [V::zero(); NV];
            for v in 0..NV {
                let p = b.add(v * V::N);
                x[v] = if CUT && v + 1 == NV { V::load_n(p, last) } else { V::load(p) };
            }
            for r in 0..R {
                let w = V::splat(*w.add(r * q.depth + k));
                for v in 0..NV {
                    acc[r][v] = w.fma(x[v], acc[r][v]);
                }
            }
            b = b.wrapping_add(step);
        }
        q.e.finish_tile(&acc, q.row + row, col, last);
    }
}

/// All rows of a few positions, as dot products.
#[inline(always)]
unsafe fn dots<V: Vector<E = f32>>(q: &Product<'_>, col: usize, cols: usize) {
    let room = Scratch::<f32>::new(cols * q.depth);
    // SAFETY: the caller's promise; there is room for all columns.
    unsafe {
        for (k, c) in (0..q.depth).flat_map(|k| (0..cols).map(move |c| (k, c))) {
            *room.ptr().add(c * q.depth + k) = *q.x.add(k * q.plane + col + c);
        }
        for row in (0..q.outputs).step_by(ROWS) {
            if q.outputs - row >= ROWS {
                dots_of_rows::<V, ROWS>(q, row, room.ptr(), col, cols);
            } else {
                (row..q.outputs).for_each(|row| dots_of_rows::<V, 1>(q, row, room.ptr(), col, cols));
            }
        }
    }
}

#[inline(always)]
unsafe fn dots_of_rows<V: Vector<E = f32>, const R: usize>(
    q: &Product<'_>,
    row: usize,
    x: *const f32,
    col: usize,
    cols: usize,
) {
    let mut sums = [[0f32; 16]; R];
    // SAFETY: the caller's promise.
    unsafe {
        let w = q.w.add(row * q.depth);
        for c in 0..cols {
            let mut acc = [V::zero(); R];
            let mut k = 0;
            while k < q.depth {
                let n = V::N.min(q.depth - k);
                let x = V::load_n(x.add(c * q.depth + k), n);
                for r in 0..R {
                    acc[r] = V::load_n(w.add(r * q.depth + k), n).fma(x, acc[r]);
                }
                k += n;
            }
            for r in 0..R {
                sums[r][c] = acc[r].sum();
            }
        }
        for r in 0..R {
            q.e.row::<V>(q.row + row + r).put(V::load(sums[r].as_ptr()), col, cols);
        }
    }
}
