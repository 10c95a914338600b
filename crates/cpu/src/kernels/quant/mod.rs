//! GEMM with block-quantized weights, which are read once and as they are stored.
//!
//! Rows of weights are unpacked 16 at a time ([`decode`]) into a panel that stays in the first cache, and multiplied
//! with strips of up to 8 rows of activations ([`dot`]). Activations are quantized to 8 bits first ([`activations`]),
//! or multiplied as they are ([`exact`]). Weights may be floats as well, interleaved. The order of every sum depends on
//! `k` alone: neither the number of rows nor of threads changes a result.

#![allow(unsafe_code)]

mod activations;
pub(super) mod decode;
mod dot;
mod exact;
#[cfg(test)]
mod tests;

use super::scratch::Scratch;
use crate::pool::{self, Shared};
use activations::{Quantize, Strip, quantize_row, width};
use decode::{Panel, shape};
use dot::{STRIP, Tile, Way};
use ir::blocks::Format;

/// Rows of weights in a panel.
const ROWS: usize = 16;
/// Weights of a row that are unpacked at a time, at most: whole blocks of every format.
const CHUNK: usize = 1024;
/// The same for interleaved weights and a single strip of activations: memory is read more steadily.
const CHUNK_ONE: usize = 256;
/// Bytes of activations that stay in the second cache while panels pass by.
const RESIDENT: usize = 512 * 1024;
/// Multiplications of a task, at least; unpacking costs about as much as `UNPACK` rows.
const TASK: usize = 1 << 19;
const UNPACK: usize = 6;

/// A product `x wᵀ` of `m` rows of `k` with `n` rows of weights.
#[derive(Clone, Copy)]
pub struct QuantizedGemm {
    /// How weights are stored.
    pub format: Format,
    /// Rows of activations.
    pub m: usize,
    /// Rows of weights.
    pub n: usize,
    /// Weights in a row.
    pub k: usize,
    /// Whether activations are quantized to 8 bits.
    pub int8: bool,
    /// Whether weights are interleaved by `ir::blocks::interleave`; `n` is then whole groups of 16.
    pub interleaved: bool,
}

/// Rows of activations by number, and results by row and first column.
pub struct Ends<'a> {
    /// Copies row `i` of x.
    pub read: &'a (dyn Fn(usize, &mut [f32]) + Sync),
    /// Takes results of row `i` from column `j` on.
    pub write: &'a (dyn Fn(usize, usize, &[f32]) + Sync),
}

/// Where the quantized strips lie.
struct Strips {
    words: Scratch<u32>,
    scales: Scratch<f32>,
    sums: Scratch<u32>,
}

impl QuantizedGemm {
    /// Computes the product.
    ///
    /// # Safety
    /// `w` is valid for reading `n` rows.
    pub unsafe fn run(&self, w: *const u8, ends: &Ends) {
        if self.m == 0 || self.n == 0 || self.k == 0 {
            let zeros = vec![0.0; self.n];
            return (0..self.m).for_each(|i| (ends.write)(i, 0, &zeros));
        }
        // SAFETY: the caller's promise.
        unsafe { if self.int8 { self.run_int8(w, ends, Way::best()) } else { exact::run(self, w, ends, Way::best()) } }
    }

    /// # Safety
    /// As for [`QuantizedGemm::run`]; the machine has the instructions.
    unsafe fn run_int8(&self, w: *const u8, ends: &Ends, way: Way) {
        let shape = shape(self.format);
        let (_, offset) = way.offset(shape);
        let strips = self.m.div_ceil(STRIP);
        let (words, subs) = (self.k / 4, self.k / shape.sub);
        let packed = Strips {
            words: Scratch::new(strips * STRIP * words),
            scales: Scratch::new(strips * STRIP * subs),
            sums: Scratch::new(strips * STRIP * subs),
        };
        let at = (Shared::new(packed.words.ptr()), Shared::new(packed.scales.ptr()), Shared::new(packed.sums.ptr()));
        let strip = |s: usize| Strip {
            words: at.0.get().wrapping_add(s * STRIP * words),
            scales: at.1.get().wrapping_add(s * STRIP * subs),
            sums: at.2.get().wrapping_add(s * STRIP * subs),
            width: width(self.m - s * STRIP),
        };
        let block = self.format.activation_block();
        let q = Quantize { block, sub: shape.sub, offset: (!shape.has_min).then_some(offset) };
        let each = (TASK / 8 / (STRIP * self.k)).max(1);
        pool::parallel_for(strips.div_ceil(each), &|task| {
            let x = Scratch::<f32>::new(self.k);
            for s in task * each..strips.min((task + 1) * each) {
                let to = strip(s);
                for r in 0..to.width {
                    // SAFETY: each task writes its own strips, and `read` all of the row.
                    unsafe {
                        let x = x.slice();
                        if s * STRIP + r < self.m {
                            (ends.read)(s * STRIP + r, x)
                        } else {
                            x.fill(0.0)
                        }
                        quantize_row(x, q, r, &to);
                    }
                }
            }
        });
        let multiply = |part: &Part, panel: Panel, acc: *mut f32| {
            for (i, s) in part.strips.clone().enumerate() {
                let x = strip(s);
                // SAFETY: the strip holds all of `k`, and the panel the chunk.
                unsafe {
                    let sub = part.first / shape.sub * x.width;
                    let words = x.words.add(part.first / 4 * x.width);
                    let (scales, sums) = (x.scales.add(sub), x.sums.add(sub));
                    let acc = acc.add(i * STRIP * ROWS);
                    let tile = Tile { subs: part.chunk / shape.sub, panel, words, scales, sums, width: x.width, acc };
                    way.tile(shape, &tile);
                }
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.unpacked(w, way, &multiply, ends) }
    }

    /// Unpacks every panel and chunk of `k`, calls `multiply(part, panel, sums)` with it, and hands over the results.
    ///
    /// # Safety
    /// As for [`QuantizedGemm::run_int8`].
    unsafe fn unpacked(&self, w: *const u8, way: Way, multiply: &(dyn Fn(&Part, Panel, *mut f32) + Sync), ends: &Ends) {
        let step = if self.m <= STRIP && self.interleaved { CHUNK_ONE } else { CHUNK };
        let each = |part: &Part, rows: &Rows, room: &Room, acc: *mut f32| {
            let blocks = part.chunk / self.format.block();
            // SAFETY: the rows hold the chunk, and the panel has room for it.
            unsafe { way.decode(self.format, rows.at(self, part), rows.stride, blocks, room.panel()) };
            multiply(part, room.panel(), acc);
        };
        // SAFETY: the caller's promise.
        unsafe { self.panels(w, step, &each, ends) }
    }

    /// Calls `multiply(part, rows, room, sums)` for every panel and chunk of at most `step` of `k`, and hands over the
    /// results.
    ///
    /// # Safety
    /// As for [`QuantizedGemm::run_int8`].
    unsafe fn panels(&self, w: *const u8, step: usize, multiply: Multiply, ends: &Ends) {
        let (panels, strips) = (self.n.div_ceil(ROWS), self.m.div_ceil(STRIP));
        let resident = (RESIDENT / (STRIP * self.k)).clamp(1, strips);
        let blocks = strips.div_ceil(resident);
        let work = (self.m.min(resident * STRIP) + UNPACK) * self.k * ROWS;
        // Several tasks a thread, so that none waits long for the last.
        let group = (TASK / work).min(blocks * panels / (8 * pool::threads())).clamp(1, panels);
        let groups = panels.div_ceil(group);
        let w = Shared::new(w.cast_mut());
        pool::parallel_for(blocks * groups, &|task| {
            let (block, group_at) = (task / groups, task % groups * group);
            let (first, last) = (block * resident, strips.min((block + 1) * resident));
            let room = Room::new((last - first) * STRIP * ROWS);
            let acc = &room.sums;
            for p in group_at..panels.min(group_at + group) {
                // SAFETY: the caller's promise; each task has its own sums and writes its own columns.
                unsafe {
                    let rows = Rows::new(self, w.get(), p);
                    acc.slice()[..room.results].fill(0.0);
                    for at in (0..self.k).step_by(step) {
                        let chunk = step.min(self.k - at);
                        multiply(&Part { strips: first..last, first: at, chunk }, &rows, &room, acc.ptr());
                    }
                    for i in first * STRIP..self.m.min(last * STRIP) {
                        let sums = &acc.slice()[(i - first * STRIP) * ROWS..][..ROWS];
                        (ends.write)(i, p * ROWS, &sums[rows.lanes.clone()]);
                    }
                }
            }
        });
    }
}

/// What is done with a chunk of a panel.
type Multiply<'a> = &'a (dyn Fn(&Part, &Rows, &Room, *mut f32) + Sync);

/// What a panel is multiplied with: weights `first..first + chunk` of some strips.
struct Part {
    strips: std::ops::Range<usize>,
    first: usize,
    chunk: usize,
}

/// The 16 rows of a panel.
struct Rows {
    p: *const u8,
    /// Bytes between rows that are not interleaved.
    stride: Option<usize>,
    /// Rows between a block and the next of the same row.
    apart: usize,
    /// The lanes whose results are new: the last panel begins earlier to be full.
    lanes: std::ops::Range<usize>,
    /// A copy, if there are fewer rows.
    _copy: Vec<u8>,
}

impl Rows {
    /// Where a chunk begins.
    fn at(&self, g: &QuantizedGemm, part: &Part) -> *const u8 {
        self.p.wrapping_add(part.first / g.format.block() * g.format.block_bytes() * self.apart)
    }

    /// # Safety
    /// `w` is valid for reading all rows.
    unsafe fn new(g: &QuantizedGemm, w: *const u8, panel: usize) -> Rows {
        let stride = g.k / g.format.block() * g.format.block_bytes();
        // SAFETY: the caller's promise.
        unsafe {
            if g.interleaved {
                let p = w.add(panel * ROWS * stride);
                return Rows { p, stride: None, apart: ROWS, lanes: 0..ROWS, _copy: Vec::new() };
            }
            if g.n < ROWS {
                let mut copy = vec![0u8; ROWS * stride];
                copy[..g.n * stride].copy_from_slice(std::slice::from_raw_parts(w, g.n * stride));
                let (p, stride) = (copy.as_ptr(), Some(stride));
                return Rows { p, stride, apart: 1, lanes: 0..g.n, _copy: copy };
            }
            let first = (panel * ROWS).min(g.n - ROWS);
            let (p, lanes) = (w.add(first * stride), panel * ROWS - first..ROWS);
            Rows { p, stride: Some(stride), apart: 1, lanes, _copy: Vec::new() }
        }
    }
}

/// Memory for a panel.
struct Room {
    /// Results, then scales and minimums, then words: one piece, as a task may be short.
    sums: Scratch<f32>,
    results: usize,
}

impl Room {
    fn new(results: usize) -> Room {
        Room { sums: Scratch::new(results + (CHUNK / 4 + 2 * CHUNK / 16) * ROWS), results }
    }
    fn panel(&self) -> Panel {
        let scales = self.sums.ptr().wrapping_add(self.results);
        let mins = scales.wrapping_add(CHUNK / 16 * ROWS);
        Panel { words: mins.wrapping_add(CHUNK / 16 * ROWS).cast(), scales, mins }
    }
}

/// Weights of rows as floats: `write(row, weights)` takes them.
///
/// # Safety
/// `w` is valid for reading `n` rows.
pub unsafe fn dequantize_rows(
    format: Format,
    rows: &[usize],
    k: usize,
    w: *const u8,
    write: &(dyn Fn(usize, &[f32]) + Sync),
) {
    let stride = k / format.block() * format.block_bytes();
    let each = (TASK / 4 / k.max(1)).max(1);
    let w = Shared::new(w.cast_mut());
    pool::parallel_for(rows.len().div_ceil(each), &|task| {
        let mut out = vec![0.0f32; k];
        for i in task * each..rows.len().min((task + 1) * each) {
            // SAFETY: the caller's promise.
            let bytes = unsafe { std::slice::from_raw_parts(w.get().add(rows[i] * stride), stride) };
            ir::blocks::dequantize(format, bytes, &mut out).expect("a row of whole blocks");
            write(i, &out);
        }
    });
}
