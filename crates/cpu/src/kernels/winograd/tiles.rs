//! Transforms of rows of tiles and of filters, vectorized over tiles or channels.

#![allow(unsafe_code)]

use super::forms::{Form, Four, NARROW, Two, WIDE};
use crate::vmath::dispatch;
use crate::vmath::simd::{Isa, Vector};
use std::ops::Range;

/// The most lanes of a vector: what rows are padded by.
pub(crate) const LANES: usize = 16;

/// A plane of pictures cut into rows of tiles: tile `t` of row `r` begins at line `r * m - top`
/// and column `t * m - left`.
#[derive(Clone, Copy)]
pub(crate) struct Plane {
    pub height: usize,
    pub width: usize,
    pub top: usize,
    pub left: usize,
    /// Tiles of a row.
    pub tiles: usize,
}

impl Plane {
    /// Elements of a line with what is around it: whole vectors of tiles.
    fn len<F: Form>(&self) -> usize {
        F::M * self.tiles.next_multiple_of(LANES) + LANES
    }
    /// Elements of the lines of `rows` rows of tiles.
    pub(crate) fn lines_len<F: Form>(&self, rows: usize) -> usize {
        (rows * F::M + 2) * self.len::<F>()
    }
}

/// Copies `count` lines from line `first` on (counted from `-top`), between zeros. What is around
/// the columns of the plane must be zero already. Many lines are copied before any is read: what
/// was just stored would have to be waited for.
#[inline(always)]
unsafe fn copy_lines<F: Form, V: Vector<E = f32>>(
    q: &Plane,
    x: *const f32,
    first: usize,
    count: usize,
    lines: *mut f32,
) {
    let len = q.len::<F>();
    let width = q.width.min(len - q.left);
    for i in 0..count {
        let line = (first + i).wrapping_sub(q.top);
        // SAFETY: a line has room for the plane's columns behind those to the left.
        unsafe {
            let to = lines.add(i * len + q.left);
            for k in (0..width).step_by(V::N) {
                let n = V::N.min(width - k);
                let v = if line < q.height { V::load_n(x.add(line * q.width + k), n) } else { V::zero() };
                v.store_n(to.add(k), n);
            }
        }
    }
}

/// Lanes from memory, `M` elements apart.
#[inline(always)]
unsafe fn load_tiles<F: Form, V: Vector<E = f32>>(p: *const f32) -> V {
    // SAFETY: the caller's promise.
    unsafe { if F::M == 2 { V::load_apart::<2>(p) } else { V::load_apart::<4>(p) } }
}

/// `Bᵀ d B` of each tile of `rows`: product `p` of tile `t`, counted over the rows, goes to
/// `to[p * step + t]`, and whole vectors are written. `lines` were zero at first.
#[inline(always)]
unsafe fn input_rows<F: Form, V: Vector<E = f32>>(
    q: &Plane,
    x: *const f32,
    rows: Range<usize>,
    lines: *mut f32,
    to: *mut f32,
    step: usize,
) {
    let len = q.len::<F>();
    // SAFETY: lines have room for whole vectors of tiles; the caller's promise for `to`.
    unsafe {
        copy_lines::<F, V>(q, x, rows.start * F::M, rows.len() * F::M + 2, lines);
        for (r, t) in (0..rows.len()).flat_map(|r| (0..q.tiles).step_by(V::N).map(move |t| (r, t))) {
            let (lines, to) = (lines.add(r * F::M * len), to.add(r * q.tiles));
            let mut half = [[V::zero(); WIDE]; WIDE];
            for j in 0..F::N {
                let mut d = [V::zero(); WIDE];
                for i in 0..F::N {
                    d[i] = load_tiles::<F, V>(lines.add(i * len + t * F::M + j));
                }
                let d = F::input(d);
                for i in 0..F::N {
                    half[i][j] = d[i];
                }
            }
            for i in 0..F::N {
                let v = F::input(half[i]);
                for j in 0..F::N {
                    v[j].store(to.add((i * F::N + j) * step + t));
                }
            }
        }
    }
}

/// `A y Aᵀ` of each tile of `rows` of an output's gradient, as [`input_rows`].
#[inline(always)]
unsafe fn output_back_rows<F: Form, V: Vector<E = f32>>(
    q: &Plane,
    y: *const f32,
    rows: Range<usize>,
    lines: *mut f32,
    to: *mut f32,
    step: usize,
) {
    let len = q.len::<F>();
    // SAFETY: as for `input_rows`.
    unsafe {
        copy_lines::<F, V>(q, y, rows.start * F::M, rows.len() * F::M, lines);
        for (r, t) in (0..rows.len()).flat_map(|r| (0..q.tiles).step_by(V::N).map(move |t| (r, t))) {
            let (lines, to) = (lines.add(r * F::M * len), to.add(r * q.tiles));
            let mut half = [[V::zero(); NARROW]; WIDE];
            for j in 0..F::M {
                let mut d = [V::zero(); NARROW];
                for i in 0..F::M {
                    d[i] = load_tiles::<F, V>(lines.add(i * len + t * F::M + j));
                }
                let d = F::output_back(d);
                for i in 0..F::N {
                    half[i][j] = d[i];
                }
            }
            for i in 0..F::N {
                let v = F::output_back(half[i]);
                for j in 0..F::N {
                    v[j].store(to.add((i * F::N + j) * step + t));
                }
            }
        }
    }
}

/// `Aᵀ m A` of each tile of `rows`, into the plane `y`: product `p` of tile `t`, counted over the
/// rows, is at `from[p * step + t]`.
#[inline(always)]
unsafe fn output_rows<F: Form, V: Vector<E = f32>>(
    q: &Plane,
    from: *const f32,
    step: usize,
    rows: Range<usize>,
    lines: *mut f32,
    y: *mut f32,
) {
    // Columns lie apart by their number modulo M until they are stored.
    let len = q.tiles.next_multiple_of(LANES);
    // SAFETY: as for `input_rows`.
    unsafe {
        for (r, t) in (0..rows.len()).flat_map(|r| (0..q.tiles).step_by(V::N).map(move |t| (r, t))) {
            let (from, lines, n) = (from.add(r * q.tiles), lines.add(r * F::M * F::M * len), V::N.min(q.tiles - t));
            let mut half = [[V::zero(); WIDE]; NARROW];
            for j in 0..F::N {
                let mut m = [V::zero(); WIDE];
                for i in 0..F::N {
                    m[i] = V::load_n(from.add((i * F::N + j) * step + t), n);
                }
                let m = F::output(m);
                for i in 0..F::M {
                    half[i][j] = m[i];
                }
            }
            for i in 0..F::M {
                let v = F::output(half[i]);
                for j in 0..F::M {
                    v[j].store(lines.add((i * F::M + j) * len + t));
                }
            }
        }
        for line in rows.start * F::M..(rows.end * F::M).min(q.height) {
            let (from, to) = (lines.add((line - rows.start * F::M) * F::M * len), y.add(line * q.width));
            let whole = q.width / F::M;
            for k in 0..whole {
                for j in 0..F::M {
                    *to.add(k * F::M + j) = *from.add(j * len + k);
                }
            }
            for x in whole * F::M..q.width {
                *to.add(x) = *from.add(x % F::M * len + x / F::M);
            }
        }
    }
}

/// Where filters lie: filter `(a, b)` of nine taps begins at `a * outer + b * inner`; `flip` reads
/// it backwards.
#[derive(Clone, Copy)]
pub(crate) struct Filters {
    pub outer: usize,
    pub inner: usize,
    pub flip: bool,
}

/// `G g Gᵀ` of filters `(a, 0..count)`: product `p` of filter `b` goes to `to[p * step + b]`.
#[inline(always)]
unsafe fn filter_row<F: Form, V: Vector<E = f32>>(q: &Filters, w: *const f32, count: usize, to: *mut f32, step: usize) {
    let mut taps = [[0f32; LANES]; 9];
    // SAFETY: the caller's promise.
    unsafe {
        for b in (0..count).step_by(V::N) {
            let n = V::N.min(count - b);
            for l in 0..n {
                let g = w.add((b + l) * q.inner);
                for k in 0..9 {
                    taps[k][l] = *g.add(if q.flip { 8 - k } else { k });
                }
            }
            let mut half = [[V::zero(); 3]; WIDE];
            for j in 0..3 {
                let g = F::filter([0, 1, 2].map(|i| V::load(taps[i * 3 + j].as_ptr())));
                for i in 0..F::N {
                    half[i][j] = g[i];
                }
            }
            for i in 0..F::N {
                let u = F::filter(half[i]);
                for j in 0..F::N {
                    u[j].store_n(to.add((i * F::N + j) * step + b), n);
                }
            }
        }
    }
}

/// `Gᵀ s G`: the gradients of `count` filters that lie one after the other.
#[inline(always)]
unsafe fn filter_back_row<F: Form, V: Vector<E = f32>>(from: *const f32, step: usize, count: usize, dw: *mut f32) {
    let mut taps = [[0f32; LANES]; 9];
    // SAFETY: the caller's promise.
    unsafe {
        for b in (0..count).step_by(V::N) {
            let n = V::N.min(count - b);
            let mut half = [[V::zero(); WIDE]; 3];
            for j in 0..F::N {
                let mut s = [V::zero(); WIDE];
                for i in 0..F::N {
                    s[i] = V::load_n(from.add((i * F::N + j) * step + b), n);
                }
                let s = F::filter_back(s);
                for i in 0..3 {
                    half[i][j] = s[i];
                }
            }
            for i in 0..3 {
                let g = F::filter_back(half[i]);
                for j in 0..3 {
                    g[j].store(taps[i * 3 + j].as_mut_ptr());
                }
            }
            for l in 0..n {
                for k in 0..9 {
                    *dw.add((b + l) * 9 + k) = taps[k][l];
                }
            }
        }
    }
}

macro_rules! rows {
    ($form:ident, $input:ident, $output:ident, $output_back:ident, $filter:ident, $filter_back:ident) => {
        dispatch! {
            unsafe fn $input(q: &Plane, x: *const f32, rows: Range<usize>, lines: *mut f32, to: *mut f32, step: usize) {
                I => input_rows::<$form, <I as Isa>::S>(q, x, rows, lines, to, step)
            }
        }
        dispatch! {
            unsafe fn $output(q: &Plane, from: *const f32, step: usize, rows: Range<usize>, lines: *mut f32, y: *mut f32) {
                I => output_rows::<$form, <I as Isa>::S>(q, from, step, rows, lines, y)
            }
        }
        dispatch! {
            unsafe fn $output_back(q: &Plane, y: *const f32, rows: Range<usize>, lines: *mut f32, to: *mut f32, step: usize) {
                I => output_back_rows::<$form, <I as Isa>::S>(q, y, rows, lines, to, step)
            }
        }
        dispatch! {
            unsafe fn $filter(q: &Filters, w: *const f32, count: usize, to: *mut f32, step: usize) {
                I => filter_row::<$form, <I as Isa>::S>(q, w, count, to, step)
            }
        }
        dispatch! {
            unsafe fn $filter_back(from: *const f32, step: usize, count: usize, dw: *mut f32) {
                I => filter_back_row::<$form, <I as Isa>::S>(from, step, count, dw)
            }
        }
        impl Rows for $form {
            unsafe fn input_rows(q: &Plane, x: *const f32, rows: Range<usize>, lines: *mut f32, to: *mut f32, step: usize) {
                // SAFETY: the caller's promise.
                unsafe { $input(q, x, rows, lines, to, step) }
            }
            unsafe fn output_rows(q: &Plane, from: *const f32, step: usize, rows: Range<usize>, lines: *mut f32, y: *mut f32) {
                // SAFETY: the caller's promise.
                unsafe { $output(q, from, step, rows, lines, y) }
            }
            unsafe fn output_back_rows(q: &Plane, y: *const f32, rows: Range<usize>, lines: *mut f32, to: *mut f32, step: usize) {
                // SAFETY: the caller's promise.
                unsafe { $output_back(q, y, rows, lines, to, step) }
            }
            unsafe fn filter_row(q: &Filters, w: *const f32, count: usize, to: *mut f32, step: usize) {
                // SAFETY: the caller's promise.
                unsafe { $filter(q, w, count, to, step) }
            }
            unsafe fn filter_back_row(from: *const f32, step: usize, count: usize, dw: *mut f32) {
                // SAFETY: the caller's promise.
                unsafe { $filter_back(from, step, count, dw) }
            }
        }
    };
}

/// The transforms compiled for every instruction set. `lines` has room for
/// [`Plane::lines_len`] elements.
pub(crate) trait Rows: Form {
    /// See [`input_rows`].
    unsafe fn input_rows(q: &Plane, x: *const f32, rows: Range<usize>, lines: *mut f32, to: *mut f32, step: usize);
    /// See [`output_rows`].
    unsafe fn output_rows(q: &Plane, from: *const f32, step: usize, rows: Range<usize>, lines: *mut f32, y: *mut f32);
    /// See [`output_back_rows`].
    unsafe fn output_back_rows(
        q: &Plane,
        y: *const f32,
        rows: Range<usize>,
        lines: *mut f32,
        to: *mut f32,
        step: usize,
    );
    /// See [`filter_row`].
    unsafe fn filter_row(q: &Filters, w: *const f32, count: usize, to: *mut f32, step: usize);
    /// See [`filter_back_row`].
    unsafe fn filter_back_row(from: *const f32, step: usize, count: usize, dw: *mut f32);
}

rows!(Two, input_two, output_two, output_back_two, filter_two, filter_back_two);
rows!(Four, input_four, output_four, output_back_four, filter_four, filter_back_four);
