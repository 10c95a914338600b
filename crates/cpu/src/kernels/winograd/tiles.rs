//! Transforms of tiles and of filters, a block of channels at a time: one a lane.
//!
//! Planes lie channel by channel. A block's pixels are first transposed, so that those of one place
//! stand together, and results are transposed back at the end.

#![allow(unsafe_code)]

use super::super::gemm::transpose8;
use super::transforms::{Form, Four, NARROW, Two, WIDE};
use crate::vmath::dispatch;
use crate::vmath::simd::{Isa, Vector};
use std::ops::Range;

/// Channels of a block: the most lanes of a vector.
pub(crate) const BLOCK: usize = 16;

/// Planes of images cut into rows of tiles: tile `t` of row `r` begins at line `r * m - top` and
/// column `t * m - left`.
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
    /// The lines that rows of tiles touch: `m` a row, and `more` behind the last.
    fn lines(&self, rows: &Range<usize>, m: usize, more: usize) -> Range<usize> {
        let at = |line: usize| line.saturating_sub(self.top).min(self.height);
        at(rows.start * m)..at(rows.end * m + more)
    }
    /// Room for the pixels of a block of as many rows of tiles.
    pub(crate) fn room<F: Form>(&self, rows: usize) -> usize {
        (rows * F::M + 2) * self.width * BLOCK
    }
}

/// Some channels' planes of one image.
#[derive(Clone, Copy)]
pub(crate) struct Channels {
    /// The first plane.
    pub p: *mut f32,
    /// How many, a block at most.
    pub count: usize,
}

/// Where products are: product `p` of tile `t`, counted from the first row on, begins at
/// `p * step + t * row`, a block's channels one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Products {
    pub p: *mut f32,
    pub step: usize,
    pub row: usize,
}

/// Elements `0..len` of lines `apart` from one another, one a lane: element `i` of line `l` goes to
/// `to[i * BLOCK + l]`. Lanes without a line get zeros.
#[inline(always)]
unsafe fn gather(from: *const f32, apart: usize, count: usize, len: usize, to: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        if count == BLOCK && len >= 8 {
            // Blocks of 8 by 8; the last one may repeat a part of the one before.
            for i in (0..len).step_by(8).map(|i| i.min(len - 8)) {
                transpose8(from.add(i), apart as isize, to.add(i * BLOCK), BLOCK);
                transpose8(from.add(8 * apart + i), apart as isize, to.add(i * BLOCK + 8), BLOCK);
            }
            return;
        }
        for i in 0..len {
            for l in 0..BLOCK {
                to.add(i * BLOCK + l).write(if l < count { *from.add(l * apart + i) } else { 0.0 });
            }
        }
    }
}

/// The inverse of [`gather`].
#[inline(always)]
unsafe fn scatter(from: *const f32, len: usize, to: *mut f32, apart: usize, count: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if count == BLOCK && len >= 8 {
            for i in (0..len).step_by(8).map(|i| i.min(len - 8)) {
                transpose8(from.add(i * BLOCK), BLOCK as isize, to.add(i), apart);
                transpose8(from.add(i * BLOCK + 8), BLOCK as isize, to.add(8 * apart + i), apart);
            }
            return;
        }
        for l in 0..count {
            for i in 0..len {
                *to.add(l * apart + i) = *from.add(i * BLOCK + l);
            }
        }
    }
}

/// `Bᵀ d B` of each tile of `rows`, or, `BACK`, `A y Aᵀ` of each tile of an output's gradient.
#[inline(always)]
unsafe fn forth<F: Form, V: Vector<E = f32>, const BACK: bool>(
    q: &Plane,
    x: Channels,
    rows: Range<usize>,
    room: *mut f32,
    to: Products,
) {
    let (size, plane) = (if BACK { F::M } else { F::N }, q.height * q.width);
    let lines = q.lines(&rows, F::M, size - F::M);
    // SAFETY: the lines lie in the planes, and the room has their size.
    unsafe {
        gather(x.p.add(lines.start * q.width), plane, x.count, lines.len() * q.width, room);
        for (r, t) in (0..rows.len()).flat_map(|r| (0..q.tiles).map(move |t| (r, t))) {
            let (line, column) = ((rows.start + r) * F::M, t * F::M);
            let first = (line as isize - (q.top + lines.start) as isize) * q.width as isize;
            let from = room.cast_const().wrapping_offset((first + column as isize - q.left as isize) * BLOCK as isize);
            let to = Products { p: to.p.add((r * q.tiles + t) * to.row), ..to };
            let is_inside = line >= q.top
                && line + size <= q.top + q.height
                && column >= q.left
                && column + size <= q.left + q.width;
            if is_inside {
                forth_one::<F, V, BACK>(q.width, &|_, _| true, from, to);
            } else {
                let has = |i: usize, j: usize| {
                    (q.top..q.top + q.height).contains(&(line + i))
                        && (q.left..q.left + q.width).contains(&(column + j))
                };
                forth_one::<F, V, BACK>(q.width, &has, from, to);
            }
        }
    }
}

/// One tile of [`forth`]; pixels that are not there count as zeros.
#[inline(always)]
unsafe fn forth_one<F: Form, V: Vector<E = f32>, const BACK: bool>(
    width: usize,
    has: &impl Fn(usize, usize) -> bool,
    from: *const f32,
    to: Products,
) {
    let size = if BACK { F::M } else { F::N };
    let one = |d: [V; WIDE]| if BACK { F::output_back([d[0], d[1], d[2], d[3]]) } else { F::input(d) };
    for lane in (0..BLOCK).step_by(V::N) {
        let mut half = [[V::zero(); WIDE]; WIDE];
        // SAFETY: the caller's promise.
        unsafe {
            for j in 0..size {
                let mut d = [V::zero(); WIDE];
                for i in 0..size {
                    if has(i, j) {
                        d[i] = V::load(from.wrapping_add((i * width + j) * BLOCK + lane));
                    }
                }
                let d = one(d);
                for i in 0..F::N {
                    half[i][j] = d[i];
                }
            }
            for i in 0..F::N {
                let v = one(half[i]);
                for j in 0..F::N {
                    v[j].store(to.p.add((i * F::N + j) * to.step + lane));
                }
            }
        }
    }
}

/// `Aᵀ m A` of each tile of `rows`, into the planes `y`.
#[inline(always)]
unsafe fn back<F: Form, V: Vector<E = f32>>(
    q: &Plane,
    from: Products,
    rows: Range<usize>,
    room: *mut f32,
    y: Channels,
) {
    let lines = q.lines(&rows, F::M, 0);
    // SAFETY: as for `forth`.
    unsafe {
        for (r, t) in (0..rows.len()).flat_map(|r| (0..q.tiles).map(move |t| (r, t))) {
            let from = Products { p: from.p.add((r * q.tiles + t) * from.row), ..from };
            let (line, column) = (r * F::M, t * F::M);
            let to = room.add((line * q.width + column) * BLOCK);
            let (high, wide) = (lines.len() - line, q.width - column);
            if high >= F::M && wide >= F::M {
                back_one::<F, V>(from, q.width, &|_, _| true, to);
            } else {
                back_one::<F, V>(from, q.width, &|i, j| i < high && j < wide, to);
            }
        }
        scatter(room, lines.len() * q.width, y.p.add(lines.start * q.width), q.height * q.width, y.count);
    }
}

/// One tile of [`back`]; only pixels that are there are written.
#[inline(always)]
unsafe fn back_one<F: Form, V: Vector<E = f32>>(
    from: Products,
    width: usize,
    has: &impl Fn(usize, usize) -> bool,
    to: *mut f32,
) {
    for lane in (0..BLOCK).step_by(V::N) {
        let mut half = [[V::zero(); WIDE]; NARROW];
        // SAFETY: the caller's promise.
        unsafe {
            for j in 0..F::N {
                let mut m = [V::zero(); WIDE];
                for i in 0..F::N {
                    m[i] = V::load(from.p.add((i * F::N + j) * from.step + lane));
                }
                let m = F::output(m);
                for i in 0..F::M {
                    half[i][j] = m[i];
                }
            }
            for i in 0..F::M {
                let v = F::output(half[i]);
                for j in 0..F::M {
                    if has(i, j) {
                        v[j].store(to.add((i * width + j) * BLOCK + lane));
                    }
                }
            }
        }
    }
}

/// Filters of nine taps for a block of outputs: lines of filters lie `lane` apart from output to
/// output; there are `lines` of `len` taps for each, `line` apart.
#[derive(Clone, Copy)]
pub(crate) struct Filters {
    pub lane: usize,
    pub lines: usize,
    pub line: usize,
    pub len: usize,
    /// Read each filter backwards.
    pub flip: bool,
}

impl Filters {
    /// Room for a block's taps.
    pub(crate) fn room(&self) -> usize {
        self.lines * self.len * BLOCK
    }
}

/// `G g Gᵀ` of the filters of `count` outputs: product `p` of input `c` goes to
/// `to[p * step + c * row]`, a block's outputs one after the other.
#[inline(always)]
unsafe fn filters<F: Form, V: Vector<E = f32>>(q: &Filters, w: *const f32, count: usize, room: *mut f32, to: Products) {
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..q.lines {
            gather(w.add(i * q.line), q.lane, count, q.len, room.add(i * q.len * BLOCK));
        }
        for c in 0..q.lines * q.len / 9 {
            for lane in (0..BLOCK).step_by(V::N) {
                let tap = |k: usize| V::load(room.add((c * 9 + if q.flip { 8 - k } else { k }) * BLOCK + lane));
                let mut half = [[V::zero(); 3]; WIDE];
                for j in 0..3 {
                    let g = F::filter([tap(j), tap(3 + j), tap(6 + j)]);
                    for i in 0..F::N {
                        half[i][j] = g[i];
                    }
                }
                for i in 0..F::N {
                    let u = F::filter(half[i]);
                    for j in 0..F::N {
                        u[j].store(to.p.add((i * F::N + j) * to.step + c * to.row + lane));
                    }
                }
            }
        }
    }
}

/// `Gᵀ s G`: the gradients of the filters `dw` of `count` outputs.
#[inline(always)]
unsafe fn filters_back<F: Form, V: Vector<E = f32>>(
    q: &Filters,
    from: Products,
    count: usize,
    room: *mut f32,
    dw: *mut f32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        for c in 0..q.lines * q.len / 9 {
            for lane in (0..BLOCK).step_by(V::N) {
                let mut half = [[V::zero(); WIDE]; 3];
                for j in 0..F::N {
                    let mut s = [V::zero(); WIDE];
                    for i in 0..F::N {
                        s[i] = V::load(from.p.add((i * F::N + j) * from.step + c * from.row + lane));
                    }
                    let s = F::filter_back(s);
                    for i in 0..3 {
                        half[i][j] = s[i];
                    }
                }
                for i in 0..3 {
                    let g = F::filter_back(half[i]);
                    for j in 0..3 {
                        g[j].store(room.add((c * 9 + i * 3 + j) * BLOCK + lane));
                    }
                }
            }
        }
        for i in 0..q.lines {
            scatter(room.add(i * q.len * BLOCK), q.len, dw.add(i * q.line), q.lane, count);
        }
    }
}

macro_rules! blocks {
    ($form:ident, $input:ident, $gradient:ident, $output:ident, $filters:ident, $filters_back:ident) => {
        dispatch! {
            unsafe fn $input(q: &Plane, x: Channels, rows: Range<usize>, room: *mut f32, to: Products) {
                I => forth::<$form, <I as Isa>::S, false>(q, x, rows, room, to)
            }
        }
        dispatch! {
            unsafe fn $gradient(q: &Plane, dy: Channels, rows: Range<usize>, room: *mut f32, to: Products) {
                I => forth::<$form, <I as Isa>::S, true>(q, dy, rows, room, to)
            }
        }
        dispatch! {
            unsafe fn $output(q: &Plane, from: Products, rows: Range<usize>, room: *mut f32, y: Channels) {
                I => back::<$form, <I as Isa>::S>(q, from, rows, room, y)
            }
        }
        dispatch! {
            unsafe fn $filters(q: &Filters, w: *const f32, count: usize, room: *mut f32, to: Products) {
                I => filters::<$form, <I as Isa>::S>(q, w, count, room, to)
            }
        }
        dispatch! {
            unsafe fn $filters_back(q: &Filters, from: Products, count: usize, room: *mut f32, dw: *mut f32) {
                I => filters_back::<$form, <I as Isa>::S>(q, from, count, room, dw)
            }
        }
        impl Blocks for $form {
            const INPUT: unsafe fn(&Plane, Channels, Range<usize>, *mut f32, Products) = $input;
            const GRADIENT: unsafe fn(&Plane, Channels, Range<usize>, *mut f32, Products) = $gradient;
            const OUTPUT: unsafe fn(&Plane, Products, Range<usize>, *mut f32, Channels) = $output;
            const FILTERS: unsafe fn(&Filters, *const f32, usize, *mut f32, Products) = $filters;
            const FILTERS_BACK: unsafe fn(&Filters, Products, usize, *mut f32, *mut f32) = $filters_back;
        }
    };
}

/// The transforms compiled for every instruction set. Rooms have the sizes that [`Plane::room`] and
/// [`Filters::room`] tell.
pub(crate) trait Blocks: Form {
    /// Tiles of an input, see [`forth`].
    const INPUT: unsafe fn(&Plane, Channels, Range<usize>, *mut f32, Products);
    /// Tiles of an output's gradient.
    const GRADIENT: unsafe fn(&Plane, Channels, Range<usize>, *mut f32, Products);
    /// See [`back`].
    const OUTPUT: unsafe fn(&Plane, Products, Range<usize>, *mut f32, Channels);
    /// See [`filters`].
    const FILTERS: unsafe fn(&Filters, *const f32, usize, *mut f32, Products);
    /// See [`filters_back`].
    const FILTERS_BACK: unsafe fn(&Filters, Products, usize, *mut f32, *mut f32);
}

blocks!(Two, input_two, gradient_two, output_two, filters_two, filters_back_two);
blocks!(Four, input_four, gradient_four, output_four, filters_four, filters_back_four);
