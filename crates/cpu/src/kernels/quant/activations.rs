//! Activations in 8 bits, packed in strips of rows for [`super::dot`].

#![allow(unsafe_code)]

use super::dot::STRIP;
use crate::vmath::dispatch;

/// Rows of a strip, quantized.
pub(super) struct Strip {
    /// Four activations a word, `[k / 4][width]`.
    pub words: *mut u32,
    /// Scales, `[k / sub][width]`.
    pub scales: *mut f32,
    /// Sums of a sub-block in f32, or `−offset` times them in i32, `[k / sub][width]`.
    pub sums: *mut u32,
    pub width: usize,
}

/// How rows are quantized.
#[derive(Clone, Copy)]
pub(super) struct Quantize {
    /// Activations with one scale: 32 or 256.
    pub block: usize,
    /// Activations of a sub-block of the weights.
    pub sub: usize,
    /// `None` where the weights have a minimum.
    pub offset: Option<i32>,
}

dispatch! {
    /// Quantizes a row into place `r` of a strip; a missing row is zeros.
    pub(super) unsafe fn quantize_row(x: &[f32], q: Quantize, r: usize, to: &Strip) {
        _I => {
            let mut bytes = [0u8; 256];
            for (b, x) in x.chunks_exact(q.block).enumerate() {
                let (inverse, scale) = scale_of(x);
                for (to, x) in bytes.iter_mut().zip(x) {
                    // Adding this number rounds to the nearest integer, which is then in the low bits.
                    *to = (x * inverse + 12_582_912.0).to_bits() as u8;
                }
                for (i, four) in bytes[..q.block].chunks_exact(4).enumerate() {
                    let word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
                    *to.words.add((b * q.block / 4 + i) * to.width + r) = word;
                }
                for (i, sub) in bytes[..q.block].chunks_exact(q.sub).enumerate() {
                    let at = (b * q.block / q.sub + i) * to.width + r;
                    let sum: i32 = sub.iter().map(|&b| b as i8 as i32).sum();
                    *to.scales.add(at) = scale;
                    *to.sums.add(at) = match q.offset {
                        Some(offset) => sum.wrapping_mul(-offset) as u32,
                        None => (scale * sum as f32).to_bits(),
                    };
                }
            }
        }
    }
}

/// What a block is multiplied by, and its scale: the arithmetic of `ir::blocks::quantize_activations`.
#[inline(always)]
fn scale_of(x: &[f32]) -> (f32, f32) {
    if x.len() == 256 {
        let high = farthest(x, |x| x);
        let low = farthest(x, |x| -x);
        let most = if high >= low { high } else { -low };
        if most == 0.0 {
            return (0.0, 0.0);
        }
        let inverse = -127.0 / most;
        return (inverse, 1.0 / inverse);
    }
    let amax = farthest(x, f32::abs);
    if amax == 0.0 {
        return (0.0, 0.0);
    }
    (127.0 / amax, ir::blocks::rounded_scale(amax / 127.0))
}

/// The greatest value of a function, 0 at least. NaN does not count.
#[inline(always)]
fn farthest(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; 16];
    for x in x.chunks_exact(16) {
        for i in 0..16 {
            let x = f(x[i]);
            lanes[i] = if x > lanes[i] { x } else { lanes[i] };
        }
    }
    // By halves: a chain of sixteen would take longer than all before it.
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] = if lanes[i + half] > lanes[i] { lanes[i + half] } else { lanes[i] };
        }
    }
    lanes[0]
}

/// The rows a strip is widened to: dot products are compiled for 1, 2, 4 and 8.
pub(super) fn width(rows: usize) -> usize {
    rows.next_power_of_two().min(STRIP)
}
