//! Convolutions of 3×3 windows with stride 1 by Winograd's minimal filtering (Lavin and Gray
//! 2016): images and filters are transformed tile by tile, multiplied there channel by channel
//! as matrices, and transformed back. Tiles of 2×2 outputs take 2.25 times fewer products than
//! the definition, tiles of 4×4 take 4 times fewer.
//!
//! Between the transforms, a matrix for each product has a row a tile and a column a channel: then
//! vectors of the transforms are channels, and the products read both sides as they lie. Pictures
//! are worked on in spans of tile rows, so that what is between the transforms stays in cache.
//! Spans follow from the sizes alone.

#![allow(unsafe_code)]

mod tiles;
mod transforms;

use super::conv::Conv;
use super::gemm::{Gemm, Left, Mat, Packed, Patch, Target};
use super::scratch::Scratch;
use crate::pool::{self, Shared};
use std::ops::Range;
use tiles::{BLOCK, Blocks, Channels, Filters, Plane, Products};
use transforms::{Four, Two};

/// Fewer channels are not worth transforming.
const CHANNELS_MIN: usize = 16;
/// Elements between the transforms: a part of the last-level cache.
const SPAN: usize = 1 << 20;
/// Pixels of a channel that a task transforms.
const PIXELS: usize = 1024;
/// The larger tiles have larger filters: these many tiles must share them.
const FOUR_MIN: usize = 48;

/// Whether a convolution is of the kind that is computed here.
pub(crate) fn admits(c: &Conv) -> bool {
    let w = &c.window;
    let is_plane = w.input[0] == 1 && w.kernel == [1, 3, 3] && w.stride == [1; 3] && w.dilation == [1; 3];
    is_plane
        && c.groups == 1
        && c.channels.min(c.out_channels) >= CHANNELS_MIN
        && w.pad[1] <= 2
        && w.pad[2] <= 2
        && w.output[1] <= w.input[1] + 2
        && w.output[2] <= w.input[2] + 2
}

/// A convolution from `inputs` to `outputs` channels of a batch of images.
#[derive(Clone, Copy)]
struct Shape {
    batch: usize,
    inputs: usize,
    outputs: usize,
    from: [usize; 2],
    to: [usize; 2],
    pad: [usize; 2],
}

impl Shape {
    fn new(c: &Conv) -> Shape {
        let w = &c.window;
        let (from, to, pad) = ([w.input[1], w.input[2]], [w.output[1], w.output[2]], [w.pad[1], w.pad[2]]);
        Shape { batch: c.batch, inputs: c.channels, outputs: c.out_channels, from, to, pad }
    }
    /// The convolution that takes the output's gradient to the input's, with its filters reversed.
    fn reversed(&self) -> Shape {
        Shape {
            inputs: self.outputs,
            outputs: self.inputs,
            from: self.to,
            to: self.from,
            pad: self.pad.map(|p| 2 - p),
            ..*self
        }
    }
    /// Filters `[outputs, inputs, 3, 3]`.
    fn filters(&self) -> Filters {
        Filters { lane: self.inputs * 9, lines: 1, line: 0, len: self.inputs * 9, flip: false }
    }
    /// Filters `[inputs, outputs, 3, 3]`, to be read backwards.
    fn reversed_filters(&self) -> Filters {
        Filters { lane: 9, lines: self.inputs, line: self.outputs * 9, len: 9, flip: true }
    }
    /// Elements between rows of the transformed filters, a matrix of inputs by outputs for each
    /// product, and between these matrices.
    fn apart(&self) -> (usize, usize) {
        let row = self.outputs.next_multiple_of(BLOCK);
        (row, self.inputs * row + BLOCK)
    }
    /// Elements of the transformed filters.
    fn transformed_len(&self) -> usize {
        (if self.is_four() { 36 } else { 16 }) * self.apart().1
    }
    /// Transforms the filters.
    unsafe fn transform(&self, filters: &Filters, w: *const f32, u: *mut f32) {
        let (pw, pu) = (Shared::new(w.cast_mut()), Shared::new(u));
        let (row, step) = self.apart();
        let run = if self.is_four() { Four::FILTERS } else { Two::FILTERS };
        pool::parallel_for(self.outputs.div_ceil(BLOCK), &|block| {
            let (o, room) = (block * BLOCK, Scratch::<f32>::new(filters.room()));
            // SAFETY: filters lie inside the weight; each block's are written by one task.
            unsafe {
                let to = Products { p: pu.get().add(o), step, row };
                let count = BLOCK.min(self.outputs - o);
                run(filters, pw.get().add(o * filters.lane), count, room.ptr(), to);
            }
        });
    }
    fn is_four(&self) -> bool {
        self.batch * self.to[0].div_ceil(4) * self.to[1].div_ceil(4) >= FOUR_MIN
    }
}

/// `y` from `x` and the filters `w[outputs, inputs, 3, 3]`.
///
/// # Safety
/// [`admits`] holds, and all lengths are those of the convolution.
pub(crate) unsafe fn forward(c: &Conv, x: *const f32, w: *const f32, y: *mut f32, done: &(dyn Fn(Patch) + Sync)) {
    let s = Shape::new(c);
    let u = Scratch::<f32>::new(s.transformed_len());
    // SAFETY: the caller's promise.
    unsafe {
        s.transform(&s.filters(), w, u.ptr());
        let u = Transformed::Plain(Shared::new(u.ptr()));
        if s.is_four() { run::<Four>(&s, x, u, y, done) } else { run::<Two>(&s, x, u, y, done) }
    }
}

/// Matrices of the transformed filters, with their rows and columns.
pub(crate) fn packed_sizes(c: &Conv) -> [usize; 3] {
    let s = Shape::new(c);
    [if s.is_four() { 36 } else { 16 }, s.inputs, s.outputs]
}

/// The filters of a convolution as [`forward_packed`] takes them.
///
/// # Safety
/// As for [`forward`].
pub(crate) unsafe fn packed(c: &Conv, w: *const f32) -> Packed {
    let s = Shape::new(c);
    // Not scratch memory, which the thread would keep.
    let mut u = vec![0f32; s.transformed_len()];
    let (at, (row, step)) = (Shared::new(u.as_mut_ptr()), s.apart());
    let [count, ..] = packed_sizes(c);
    // SAFETY: the caller's promise; the matrices lie one after the other.
    unsafe {
        s.transform(&s.filters(), w, at.get());
        Packed::new(count, s.inputs, s.outputs, &|p| Mat::row_major(at.get().add(p * step).cast_const(), row))
    }
}

/// [`forward`] with filters that are transformed and packed already.
///
/// # Safety
/// As for [`forward`].
pub(crate) unsafe fn forward_packed(c: &Conv, x: *const f32, u: &Packed, y: *mut f32, done: &(dyn Fn(Patch) + Sync)) {
    let (s, u) = (Shape::new(c), Transformed::Packed(u));
    // SAFETY: the caller's promise.
    unsafe { if s.is_four() { run::<Four>(&s, x, u, y, done) } else { run::<Two>(&s, x, u, y, done) } }
}

/// Transformed filters.
#[derive(Clone, Copy)]
enum Transformed<'a> {
    /// Matrices as [`Shape::apart`] says.
    Plain(Shared<f32>),
    Packed(&'a Packed),
}

/// `dx` from `dy` and the filters.
///
/// # Safety
/// As for [`forward`].
pub(crate) unsafe fn grad_input(c: &Conv, dy: *const f32, w: *const f32, dx: *mut f32) {
    let s = Shape::new(c).reversed();
    let u = Scratch::<f32>::new(s.transformed_len());
    // SAFETY: the caller's promise.
    unsafe {
        s.transform(&s.reversed_filters(), w, u.ptr());
        let u = Transformed::Plain(Shared::new(u.ptr()));
        if s.is_four() { run::<Four>(&s, dy, u, dx, &|_| {}) } else { run::<Two>(&s, dy, u, dx, &|_| {}) }
    }
}

/// `dw` from `x` and `dy`.
///
/// # Safety
/// As for [`forward`].
pub(crate) unsafe fn grad_weight(c: &Conv, x: *const f32, dy: *const f32, dw: *mut f32) {
    let s = Shape::new(c);
    // SAFETY: the caller's promise.
    unsafe { if s.is_four() { weight::<Four>(&s, x, dy, dw) } else { weight::<Two>(&s, x, dy, dw) } }
}

/// How images are cut into tiles.
struct Cut {
    /// Of the input.
    from: Plane,
    /// Of the output.
    to: Plane,
    /// Rows of tiles of a picture.
    rows: usize,
    /// Rows of tiles of a span, of any picture.
    span: usize,
    /// Rows of tiles that a task transforms.
    group: usize,
}

impl Cut {
    fn new<F: Blocks>(s: &Shape) -> Cut {
        let (rows, tiles) = (s.to[0].div_ceil(F::M), s.to[1].div_ceil(F::M));
        let [top, left] = s.pad;
        let from = Plane { height: s.from[0], width: s.from[1], top, left, tiles };
        let to = Plane { height: s.to[0], width: s.to[1], top: 0, left: 0, tiles };
        let each = F::N * F::N * (s.inputs + s.outputs) * tiles;
        let spans = (s.batch * rows * each).div_ceil(SPAN).min(s.batch * rows);
        let group = (PIXELS / (F::M * F::M * tiles)).max(1);
        Cut { from, to, rows, span: (s.batch * rows).div_ceil(spans.max(1)), group }
    }
    /// The images of some rows of tiles, each with its own rows and how many tiles came before.
    fn images(&self, span: &Range<usize>) -> impl Iterator<Item = (usize, Range<usize>, usize)> {
        let (rows, tiles, span) = (self.rows, self.to.tiles, span.clone());
        (span.start / rows..span.end.div_ceil(rows)).map(move |image| {
            let first = image * rows;
            let (start, end) = (span.start.max(first), span.end.min(first + rows));
            (image, start - first..end - first, (start - span.start) * tiles)
        })
    }
    /// The rows of tiles of each span.
    fn spans(&self, batch: usize) -> impl Iterator<Item = Range<usize>> {
        let (all, span) = (batch * self.rows, self.span.max(1));
        (0..all.div_ceil(span)).map(move |i| i * span..((i + 1) * span).min(all))
    }
    /// Calls `f` for every block of the channels and every group of a span's rows, on all threads:
    /// with the first channel, the picture and its rows, the tiles before, and a plane's pixels' room.
    fn each<F: Blocks>(
        &self,
        span: &Range<usize>,
        channels: usize,
        f: &(dyn Fn(usize, usize, Range<usize>, usize, *mut f32) + Sync),
    ) {
        let groups = span.len().div_ceil(self.group);
        let rows = self.group.min(self.rows);
        let room = self.from.room::<F>(rows).max(self.to.room::<F>(rows));
        pool::parallel_for(channels.div_ceil(BLOCK) * groups, &|task| {
            let (c, first) = (task / groups * BLOCK, span.start + task % groups * self.group);
            let room = Scratch::<f32>::new(room);
            for (image, rows, at) in self.images(&(first..(first + self.group).min(span.end))) {
                f(c, image, rows, (first - span.start) * self.to.tiles + at, room.ptr());
            }
        });
    }
}

/// Where the products of `tiles` tiles of so many channels lie: rows and matrices are no power of
/// two apart, so that places which are used together do not share a set of the cache.
fn products(p: *mut f32, tiles: usize, channels: usize) -> Products {
    let row = channels.next_multiple_of(32) + BLOCK;
    Products { p, step: tiles * row + BLOCK, row }
}

/// A block of channels of a picture.
unsafe fn channels(x: *mut f32, image: usize, first: usize, all: usize, plane: usize) -> Channels {
    // SAFETY: the caller's promise.
    Channels { p: unsafe { x.add((image * all + first) * plane) }, count: BLOCK.min(all - first) }
}

/// A convolution by transformed filters; see [`forward`].
unsafe fn run<F: Blocks>(s: &Shape, x: *const f32, u: Transformed, y: *mut f32, done: &(dyn Fn(Patch) + Sync)) {
    let (cut, count) = (Cut::new::<F>(s), F::N * F::N);
    let width = cut.span * cut.to.tiles;
    let room = |channels: usize| Scratch::<f32>::new(count * products(std::ptr::null_mut(), width, channels).step);
    let (between, after) = (room(s.inputs), room(s.outputs));
    let (px, py) = (Shared::new(x.cast_mut()), Shared::new(y));
    let (pv, pm) = (Shared::new(between.ptr()), Shared::new(after.ptr()));
    let (from, to, (row, step)) = (s.from[0] * s.from[1], s.to[0] * s.to[1], s.apart());
    for span in cut.spans(s.batch) {
        let n = span.len() * cut.to.tiles;
        let (of_v, of_m) = (|| products(pv.get(), n, s.inputs), || products(pm.get(), n, s.outputs));
        // SAFETY: every task writes its own channels or its own product; planes lie inside the
        // tensors.
        cut.each::<F>(&span, s.inputs, &|c, image, rows, at, room| unsafe {
            let v = of_v();
            let v = Products { p: v.p.add(at * v.row + c), ..v };
            F::INPUT(&cut.from, channels(px.get(), image, c, s.inputs, from), rows, room, v);
        });
        // SAFETY: as above.
        pool::parallel_for(count, &|p| unsafe {
            let (v, m) = (of_v(), of_m());
            let (v, c) = (Mat::row_major(v.p.add(p * v.step).cast_const(), v.row), m.p.add(p * m.step));
            match u {
                Transformed::Plain(u) => {
                    let b = Mat::row_major(u.get().add(p * step).cast_const(), row);
                    Gemm { c_row: m.row as isize, ..Gemm::new(n, s.outputs, s.inputs, v, b, c) }.run();
                }
                Transformed::Packed(u) => {
                    let (left, to) = (Left { p: v.p, m: n, row: v.row }, Target { p: c, row: m.row as isize, col: 1 });
                    (0..u.panels()).for_each(|panel| u.multiply(p, panel, left, to));
                }
            }
        });
        // SAFETY: as above.
        cut.each::<F>(&span, s.outputs, &|o, image, rows, at, room| unsafe {
            let m = of_m();
            let m = Products { p: m.p.add(at * m.row + o), ..m };
            let lines = rows.start * F::M..(rows.end * F::M).min(s.to[0]);
            let (row, count) = (image * s.outputs + o, BLOCK.min(s.outputs - o));
            F::OUTPUT(&cut.to, m, rows, room, channels(py.get(), image, o, s.outputs, to));
            done(Patch { row, rows: count, col: lines.start * s.to[1], cols: lines.len() * s.to[1] });
        });
    }
}

/// The gradient of the filters; see [`grad_weight`].
unsafe fn weight<F: Blocks>(s: &Shape, x: *const f32, dy: *const f32, dw: *mut f32) {
    let (cut, count) = (Cut::new::<F>(s), F::N * F::N);
    let ((row, step), filters) = (s.apart(), s.filters());
    let sums = Scratch::<f32>::new(s.transformed_len());
    let width = cut.span * cut.to.tiles;
    let room = |channels: usize| Scratch::<f32>::new(count * products(std::ptr::null_mut(), width, channels).step);
    let (of_x, of_y) = (room(s.inputs), room(s.outputs));
    let (px, pg, pw) = (Shared::new(x.cast_mut()), Shared::new(dy.cast_mut()), Shared::new(dw));
    let (pv, pm, ps) = (Shared::new(of_x.ptr()), Shared::new(of_y.ptr()), Shared::new(sums.ptr()));
    let (from, to) = (s.from[0] * s.from[1], s.to[0] * s.to[1]);
    let blocks = s.inputs.next_multiple_of(BLOCK);
    for span in cut.spans(s.batch) {
        let (n, is_first) = (span.len() * cut.to.tiles, span.start == 0);
        let (of_v, of_m) = (|| products(pv.get(), n, s.inputs), || products(pm.get(), n, s.outputs));
        // SAFETY: as for `run`.
        cut.each::<F>(&span, blocks + s.outputs, &|c, image, rows, at, room| unsafe {
            if c < blocks {
                let v = of_v();
                let v = Products { p: v.p.add(at * v.row + c), ..v };
                F::INPUT(&cut.from, channels(px.get(), image, c, s.inputs, from), rows, room, v);
            } else {
                let (m, o) = (of_m(), c - blocks);
                let m = Products { p: m.p.add(at * m.row + o), ..m };
                F::GRADIENT(&cut.to, channels(pg.get(), image, o, s.outputs, to), rows, room, m);
            }
        });
        // SAFETY: as above.
        pool::parallel_for(count, &|p| unsafe {
            let (v, m) = (of_v(), of_m());
            let a = Mat::row_major(v.p.add(p * v.step).cast_const(), v.row).t();
            let b = Mat::row_major(m.p.add(p * m.step).cast_const(), m.row);
            let q = Gemm::new(s.inputs, s.outputs, n, a, b, ps.get().add(p * step));
            Gemm { c_row: row as isize, accumulate: !is_first, ..q }.run();
        });
    }
    pool::parallel_for(s.outputs.div_ceil(BLOCK), &|block| {
        let (o, room) = (block * BLOCK, Scratch::<f32>::new(filters.room()));
        // SAFETY: each task writes its own outputs' filters.
        unsafe {
            let from = Products { p: ps.get().add(o), step, row };
            let count = BLOCK.min(s.outputs - o);
            F::FILTERS_BACK(&filters, from, count, room.ptr(), pw.get().add(o * filters.lane));
        }
    });
}
