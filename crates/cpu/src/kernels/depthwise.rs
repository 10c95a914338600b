//! Convolutions with one input channel a group: row operations, no matrix products.

#![allow(unsafe_code)]

use super::conv::Conv;
use super::gemm::Float;
use crate::pool::{self, Shared};

/// Calls `f(tap, output row start, input row start, columns)` for every run of outputs along the
/// last dimension whose tap is inside the input.
#[inline(always)]
fn each_run(q: &Conv, mut f: impl FnMut(usize, usize, usize, usize)) {
    let w = &q.window;
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

/// Forward, one task a few output planes.
pub(crate) unsafe fn forward<E: Float>(q: &Conv, x: *const E, weight: *const E, bias: Option<&[E]>, y: *mut E) {
    let (x, weight, y) = (Shared::new(x.cast_mut()), Shared::new(weight.cast_mut()), Shared::new(y));
    let (plane_in, plane_out, taps) = (q.window.input_len(), q.window.output_len(), q.window.kernel_len());
    let many = q.out_channels / q.groups;
    pool::parallel_for(q.batch * q.out_channels, &move |task| {
        let (n, o) = (task / q.out_channels, task % q.out_channels);
        // SAFETY: each task writes its own plane; runs stay inside planes.
        unsafe {
            let src = x.get().add((n * q.channels + o / many) * plane_in);
            let dst = y.get().add(task * plane_out);
            let taps_at = weight.get().add(o * taps);
            let start = bias.map_or(E::default(), |b| b[o]);
            (0..plane_out).for_each(|i| dst.add(i).write(start));
            each_run(q, |tap, out, at, count| {
                let f = *taps_at.add(tap);
                if q.window.stride[2] == 1 {
                    return E::axpy(f, src.add(at), dst.add(out), count);
                }
                for i in 0..count {
                    let v = *dst.add(out + i) + f * *src.add(at + i * q.window.stride[2]);
                    dst.add(out + i).write(v);
                }
            });
        }
    });
}

/// Gradient of the input, one task an input plane.
pub(crate) unsafe fn grad_input<E: Float>(q: &Conv, dy: *const E, weight: *const E, dx: *mut E) {
    let (dy, weight, dx) = (Shared::new(dy.cast_mut()), Shared::new(weight.cast_mut()), Shared::new(dx));
    let (plane_in, plane_out, taps) = (q.window.input_len(), q.window.output_len(), q.window.kernel_len());
    let many = q.out_channels / q.groups;
    pool::parallel_for(q.batch * q.channels, &move |task| {
        let (n, c) = (task / q.channels, task % q.channels);
        // SAFETY: each task writes its own plane; runs stay inside planes.
        unsafe {
            let dst = dx.get().add(task * plane_in);
            (0..plane_in).for_each(|i| dst.add(i).write(E::default()));
            for o in c * many..(c + 1) * many {
                let src = dy.get().add((n * q.out_channels + o) * plane_out);
                let taps_at = weight.get().add(o * taps);
                each_run(q, |tap, out, at, count| {
                    let f = *taps_at.add(tap);
                    if q.window.stride[2] == 1 {
                        return E::axpy(f, src.add(out), dst.add(at), count);
                    }
                    for i in 0..count {
                        let to = dst.add(at + i * q.window.stride[2]);
                        *to = *to + f * *src.add(out + i);
                    }
                });
            }
        }
    });
}

/// Gradient of the weight, one task an output channel.
pub(crate) unsafe fn grad_weight<E: Float>(q: &Conv, x: *const E, dy: *const E, dw: *mut E) {
    let (x, dy, dw) = (Shared::new(x.cast_mut()), Shared::new(dy.cast_mut()), Shared::new(dw));
    let (plane_in, plane_out, taps) = (q.window.input_len(), q.window.output_len(), q.window.kernel_len());
    let many = q.out_channels / q.groups;
    pool::parallel_for(q.out_channels, &move |o| {
        // SAFETY: each task writes its own channel's taps; runs stay inside planes.
        unsafe {
            let dst = dw.get().add(o * taps);
            (0..taps).for_each(|i| dst.add(i).write(E::default()));
            for n in 0..q.batch {
                let src = x.get().add((n * q.channels + o / many) * plane_in);
                let grad = dy.get().add((n * q.out_channels + o) * plane_out);
                each_run(q, |tap, out, at, count| {
                    let mut s = E::default();
                    if q.window.stride[2] == 1 {
                        s = E::dot(src.add(at), grad.add(out), count);
                    } else {
                        for i in 0..count {
                            s = s + *grad.add(out + i) * *src.add(at + i * q.window.stride[2]);
                        }
                    }
                    *dst.add(tap) = *dst.add(tap) + s;
                });
            }
        }
    });
}
