//! Windows laid out as matrices (im2col), and the way back (col2im).

#![allow(unsafe_code)]

use super::window::Window;

/// Some output positions of some images: `first..end` of one image's plane, or whole planes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub image: usize,
    pub images: usize,
    pub first: usize,
    pub end: usize,
}

impl Span {
    /// Positions in all.
    pub(crate) fn len(&self) -> usize {
        self.images * (self.end - self.first)
    }

    /// Cuts `images` planes of `plane` positions into spans of about `target` positions.
    pub(crate) fn cut(images: usize, plane: usize, target: usize) -> Cut {
        if plane >= target {
            let parts = plane.div_ceil(target);
            Cut { images, plane, group: 1, parts, step: plane.div_ceil(parts).next_multiple_of(16) }
        } else {
            Cut { images, plane, group: (target / plane.max(1)).clamp(1, images.max(1)), parts: 1, step: plane }
        }
    }
}

/// A way of cutting planes into spans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    images: usize,
    plane: usize,
    group: usize,
    parts: usize,
    step: usize,
}

impl Cut {
    /// The number of spans (some may be empty).
    pub(crate) fn count(&self) -> usize {
        self.images.div_ceil(self.group) * self.parts
    }

    /// Span number `i`.
    pub(crate) fn span(&self, i: usize) -> Span {
        let image = i / self.parts * self.group;
        let first = (i % self.parts * self.step).min(self.plane);
        Span { image, images: self.group.min(self.images - image), first, end: (first + self.step).min(self.plane) }
    }
}

/// Calls `f(offset of a window tap's row in the plane or none, first column, columns, place in the
/// span)` for every output row part of a span's positions; `z` and `y` are the tap's indexes.
#[inline(always)]
fn each_row(
    w: &Window,
    first: usize,
    end: usize,
    kz: usize,
    ky: usize,
    mut f: impl FnMut(Option<usize>, usize, usize, usize),
) {
    let [_, oy, ox] = w.output;
    let mut p = first;
    while p < end {
        let (row, x0) = (p / ox, p % ox);
        let count = (ox - x0).min(end - p);
        let at = match (w.at(0, row / oy, kz), w.at(1, row % oy, ky)) {
            (Some(z), Some(y)) => Some((z * w.input[1] + y) * w.input[2]),
            _ => None,
        };
        f(at, x0, count, p - first);
        p += count;
    }
}

/// Writes the matrix `to[channels * taps, span]` of windows over `x` (whose planes of one image
/// are `channels_all` in number), rows `span.len()` long.
///
/// # Safety
/// `x` must hold all images, `to` the matrix.
pub(crate) unsafe fn unfold<E: Copy + Default>(
    w: &Window,
    x: *const E,
    channels_all: usize,
    channels: std::ops::Range<usize>,
    span: Span,
    to: *mut E,
) {
    let (plane, width) = (w.input_len(), span.len());
    let part = span.end - span.first;
    let mut row = to;
    for c in channels {
        for tap in 0..w.kernel_len() {
            let (kx, ky, kz) = (tap % w.kernel[2], tap / w.kernel[2] % w.kernel[1], tap / w.kernel[2] / w.kernel[1]);
            let (low, high) = w.inside(2, kx);
            for n in 0..span.images {
                // SAFETY: the plane is inside `x`, the row part inside `to`.
                unsafe {
                    let src = x.add(((span.image + n) * channels_all + c) * plane);
                    let dst = row.add(n * part);
                    each_row(w, span.first, span.end, kz, ky, |at, x0, count, place| {
                        unfold_row(w, at.map(|at| src.add(at)), kx, (low, high), x0, count, dst.add(place));
                    });
                }
            }
            // SAFETY: one past the row is inside `to` or its end.
            row = unsafe { row.add(width) };
        }
    }
}

#[inline(always)]
unsafe fn unfold_row<E: Copy + Default>(
    w: &Window,
    src: Option<*const E>,
    kx: usize,
    (low, high): (usize, usize),
    x0: usize,
    count: usize,
    dst: *mut E,
) {
    let end = x0 + count;
    let (a, b) = match src {
        Some(_) => (low.clamp(x0, end), high.clamp(x0, end)),
        None => (end, end),
    };
    // SAFETY: `count` elements behind `dst`; columns `a..b` have their tap inside the row.
    unsafe {
        for o in x0..a {
            dst.add(o - x0).write(E::default());
        }
        if let (Some(src), true) = (src, a < b) {
            let from = src.add(a * w.stride[2] + kx * w.dilation[2] - w.pad[2]);
            match w.stride[2] {
                1 => std::ptr::copy_nonoverlapping(from, dst.add(a - x0), b - a),
                // With a number that the compiler knows, elements are moved by vectors.
                2 => (0..b - a).for_each(|o| dst.add(a - x0 + o).write(*from.add(o * 2))),
                s => (0..b - a).for_each(|o| dst.add(a - x0 + o).write(*from.add(o * s))),
            }
        }
        for o in b.max(a)..end {
            dst.add(o - x0).write(E::default());
        }
    }
}

/// Adds the matrix `from[channels * taps, span]` of one image's windows back to its planes.
///
/// # Safety
/// `x` must hold the image's channels from the first of the range on, `from` the matrix.
pub(crate) unsafe fn fold<E: Copy + std::ops::Add<Output = E>>(
    w: &Window,
    from: *const E,
    channels: usize,
    first: usize,
    end: usize,
    x: *mut E,
) {
    let plane = w.input_len();
    let mut row = from;
    for c in 0..channels {
        for tap in 0..w.kernel_len() {
            let (kx, ky, kz) = (tap % w.kernel[2], tap / w.kernel[2] % w.kernel[1], tap / w.kernel[2] / w.kernel[1]);
            let (low, high) = w.inside(2, kx);
            // SAFETY: as in `unfold`, the other way.
            unsafe {
                let dst = x.add(c * plane);
                each_row(w, first, end, kz, ky, |at, x0, count, place| {
                    let (a, b) = (low.clamp(x0, x0 + count), high.clamp(x0, x0 + count));
                    let (Some(at), true) = (at, a < b) else { return };
                    let to = dst.add(at + a * w.stride[2] + kx * w.dilation[2] - w.pad[2]);
                    let src = row.add(place + a - x0);
                    if w.stride[2] == 1 {
                        for o in 0..b - a {
                            *to.add(o) = *to.add(o) + *src.add(o);
                        }
                    } else {
                        for o in 0..b - a {
                            let to = to.add(o * w.stride[2]);
                            *to = *to + *src.add(o);
                        }
                    }
                });
                row = row.add(end - first);
            }
        }
    }
}
