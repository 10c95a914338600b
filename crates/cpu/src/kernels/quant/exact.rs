//! Products of dequantized panels with activations as they are, in f32.

#![allow(unsafe_code)]

use super::decode::{Panel, Shape, shape};
use super::dot::{STRIP, Way};
use super::{CHUNK, Ends, Part, QuantizedGemm, ROWS};
use crate::kernels::scratch::Scratch;
use crate::pool::{self, Shared};
use crate::vmath::dispatch;
use crate::vmath::simd::{Isa, Vector};

dispatch! {
    /// The weights of a panel as floats, `[k][ROWS]`.
    unsafe fn floats(panel: Panel, shape: Shape, offset: i32, k: usize, to: *mut f32) {
        _I => {
            for j in 0..k {
                let sub = j / shape.sub * ROWS;
                for r in 0..ROWS {
                    let byte = (*panel.words.add(j / 4 * ROWS + r) >> (8 * (j % 4))) as u8;
                    let q = if shape.is_wide && offset == 0 { byte as i8 as i32 } else { byte as i32 - offset };
                    let x = q as f32 * *panel.scales.add(sub + r);
                    *to.add(j * ROWS + r) = if shape.has_min { x + *panel.mins.add(sub + r) } else { x };
                }
            }
        }
    }
}

dispatch! {
    /// Adds the products of a panel `[k][ROWS]` and a strip `[k][STRIP]` to sums `[STRIP][ROWS]`.
    unsafe fn tile(k: usize, w: *const f32, x: *const f32, acc: *mut f32) {
        I => {
            let n = <<I as Isa>::S as Vector>::N.min(ROWS);
            for lane in (0..ROWS).step_by(n) {
                let mut sums = [<I as Isa>::S::splat(0.0); STRIP];
                for r in 0..STRIP {
                    sums[r] = <I as Isa>::S::load(acc.add(r * ROWS + lane));
                }
                for j in 0..k {
                    let w = <I as Isa>::S::load(w.add(j * ROWS + lane));
                    for r in 0..STRIP {
                        sums[r] = w.fma(<I as Isa>::S::splat(*x.add(j * STRIP + r)), sums[r]);
                    }
                }
                for r in 0..STRIP {
                    sums[r].store(acc.add(r * ROWS + lane));
                }
            }
        }
    }
}

/// The product with activations as they are.
///
/// # Safety
/// As for [`QuantizedGemm::run`].
pub(super) unsafe fn run(g: &QuantizedGemm, w: *const u8, ends: &Ends, way: Way) {
    let strips = g.m.div_ceil(STRIP);
    let x = Scratch::<f32>::new(strips * STRIP * g.k);
    let at = Shared::new(x.ptr());
    pool::parallel_for(strips, &|s| {
        let row = Scratch::<f32>::new(g.k);
        for r in 0..STRIP {
            // SAFETY: each task writes its own strip, and `read` all of the row.
            unsafe {
                let row = row.slice();
                if s * STRIP + r < g.m {
                    (ends.read)(s * STRIP + r, row)
                } else {
                    row.fill(0.0)
                }
                let to = at.get().add(s * STRIP * g.k + r);
                row.iter().enumerate().for_each(|(j, x)| *to.add(j * STRIP) = *x);
            }
        }
    });
    let shape = shape(g.format);
    let offset = way.offset(shape).1;
    let multiply = |part: &Part, panel: Panel, acc: *mut f32| {
        let room = Scratch::<f32>::new(CHUNK * ROWS);
        // SAFETY: the strips hold all of `k`, and the panel the chunk.
        unsafe {
            floats(panel, shape, offset, part.chunk, room.ptr());
            for (i, s) in part.strips.clone().enumerate() {
                let x = at.get().add((s * g.k + part.first) * STRIP);
                tile(part.chunk, room.ptr(), x, acc.add(i * STRIP * ROWS));
            }
        }
    };
    // SAFETY: the caller's promise.
    unsafe { g.panels(w, way, &multiply, ends) }
}
