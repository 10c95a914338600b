//! Convolutions with one input channel a group: row operations, no matrix products.

#![allow(unsafe_code)]

use super::conv::Conv;
use super::gemm::{Float, PlaneOf};
use super::window::Window;
use crate::pool::{self, Shared};
use crate::vmath::simd::{Isa, Vector};
use crate::vmath::{dispatch, loops};

/// What one pass over an input plane and an output plane does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Adds the input times the taps to the output.
    Forward,
    /// Adds the output times the taps to the input.
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
}

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
    // SAFETY: planes lie inside the arrays.
    let one = |n: usize, o: usize| unsafe {
        E::plane(&PlaneOf(Plane {
            pass,
            window,
            x: x.get().add((n * q.channels + o / many) * size_in),
            y: y.get().add((n * q.out_channels + o) * size_out),
            taps: taps.get().add(o * count),
        }))
    };
    // SAFETY: each task fills and writes its own planes or taps.
    match pass {
        Pass::Forward => pool::parallel_for(q.batch * q.out_channels, &|task| unsafe {
            let (n, o) = (task / q.out_channels, task % q.out_channels);
            y.slice(task * size_out, size_out).fill(E::default());
            one(n, o);
        }),
        Pass::Input => pool::parallel_for(q.batch * q.channels, &|task| unsafe {
            let (n, c) = (task / q.channels, task % q.channels);
            x.slice(task * size_in, size_in).fill(E::default());
            (c * many..(c + 1) * many).for_each(|o| one(n, o));
        }),
        Pass::Weight => pool::parallel_for(q.out_channels, &|o| unsafe {
            taps.slice(o * count, count).fill(E::default());
            (0..q.batch).for_each(|n| one(n, o));
        }),
    }
}

/// Forward.
///
/// # Safety
/// Arrays of the sizes that `q` says.
pub(crate) unsafe fn forward<E: Float>(q: &Conv, x: *const E, weight: *const E, y: *mut E) {
    // SAFETY: the caller's promise.
    unsafe { run(q, Pass::Forward, x.cast_mut(), weight.cast_mut(), y) }
}

/// Gradient of the input.
///
/// # Safety
/// Arrays of the sizes that `q` says.
pub(crate) unsafe fn grad_input<E: Float>(q: &Conv, dy: *const E, weight: *const E, dx: *mut E) {
    // SAFETY: the caller's promise.
    unsafe { run(q, Pass::Input, dx, weight.cast_mut(), dy.cast_mut()) }
}

/// Gradient of the weight.
///
/// # Safety
/// Arrays of the sizes that `q` says.
pub(crate) unsafe fn grad_weight<E: Float>(q: &Conv, x: *const E, dy: *const E, dw: *mut E) {
    // SAFETY: the caller's promise.
    unsafe { run(q, Pass::Weight, x.cast_mut(), dw, dy.cast_mut()) }
}
