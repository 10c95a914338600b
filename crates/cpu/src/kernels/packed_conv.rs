//! Convolutions of large weights that are packed beforehand, their output channels as the vectors of
//! a product: windows are laid out in strips of a few neighbors of an output row, which a tile of the
//! product takes as its rows. All threads lay out together, and each then reads its own share
//! of the weights, once.
//!
//! Weights that stay in cache are better where they lie ([`super::conv`]): there the neighbors are the
//! vectors, and results are written in longer pieces.

#![allow(unsafe_code)]

use super::conv::Conv;
use super::gemm::{Left, Mat, Packed, Target};
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
    is_large && s.width >= WIDTH_MIN && s.outputs >= OUTPUTS_MIN
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
        let rows = window.output[0] * window.output[1];
        let depth = channels * window.kernel_len();
        Shape { window, channels, outputs: c.out_channels / c.groups, depth, rows, width: window.output[2] }
    }
    /// The strips of an output row.
    fn strips(&self) -> impl Iterator<Item = Range<usize>> {
        let (width, count) = (self.width, self.width.div_ceil(Packed::strip()));
        (0..count).map(move |i| width * i / count..width * (i + 1) / count)
    }
    /// Lays out output row `row` of the planes `x`: its strips one after the other.
    unsafe fn lay_out(&self, x: *const f32, row: usize, to: *mut f32) {
        for strip in self.strips() {
            // SAFETY: the caller's promise; as many elements as the strip has windows of `depth`.
            unsafe { lay_out(self.window, x, self.channels, row, &strip, to.add(strip.start * self.depth)) };
        }
    }
    /// Multiplies output rows that were laid out with a panel of group `g`; `y` is where the group's
    /// first channel begins.
    unsafe fn multiply(&self, u: &Packed, g: usize, panel: usize, rows: Range<usize>, left: *const f32, y: *mut f32) {
        let plane = (self.rows * self.width) as isize;
        for (i, row) in rows.enumerate() {
            for strip in self.strips() {
                // SAFETY: the caller's promise.
                unsafe {
                    let p = left.add((i * self.width + strip.start) * self.depth);
                    let to = Target { p: y.add(row * self.width + strip.start), row: 1, col: plane };
                    u.multiply(g, panel, Left { p, m: strip.len(), row: 0 }, to);
                }
            }
        }
    }
}

/// `y` from `x` and weights from [`packed`].
///
/// # Safety
/// [`admits`] holds, and all lengths are those of the convolution.
pub(crate) unsafe fn forward(c: &Conv, x: *const f32, u: &Packed, y: *mut f32) {
    let s = Shape::new(c);
    let each = s.width * s.depth;
    let (px, py) = (Shared::new(x.cast_mut()), Shared::new(y));
    let (size_in, plane) = (s.window.input_len(), s.rows * s.width);
    // The first planes of an image's group.
    let from = |image: usize, g: usize| px.get().wrapping_add((image * c.channels + g * s.channels) * size_in);
    let to = |image: usize, g: usize| py.get().wrapping_add((image * c.out_channels + g * s.outputs) * plane);
    let high = (TOGETHER / each).clamp(1, s.rows);
    let left = Scratch::<f32>::new(high * each);
    let left = Shared::new(left.ptr());
    for (image, g) in (0..c.batch).flat_map(|image| (0..c.groups).map(move |g| (image, g))) {
        for first in (0..s.rows).step_by(high) {
            let count = high.min(s.rows - first);
            // SAFETY: the caller's promise; tasks have rows of their own.
            pool::parallel_for(count, &|i| unsafe {
                s.lay_out(from(image, g), first + i, left.get().add(i * each));
            });
            // Two tasks a panel: they run at the same time, and divide evenly.
            pool::parallel_for(2 * u.panels(), &|task| {
                let half = task % 2;
                let (start, end) = (count * half / 2, count * (half + 1) / 2);
                // SAFETY: the caller's promise; tasks have rows or channels of their own.
                unsafe {
                    let left = left.get().add(start * each);
                    s.multiply(u, g, task / 2, first + start..first + end, left, to(image, g));
                }
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
