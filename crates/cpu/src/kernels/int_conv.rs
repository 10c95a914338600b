//! Convolution of bytes, summed in 32 bits, channels last: `x[batch, …, channels]`, `y[batch, …, out_channels]`,
//! `weight[out_channels, channels / groups, kernel…]` of signed bytes.
//!
//! The input is copied once with its padding, and windows are multiplied where they lie there
//! ([`super::gemm::int8::windows`]). Groups of one channel go by vectors of channels, on machines with AVX-512 VNNI by
//! [`super::int_depthwise`]. Sums are stored, or taken by an epilogue ([`super::requantize`]) and never stored.

#![allow(unsafe_code)]

use super::conv::Conv;
use super::gemm::int8::windows::{BLOCK, Place, Runs};
use super::gemm::int8::{Right, Side};
use super::gemm::{Mat, Patch};
use super::int_depthwise::Interleaved;
use super::scratch::Scratch;
use super::window::DIMS;
use crate::pool::{self, Shared};
use crate::vmath::dispatch;

/// Blocks of windows below which tasks share a block, each with panels of its own.
const FEW_BLOCKS: usize = 4;
/// Channels that are summed together where they do not mix.
const LANES: usize = 32;

/// A convolution with its weight in the form of its kernel.
pub struct IntConv {
    conv: Conv,
    is_signed: bool,
    form: Form,
    /// The input with its padding.
    padded: Padded,
}

enum Form {
    /// For each tap the weights of all channels.
    Depthwise { runs: Vec<usize>, weight: Vec<i16> },
    /// The same, four taps at a time.
    Interleaved(Interleaved),
    /// For each group its weight, and what sums begin with.
    Windows { runs: Runs, groups: Vec<(Right, Vec<i32>)> },
}

/// How the input lies when windows are read from it.
struct Padded {
    sizes: [usize; DIMS],
    /// Channels of a group, made whole words where groups have several.
    channels: usize,
    /// Bytes of one position: all groups.
    step: usize,
    flip: u8,
    /// Whether the input lies so already.
    is_given: bool,
}

impl Padded {
    fn new(c: &Conv, channels: usize, flip: u8) -> Padded {
        let (w, given) = (&c.window, c.channels / c.groups);
        let need = |d: usize| (w.output[d] - 1) * w.stride[d] + w.dilation[d] * (w.kernel[d] - 1) + 1;
        let is_given = flip == 0 && channels == given && w.pad == [0; DIMS] && (0..DIMS).all(|d| need(d) <= w.input[d]);
        let sizes = if is_given { w.input } else { std::array::from_fn(need) };
        Padded { sizes, channels, step: channels * c.groups, flip, is_given }
    }
    /// Bytes of one image.
    fn image(&self) -> usize {
        self.sizes.iter().product::<usize>() * self.step
    }
    /// The first bytes of `count` windows from number `first` on, counted over all images; the rest repeats the last.
    fn windows(&self, c: &Conv, base: *const u8, first: usize, count: usize) -> [*const u8; BLOCK] {
        let (w, step) = (&c.window, c.window.stride[2] * self.step);
        let [depth, height, width] = w.output;
        let [mut n, mut z, mut y] =
            [first / width / height / depth, first / width / height % depth, first / width % height];
        let line = |n: usize, z: usize, y: usize| {
            let line = z * w.stride[0] * self.sizes[1] + y * w.stride[1];
            base.wrapping_add(n * self.image() + line * self.sizes[2] * self.step)
        };
        let (mut x, mut at) = (first % width, line(n, z, y).wrapping_add(first % width * step));
        let mut last = at;
        let mut all = [at; BLOCK];
        for to in &mut all[..count] {
            (*to, last) = (at, at);
            (x, at) = (x + 1, at.wrapping_add(step));
            if x == width {
                (x, y) = (0, y + 1);
                (y, z) = if y == height { (0, z + 1) } else { (y, z) };
                (z, n) = if z == depth { (0, n + 1) } else { (z, n) };
                at = line(n, z, y);
            }
        }
        all[count..].fill(last);
        all
    }
    /// The distance of each tap from its window's first byte.
    fn taps(&self, c: &Conv) -> impl Iterator<Item = usize> {
        let (k, d, sizes, step) = (c.window.kernel, c.window.dilation, self.sizes, self.step);
        let taps = (0..k[0]).flat_map(move |z| (0..k[1]).flat_map(move |y| (0..k[2]).map(move |x| (z, y, x))));
        taps.map(move |(z, y, x)| ((z * d[0] * sizes[1] + y * d[1]) * sizes[2] + x * d[2]) * step)
    }
    /// Copies line `line` of the padded input, counted over all images.
    unsafe fn copy_line(&self, c: &Conv, x: *const u8, line: usize, to: *mut u8) {
        let (w, lines) = (&c.window, self.sizes[0] * self.sizes[1]);
        let (image, z, y) = (line / lines, line % lines / self.sizes[1], line % self.sizes[1]);
        let inside = |d: usize, i: usize| i.checked_sub(w.pad[d]).filter(|i| *i < w.input[d]);
        let width = self.sizes[2] * self.step;
        // SAFETY: the caller's promise; the parts of the line are inside it.
        unsafe {
            let (Some(z), Some(y)) = (inside(0, z), inside(1, y)) else { return to.write_bytes(self.flip, width) };
            let from = x.add((((image * w.input[0] + z) * w.input[1] + y) * w.input[2]) * c.channels);
            let first = w.pad[2].min(self.sizes[2]);
            let count = w.input[2].min(self.sizes[2] - first);
            to.write_bytes(self.flip, first * self.step);
            let (place, after) = (to.add(first * self.step), to.add((first + count) * self.step));
            after.write_bytes(self.flip, width - (first + count) * self.step);
            let given = c.channels / c.groups;
            if given == self.channels {
                return flipped(from, count * self.step, self.flip, place);
            }
            if (given, self.channels) == (3, 4) {
                // The words of all but the last, which would reach beyond the input.
                let (n, flip) = (count * c.groups - 1, u32::from_ne_bytes([self.flip; 4]));
                let word = |i: usize| from.add(3 * i).cast::<u32>().read_unaligned().to_le() & 0xff_ffff;
                (0..n).for_each(|i| place.cast::<u32>().add(i).write_unaligned(word(i).to_le() ^ flip));
                let last = [*from.add(3 * n), *from.add(3 * n + 1), *from.add(3 * n + 2), 0].map(|b| b ^ self.flip);
                return place.cast::<[u8; 4]>().add(n).write_unaligned(last);
            }
            place.write_bytes(self.flip, count * self.step);
            for i in 0..count * c.groups {
                for b in 0..given {
                    *place.add(i * self.channels + b) = *from.add(i * given + b) ^ self.flip;
                }
            }
        }
    }
}

dispatch! {
    /// Copies bytes, each with some bits flipped.
    unsafe fn flipped(from: *const u8, n: usize, flip: u8, to: *mut u8) {
        _I => (0..n).for_each(|i| *to.add(i) = *from.add(i) ^ flip)
    }
}

impl IntConv {
    /// Whether there is a kernel: sizes are not zero.
    pub fn admits(c: &Conv) -> bool {
        c.groups > 0 && [c.channels, c.out_channels, c.batch, c.window.output_len()].iter().all(|n| *n > 0)
    }

    /// Brings a weight of signed bytes into its kernel's form.
    ///
    /// # Panics
    /// If the weight has another size than the convolution says.
    pub fn new(conv: Conv, weight: &[u8], is_signed: bool) -> IntConv {
        let (cg, og, taps) = (conv.channels / conv.groups, conv.out_channels / conv.groups, conv.window.kernel_len());
        assert!(weight.len() == conv.out_channels * cg * taps, "int_conv: a weight of {} bytes", weight.len());
        if cg == 1 && og == 1 && conv.groups > 1 {
            let padded = Padded::new(&conv, 1, 0);
            if let Some(form) = Interleaved::new(&conv, weight, is_signed) {
                return IntConv { conv, is_signed, form: Form::Interleaved(form), padded };
            }
            let runs = padded.taps(&conv).collect();
            // In 16 bits: products of what was widened from 16 bits are fast everywhere.
            let at = |i: usize| weight[i % conv.channels * taps + i / conv.channels] as i8 as i16;
            let weight = (0..conv.channels * taps).map(at).collect();
            return IntConv { conv, is_signed, form: Form::Depthwise { runs, weight }, padded };
        }
        let channels = cg.next_multiple_of(4);
        let mut groups = Vec::with_capacity(conv.groups);
        for g in 0..conv.groups {
            // A line for each output: taps, and in them the channels.
            let mut lines = vec![0u8; og * taps * channels];
            for (o, line) in lines.chunks_exact_mut(taps * channels).enumerate() {
                for (t, c) in (0..taps).flat_map(|t| (0..cg).map(move |c| (t, c))) {
                    line[t * channels + c] = weight[((g * og + o) * cg + c) * taps + t];
                }
            }
            let mat = Mat::row_major(lines.as_ptr(), taps * channels).t();
            // SAFETY: the matrix is the lines, transposed.
            let right = unsafe { Right::for_windows(taps * channels, og, Side { mat, is_signed: true }) };
            let starts = right.starts(is_signed);
            groups.push((right, starts));
        }
        let padded = Padded::new(&conv, channels, groups[0].0.flip(is_signed));
        // Taps that are neighbors are one run.
        let row = if conv.groups == 1 && conv.window.dilation[2] == 1 { conv.window.kernel[2] } else { 1 };
        let runs = Runs { at: padded.taps(&conv).step_by(row).collect(), words: row * channels / 4 };
        IntConv { conv, is_signed, form: Form::Windows { runs, groups }, padded }
    }

    /// Computes `y`, and hands over each part of it when it is done: whole rows of `out_channels`.
    ///
    /// # Safety
    /// `x` and `y` have the sizes of the convolution, and are apart.
    pub unsafe fn run(&self, x: *const u8, y: *mut i32, done: &(dyn Fn(Patch) + Sync)) {
        let place = Sums { y: Shared::new(y), columns: self.conv.out_channels, done };
        // SAFETY: the caller's promise.
        unsafe { self.run_into(x, &place) }
    }

    /// Hands over the sums tile by tile.
    ///
    /// # Safety
    /// `x` has the size of the convolution; the place has room for its result, apart from `x`.
    pub unsafe fn run_into(&self, x: *const u8, place: &impl Place) {
        let (c, image) = (&self.conv, self.padded.image());
        if const { ir::is_linked("avx512") }
            && let Form::Interleaved(form) = &self.form
        {
            // SAFETY: the caller's promise.
            return unsafe { form.run(c, x, place) };
        }
        let room = Scratch::<u8>::new(if self.padded.is_given { 0 } else { c.batch * image });
        let base = if self.padded.is_given { x } else { room.ptr().cast_const() };
        if !self.padded.is_given {
            // SAFETY: the caller's promise; there is room for all images.
            unsafe { self.pad(x, room.ptr()) };
        }
        let (plane, n) = (c.window.output_len(), c.out_channels);
        let m = c.batch * plane;
        let blocks = m.div_ceil(BLOCK);
        let rows = m.div_ceil(blocks).next_multiple_of(8).min(BLOCK);
        let blocks = m.div_ceil(rows);
        let base = Shared::new(base.cast_mut());
        let some = |block: usize| {
            let (first, count) = (block * rows, rows.min(m - block * rows));
            (first, count, self.padded.windows(c, base.get().cast_const(), first, count))
        };
        match &self.form {
            Form::Interleaved(_) => {}
            Form::Depthwise { runs, weight } => pool::parallel_for(blocks, &|block| {
                let (first, count, windows) = some(block);
                // SAFETY: the caller's promise; blocks have rows of their own.
                unsafe { depthwise_rows(&windows[..count], runs, weight, (n, self.is_signed), place, first) };
                place.done(Patch { row: first, rows: count, col: 0, cols: n });
            }),
            Form::Windows { runs, groups } => {
                let (panels, og) = (groups[0].0.panels(), n / c.groups);
                let all = panels * c.groups;
                let across = if blocks >= FEW_BLOCKS { 1 } else { all.min(FEW_BLOCKS) };
                pool::parallel_for(blocks * across, &|task| {
                    let (first, count, windows) = some(task / across);
                    let part = all * (task % across) / across..all * (task % across + 1) / across;
                    for g in part.start / panels..part.end.div_ceil(panels) {
                        let these =
                            part.start.max(g * panels) - g * panels..part.end.min((g + 1) * panels) - g * panels;
                        let (right, starts) = &groups[g];
                        let windows = windows.map(|p| p.wrapping_add(g * self.padded.channels));
                        // SAFETY: the caller's promise; tasks have rows or columns of their own.
                        unsafe {
                            right.multiply_windows(runs, &windows[..count], starts, these, place, (first, g * og));
                        }
                    }
                    if across == 1 {
                        place.done(Patch { row: first, rows: count, col: 0, cols: n });
                    }
                });
                // Rows that several tasks have written are handed over when all have done so.
                if across > 1 {
                    let each = m.div_ceil(FEW_BLOCKS);
                    pool::parallel_for(m.div_ceil(each), &|i| {
                        place.done(Patch { row: i * each, rows: each.min(m - i * each), col: 0, cols: n });
                    });
                }
            }
        }
    }

    /// Copies the input with its padding.
    unsafe fn pad(&self, x: *const u8, to: *mut u8) {
        let c = &self.conv;
        let (from, to) = (Shared::new(x.cast_mut()), Shared::new(to));
        let (lines, width) = (self.padded.sizes[0] * self.padded.sizes[1], self.padded.sizes[2] * self.padded.step);
        let each = ((1 << 15) / width.max(1)).max(1);
        pool::parallel_for((c.batch * lines).div_ceil(each), &|task| {
            for line in task * each..(c.batch * lines).min((task + 1) * each) {
                // SAFETY: the caller's promise; each task writes its own lines.
                unsafe { self.padded.copy_line(c, from.get(), line, to.get().add(line * width)) };
            }
        });
    }
}

/// Sums that are stored, and handed over in whole rows.
struct Sums<'a> {
    y: Shared<i32>,
    columns: usize,
    done: &'a (dyn Fn(Patch) + Sync),
}

impl Place for Sums<'_> {
    fn direct(&self, row: usize, col: usize) -> Option<(*mut i32, usize)> {
        Some((self.y.get().wrapping_add(row * self.columns + col), self.columns))
    }
    unsafe fn take(&self, tile: *const i32, width: usize, part: Patch) {
        for r in 0..part.rows {
            // SAFETY: the caller's promise.
            unsafe {
                let to = self.y.get().add((part.row + r) * self.columns + part.col);
                std::ptr::copy_nonoverlapping(tile.add(r * width), to, part.cols);
            }
        }
    }
    fn done(&self, part: Patch) {
        (self.done)(part);
    }
}

/// Windows whose sums go to a place, a few rows at a time.
unsafe fn depthwise_rows(
    windows: &[*const u8],
    runs: &[usize],
    weight: &[i16],
    (n, is_signed): (usize, bool),
    place: &impl Place,
    first: usize,
) {
    const SUMS: usize = 4096;
    let rows = (SUMS / n).max(1);
    let room = Scratch::<i32>::new(rows * n);
    for (i, some) in windows.chunks(rows).enumerate() {
        let row = first + i * rows;
        let direct = place.direct(row, 0);
        // SAFETY: the caller's promise; rows of the place are as long as those of the tile.
        unsafe {
            depthwise(some, runs, weight, n, is_signed, direct.map_or(room.ptr(), |d| d.0));
            if direct.is_none() {
                place.take(room.ptr(), n, Patch { row, rows: some.len(), col: 0, cols: n });
            }
        }
    }
}

#[inline(always)]
unsafe fn channels<const N: usize, const SIGNED: bool>(
    p: *const u8,
    runs: &[usize],
    w: *const i16,
    n: usize,
    to: *mut i32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [0i32; N];
        for (t, run) in runs.iter().enumerate() {
            let (x, w) = (p.add(*run), w.add(t * n));
            for i in 0..N {
                let x = if SIGNED { *x.add(i) as i8 as i16 } else { *x.add(i) as i16 };
                sums[i] += x as i32 * *w.add(i) as i32;
            }
        }
        to.cast::<[i32; N]>().write_unaligned(sums);
    }
}

#[inline(always)]
unsafe fn depthwise_body<const SIGNED: bool>(windows: &[*const u8], runs: &[usize], w: &[i16], n: usize, to: *mut i32) {
    // SAFETY: the caller's promise.
    unsafe {
        for (r, p) in windows.iter().enumerate() {
            let (mut c, to, w) = (0, to.add(r * n), w.as_ptr());
            while c + LANES <= n {
                channels::<LANES, SIGNED>(p.add(c), runs, w.add(c), n, to.add(c));
                c += LANES;
            }
            while c + 8 <= n {
                channels::<8, SIGNED>(p.add(c), runs, w.add(c), n, to.add(c));
                c += 8;
            }
            (c..n).for_each(|c| channels::<1, SIGNED>(p.add(c), runs, w.add(c), n, to.add(c)));
        }
    }
}

dispatch! {
    /// Windows of channels that do not mix.
    unsafe fn depthwise(windows: &[*const u8], runs: &[usize], w: &[i16], n: usize, signed: bool, to: *mut i32) {
        _I => match signed {
            true => depthwise_body::<true>(windows, runs, w, n, to),
            false => depthwise_body::<false>(windows, runs, w, n, to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Noise;
    use super::super::window::Window;
    use super::*;

    /// The definition.
    fn expected(c: &Conv, x: &[u8], weight: &[u8], is_signed: bool) -> Vec<i32> {
        let (w, cg, og) = (&c.window, c.channels / c.groups, c.out_channels / c.groups);
        let value = |b: u8| if is_signed { b as i8 as i32 } else { b as i32 };
        let mut y = Vec::new();
        for (n, p) in (0..c.batch).flat_map(|n| (0..w.output_len()).map(move |p| (n, p))) {
            let at = [p / w.output[2] / w.output[1], p / w.output[2] % w.output[1], p % w.output[2]];
            for o in 0..c.out_channels {
                let mut sum = 0;
                for t in 0..w.kernel_len() {
                    let tap = [t / w.kernel[2] / w.kernel[1], t / w.kernel[2] % w.kernel[1], t % w.kernel[2]];
                    let place = (0..3).try_fold(0, |i, d| Some(i * w.input[d] + w.at(d, at[d], tap[d])?));
                    let Some(place) = place else { continue };
                    for k in 0..cg {
                        let x = x[(n * w.input_len() + place) * c.channels + o / og * cg + k];
                        sum += value(x) * (weight[(o * cg + k) * w.kernel_len() + t] as i8 as i32);
                    }
                }
                y.push(sum);
            }
        }
        y
    }

    #[test]
    fn exact_convolutions() {
        let mut noise = Noise::new(5);
        let w = |i: &[usize], k: &[usize], s: usize, p: usize, d: usize| {
            Window::new(i, k, &vec![s; i.len()], &vec![(p, p); i.len()], &vec![d; i.len()])
        };
        for (batch, channels, out_channels, groups, window) in [
            (1, 1, 1, 1, w(&[5], &[3], 1, 1, 1)),
            (2, 3, 5, 1, w(&[9, 8], &[3, 3], 2, 1, 1)),
            (1, 64, 64, 1, w(&[14, 14], &[3, 3], 1, 1, 1)),
            (2, 16, 100, 1, w(&[6, 7], &[1, 1], 1, 0, 1)),
            (1, 8, 24, 1, w(&[6, 7], &[1, 1], 2, 0, 1)),
            (1, 8, 12, 2, w(&[7, 9], &[3, 2], 1, 2, 2)),
            (2, 6, 9, 3, w(&[5, 5, 4], &[2, 3, 3], 1, 1, 1)),
            (2, 45, 45, 45, w(&[9, 9], &[3, 3], 2, 1, 1)),
            (1, 72, 72, 72, w(&[5, 6], &[3, 3], 1, 0, 1)),
            (1, 4, 8, 4, w(&[5, 6], &[3, 3], 1, 1, 1)),
            (1, 3, 8, 1, w(&[6, 7], &[3, 3], 1, 1, 1)),
            (2, 130, 130, 130, w(&[20, 37], &[5, 5], 2, 2, 1)),
            (1, 64, 64, 64, w(&[4, 40], &[3, 3], 1, 3, 2)),
            (1, 16, 16, 16, w(&[3, 4, 5], &[2, 3, 2], 1, 1, 1)),
            (1, 33, 33, 33, w(&[30], &[7], 3, 3, 1)),
        ] {
            let c = Conv { batch, channels, out_channels, groups, window };
            let mut bytes = |n: usize| -> Vec<u8> {
                (0..n).map(|_| [0, 127, 128, 255, noise.range(0, 255) as u8][noise.range(0, 4)]).collect()
            };
            let x = bytes(batch * channels * window.input_len());
            let weight = bytes(out_channels * channels / groups * window.kernel_len());
            let levels = crate::vmath::Level::ALL.iter();
            for (is_signed, level) in [false, true].into_iter().flat_map(|s| levels.clone().map(move |l| (s, *l))) {
                let level = crate::vmath::limit_level(level);
                let want = expected(&c, &x, &weight, is_signed);
                let mut y = vec![7i32; want.len()];
                let parts = std::sync::Mutex::new(0);
                // SAFETY: the slices have the convolution's sizes.
                unsafe {
                    IntConv::new(c, &weight, is_signed).run(x.as_ptr(), y.as_mut_ptr(), &|p| {
                        assert_eq!((p.col, p.cols), (0, c.out_channels));
                        *parts.lock().unwrap() += p.rows * p.cols;
                    });
                }
                assert_eq!(y, want, "{c:?} {is_signed} {level:?}");
                assert_eq!(*parts.lock().unwrap(), y.len(), "every result is handed over once");
            }
        }
    }
}
