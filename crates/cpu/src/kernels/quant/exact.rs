//! Products of dequantized panels with activations as they are, in f32.

#![allow(unsafe_code)]

use super::activations::width;
use super::decode::{Panel, Shape, shape};
use super::dot::{STRIP, Way};
use super::{CHUNK, Ends, Part, QuantizedGemm, ROWS};
use crate::kernels::scratch::Scratch;
use crate::pool::{self, Shared};
use crate::vmath::convert::{Narrow, widen};
use crate::vmath::dispatch;
use crate::vmath::simd::{Isa, Vector};
use half::{bf16, f16};
use ir::blocks::Format;

/// Weights of a row of floats that are multiplied at a time: 16 rows of them stay in the first cache.
const FLOATS: usize = 256;

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
    /// Adds the products of a panel `[k][ROWS]` and a strip `[k][width]` to sums `[width][ROWS]`.
    unsafe fn tile(k: usize, width: usize, w: *const f32, x: *const f32, acc: *mut f32) {
        I => {
            match width {
                1 => rows::<I, 1>(k, w, x, acc),
                2 => rows::<I, 2>(k, w, x, acc),
                4 => rows::<I, 4>(k, w, x, acc),
                _ => rows::<I, 8>(k, w, x, acc),
            }
        }
    }
}

/// `R` rows of activations. Every sum is made in the order of `k`, whatever `R` is.
#[inline(always)]
unsafe fn rows<I: Isa, const R: usize>(k: usize, w: *const f32, x: *const f32, acc: *mut f32) {
    let n = <I::S as Vector>::N.min(ROWS);
    for lane in (0..ROWS).step_by(n) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sums = [I::S::splat(0.0); R];
            for r in 0..R {
                sums[r] = I::S::load(acc.add(r * ROWS + lane));
            }
            for j in 0..k {
                let w = I::S::load(w.add(j * ROWS + lane));
                for r in 0..R {
                    sums[r] = w.fma(I::S::splat(*x.add(j * R + r)), sums[r]);
                }
            }
            for r in 0..R {
                sums[r].store(acc.add(r * ROWS + lane));
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
        let width = width(g.m - s * STRIP);
        for r in 0..width {
            // SAFETY: each task writes its own strip, and `read` all of the row.
            unsafe {
                let row = row.slice();
                if s * STRIP + r < g.m {
                    (ends.read)(s * STRIP + r, row)
                } else {
                    row.fill(0.0)
                }
                let to = at.get().add(s * STRIP * g.k + r);
                row.iter().enumerate().for_each(|(j, x)| *to.add(j * width) = *x);
            }
        }
    });
    // SAFETY: the strips hold all of `k`, and the panel the chunk.
    let tiles = |part: &Part, panel: *const f32, acc: *mut f32| unsafe {
        for (i, s) in part.strips.clone().enumerate() {
            let width = width(g.m - s * STRIP);
            let x = at.get().add(s * STRIP * g.k + part.first * width);
            tile(part.chunk, width, panel, x, acc.add(i * STRIP * ROWS));
        }
    };
    if g.format.block() == 1 {
        let multiply = |part: &Part, panel: *const u8, acc: *mut f32| {
            let room = Scratch::<f32>::new(FLOATS * ROWS);
            // SAFETY: as above; a panel of floats holds a chunk of 16 rows.
            unsafe {
                let count = part.chunk * ROWS;
                let panel = match g.format {
                    Format::F16 => widened::<f16>(panel, count, &room),
                    Format::BF16 => widened::<bf16>(panel, count, &room),
                    _ => panel.cast(),
                };
                tiles(part, panel, acc);
            }
        };
        // SAFETY: the caller's promise.
        return unsafe { g.panels(w, FLOATS, &|part, rows, _, acc| multiply(part, rows.at(g, part), acc), ends) };
    }
    let shape = shape(g.format);
    let offset = way.offset(shape).1;
    let multiply = |part: &Part, panel: Panel, acc: *mut f32| {
        let room = Scratch::<f32>::new(CHUNK * ROWS);
        // SAFETY: as above.
        unsafe {
            floats(panel, shape, offset, part.chunk, room.ptr());
            tiles(part, room.ptr(), acc);
        }
    };
    // SAFETY: the caller's promise.
    unsafe { g.unpacked(w, way, &multiply, ends) }
}

/// Floats of 16 bits as f32, in `room`.
unsafe fn widened<T: Narrow>(from: *const u8, count: usize, room: &Scratch<f32>) -> *const f32 {
    // SAFETY: the caller's promise: as many elements as there is room for.
    unsafe {
        let to = &mut room.slice()[..count];
        widen(std::slice::from_raw_parts(from.cast::<T>(), count), to);
        to.as_ptr()
    }
}
