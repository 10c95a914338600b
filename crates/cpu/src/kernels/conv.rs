//! Convolution over one to three spatial dimensions, channels first: forward, gradient of the
//! input, gradient of the weight.
//!
//! `x[batch, channels, …]`, `weight[out_channels, channels / groups, kernel…]`,
//! `y[batch, out_channels, …]`, all contiguous. Windows are laid out as a matrix for a span of
//! output positions at a time ([`super::im2col`]) and multiplied ([`super::gemm`]); windows of one
//! element skip the first step, groups of one channel both ([`super::depthwise`]). Windows of 3×3
//! of many channels are transformed instead ([`super::winograd`]), windows of few channels summed
//! directly ([`super::direct`]). Weights that many inputs meet are brought into their kernel's form
//! once ([`Conv::prepacked`]).

#![allow(unsafe_code)]

use super::depthwise;
use super::direct;
use super::epilogue::Epilogue;
use super::gemm::{Float, Gemm, Mat, Multiply, Output, Packed, Patch, has_pairs, has_tiles};
use super::im2col::{Span, fold, unfold};
use super::packed_conv;
use super::pointwise;
use super::scratch::Scratch;
use super::window::Window;
use super::winograd;
use crate::packed_weights;
use crate::pool::{self, Shared};
use ir::{DType, Literal};
use std::sync::Arc;

/// The sizes of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv {
    /// Images.
    pub batch: usize,
    /// Channels of the input.
    pub channels: usize,
    /// Channels of the output.
    pub out_channels: usize,
    /// Groups of channels that do not mix.
    pub groups: usize,
    /// Spatial sizes.
    pub window: Window,
}

/// The weight of a convolution that was brought into its kernel's form beforehand; programs share it.
pub struct Prepacked(Form, Arc<Packed>);

#[derive(Clone, Copy)]
enum Form {
    /// Filters transformed and packed.
    Winograd,
    /// See [`super::packed_conv`].
    Strips,
}

/// Algorithms, of which a build for one model links those that it uses.
const DEPTHWISE: &str = "conv by channel";
const WINOGRAD: &str = "conv by Winograd";
const DIRECT: &str = "conv direct";
const STRIPS: &str = "conv by strips";
const POINTWISE: &str = "conv of single elements";
const UNFOLDED_GEMM: &str = "conv by im2col";

/// Elements of a laid-out matrix that a task works on: about half of a second-level cache.
const UNFOLDED: usize = 1 << 17;
/// Multiplications that make a task.
const TASK: usize = 1 << 21;
/// The fewest channels of a group for which the input's gradient is a convolution of the output's.
const REVERSED_MIN: usize = 8;

impl Conv {
    fn check(&self, x: usize, weight: usize, y: usize) {
        let g = self.groups;
        assert!(
            g > 0 && self.channels.is_multiple_of(g) && self.out_channels.is_multiple_of(g),
            "conv: {} groups do not divide {} input and {} output channels",
            g,
            self.channels,
            self.out_channels
        );
        let expect = |what: &str, want: usize, got: usize| {
            assert!(want == got, "conv: {what} of {want} elements expected, got {got}");
        };
        expect("an input", self.batch * self.channels * self.window.input_len(), x);
        expect("a weight", self.out_channels * self.depth(), weight);
        expect("an output", self.batch * self.out_channels * self.window.output_len(), y);
    }

    /// Channels of a group, in and out.
    fn group(&self) -> (usize, usize) {
        (self.channels / self.groups, self.out_channels / self.groups)
    }

    /// One input channel a group, and more than one group: with a single one, products are better.
    fn is_depthwise(&self) -> bool {
        self.channels == self.groups && self.groups > 1
    }

    fn is_winograd<E: 'static>(&self) -> bool {
        is_f32::<E>() && const { ir::is_linked(WINOGRAD) } && winograd::admits(self)
    }

    fn is_direct<E: 'static>(&self) -> bool {
        is_f32::<E>() && const { ir::is_linked(DIRECT) } && direct::admits(self)
    }

    fn is_pointwise<E: 'static>(&self) -> bool {
        is_f32::<E>() && const { ir::is_linked(POINTWISE) } && pointwise::admits(self)
    }

    /// Whether a weight that is known beforehand is packed for strips.
    fn is_stripped(&self) -> bool {
        !self.is_winograd::<f32>()
            && !self.is_pointwise::<f32>()
            && const { ir::is_linked(STRIPS) }
            && packed_conv::admits(self)
    }

    /// The name of the algorithm that computes it, for [`ir::is_linked`].
    pub fn algorithm<E: 'static>(&self) -> &'static str {
        if self.is_depthwise() {
            DEPTHWISE
        } else if self.is_winograd::<E>() {
            WINOGRAD
        } else if self.is_direct::<E>() {
            DIRECT
        } else if self.is_pointwise::<E>() {
            POINTWISE
        } else if is_f32::<E>() && packed_conv::admits(self) {
            STRIPS
        } else {
            UNFOLDED_GEMM
        }
    }

    /// Elements that one output sums over.
    fn depth(&self) -> usize {
        self.channels / self.groups * self.window.kernel_len()
    }

    /// `y = weight * x`.
    pub fn forward<E: Multiply + Float>(&self, x: &[E], weight: &[E], y: &mut [E]) {
        self.forward_then(x, weight, y, &|_| {});
    }

    /// [`Conv::forward`], with `done` called for each part of the result when it is complete, on the thread that has it
    /// in cache. The result is a matrix with a row for each channel of each image.
    pub fn forward_then<E: Multiply + Float>(&self, x: &[E], weight: &[E], y: &mut [E], done: &(dyn Fn(Patch) + Sync)) {
        self.check(x.len(), weight.len(), y.len());
        if const { ir::is_linked(DEPTHWISE) } && self.is_depthwise() {
            // SAFETY: lengths were checked.
            return unsafe { depthwise::forward(self, x.as_ptr(), weight.as_ptr(), y.as_mut_ptr(), done) };
        }
        let (px, pw, py) = (x.as_ptr().cast::<f32>(), weight.as_ptr().cast::<f32>(), y.as_mut_ptr().cast::<f32>());
        if self.is_winograd::<E>() {
            // SAFETY: lengths were checked, and the elements are f32.
            return unsafe { winograd::forward(self, px, pw, py, done) };
        }
        if self.is_direct::<E>() || self.is_pointwise::<E>() {
            let run = if self.is_direct::<E>() { direct::forward } else { pointwise::forward };
            // SAFETY: as above.
            return unsafe { run(self, px, pw, &Epilogue::plain(self.window.output_len(), py), done) };
        }
        // Strips are the same product, of weights that are known beforehand.
        if !const { ir::is_linked(UNFOLDED_GEMM) } {
            ir::unlinked(self.algorithm::<E>());
        }
        self.forward_by_products(x, weight, y, done);
    }

    /// Whether [`Conv::forward_finished`] computes it.
    pub fn finishes(&self) -> bool {
        if self.is_depthwise() {
            return const { ir::is_linked(DEPTHWISE) } && depthwise::finishes(self);
        }
        !self.is_winograd::<f32>() && (self.is_direct::<f32>() || self.is_pointwise::<f32>())
    }

    /// `y = weight * x` and its epilogue, which takes the sums from registers; where [`Conv::finishes`].
    ///
    /// # Safety
    /// The places of the epilogue but its sums are there, `to` apart from `x`, and no other thread uses them.
    pub unsafe fn forward_finished(&self, x: &[f32], weight: &[f32], e: &Epilogue<Shared<u8>>) {
        self.check(x.len(), weight.len(), self.batch * self.out_channels * self.window.output_len());
        assert!(self.finishes() && e.columns == self.window.output_len(), "conv: an epilogue of another size");
        // SAFETY: lengths were checked; the rest is the caller's promise.
        unsafe {
            if self.is_depthwise() {
                depthwise::forward_finished(self, x.as_ptr(), weight.as_ptr(), e);
            } else {
                let run = if self.is_pointwise::<f32>() { pointwise::forward } else { direct::forward };
                run(self, x.as_ptr(), weight.as_ptr(), e, &|_| {});
            }
        }
    }

    /// Whether `bf16` is multiplied as it is stored. The processor's matrix unit does where the products of the forward
    /// pass and of both gradients are large enough; pairs are multiplied where `f32` has no better way than products.
    pub fn has_narrow_products(&self) -> bool {
        let (cg, og) = self.group();
        let rows = cg * self.window.kernel_len();
        let is_other = self.is_depthwise() || self.is_winograd::<f32>() || self.is_direct::<f32>();
        let has_tiles = !self.is_depthwise() && has_tiles(og, rows, og.min(rows)) && self.window.output_len() >= 16;
        has_tiles || has_pairs() && !is_other && og.min(rows) >= 8
    }

    /// [`Conv::forward_then`] by products of the operands' type.
    pub fn forward_by_products<S: Multiply + Default, C: Output<S::Acc>>(
        &self,
        x: &[S],
        weight: &[S],
        y: &mut [C],
        done: &(dyn Fn(Patch) + Sync),
    ) {
        self.check(x.len(), weight.len(), y.len());
        let (cg, og) = self.group();
        let (depth, plane) = (self.depth(), self.window.output_len());
        let target = (UNFOLDED / depth.max(1)).clamp(64, 2048).next_multiple_of(16);
        let cut = Span::cut(self.batch, plane, if self.window.is_pointwise() { plane.max(1) } else { target });
        let (px, pw, py) =
            (Shared::new(x.as_ptr().cast_mut()), Shared::new(weight.as_ptr().cast_mut()), Shared::new(y.as_mut_ptr()));
        let task = |task: usize| {
            let (g, span) = (task % self.groups, cut.span(task / self.groups));
            let n = span.len();
            if n == 0 {
                return;
            }
            // SAFETY: lengths were checked; spans are apart from one another.
            unsafe {
                let w = Mat::row_major(pw.get().add(g * og * depth), depth);
                let to = py.get().add((span.image * self.out_channels + g * og) * plane + span.first);
                let matrix;
                let b = if self.window.is_pointwise() {
                    Mat::row_major(px.get().add((span.image * self.channels + g * cg) * plane + span.first), plane)
                } else {
                    matrix = Scratch::<S>::new(depth * n);
                    unfold(&self.window, px.get(), self.channels, g * cg..(g + 1) * cg, span, matrix.ptr());
                    Mat::row_major(matrix.ptr().cast_const(), n)
                };
                let row = span.image * self.out_channels + g * og;
                if span.images == 1 {
                    let q = Gemm { c_row: plane as isize, ..Gemm::new(og, n, depth, w, b, to) };
                    q.run_parts(&|p| done(Patch { row: row + p.row, col: span.first + p.col, ..p }));
                } else {
                    let out = Scratch::<C>::new(og * n);
                    Gemm::new(og, n, depth, w, b, out.ptr()).run();
                    for o in 0..og {
                        for i in 0..span.images {
                            let dst = to.add((i * self.out_channels + o) * plane);
                            std::ptr::copy_nonoverlapping(out.ptr().add(o * n + i * plane), dst, plane);
                        }
                    }
                    (0..span.images)
                        .for_each(|i| done(Patch { row: row + i * self.out_channels, rows: og, col: 0, cols: plane }));
                }
            }
        };
        // A pointwise span of several images is several matrices, so there it is one image.
        run_tasks(cut.count() * self.groups, og * depth * plane.min(target), &task);
    }

    /// A weight in the form that [`Conv::forward_prepacked`] takes, for those that many inputs
    /// meet; `None` if this convolution has no such form.
    pub fn prepacked(&self, weight: &Literal) -> Option<Prepacked> {
        assert!(weight.dtype() == DType::F32, "conv: a weight of {}", weight.dtype());
        assert!(weight.count() == self.out_channels * self.depth(), "conv: a weight of another size");
        let (kernel, kind, sizes) = if self.is_depthwise() || self.is_direct::<f32>() {
            return None;
        } else if self.is_winograd::<f32>() {
            ("winograd", Form::Winograd, winograd::packed_sizes(self))
        } else if self.is_stripped() {
            let (_, og) = self.group();
            ("strips", Form::Strips, [self.groups, self.depth(), og])
        } else {
            return None;
        };
        let w: *const f32 = weight.bytes().as_ptr().cast();
        // SAFETY: the length was checked.
        let make = || unsafe {
            match kind {
                Form::Winograd if const { ir::is_linked(WINOGRAD) } => winograd::packed(self, w),
                Form::Strips if const { ir::is_linked(STRIPS) } => packed_conv::packed(self, w),
                _ => ir::unlinked(kernel),
            }
        };
        Some(Prepacked(kind, packed_weights::shared(weight, packed_weights::Form { kernel, sizes }, make)))
    }

    /// `y = weight * x` with a weight from [`Conv::prepacked`].
    pub fn forward_prepacked(&self, x: &[f32], weight: &Prepacked, y: &mut [f32]) {
        self.forward_prepacked_then(x, weight, y, &|_| {});
    }

    /// [`Conv::forward_prepacked`], with parts of the result handed over as by [`Conv::forward_then`].
    pub fn forward_prepacked_then(&self, x: &[f32], weight: &Prepacked, y: &mut [f32], done: &(dyn Fn(Patch) + Sync)) {
        self.check(x.len(), self.out_channels * self.depth(), y.len());
        let (x, y) = (x.as_ptr(), y.as_mut_ptr());
        // SAFETY: lengths were checked.
        unsafe {
            match weight.0 {
                Form::Winograd if const { ir::is_linked(WINOGRAD) } => {
                    winograd::forward_packed(self, x, &weight.1, y, done);
                }
                Form::Strips if const { ir::is_linked(STRIPS) } => packed_conv::forward(self, x, &weight.1, y, done),
                _ => ir::unlinked(self.algorithm::<f32>()),
            }
        }
    }

    /// `dx`, the gradient of the input, from `dy`, that of the output.
    pub fn grad_input<E: Multiply + Float>(&self, dy: &[E], weight: &[E], dx: &mut [E]) {
        self.check(dx.len(), weight.len(), dy.len());
        if self.is_depthwise() {
            // SAFETY: lengths were checked.
            return unsafe { depthwise::grad_input(self, dy.as_ptr(), weight.as_ptr(), dx.as_mut_ptr()) };
        }
        if self.is_winograd::<E>() || is_f32::<E>() && direct::admits_input(self) {
            let run = if self.is_winograd::<E>() { winograd::grad_input } else { direct::grad_input };
            let (dy, w, dx) = (dy.as_ptr().cast(), weight.as_ptr().cast(), dx.as_mut_ptr().cast());
            // SAFETY: lengths were checked, and the elements are f32.
            return unsafe { run(self, dy, w, dx) };
        }
        self.grad_input_by_products(dy, weight, dx);
    }

    /// `dx` by products of the operands' type.
    pub fn grad_input_by_products<S: Multiply + Default>(&self, dy: &[S], weight: &[S], dx: &mut [S::Acc]) {
        self.check(dx.len(), weight.len(), dy.len());
        if let Some(reversed) = self.reversed() {
            let turned = self.turned(weight);
            // SAFETY: all of it was written.
            return reversed.forward_by_products(dy, unsafe { turned.slice() }, dx, &|_| {});
        }
        let (cg, og) = self.group();
        let (depth, plane, taps) = (self.depth(), self.window.output_len(), self.window.kernel_len());
        // Channels a task: as many as make it worth while.
        let each = (TASK / (og * taps * plane).max(1)).max(32 / taps).clamp(1, cg);
        let blocks = cg.div_ceil(each);
        let (pdy, pw, pdx) = (
            Shared::new(dy.as_ptr().cast_mut()),
            Shared::new(weight.as_ptr().cast_mut()),
            Shared::new(dx.as_mut_ptr()),
        );
        let task = |task: usize| {
            let (n, g, c0) = (task / blocks / self.groups, task / blocks % self.groups, task % blocks * each);
            let count = each.min(cg - c0);
            let rows = count * taps;
            // SAFETY: lengths were checked; each task writes its own channels of its own image.
            unsafe {
                let to = pdx.get().add((n * self.channels + g * cg + c0) * self.window.input_len());
                let w = Mat::row_major(pw.get().add(g * og * depth + c0 * taps).cast_const(), depth).t();
                let grad = pdy.get().add((n * self.out_channels + g * og) * plane);
                if self.window.is_pointwise() {
                    Gemm::new(rows, plane, og, w, Mat::row_major(grad.cast_const(), plane), to).run();
                    return;
                }
                (0..count * self.window.input_len()).for_each(|i| to.add(i).write(S::Acc::default()));
                let target = (UNFOLDED / rows).clamp(64, 4096);
                let cut = Span::cut(1, plane, target);
                for span in (0..cut.count()).map(|i| cut.span(i)).filter(|s| s.len() > 0) {
                    let matrix = Scratch::<S::Acc>::new(rows * span.len());
                    let b = Mat::row_major(grad.add(span.first).cast_const(), plane);
                    Gemm::new(rows, span.len(), og, w, b, matrix.ptr()).run();
                    fold(&self.window, matrix.ptr(), count, span.first, span.end, to);
                }
            }
        };
        run_tasks(self.batch * self.groups * blocks, each * taps * og * plane, &task);
    }

    /// The convolution that takes the output's gradient to the input's: where windows move by one element, with their taps
    /// the other way round. With few channels its product would be low.
    fn reversed(&self) -> Option<Conv> {
        let w = &self.window;
        let reach = |d: usize| w.dilation[d] * (w.kernel[d] - 1);
        let is_plain = w.stride == [1; 3] && (0..3).all(|d| w.pad[d] <= reach(d));
        if !is_plain || w.is_pointwise() || self.group().0 < REVERSED_MIN {
            return None;
        }
        let pad = [0, 1, 2].map(|d| reach(d) - w.pad[d]);
        let window = Window { input: w.output, output: w.input, pad, ..*w };
        Some(Conv { channels: self.out_channels, out_channels: self.channels, window, ..*self })
    }

    /// The weight of [`Conv::reversed`].
    fn turned<S: Multiply>(&self, weight: &[S]) -> Scratch<S> {
        let ((cg, og), taps) = (self.group(), self.window.kernel_len());
        let turned = Scratch::<S>::new(weight.len());
        for (i, lines) in weight.chunks_exact(taps).enumerate() {
            let (g, o, c) = (i / cg / og, i / cg % og, i % cg);
            for (t, &x) in lines.iter().enumerate() {
                // SAFETY: each tap has its place.
                unsafe { turned.ptr().add(((g * cg + c) * og + o) * taps + taps - 1 - t).write(x) };
            }
        }
        turned
    }

    /// `dw`, the gradient of the weight, from the input and `dy`, the gradient of the output.
    pub fn grad_weight<E: Multiply + Float>(&self, x: &[E], dy: &[E], dw: &mut [E]) {
        self.check(x.len(), dw.len(), dy.len());
        if self.is_depthwise() {
            // SAFETY: lengths were checked.
            return unsafe { depthwise::grad_weight(self, x.as_ptr(), dy.as_ptr(), dw.as_mut_ptr()) };
        }
        if self.is_winograd::<E>() || self.is_direct::<E>() {
            let run = if self.is_winograd::<E>() { winograd::grad_weight } else { direct::grad_weight };
            let (x, dy, dw) = (x.as_ptr().cast(), dy.as_ptr().cast(), dw.as_mut_ptr().cast());
            // SAFETY: lengths were checked, and the elements are f32.
            return unsafe { run(self, x, dy, dw) };
        }
        self.grad_weight_by_products(x, dy, dw);
    }

    /// `dw` by products of the operands' type.
    pub fn grad_weight_by_products<S: Multiply + Default>(&self, x: &[S], dy: &[S], dw: &mut [S::Acc]) {
        self.check(x.len(), dw.len(), dy.len());
        let (cg, og) = self.group();
        let (depth, taps, plane) = (self.depth(), self.window.kernel_len(), self.window.output_len());
        // Channels a task, then images a task where channels are few.
        let each = (96 / taps).clamp(1, cg);
        let blocks = cg.div_ceil(each) * self.groups;
        let chunks = if blocks >= 8 { 1 } else { self.batch.clamp(1, 8) };
        let parts = Scratch::<S::Acc>::new(if chunks > 1 { chunks * dw.len() } else { 0 });
        let size = dw.len();
        let (px, pdy, pdw) =
            (Shared::new(x.as_ptr().cast_mut()), Shared::new(dy.as_ptr().cast_mut()), Shared::new(dw.as_mut_ptr()));
        let partial = Shared::new(parts.ptr());
        let task = |task: usize| {
            let (chunk, block) = (task / blocks, task % blocks);
            let (g, c0) = (block % self.groups, block / self.groups * each);
            let channels = g * cg + c0..g * cg + (c0 + each).min(cg);
            let images = self.batch * chunk / chunks..self.batch * (chunk + 1) / chunks;
            let rows = channels.len() * taps;
            let target = (UNFOLDED / rows).clamp(128, 4096);
            let cut = Span::cut(images.len(), plane, target);
            // SAFETY: lengths were checked; each task writes its own columns of its own part.
            unsafe {
                let base = if chunks > 1 { partial.get().add(chunk * size) } else { pdw.get() };
                let to = base.add(g * og * depth + c0 * taps);
                for o in 0..og {
                    (0..rows).for_each(|i| to.add(o * depth + i).write(S::Acc::default()));
                }
                for mut span in (0..cut.count()).map(|i| cut.span(i)).filter(|s| s.len() > 0) {
                    span.image += images.start;
                    let n = span.len();
                    let matrix = Scratch::<S>::new(rows * n);
                    unfold(&self.window, px.get(), self.channels, channels.clone(), span, matrix.ptr());
                    let grad = pdy.get().add((span.image * self.out_channels + g * og) * plane + span.first);
                    let gathered;
                    let a = if span.images == 1 {
                        Mat::row_major(grad.cast_const(), plane)
                    } else {
                        gathered = Scratch::<S>::new(og * n);
                        for o in 0..og {
                            for i in 0..span.images {
                                let src = grad.add((i * self.out_channels + o) * plane);
                                std::ptr::copy_nonoverlapping(src, gathered.ptr().add(o * n + i * plane), plane);
                            }
                        }
                        Mat::row_major(gathered.ptr().cast_const(), n)
                    };
                    let b = Mat::row_major(matrix.ptr().cast_const(), n).t();
                    let q = Gemm { c_row: depth as isize, accumulate: true, ..Gemm::new(og, rows, n, a, b, to) };
                    q.run();
                }
            }
        };
        run_tasks(blocks * chunks, each * taps * og * plane * self.batch.div_ceil(chunks), &task);
        if chunks > 1 {
            // SAFETY: every part was written whole.
            let parts = unsafe { parts.slice() };
            dw.copy_from_slice(&parts[..size]);
            for part in parts.chunks_exact(size).skip(1) {
                // SAFETY: equal lengths, apart.
                unsafe { S::Acc::axpy(S::Acc::ONE, part.as_ptr(), dw.as_mut_ptr(), size) };
            }
        }
    }
}

pub(super) fn is_f32<E: 'static>() -> bool {
    std::any::TypeId::of::<E>() == std::any::TypeId::of::<f32>()
}

/// Runs tasks of `work` multiplications each: on all threads when there are several of some size,
/// else one after the other, so that the matrix products inside may use the threads.
fn run_tasks(tasks: usize, work: usize, task: &(dyn Fn(usize) + Sync)) {
    if tasks >= 4 || (tasks > 1 && work <= TASK) {
        pool::parallel_for(tasks, task);
    } else {
        (0..tasks).for_each(task);
    }
}

#[cfg(test)]
#[path = "conv_tests.rs"]
mod tests;
