//! Convolutions of few channels (a group) with stride 1 or 2, as they are written: laying windows out as a matrix would
//! move more than it multiplies.
//!
//! Groups lie one after the other in an image, as images do: they are so many images more, of which
//! each has the weight of its group.
//!
//! Planes are copied between zeros first, some lines for each task, with stride 2 their even and odd columns apart. A tile
//! of outputs, some channels by one or two vectors of a row, stays in registers while all taps are summed, and the epilogue
//! takes it from there; the gradient of the weight keeps a row of taps of some channels as vectors of partial sums.

#![allow(unsafe_code)]

use super::conv::Conv;
use super::epilogue::Epilogue;
use super::gemm::Patch;
use super::scratch::Scratch;
use crate::pool::{self, Shared};
use crate::vmath::dispatch;
use crate::vmath::simd::{Isa, Vector};

/// More input channels are better multiplied as matrices.
const INPUTS_MAX: usize = 15;
/// The same for a group, whose matrices are low.
const GROUP_MAX: usize = 32;
/// So are more outputs.
const OUTPUTS_MAX: usize = 64;
/// The most lanes of a vector.
const LANES: usize = 16;
/// Elements that may be read behind a plane.
const EDGE: usize = 4 * LANES;
/// Parts of a batch whose gradients of the weight are summed apart.
const PARTS: usize = 8;
/// Multiplications of a task, at least.
const TASK_MIN: usize = 1 << 16;
/// Tasks that few images are cut into, and the fewest lines of one.
const TASKS: usize = 8;
const LINES_MIN: usize = 4;

/// Whether the gradient of a convolution's input is computed here.
pub(crate) fn admits_input(c: &Conv) -> bool {
    admits(c) && c.window.stride == [1; 3]
}

/// Whether a convolution is of the kind that is computed here, with the gradient of its weight.
pub(crate) fn admits(c: &Conv) -> bool {
    let w = &c.window;
    w.input[0] == 1
        && w.kernel[0] == 1
        && w.kernel[1] <= 7
        && matches!(w.kernel[2], 3 | 5 | 7)
        && (w.stride == [1; 3] || w.stride[1..] == [2; 2])
        && w.dilation == [1; 3]
        && c.channels / c.groups <= if c.groups == 1 { INPUTS_MAX } else { GROUP_MAX }
        && c.out_channels / c.groups <= OUTPUTS_MAX
        && (1..3).all(|d| w.pad[d] < w.kernel[d] && w.output[d] < w.input[d] + w.kernel[d])
}

/// A convolution of `inputs` to `outputs` channels, in each of the groups.
#[derive(Clone, Copy)]
struct Shape {
    groups: usize,
    inputs: usize,
    outputs: usize,
    from: [usize; 2],
    to: [usize; 2],
    pad: [usize; 2],
    kernel: [usize; 2],
    stride: usize,
    /// Lines of outputs before these.
    first: usize,
}

impl Shape {
    fn new(c: &Conv) -> Shape {
        let w = &c.window;
        let two = |a: [usize; 3]| [a[1], a[2]];
        let (from, to, pad, kernel) = (two(w.input), two(w.output), two(w.pad), two(w.kernel));
        let (groups, inputs, outputs) = (c.groups, c.channels / c.groups, c.out_channels / c.groups);
        Shape { groups, inputs, outputs, from, to, pad, kernel, stride: w.stride[2], first: 0 }
    }
    /// The convolution that takes the output's gradient to the input's, with its taps reversed.
    fn reversed(&self) -> Shape {
        let pad = [self.kernel[0] - 1 - self.pad[0], self.kernel[1] - 1 - self.pad[1]];
        Shape { inputs: self.outputs, outputs: self.inputs, from: self.to, to: self.from, pad, ..*self }
    }
    /// Some lines of outputs alone.
    fn lines(&self, first: usize, count: usize) -> Shape {
        Shape { to: [count, self.to[1]], first, ..*self }
    }
    fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }
    /// Weights of a group.
    fn weights(&self) -> usize {
        self.outputs * self.inputs * self.taps()
    }
    /// Elements of a part of a line: with stride 2 even and odd columns lie apart, so that neighboring outputs take
    /// neighboring elements.
    fn part(&self) -> usize {
        self.to[1].next_multiple_of(2 * LANES) + self.kernel[1].div_ceil(self.stride)
    }
    /// Lines of a plane between zeros, and elements of a line, of which whole tiles can be read.
    fn padded(&self) -> [usize; 2] {
        [(self.to[0] - 1) * self.stride + self.kernel[0], self.part() * self.stride]
    }
    /// Copies one image between zeros.
    unsafe fn pad_image(&self, x: *const f32, to: *mut f32) {
        let [lines, len] = self.padded();
        let (width, part) = (self.from[1].min(len - self.pad[1]), self.part());
        let before = self.first * self.stride;
        let (top, end) = (before.saturating_sub(self.pad[0]), (before + lines).saturating_sub(self.pad[0]));
        // SAFETY: the caller's promise; lines and columns beyond the plane are left out.
        unsafe {
            std::ptr::write_bytes(to, 0, self.inputs * lines * len);
            for c in 0..self.inputs {
                for y in top..self.from[0].min(end) {
                    let line = to.add((c * lines + y + self.pad[0] - before) * len);
                    let from = x.add((c * self.from[0] + y) * self.from[1]);
                    if self.stride == 1 {
                        std::ptr::copy_nonoverlapping(from, line.add(self.pad[1]), width);
                        continue;
                    }
                    for first in 0..2.min(width) {
                        let column = self.pad[1] + first;
                        pull_apart(from.add(first), line.add(column % 2 * part + column / 2), width - first);
                    }
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn pull_apart_body<V: Vector<E = f32>>(from: *const f32, to: *mut f32, reach: usize) {
    let count = reach.div_ceil(2);
    for i in (0..count).step_by(V::N) {
        // SAFETY: the caller's promise.
        unsafe {
            let (p, left) = (from.add(2 * i), reach - 2 * i);
            let (low, high) = (left.min(V::N), left.saturating_sub(V::N).min(V::N));
            let all = V::evens(V::load_n(p, low), V::load_n(p.wrapping_add(V::N), high));
            all.store_n(to.add(i), V::N.min(count - i));
        }
    }
}

dispatch! {
    /// Copies every other one of `reach` elements.
    unsafe fn pull_apart(from: *const f32, to: *mut f32, reach: usize) {
        I => pull_apart_body::<<I as Isa>::S>(from, to, reach)
    }
}

/// The widths of the bands of channels that `outputs` are computed in.
fn bands(outputs: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let left = outputs - first;
        let width = [8, 6, 4, 2, 1].into_iter().find(|&w| w <= left)?;
        first += width;
        Some((first - width, width))
    })
}

/// Weights in the order they are used: for each group and band of outputs, input, tap, output.
/// `place` says where in its group a weight lies.
unsafe fn pack(s: &Shape, w: *const f32, place: impl Fn(usize, usize, usize) -> usize) -> Scratch<f32> {
    let packed = Scratch::<f32>::new(s.groups * s.weights());
    let mut at = packed.ptr();
    for (g, (first, width)) in (0..s.groups).flat_map(|g| bands(s.outputs).map(move |b| (g, b))) {
        for c in 0..s.inputs {
            for k in 0..s.taps() {
                for o in first..first + width {
                    // SAFETY: as many places as there are weights.
                    unsafe {
                        *at = *w.add(g * s.weights() + place(o, c, k));
                        at = at.add(1);
                    }
                }
            }
        }
    }
    packed
}

/// `y` from `x` and the weight; the epilogue says what becomes of the sums.
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
    let s = Shape::new(c);
    // SAFETY: the caller's promise.
    unsafe {
        let packed = pack(&s, w, |o, c, k| (o * s.inputs + c) * s.taps() + k);
        run(&s, c.batch, x, packed.ptr(), e, done);
    }
}

/// `dx` from `dy` and the weight.
///
/// # Safety
/// As for [`forward`].
pub(crate) unsafe fn grad_input(c: &Conv, dy: *const f32, w: *const f32, dx: *mut f32) {
    let s = Shape::new(c).reversed();
    // SAFETY: the caller's promise.
    unsafe {
        let packed = pack(&s, w, |o, c, k| (c * s.outputs + o) * s.taps() + s.taps() - 1 - k);
        run(&s, c.batch, dy, packed.ptr(), &Epilogue::plain(s.to[0] * s.to[1], dx), &|_| {});
    }
}

unsafe fn run(
    s: &Shape,
    batch: usize,
    x: *const f32,
    w: *const f32,
    e: &Epilogue<Shared<u8>>,
    done: &(dyn Fn(Patch) + Sync),
) {
    let (px, pw) = (Shared::new(x.cast_mut()), Shared::new(w.cast_mut()));
    let (images, work) = (batch * s.groups, s.weights() * s.to[0] * s.to[1]);
    let each = (TASK_MIN / work.max(1)).clamp(1, images.max(1));
    let parts = TASKS.div_ceil(images.max(1)).min(s.to[0] / LINES_MIN).min(work / TASK_MIN).max(1);
    pool::parallel_for(images.div_ceil(each) * parts, &|task| {
        let (task, part) = (task / parts, task % parts);
        let (first, end) = (s.to[0] * part / parts, s.to[0] * (part + 1) / parts);
        let own = s.lines(first, end - first);
        let [lines, len] = own.padded();
        let padded = Scratch::<f32>::new(s.inputs * lines * len + EDGE);
        for n in task * each..images.min((task + 1) * each) {
            // SAFETY: each task has its own images or lines.
            unsafe {
                own.pad_image(px.get().add(n * s.inputs * s.from[0] * s.from[1]), padded.ptr());
                image(&own, padded.ptr(), pw.get().add(n % s.groups * s.weights()), e, n * s.outputs);
                done(Patch { row: n * s.outputs, rows: s.outputs, col: first * s.to[1], cols: own.to[0] * s.to[1] });
            }
        }
    });
}

#[inline(always)]
unsafe fn image_body<V: Vector<E = f32>>(
    s: &Shape,
    x: *const f32,
    w: *const f32,
    e: &Epilogue<Shared<u8>>,
    row: usize,
) {
    let mut w = w;
    // SAFETY: the caller's promise.
    unsafe {
        for (first, width) in bands(s.outputs) {
            let to = (e, row + first);
            match (width, s.stride, V::N == LANES && s.to[1] > V::N) {
                (8, 1, true) => band::<V, 8, 2, 1>(s, x, w, to),
                (6, 1, true) => band::<V, 6, 2, 1>(s, x, w, to),
                (4, 1, true) => band::<V, 4, 2, 1>(s, x, w, to),
                (2, 1, true) => band::<V, 2, 2, 1>(s, x, w, to),
                (_, 1, true) => band::<V, 1, 2, 1>(s, x, w, to),
                (8, 1, false) => band::<V, 8, 1, 1>(s, x, w, to),
                (6, 1, false) => band::<V, 6, 1, 1>(s, x, w, to),
                (4, 1, false) => band::<V, 4, 1, 1>(s, x, w, to),
                (2, 1, false) => band::<V, 2, 1, 1>(s, x, w, to),
                (_, 1, false) => band::<V, 1, 1, 1>(s, x, w, to),
                (8, _, true) => band::<V, 8, 2, 2>(s, x, w, to),
                (6, _, true) => band::<V, 6, 2, 2>(s, x, w, to),
                (4, _, true) => band::<V, 4, 2, 2>(s, x, w, to),
                (2, _, true) => band::<V, 2, 2, 2>(s, x, w, to),
                (_, _, true) => band::<V, 1, 2, 2>(s, x, w, to),
                (8, _, false) => band::<V, 8, 1, 2>(s, x, w, to),
                (6, _, false) => band::<V, 6, 1, 2>(s, x, w, to),
                (4, _, false) => band::<V, 4, 1, 2>(s, x, w, to),
                (2, _, false) => band::<V, 2, 1, 2>(s, x, w, to),
                (_, _, false) => band::<V, 1, 1, 2>(s, x, w, to),
            }
            w = w.add(width * s.inputs * s.taps());
        }
    }
}

/// `R` output channels of an image, `NV` vectors of a line at a time, with stride `S`.
#[inline(always)]
unsafe fn band<V: Vector<E = f32>, const R: usize, const NV: usize, const S: usize>(
    s: &Shape,
    x: *const f32,
    w: *const f32,
    (e, row): (&Epilogue<Shared<u8>>, usize),
) {
    let ([lines, len], part) = (s.padded(), s.part());
    // SAFETY: padded lines have room for whole tiles.
    unsafe {
        for line in 0..s.to[0] {
            for col in (0..s.to[1]).step_by(NV * V::N) {
                let mut acc = [[V::zero(); NV]; R];
                let mut weight = w;
                for c in 0..s.inputs {
                    for ky in 0..s.kernel[0] {
                        let from = x.add((c * lines + line * S + ky) * len + col);
                        for kx in 0..s.kernel[1] {
                            let (mut taken, from) = ([V::zero(); NV], from.add(kx % S * part + kx / S));
                            for v in 0..NV {
                                taken[v] = V::load(from.add(v * V::N));
                            }
                            for r in 0..R {
                                let f = V::splat(*weight.add(r));
                                for v in 0..NV {
                                    acc[r][v] = f.fma(taken[v], acc[r][v]);
                                }
                            }
                            weight = weight.add(R);
                        }
                    }
                }
                let count = s.to[1] - col;
                let at = (s.first + line) * s.to[1] + col;
                if NV == 2 && count > V::N {
                    e.finish_tile(&acc, row, at, (count - V::N).min(V::N));
                } else {
                    for r in 0..R {
                        e.row::<V>(row + r).put(acc[r][0], at, count.min(V::N));
                    }
                }
            }
        }
    }
}

dispatch! {
    unsafe fn image(s: &Shape, x: *const f32, w: *const f32, e: &Epilogue<Shared<u8>>, row: usize) {
        I => image_body::<<I as Isa>::S>(s, x, w, e, row)
    }
}

/// `dw` from `x` and `dy`.
///
/// # Safety
/// As for [`forward`].
pub(crate) unsafe fn grad_weight(c: &Conv, x: *const f32, dy: *const f32, dw: *mut f32) {
    let s = Shape::new(c);
    let size = s.groups * s.weights();
    let parts = PARTS.min(c.batch).max(1);
    let sums = Scratch::<f32>::new(parts * size);
    let (px, pg, ps) = (Shared::new(x.cast_mut()), Shared::new(dy.cast_mut()), Shared::new(sums.ptr()));
    let [lines, len] = s.padded();
    let (of_x, of_y) = (s.inputs * s.from[0] * s.from[1], s.outputs * s.to[0] * s.to[1]);
    pool::parallel_for(parts * s.groups, &|task| {
        let (part, g) = (task / s.groups, task % s.groups);
        let images = c.batch * part / parts..c.batch * (part + 1) / parts;
        let each = s.inputs * lines * len;
        let padded = Scratch::<f32>::new(images.len() * each + EDGE);
        // SAFETY: each task has its own images and its own sums.
        unsafe {
            for (i, n) in images.clone().enumerate() {
                s.pad_image(px.get().add((n * s.groups + g) * of_x), padded.ptr().add(i * each));
            }
            let dy = pg.get().add((images.start * s.groups + g) * of_y);
            sums_of(&s, images.len(), padded.ptr(), dy, ps.get().add(part * size + g * s.weights()));
        }
    });
    // SAFETY: every part was written whole; `dw` has as many elements.
    unsafe {
        let (sums, dw) = (sums.slice(), std::slice::from_raw_parts_mut(dw, size));
        dw.copy_from_slice(&sums[..size]);
        for part in sums.chunks_exact(size).skip(1) {
            dw.iter_mut().zip(part).for_each(|(d, p)| *d += p);
        }
    }
}

#[inline(always)]
unsafe fn sums_body<V: Vector<E = f32>>(s: &Shape, images: usize, x: *const f32, dy: *const f32, dw: *mut f32) {
    for c in 0..s.inputs {
        for ky in 0..s.kernel[0] {
            let mut o = 0;
            while o < s.outputs {
                // SAFETY: the caller's promise.
                unsafe {
                    let wide = s.outputs - o >= 4;
                    match (s.kernel[1], wide, s.stride) {
                        (3, true, 1) => row_of_taps::<V, 4, 3, 1>(s, images, x, dy, c, ky, o, dw),
                        (3, false, 1) => row_of_taps::<V, 1, 3, 1>(s, images, x, dy, c, ky, o, dw),
                        (5, true, 1) => row_of_taps::<V, 4, 5, 1>(s, images, x, dy, c, ky, o, dw),
                        (5, false, 1) => row_of_taps::<V, 1, 5, 1>(s, images, x, dy, c, ky, o, dw),
                        (7, true, 1) => row_of_taps::<V, 4, 7, 1>(s, images, x, dy, c, ky, o, dw),
                        (7, false, 1) => row_of_taps::<V, 1, 7, 1>(s, images, x, dy, c, ky, o, dw),
                        (3, true, _) => row_of_taps::<V, 4, 3, 2>(s, images, x, dy, c, ky, o, dw),
                        (3, false, _) => row_of_taps::<V, 1, 3, 2>(s, images, x, dy, c, ky, o, dw),
                        (5, true, _) => row_of_taps::<V, 4, 5, 2>(s, images, x, dy, c, ky, o, dw),
                        (5, false, _) => row_of_taps::<V, 1, 5, 2>(s, images, x, dy, c, ky, o, dw),
                        (_, true, _) => row_of_taps::<V, 4, 7, 2>(s, images, x, dy, c, ky, o, dw),
                        (_, false, _) => row_of_taps::<V, 1, 7, 2>(s, images, x, dy, c, ky, o, dw),
                    }
                    o += if wide { 4 } else { 1 };
                }
            }
        }
    }
}

/// The gradient of a row of `K` taps of one input and `R` output channels, over some images, with
/// stride `S`.
#[inline(always)]
unsafe fn row_of_taps<V: Vector<E = f32>, const R: usize, const K: usize, const S: usize>(
    s: &Shape,
    images: usize,
    x: *const f32,
    dy: *const f32,
    c: usize,
    ky: usize,
    o: usize,
    dw: *mut f32,
) {
    let ([lines, len], part, plane) = (s.padded(), s.part(), s.to[0] * s.to[1]);
    let mut acc = [[V::zero(); K]; R];
    // SAFETY: the caller's promise; vectors are cut off at the end of a line.
    unsafe {
        for n in 0..images {
            let from = x.add((n * s.inputs + c) * lines * len);
            let grad = dy.add((n * s.groups * s.outputs + o) * plane);
            for line in 0..s.to[0] {
                for col in (0..s.to[1]).step_by(V::N) {
                    let m = V::N.min(s.to[1] - col);
                    let mut g = [V::zero(); R];
                    for r in 0..R {
                        g[r] = V::load_n(grad.add(r * plane + line * s.to[1] + col), m);
                    }
                    for k in 0..K {
                        let at = from.add((line * S + ky) * len + k % S * part + k / S + col);
                        let row = if m == V::N { V::load(at) } else { V::load_n(at, m) };
                        for r in 0..R {
                            acc[r][k] = g[r].fma(row, acc[r][k]);
                        }
                    }
                }
            }
        }
        for r in 0..R {
            for k in 0..K {
                *dw.add(((o + r) * s.inputs + c) * s.taps() + ky * K + k) = acc[r][k].sum();
            }
        }
    }
}

dispatch! {
    unsafe fn sums_of(s: &Shape, images: usize, x: *const f32, dy: *const f32, dw: *mut f32) {
        I => sums_body::<<I as Isa>::S>(s, images, x, dy, dw)
    }
}
