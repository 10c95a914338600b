//! Convolutions of large weights that are packed beforehand, their output channels as the vectors of
//! a product: windows are laid out in strips of a few neighbors of an output row, which a tile of the
//! product takes as its rows. All threads lay out together, and each then takes its own panels of the weights. Windows of
//! one element need no laying out, and have a kernel of their own ([`super::pointwise`]).
//!
//! Weights that stay in cache are better where they lie ([`super::conv`]): there the neighbors are the
//! vectors, and results are written in longer pieces.

#![allow(unsafe_code)]

use super::conv::Conv;
use super::gemm::{Left, Mat, Packed, Patch, Target};
use super::scratch::Scratch;
use super::window::Window;
use crate::pool::{self, Shared};
use crate::vmath::dispatch;
use crate::vmath::simd::{Isa, Vector};
use std::ops::Range;

/// Shorter output rows make tiles too low.
const WIDTH_MIN: usize = 4;
/// Fewer output channels leave lanes empty.
const OUTPUTS_MIN: usize = 16;
/// Sums of fewer products take less time than writing them in short pieces.
const DEPTH_MIN: usize = 512;
/// Bytes of a group's weights from which on it matters that they are read once, and in order.
const LARGE: usize = 512 * 1024;
/// Elements that are laid out together for all threads.
const TOGETHER: usize = 1 << 20;

/// Whether a convolution is of the kind that is computed here.
pub(crate) fn admits(c: &Conv) -> bool {
    let s = Shape::new(c);
    let is_large = s.depth >= DEPTH_MIN && s.depth * s.outputs * size_of::<f32>() >= LARGE;
    !c.window.is_pointwise() && s.width >= WIDTH_MIN && s.outputs >= OUTPUTS_MIN && is_large
}

/// The weights `w[outputs, channels of a group, kernel…]` as [`forward`] takes them.
///
/// # Safety
/// The weight has the length that the convolution says.
pub(crate) unsafe fn packed(c: &Conv, w: *const f32) -> Packed {
    let s = Shape::new(c);
    let w = Shared::new(w.cast_mut());
    let at = |g: usize| Mat::row_major(w.get().wrapping_add(g * s.outputs * s.depth).cast_const(), s.depth).t();
    // SAFETY: the caller's promise.
    unsafe { Packed::new(c.groups, s.depth, s.outputs, &at) }
}

/// The sizes of a group's product.
#[derive(Clone, Copy)]
struct Shape<'a> {
    window: &'a Window,
    channels: usize,
    outputs: usize,
    depth: usize,
    /// Output rows of an image, and their width.
    rows: usize,
    width: usize,
}

impl Shape<'_> {
    fn new(c: &Conv) -> Shape<'_> {
        let (window, channels) = (&c.window, c.channels / c.groups);
        let depth = channels * window.kernel_len();
        let (rows, width) = (window.output[0] * window.output[1], window.output[2]);
        Shape { window, channels, outputs: c.out_channels / c.groups, depth, rows, width }
    }
    /// Lays out output row `row` of the planes `x`: its strips one after the other.
    unsafe fn lay_out(&self, x: *const f32, row: usize, to: *mut f32) {
        for strip in (0..self.strips_of_row()).map(|i| self.strip(i)) {
            // SAFETY: the caller's promise; as many elements as the strip has windows of `depth`.
            unsafe { lay_out(self.window, x, self.channels, row, &strip, to.add(strip.start * self.depth)) };
        }
    }
    /// The positions of a strip, which does not cross the end of a row.
    fn strip(&self, i: usize) -> Range<usize> {
        let (each, row) = (self.strips_of_row(), i / self.strips_of_row());
        let within = self.width * (i % each) / each..self.width * (i % each + 1) / each;
        row * self.width + within.start..row * self.width + within.end
    }
    fn strips_of_row(&self) -> usize {
        self.width.div_ceil(Packed::strip())
    }
    /// Multiplies strips that were laid out from position `first` on with a panel of group `g`; `y` is where the group's
    /// first channel begins.
    unsafe fn multiply(
        &self,
        u: &Packed,
        g: usize,
        panel: usize,
        strips: Range<usize>,
        (left, first): (*const f32, usize),
        y: *mut f32,
    ) {
        let plane = (self.rows * self.width) as isize;
        for strip in strips.map(|i| self.strip(i)) {
            // SAFETY: the caller's promise.
            unsafe {
                let left = Left { p: left.add((strip.start - first) * self.depth), m: strip.len(), row: 0 };
                u.multiply(g, panel, left, Target { p: y.add(strip.start), row: 1, col: plane });
            }
        }
    }
}

/// `y` from `x` and weights from [`packed`]; `done` is called for parts that are complete.
///
/// # Safety
/// [`admits`] holds, and all lengths are those of the convolution.
pub(crate) unsafe fn forward(c: &Conv, x: *const f32, u: &Packed, y: *mut f32, done: &(dyn Fn(Patch) + Sync)) {
    let s = Shape::new(c);
    let each = s.width * s.depth;
    let (px, py) = (Shared::new(x.cast_mut()), Shared::new(y));
    let (size_in, plane) = (s.window.input_len(), s.rows * s.width);
    let high = (TOGETHER / each).clamp(1, s.rows);
    let room = Scratch::<f32>::new(high * each);
    let room = Shared::new(room.ptr());
    for (image, g) in (0..c.batch).flat_map(|image| (0..c.groups).map(move |g| (image, g))) {
        // The first planes of an image's group.
        let from = px.get().wrapping_add((image * c.channels + g * s.channels) * size_in);
        let from = Shared::new(from);
        let channel = image * c.out_channels + g * s.outputs;
        for first in (0..s.rows).step_by(high) {
            let count = high.min(s.rows - first);
            // SAFETY: the caller's promise; tasks have rows of their own.
            pool::parallel_for(count, &|i| unsafe {
                s.lay_out(from.get(), first + i, room.get().add(i * each));
            });
            let strips = first * s.strips_of_row()..(first + count) * s.strips_of_row();
            // Two tasks a panel: they run at the same time, and divide evenly.
            pool::parallel_for(2 * u.panels(), &|task| {
                let at = |half: usize| strips.start + strips.len() * half / 2;
                let own = at(task % 2)..at(task % 2 + 1);
                if own.is_empty() {
                    return;
                }
                // SAFETY: the caller's promise; tasks have positions or channels of their own.
                unsafe {
                    let y = py.get().add(channel * plane);
                    s.multiply(u, g, task / 2, own.clone(), (room.get().cast_const(), first * s.width), y);
                }
                let (row, rows) = u.panel(task / 2);
                let (col, end) = (s.strip(own.start).start, s.strip(own.end - 1).end);
                done(Patch { row: channel + row, rows, col, cols: end - col });
            });
        }
    }
}

/// Lays out the windows of a strip of output row `row`: for each channel and tap the elements of
/// its neighbors, zeros where a tap is outside.
#[inline(always)]
unsafe fn lay_out_body<V: Vector<E = f32>>(
    w: &Window,
    x: *const f32,
    channels: usize,
    row: usize,
    strip: &Range<usize>,
    to: *mut f32,
) {
    let (size, n, stride) = (w.input_len(), strip.len(), w.stride[2]);
    let (oz, oy) = (row / w.output[1], row % w.output[1]);
    // The neighbors whose tap `kx` is inside.
    let inside = |kx: usize| {
        let (low, high) = w.inside(2, kx);
        low.clamp(strip.start, strip.end) - strip.start..high.clamp(strip.start, strip.end) - strip.start
    };
    let mut to = to;
    for c in 0..channels {
        for (kz, ky) in (0..w.kernel[0]).flat_map(|kz| (0..w.kernel[1]).map(move |ky| (kz, ky))) {
            let line = match (w.at(0, oz, kz), w.at(1, oy, ky)) {
                (Some(z), Some(y)) => Some((c * size) + (z * w.input[1] + y) * w.input[2]),
                _ => None,
            };
            for kx in 0..w.kernel[2] {
                let is = if line.is_some() { inside(kx) } else { 0..0 };
                // SAFETY: the taps in `is` lie in the line; there is room for `n` elements.
                unsafe {
                    let column = (strip.start * stride + kx * w.dilation[2]) as isize - w.pad[2] as isize;
                    let from = x.wrapping_add(line.unwrap_or(0)).wrapping_offset(column);
                    if is.len() == n && stride == 1 {
                        V::load_n(from, n).store_n(to, n);
                    } else if is.len() == n && stride == 2 {
                        let reach = 2 * n - 1;
                        let (low, high) = (reach.min(V::N), reach.saturating_sub(V::N));
                        V::evens(V::load_n(from, low), V::load_n(from.wrapping_add(V::N), high)).store_n(to, n);
                    } else {
                        (0..n).for_each(|i| *to.add(i) = 0.0);
                        is.for_each(|i| *to.add(i) = *from.wrapping_add(i * stride));
                    }
                    to = to.add(n);
                }
            }
        }
    }
}

dispatch! {
    unsafe fn lay_out(w: &Window, x: *const f32, channels: usize, row: usize, strip: &Range<usize>, to: *mut f32) {
        I => lay_out_body::<<I as Isa>::S>(w, x, channels, row, strip, to)
    }
}
