//! Windows laid out as matrices (im2col), and the way back (col2im).

#![allow(unsafe_code)]

use super::gemm::Float;
use super::window::Window;
use crate::vmath::copy::copy_bytes;
use crate::vmath::dispatch;
use crate::vmath::simd::{Isa, Vector};

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

/// Neighbors that are moved together: from a plane (with the windows' stride between them) to a line of the matrix, or
/// back.
#[derive(Clone, Copy)]
struct Run {
    plane: usize,
    line: usize,
    count: usize,
}

/// Where the taps of windows find a span of one plane's positions: the same for every channel and image.
///
/// Where neighboring windows lie one element apart, rows of the output are runs over the ends of the plane's rows. What
/// such a run finds for a tap outside the plane is a gap, which is 0.
struct Taps {
    runs: Vec<Run>,
    gaps: Vec<(usize, usize)>,
    /// For each tap where its runs and gaps end.
    ends: Vec<(usize, usize)>,
    stride: usize,
}

impl Taps {
    fn new(w: &Window, first: usize, end: usize) -> Taps {
        let (count, [_, oy, ox]) = (w.kernel_len(), w.output);
        let mut taps =
            Taps { runs: Vec::new(), gaps: Vec::new(), ends: Vec::with_capacity(count), stride: w.stride[2] };
        for tap in 0..count {
            let (kx, ky, kz) = (tap % w.kernel[2], tap / w.kernel[2] % w.kernel[1], tap / w.kernel[2] / w.kernel[1]);
            let (mut row, mut x0, mut p) = (first / ox, first % ox, first);
            while p < end {
                let n = (ox - x0).min(end - p);
                match (w.at(0, row / oy, kz), w.at(1, row % oy, ky)) {
                    (Some(z), Some(y)) => taps.row(w, (z * w.input[1] + y) * w.input[2], kx, (x0, n), p - first),
                    _ => taps.gap(p - first, n),
                }
                (row, x0, p) = (row + 1, 0, p + n);
            }
            taps.ends.push((taps.runs.len(), taps.gaps.len()));
        }
        taps
    }

    /// `n` outputs from `x0` on of a row whose tap `kx` is in the plane's row at `at`; they begin at `line`.
    fn row(&mut self, w: &Window, at: usize, kx: usize, (x0, n): (usize, usize), line: usize) {
        let (low, high) = w.inside(2, kx);
        let (a, b) = (low.clamp(x0, x0 + n), high.clamp(x0, x0 + n));
        if a >= b {
            return self.gap(line, n);
        }
        self.gap(line, a - x0);
        self.gap(line + b - x0, x0 + n - b);
        let place = |x: usize| (at + x * w.stride[2] + kx * w.dilation[2]).checked_sub(w.pad[2]);
        match place(x0) {
            Some(plane) if w.stride[2] == 1 && plane + n <= w.input_len() => self.run(Run { plane, line, count: n }),
            _ => {
                let plane = place(a).expect("a tap inside the plane");
                self.run(Run { plane, line: line + a - x0, count: b - a });
            }
        }
    }

    /// Adds a run of the newest tap to the one before it where they meet.
    fn run(&mut self, run: Run) {
        let begin = self.ends.last().map_or(0, |e| e.0);
        match self.runs[begin..].last_mut() {
            Some(r) if self.stride == 1 && r.plane + r.count == run.plane && r.line + r.count == run.line => {
                r.count += run.count;
            }
            _ => self.runs.push(run),
        }
    }

    fn gap(&mut self, line: usize, count: usize) {
        if count > 0 {
            self.gaps.push((line, count));
        }
    }

    /// Runs and gaps of each tap.
    fn each(&self) -> impl Iterator<Item = (&[Run], &[(usize, usize)])> {
        let mut begin = (0, 0);
        self.ends.iter().map(move |&end| {
            let from = std::mem::replace(&mut begin, end);
            (&self.runs[from.0..end.0], &self.gaps[from.1..end.1])
        })
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
    let taps = Taps::new(w, span.first, span.end);
    // SAFETY: the caller's promise; `E` is what its size says, as far as moving it goes.
    unsafe {
        if size_of::<E>() == size_of::<f32>() {
            return lay_out_words(w, &taps, x.cast(), channels_all, channels, span, to.cast());
        }
        lay_out(w, &taps, x, channels_all, channels, span, to, |from, to, n| {
            copy_bytes(from.cast(), to.cast(), n * size_of::<E>());
        });
    }
}

dispatch! {
    /// Elements of 32 bits, in vectors: most runs are too short for a call each.
    unsafe fn lay_out_words(
        w: &Window,
        taps: &Taps,
        x: *const f32,
        channels_all: usize,
        channels: std::ops::Range<usize>,
        span: Span,
        to: *mut f32,
    ) {
        I => lay_out(w, taps, x, channels_all, channels, span, to, |from, to, n| copy_run::<<I as Isa>::S>(from, to, n))
    }
}

#[inline(always)]
unsafe fn copy_run<V: Vector>(from: *const V::E, to: *mut V::E, n: usize) {
    let mut i = 0;
    // SAFETY: indexes stay below `n`, the caller's promise.
    unsafe {
        while i + V::N <= n {
            V::load(from.add(i)).store(to.add(i));
            i += V::N;
        }
        if i < n {
            V::load_n(from.add(i), n - i).store_n(to.add(i), n - i);
        }
    }
}

/// [`unfold`] with a way to copy neighbors.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of `unfold`")]
unsafe fn lay_out<E: Copy + Default>(
    w: &Window,
    taps: &Taps,
    x: *const E,
    channels_all: usize,
    channels: std::ops::Range<usize>,
    span: Span,
    to: *mut E,
    copy: impl Fn(*const E, *mut E, usize),
) {
    let (plane, width) = (w.input_len(), span.len());
    let part = span.end - span.first;
    let mut row = to;
    for c in channels {
        for (runs, gaps) in taps.each() {
            for n in 0..span.images {
                // SAFETY: runs lie inside the plane, which is inside `x`, runs and gaps inside the row part.
                unsafe {
                    let src = x.add(((span.image + n) * channels_all + c) * plane);
                    let dst = row.add(n * part);
                    for r in runs {
                        let (from, to) = (src.add(r.plane), dst.add(r.line));
                        match taps.stride {
                            1 => copy(from, to, r.count),
                            // With a number that the compiler knows, elements are moved by vectors.
                            2 => (0..r.count).for_each(|o| to.add(o).write(*from.add(o * 2))),
                            s => (0..r.count).for_each(|o| to.add(o).write(*from.add(o * s))),
                        }
                    }
                    for &(line, count) in gaps {
                        (line..line + count).for_each(|i| dst.add(i).write(E::default()));
                    }
                }
            }
            // SAFETY: one past the row is inside `to` or its end.
            row = unsafe { row.add(width) };
        }
    }
}

/// Adds the matrix `from[channels * taps, span]` of one image's windows back to its planes. What lies outside them is
/// cleared.
///
/// # Safety
/// `x` must hold the image's channels from the first of the range on, `from` the matrix.
pub(crate) unsafe fn fold<E: Float>(w: &Window, from: *mut E, channels: usize, first: usize, end: usize, x: *mut E) {
    let (plane, taps) = (w.input_len(), Taps::new(w, first, end));
    let mut row = from;
    for c in 0..channels {
        for (runs, gaps) in taps.each() {
            // SAFETY: as in `unfold`, the other way.
            unsafe {
                for &(line, count) in gaps {
                    (line..line + count).for_each(|i| row.add(i).write(E::default()));
                }
                for r in runs {
                    let (src, to) = (row.add(r.line), x.add(c * plane + r.plane));
                    if taps.stride == 1 {
                        E::axpy(E::ONE, src, to, r.count);
                        continue;
                    }
                    for o in 0..r.count {
                        let to = to.add(o * taps.stride);
                        *to = *to + *src.add(o);
                    }
                }
                row = row.add(end - first);
            }
        }
    }
}
