//! Convolutions of 3×3 windows with stride 1 by Winograd's minimal filtering (Lavin and Gray
//! 2016): pictures and filters are transformed tile by tile, multiplied there channel by channel
//! as matrices, and transformed back. Tiles of 2×2 outputs take 2.25 times fewer products than
//! the definition, tiles of 4×4 take 4 times fewer.
//!
//! Pictures are worked on in spans of tile rows, so that what is between the transforms stays in
//! cache. Spans follow from the sizes alone.

#![allow(unsafe_code)]

mod forms;
mod tiles;

use super::conv::Conv;
use super::gemm::{Gemm, Mat};
use super::scratch::Scratch;
use crate::pool::{self, Shared};
use forms::{Four, Two};
use std::ops::Range;
use tiles::{Filters, Plane, Rows};

/// Fewer channels are not worth transforming.
const CHANNELS_MIN: usize = 16;
/// Elements between the transforms: a part of the last-level cache.
const SPAN: usize = 1 << 20;
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

/// A convolution from `inputs` to `outputs` channels of a batch of pictures.
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
    /// Where the filters `[outputs, inputs, 3, 3]` lie.
    fn filters(&self) -> Filters {
        Filters { outer: self.inputs * 9, inner: 9, flip: false }
    }
    /// Elements of the transformed filters.
    fn transformed_len(&self) -> usize {
        (if self.is_four() { 36 } else { 16 }) * self.inputs * self.outputs
    }
    /// Transforms the filters.
    unsafe fn transform(&self, filters: &Filters, w: *const f32, u: *mut f32) {
        let (pw, pu) = (Shared::new(w.cast_mut()), Shared::new(u));
        let (count, step) = (self.inputs, self.inputs * self.outputs);
        pool::parallel_for(self.outputs, &|o| {
            // SAFETY: filters lie inside the weight; each output's are written by one task.
            unsafe {
                let (from, to) = (pw.get().add(o * filters.outer), pu.get().add(o * count));
                if self.is_four() {
                    Four::filter_row(filters, from, count, to, step);
                } else {
                    Two::filter_row(filters, from, count, to, step);
                }
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
pub(crate) unsafe fn forward(c: &Conv, x: *const f32, w: *const f32, y: *mut f32) {
    let s = Shape::new(c);
    let u = Scratch::<f32>::new(s.transformed_len());
    // SAFETY: the caller's promise.
    unsafe {
        s.transform(&s.filters(), w, u.ptr());
        forward_transformed(c, x, u.ptr(), y);
    }
}

/// The filters of a convolution as [`forward_transformed`] takes them.
///
/// # Safety
/// As for [`forward`].
pub(crate) unsafe fn transformed(c: &Conv, w: *const f32) -> Vec<f32> {
    let s = Shape::new(c);
    let mut u = vec![0f32; s.transformed_len()];
    // SAFETY: the caller's promise.
    unsafe { s.transform(&s.filters(), w, u.as_mut_ptr()) };
    u
}

/// [`forward`] with filters that are transformed already.
///
/// # Safety
/// As for [`forward`].
pub(crate) unsafe fn forward_transformed(c: &Conv, x: *const f32, u: *const f32, y: *mut f32) {
    let s = Shape::new(c);
    // SAFETY: the caller's promise.
    unsafe { if s.is_four() { run::<Four>(&s, x, u, y) } else { run::<Two>(&s, x, u, y) } }
}

/// `dx` from `dy` and the filters.
///
/// # Safety
/// As for [`forward`].
pub(crate) unsafe fn grad_input(c: &Conv, dy: *const f32, w: *const f32, dx: *mut f32) {
    let s = Shape::new(c).reversed();
    let filters = Filters { outer: 9, inner: s.outputs * 9, flip: true };
    let u = Scratch::<f32>::new(s.transformed_len());
    // SAFETY: the caller's promise.
    unsafe {
        s.transform(&filters, w, u.ptr());
        if s.is_four() { run::<Four>(&s, dy, u.ptr(), dx) } else { run::<Two>(&s, dy, u.ptr(), dx) }
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

/// How pictures are cut into tiles.
struct Cut {
    /// Of the input.
    from: Plane,
    /// Of the output.
    to: Plane,
    /// Rows of tiles of a picture.
    rows: usize,
    /// Rows of tiles of a span, of any picture.
    span: usize,
}

impl Cut {
    fn new<F: Rows>(s: &Shape) -> Cut {
        let (rows, tiles) = (s.to[0].div_ceil(F::M), s.to[1].div_ceil(F::M));
        let [top, left] = s.pad;
        let from = Plane { height: s.from[0], width: s.from[1], top, left, tiles };
        let to = Plane { height: s.to[0], width: s.to[1], top: 0, left: 0, tiles };
        let each = F::N * F::N * (s.inputs + s.outputs) * tiles;
        let spans = (s.batch * rows * each).div_ceil(SPAN).min(s.batch * rows);
        Cut { from, to, rows, span: (s.batch * rows).div_ceil(spans.max(1)) }
    }
    /// The pictures of a span, each with its rows of tiles and how many tiles came before.
    fn pictures(&self, span: &Range<usize>) -> impl Iterator<Item = (usize, Range<usize>, usize)> {
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
}

/// Elements between rows of `n`, and between matrices of `rows` such rows: no power of two, so
/// that places which are used together do not share a set of the cache.
fn apart(rows: usize, n: usize) -> (usize, usize) {
    let row = n.next_multiple_of(32) + 16;
    (row, rows * row + 16)
}

/// Calls `f` for every channel on all threads, each with zeroed memory for lines.
fn each_channel(channels: usize, lines: usize, f: &(dyn Fn(usize, *mut f32) + Sync)) {
    pool::parallel_for(channels, &|c| f(c, Scratch::filled(lines, 0f32).ptr()));
}

/// A convolution by transformed filters; see [`forward`].
unsafe fn run<F: Rows>(s: &Shape, x: *const f32, u: *const f32, y: *mut f32) {
    let (cut, products) = (Cut::new::<F>(s), F::N * F::N);
    let width = cut.span * cut.to.tiles;
    let between = Scratch::<f32>::new(products * apart(s.inputs, width).1);
    let after = Scratch::<f32>::new(products * apart(s.outputs, width).1);
    let (pu, px, py) = (Shared::new(u.cast_mut()), Shared::new(x.cast_mut()), Shared::new(y));
    let (pv, pm) = (Shared::new(between.ptr()), Shared::new(after.ptr()));
    // SAFETY: every task writes its own channels or its own product; planes lie inside the tensors.
    unsafe {
        for span in cut.spans(s.batch) {
            let n = span.len() * cut.to.tiles;
            let ((row, of_v), (_, of_m)) = (apart(s.inputs, n), apart(s.outputs, n));
            let lines = cut.from.lines_len::<F>(cut.rows.min(span.len()));
            each_channel(s.inputs, lines, &|c, lines| {
                for (image, rows, at) in cut.pictures(&span) {
                    let plane = px.get().add((image * s.inputs + c) * s.from[0] * s.from[1]);
                    F::input_rows(&cut.from, plane, rows, lines, pv.get().add(c * row + at), of_v);
                }
            });
            pool::parallel_for(products, &|p| {
                let a = Mat::row_major(pu.get().add(p * s.inputs * s.outputs).cast_const(), s.inputs);
                let b = Mat::row_major(pv.get().add(p * of_v).cast_const(), row);
                let q = Gemm::new(s.outputs, n, s.inputs, a, b, pm.get().add(p * of_m));
                Gemm { c_row: row as isize, ..q }.run();
            });
            let lines = cut.to.lines_len::<F>(cut.rows.min(span.len()));
            each_channel(s.outputs, lines, &|o, lines| {
                for (image, rows, at) in cut.pictures(&span) {
                    let plane = py.get().add((image * s.outputs + o) * s.to[0] * s.to[1]);
                    F::output_rows(&cut.to, pm.get().add(o * row + at), of_m, rows, lines, plane);
                }
            });
        }
    }
}

/// The gradient of the filters; see [`grad_weight`].
unsafe fn weight<F: Rows>(s: &Shape, x: *const f32, dy: *const f32, dw: *mut f32) {
    let (cut, products) = (Cut::new::<F>(s), F::N * F::N);
    let filters = s.inputs * s.outputs;
    let sums = Scratch::<f32>::new(products * filters);
    let width = cut.span * cut.to.tiles;
    let of_x = Scratch::<f32>::new(products * apart(s.inputs, width).1);
    let of_y = Scratch::<f32>::new(products * apart(s.outputs, width).1);
    let (px, pg, pw) = (Shared::new(x.cast_mut()), Shared::new(dy.cast_mut()), Shared::new(dw));
    let (pv, pm, ps) = (Shared::new(of_x.ptr()), Shared::new(of_y.ptr()), Shared::new(sums.ptr()));
    // SAFETY: as for `run`.
    unsafe {
        for span in cut.spans(s.batch) {
            let (n, is_first) = (span.len() * cut.to.tiles, span.start == 0);
            let ((of_row, of_v), (_, of_m)) = (apart(s.inputs, n), apart(s.outputs, n));
            let lines = cut.from.lines_len::<F>(cut.rows.min(span.len()));
            each_channel(s.inputs + s.outputs, lines, &|c, lines| {
                for (image, rows, at) in cut.pictures(&span) {
                    if c < s.inputs {
                        let plane = px.get().add((image * s.inputs + c) * s.from[0] * s.from[1]);
                        F::input_rows(&cut.from, plane, rows, lines, pv.get().add(c * of_row + at), of_v);
                    } else {
                        let o = c - s.inputs;
                        let plane = pg.get().add((image * s.outputs + o) * s.to[0] * s.to[1]);
                        F::output_back_rows(&cut.to, plane, rows, lines, pm.get().add(o * of_row + at), of_m);
                    }
                }
            });
            pool::parallel_for(products, &|p| {
                let a = Mat::row_major(pm.get().add(p * of_m).cast_const(), of_row);
                let b = Mat::row_major(pv.get().add(p * of_v).cast_const(), of_row).t();
                let to = ps.get().add(p * filters);
                Gemm { accumulate: !is_first, ..Gemm::new(s.outputs, s.inputs, n, a, b, to) }.run();
            });
        }
        pool::parallel_for(s.outputs, &|o| {
            F::filter_back_row(ps.get().add(o * s.inputs), filters, s.inputs, pw.get().add(o * s.inputs * 9));
        });
    }
}
