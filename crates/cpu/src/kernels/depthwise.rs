//! Convolutions with one input channel a group: no matrix products.
//!
//! A plane is copied between zeros; then sums over its windows are vectors of neighboring outputs, a
//! few lines at a time. The gradient of the input is the same with taps in reverse order and as many
//! zeros between the elements as a stride skips. The usual windows of `f32` have kernels of their own
//! ([`super::depthwise_lines`]). Where windows have three dimensions, or strides that
//! vectors cannot follow, rows are added tap by tap.

#![allow(unsafe_code)]

use super::conv::{Conv, is_f32};
use super::depthwise_lines::Lines;
use super::epilogue::Epilogue;
use super::gemm::{Float, Patch, PlaneOf};
use super::scratch::Scratch;
use super::window::Window;
use crate::pool::{self, Shared};
use crate::vmath::simd::{Isa, Vector};
use crate::vmath::{dispatch, loops};

/// What one pass over an input plane and an output plane does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// The input times the taps, to the output.
    Forward,
    /// The output times the taps, to the input.
    Input,
    /// Adds the products of both to the taps.
    Weight,
}

/// One pass: an input plane, an output plane and the taps between them.
pub(crate) struct Plane<'a, E> {
    pass: Pass,
    window: &'a Window,
    x: *mut E,
    y: *mut E,
    taps: *mut E,
    /// Room for a plane between zeros, which are there already.
    frame: Option<(Frame, *mut E)>,
    /// Add to the input's gradient what another output has left there.
    adds: bool,
}

/// How a plane lies between zeros: element `(i, j)` in line `top + i`, column `left + j * apart`.
#[derive(Clone, Copy)]
struct Frame {
    top: usize,
    left: usize,
    apart: [usize; 2],
    lines: usize,
    len: usize,
}

impl Frame {
    /// For the plane that a pass reads windows from; `None` where there is no such way.
    fn new(w: &Window, pass: Pass) -> Option<Frame> {
        let is_flat = w.input[0] == 1 && w.kernel[0] == 1 && w.output[0] == 1;
        if !is_flat || (pass != Pass::Input && !matches!(w.stride[2], 1 | 2 | 4)) {
            return None;
        }
        let reach = [1, 2].map(|d| w.dilation[d] * (w.kernel[d] - 1));
        let of = |d: usize| {
            if pass == Pass::Input {
                Some((w.output[d], w.input[d], 1, w.stride[d], reach[d - 1].checked_sub(w.pad[d])?))
            } else {
                Some((w.input[d], w.output[d], w.stride[d], 1, w.pad[d]))
            }
        };
        let ((high, to_high, step, apart, pad), (wide, to_wide, side, between, left)) = (of(1)?, of(2)?);
        let last = ((to_high - 1) * step + reach[0]).saturating_sub(pad) / apart;
        let top = pad.div_ceil(apart);
        let len = (left + wide * between).max(to_wide.next_multiple_of(LANES) * side + reach[1] + LANES);
        Some(Frame { top, left, apart: [apart, between], lines: top + high.max(last + 1), len })
    }
    fn size(&self) -> usize {
        self.lines * self.len
    }
    /// Copies a plane of `high` lines of `wide` elements.
    #[inline(always)]
    unsafe fn fill<E: Copy>(&self, x: *const E, high: usize, wide: usize, room: *mut E) {
        for i in 0..high {
            // SAFETY: the caller's promise; the frame has room for the plane.
            unsafe {
                let (from, to) = (x.add(i * wide), room.add((self.top + i) * self.len + self.left));
                if self.apart[1] == 1 {
                    std::ptr::copy_nonoverlapping(from, to, wide);
                } else {
                    (0..wide).for_each(|j| *to.add(j * self.apart[1]) = *from.add(j));
                }
            }
        }
    }
}

/// The most lanes of a vector.
const LANES: usize = 16;
/// Elements of the planes that a task computes.
const TASK: usize = 1 << 14;
/// Tasks that planes are cut into at least.
const TASKS: usize = 8;
/// Lines that are summed at a time.
const LINES: usize = 4;

/// Calls `f(tap, first output, first input, columns)` for every run of outputs along the last
/// dimension whose tap is inside the input.
#[inline(always)]
fn each_run(w: &Window, mut f: impl FnMut(usize, usize, usize, usize)) {
    for tap in 0..w.kernel_len() {
        let (kx, ky, kz) = (tap % w.kernel[2], tap / w.kernel[2] % w.kernel[1], tap / w.kernel[2] / w.kernel[1]);
        let (low, high) = w.inside(2, kx);
        if low >= high {
            continue;
        }
        let first = low * w.stride[2] + kx * w.dilation[2] - w.pad[2];
        for oz in 0..w.output[0] {
            let Some(z) = w.at(0, oz, kz) else { continue };
            for oy in 0..w.output[1] {
                let Some(y) = w.at(1, oy, ky) else { continue };
                let out = (oz * w.output[1] + oy) * w.output[2] + low;
                f(tap, out, (z * w.input[1] + y) * w.input[2] + first, high - low);
            }
        }
    }
}

#[inline(always)]
unsafe fn plane<V: Vector>(q: &Plane<'_, V::E>) {
    let w = q.window;
    // SAFETY: the caller's promise.
    unsafe {
        let Some((frame, room)) = q.frame else { return tap_by_tap::<V>(q) };
        let of_output = q.pass == Pass::Input;
        let (from, size) = if of_output { (q.y, w.output) } else { (q.x, w.input) };
        frame.fill(from, size[1], size[2], room);
        match (q.pass, w.kernel[2]) {
            (Pass::Weight, 3) => sums_of_taps::<V, 3>(q, &frame, room),
            (Pass::Weight, 5) => sums_of_taps::<V, 5>(q, &frame, room),
            (Pass::Weight, 7) => sums_of_taps::<V, 7>(q, &frame, room),
            (Pass::Weight, _) => sums_of_taps::<V, 1>(q, &frame, room),
            (_, 3) => sums::<V, 3>(q, &frame, room),
            (_, 5) => sums::<V, 5>(q, &frame, room),
            _ => sums::<V, 0>(q, &frame, room),
        }
    }
}

/// Every sum of a plane's windows; `K` taps a line, or 0: as many as there are.
#[inline(always)]
unsafe fn sums<V: Vector, const K: usize>(q: &Plane<'_, V::E>, f: &Frame, room: *const V::E) {
    let w = q.window;
    let (to, size, step) = if q.pass == Pass::Input { (q.x, w.input, 1) } else { (q.y, w.output, w.stride[2]) };
    // Lines whose windows begin in the same way lie `apart[0]` from one another.
    for phase in 0..f.apart[0].min(size[1]) {
        let mut line = phase;
        while line < size[1] {
            let is_many = line + (LINES - 1) * f.apart[0] < size[1];
            // SAFETY: the caller's promise; the frame covers every window.
            unsafe {
                match (is_many, step) {
                    (true, 1) => sum_lines::<V, K, LINES, 1>(q, f, room, line, to, size[2]),
                    (true, 2) => sum_lines::<V, K, LINES, 2>(q, f, room, line, to, size[2]),
                    (true, _) => sum_lines::<V, K, LINES, 4>(q, f, room, line, to, size[2]),
                    (false, 1) => sum_lines::<V, K, 1, 1>(q, f, room, line, to, size[2]),
                    (false, 2) => sum_lines::<V, K, 1, 2>(q, f, room, line, to, size[2]),
                    (false, _) => sum_lines::<V, K, 1, 4>(q, f, room, line, to, size[2]),
                }
            }
            line += if is_many { LINES } else { 1 } * f.apart[0];
        }
    }
}

/// `L` lines from `line` on, windows `S` columns apart.
#[inline(always)]
unsafe fn sum_lines<V: Vector, const K: usize, const L: usize, const S: usize>(
    q: &Plane<'_, V::E>,
    f: &Frame,
    room: *const V::E,
    line: usize,
    to: *mut V::E,
    wide: usize,
) {
    let w = q.window;
    let (is_back, [_, high, across]) = (q.pass == Pass::Input, w.kernel);
    let (step, pad) = if is_back { (1, w.dilation[1] * (high - 1) - w.pad[1]) } else { (w.stride[1], w.pad[1]) };
    let count = if K == 0 { across } else { K };
    for col in (0..wide).step_by(V::N) {
        let mut acc = [V::zero(); L];
        for ky in 0..high {
            // The first line of the window's tap, if it is not between two elements.
            let at = line * step + ky * w.dilation[1] + f.top * f.apart[0] - pad;
            if !at.is_multiple_of(f.apart[0]) {
                continue;
            }
            // SAFETY: the frame covers every window.
            unsafe {
                let from = room.add(at / f.apart[0] * f.len + col * S);
                for kx in 0..count {
                    let tap = ky * across + kx;
                    let tap = V::splat(*q.taps.add(if is_back { high * across - 1 - tap } else { tap }));
                    for i in 0..L {
                        acc[i] = tap.fma(V::load_apart::<S>(from.add(i * step * f.len + kx * w.dilation[2])), acc[i]);
                    }
                }
            }
        }
        let n = V::N.min(wide - col);
        for i in 0..L {
            // SAFETY: lines and columns of the plane.
            unsafe {
                let p = to.add((line + i * f.apart[0]) * wide + col);
                (if q.adds { acc[i] + V::load_n(p, n) } else { acc[i] }).store_n(p, n);
            }
        }
    }
}

/// Adds to every tap the products of the input and the output that meet there, `K` of a line at a
/// time.
#[inline(always)]
unsafe fn sums_of_taps<V: Vector, const K: usize>(q: &Plane<'_, V::E>, f: &Frame, room: *const V::E) {
    // SAFETY: the caller's promise.
    unsafe {
        match q.window.stride[2] {
            1 => sums_of_taps_apart::<V, K, 1>(q, f, room),
            2 => sums_of_taps_apart::<V, K, 2>(q, f, room),
            _ => sums_of_taps_apart::<V, K, 4>(q, f, room),
        }
    }
}

#[inline(always)]
unsafe fn sums_of_taps_apart<V: Vector, const K: usize, const S: usize>(
    q: &Plane<'_, V::E>,
    f: &Frame,
    room: *const V::E,
) {
    let w = q.window;
    let [_, high, wide] = w.output;
    for ky in 0..w.kernel[1] {
        for first in (0..w.kernel[2]).step_by(K) {
            let mut acc = [V::zero(); K];
            // SAFETY: the frame covers every window; lanes without an output are zero.
            unsafe {
                for line in 0..high {
                    let from = room.add((line * w.stride[1] + ky * w.dilation[1]) * f.len);
                    for col in (0..wide).step_by(V::N) {
                        let g = V::load_n(q.y.add(line * wide + col), V::N.min(wide - col));
                        for k in 0..K {
                            let x = V::load_apart::<S>(from.add(col * S + (first + k) * w.dilation[2]));
                            acc[k] = g.fma(x, acc[k]);
                        }
                    }
                }
                for k in 0..K {
                    let tap = q.taps.add(ky * w.kernel[2] + first + k);
                    *tap = *tap + acc[k].sum();
                }
            }
        }
    }
}

/// Adds rows of the planes, each times a tap.
#[inline(always)]
unsafe fn tap_by_tap<V: Vector>(q: &Plane<'_, V::E>) {
    let stride = q.window.stride[2];
    // SAFETY: runs stay inside the planes, which the caller promises to be there.
    each_run(q.window, |tap, out, at, count| unsafe {
        let (x, y, t) = (q.x.add(at), q.y.add(out), q.taps.add(tap));
        match (q.pass, stride) {
            (Pass::Forward, 1) => loops::axpy::<V>(*t, x, y, count),
            (Pass::Input, 1) => loops::axpy::<V>(*t, y, x, count),
            (Pass::Weight, 1) => *t = *t + loops::dot_leaf::<V>(x, y, count),
            (Pass::Forward, _) => (0..count).for_each(|i| *y.add(i) = *y.add(i) + *t * *x.add(i * stride)),
            (Pass::Input, _) => (0..count).for_each(|i| *x.add(i * stride) = *x.add(i * stride) + *t * *y.add(i)),
            (Pass::Weight, _) => (0..count).for_each(|i| *t = *t + *y.add(i) * *x.add(i * stride)),
        }
    });
}

dispatch! { pub(crate) unsafe fn plane_f32(q: &Plane<'_, f32>) { I => plane::<<I as Isa>::S>(q) } }
dispatch! { pub(crate) unsafe fn plane_f64(q: &Plane<'_, f64>) { I => plane::<<I as Isa>::D>(q) } }

/// Runs one pass of a convolution. Tasks own planes of what is written: output planes, input
/// planes, or the taps of a channel.
///
/// # Safety
/// The pointers must lead to arrays of the sizes that `q` says; only the one the pass writes is
/// written.
unsafe fn run<E: Float>(q: &Conv, pass: Pass, x: *mut E, taps: *mut E, y: *mut E) {
    let (x, taps, y) = (Shared::new(x), Shared::new(taps), Shared::new(y));
    let window = &q.window;
    let (size_in, size_out, count) = (window.input_len(), window.output_len(), window.kernel_len());
    let many = q.out_channels / q.groups;
    let frame = Frame::new(window, pass);
    // SAFETY: planes lie inside the arrays.
    let one = |n: usize, o: usize, room: *mut E| unsafe {
        E::plane(&PlaneOf(Plane {
            pass,
            window,
            x: x.get().add((n * q.channels + o / many) * size_in),
            y: y.get().add((n * q.out_channels + o) * size_out),
            taps: taps.get().add(o * count),
            frame: frame.map(|f| (f, room)),
            adds: pass == Pass::Input && !o.is_multiple_of(many),
        }))
    };
    // What a unit of work writes: an output plane, an input plane, or the taps of a channel.
    let (units, size) = match pass {
        Pass::Forward => (q.batch * q.out_channels, size_out),
        Pass::Input => (q.batch * q.channels, size_in),
        Pass::Weight => (q.out_channels, q.batch * size_in),
    };
    let each = (TASK / size.max(1)).max(1);
    pool::parallel_for(units.div_ceil(each), &|task| {
        let room = Scratch::<E>::new(frame.map_or(0, |f| f.size()));
        // SAFETY: each task fills and writes its own planes or taps.
        unsafe {
            (0..frame.map_or(0, |f| f.size())).for_each(|i| room.ptr().add(i).write(E::default()));
            for unit in task * each..units.min((task + 1) * each) {
                match pass {
                    Pass::Forward => {
                        if frame.is_none() {
                            y.slice(unit * size_out, size_out).fill(E::default());
                        }
                        one(unit / q.out_channels, unit % q.out_channels, room.ptr());
                    }
                    Pass::Input => {
                        if frame.is_none() {
                            x.slice(unit * size_in, size_in).fill(E::default());
                        }
                        let (n, c) = (unit / q.channels, unit % q.channels);
                        (c * many..(c + 1) * many).for_each(|o| one(n, o, room.ptr()));
                    }
                    Pass::Weight => {
                        taps.slice(unit * count, count).fill(E::default());
                        (0..q.batch).for_each(|n| one(n, unit, room.ptr()));
                    }
                }
            }
        }
    });
}

/// Forward; `done` is called for channels that are complete.
///
/// # Safety
/// Arrays of the sizes that `q` says.
pub(crate) unsafe fn forward<E: Float>(
    q: &Conv,
    x: *const E,
    weight: *const E,
    y: *mut E,
    done: &(dyn Fn(Patch) + Sync),
) {
    // SAFETY: the caller's promise; the elements are f32 where lines are.
    unsafe {
        match Lines::forward(q).filter(|_| is_f32::<E>()) {
            Some(lines) => {
                let e = Epilogue::plain(q.window.output_len(), y.cast());
                run_lines(q, &lines, x.cast(), weight.cast(), &e, done);
            }
            None => {
                run(q, Pass::Forward, x.cast_mut(), weight.cast_mut(), y);
                done(Patch { row: 0, rows: q.batch * q.out_channels, col: 0, cols: q.window.output_len() });
            }
        }
    }
}

/// Gradient of the input.
///
/// # Safety
/// Arrays of the sizes that `q` says.
pub(crate) unsafe fn grad_input<E: Float>(q: &Conv, dy: *const E, weight: *const E, dx: *mut E) {
    // SAFETY: the caller's promise; the elements are f32 where lines are.
    unsafe {
        match Lines::backward(q).filter(|_| is_f32::<E>()) {
            Some(lines) => {
                let e = Epilogue::plain(q.window.input_len(), dx.cast());
                run_lines(q, &lines, dy.cast(), weight.cast(), &e, &|_| {});
            }
            None => run(q, Pass::Input, dx, weight.cast_mut(), dy.cast_mut()),
        }
    }
}

/// Whether [`forward_finished`] computes it.
pub(crate) fn finishes(q: &Conv) -> bool {
    Lines::has_masks() && Lines::forward(q).is_some()
}

/// Output of `f32` that an epilogue takes from registers.
///
/// # Safety
/// [`finishes`] holds; arrays of the sizes that `q` says.
pub(crate) unsafe fn forward_finished(q: &Conv, x: *const f32, weight: *const f32, e: &Epilogue<Shared<u8>>) {
    if let Some(lines) = Lines::forward(q) {
        // SAFETY: the caller's promise.
        unsafe { run_lines(q, &lines, x, weight, e, &|_| {}) };
    }
}

/// Sums over windows of all planes.
unsafe fn run_lines(
    q: &Conv,
    lines: &Lines,
    x: *const f32,
    taps: *const f32,
    e: &Epilogue<Shared<u8>>,
    done: &(dyn Fn(Patch) + Sync),
) {
    let (x, taps) = (Shared::new(x.cast_mut()), Shared::new(taps.cast_mut()));
    let (size_in, size_out) = lines.sizes();
    let units = q.batch * q.channels;
    // Whole turns; tasks enough for some threads.
    let each = (TASK / size_out).min(units / TASKS).max(1).next_multiple_of(lines.turn());
    pool::parallel_for(units.div_ceil(each), &|task| {
        let room = lines.room();
        let end = units.min((task + 1) * each);
        let mut unit = task * each;
        while unit < end {
            // The planes of a turn have taps that lie together.
            let count = lines.turn().min(end - unit).min(q.channels - unit % q.channels);
            // SAFETY: the caller's promise; each task writes its own planes.
            unsafe {
                let x = x.get().add(unit * size_in);
                let taps = taps.get().add(unit % q.channels * q.window.kernel_len());
                lines.run(count, x, taps, (e, unit), &room);
            }
            done(Patch { row: unit, rows: count, col: 0, cols: size_out });
            unit += count;
        }
    });
}

/// Gradient of the weight.
///
/// # Safety
/// Arrays of the sizes that `q` says.
pub(crate) unsafe fn grad_weight<E: Float>(q: &Conv, x: *const E, dy: *const E, dw: *mut E) {
    // SAFETY: the caller's promise.
    unsafe { run(q, Pass::Weight, x.cast_mut(), dw, dy.cast_mut()) }
}
