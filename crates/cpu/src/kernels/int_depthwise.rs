//! Convolution of bytes whose channels do not mix, by AVX-512 VNNI: four taps of a channel make a word.
//!
//! The taps of a word lie below each other: rows of the input are interleaved once a column, and every window that has
//! the column uses it. Borders are bytes of zero in place of a row or column, so the input is not copied.

#![allow(unsafe_code)]

use super::conv::Conv;
use super::gemm::int8::windows::Place;

/// Channels of a block: bytes of a vector.
const BLOCK: usize = 64;
/// Windows whose columns are interleaved together.
const WIDTH: usize = 16;
/// Multiplications of a task, at least.
const TASK_MIN: usize = 1 << 17;

/// A weight interleaved for the kernel.
pub struct Interleaved {
    /// Words of a column: four taps each.
    words: usize,
    /// What bytes of the input are changed by with `^`.
    flip: u8,
    /// For each block of channels, column and word: four vectors, as interleaving leaves the channels.
    weight: Vec<u8>,
    /// What sums begin with, for each block as its vectors lie.
    starts: Vec<i32>,
}

/// The channel of byte word `i` of vector `v` after interleaving: parts of 16 bytes stay where they are.
fn channel(v: usize, i: usize) -> usize {
    i / 4 * 16 + 4 * v + i % 4
}

impl Interleaved {
    /// The form of a weight `[channels, 1, kernel…]`, on machines that have the instructions.
    pub fn new(c: &Conv, weight: &[u8], is_signed: bool) -> Option<Interleaved> {
        if !is_available() {
            return None;
        }
        let k = c.window.kernel;
        let (lines, taps) = (k[0] * k[1], c.window.kernel_len());
        let words = lines.div_ceil(4);
        let blocks = c.channels.div_ceil(BLOCK);
        let mut room = Vec::with_capacity(blocks * k[2] * words * 4 * BLOCK);
        let mut starts = Vec::with_capacity(blocks * BLOCK);
        let at = |channel: usize, line: usize, x: usize| match (channel < c.channels, line < lines) {
            (true, true) => weight[channel * taps + line * k[2] + x],
            _ => 0,
        };
        for block in 0..blocks {
            for (x, word) in (0..k[2]).flat_map(|x| (0..words).map(move |w| (x, w))) {
                for (v, i) in (0..4).flat_map(|v| (0..16).map(move |i| (v, i))) {
                    room.extend((0..4).map(|b| at(block * BLOCK + channel(v, i), 4 * word + b, x)));
                }
            }
            for (v, i) in (0..4).flat_map(|v| (0..16).map(move |i| (v, i))) {
                let channel = block * BLOCK + channel(v, i);
                let all = (0..lines).flat_map(|l| (0..k[2]).map(move |x| (l, x)));
                let sum: i32 = all.map(|(l, x)| at(channel, l, x) as i8 as i32).sum();
                starts.push(if is_signed { -128 * sum } else { 0 });
            }
        }
        Some(Interleaved { words, flip: if is_signed { 128 } else { 0 }, weight: room, starts })
    }
}

#[cfg(target_arch = "x86_64")]
fn is_available() -> bool {
    use crate::vmath::{Level, level};
    ir::is_linked("avx512") && level() == Level::Avx512 && std::arch::is_x86_feature_detected!("avx512vnni")
}
#[cfg(not(target_arch = "x86_64"))]
fn is_available() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
impl Interleaved {
    /// There are no such weights here.
    ///
    /// # Safety
    /// None is needed.
    pub unsafe fn run(&self, _: &Conv, _: *const u8, _: &impl Place) {}
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::gemm::Patch;
    use super::super::scratch::Scratch;
    use super::{BLOCK, Conv, Interleaved, Place, TASK_MIN, WIDTH};
    use crate::pool::{self, Shared};
    use smallvec::SmallVec;
    use std::arch::x86_64::*;

    /// Where the rows of taps begin, or nowhere.
    type Rows = SmallVec<[Option<*const u8>; 16]>;

    /// The input as the taps of a column see it.
    struct Lines {
        rows: Rows,
        /// Bytes from column to column.
        step: usize,
        columns: usize,
        mask: u64,
        flip: u8,
    }

    impl Interleaved {
        /// Hands over the sums of all windows.
        ///
        /// # Safety
        /// `x` has the size of the convolution; the place has room for its result, apart from `x`.
        pub unsafe fn run(&self, c: &Conv, x: *const u8, place: &impl Place) {
            let w = &c.window;
            let (lines, width) = (c.batch * w.output[0] * w.output[1], w.output[2]);
            let each = (TASK_MIN / (width * c.channels * w.kernel_len()).max(1)).clamp(1, lines);
            let from = Shared::new(x.cast_mut());
            pool::parallel_for(lines.div_ceil(each), &|task| {
                for line in task * each..lines.min((task + 1) * each) {
                    // SAFETY: the caller's promise; tasks have lines of their own.
                    unsafe { self.line(c, from.get().cast_const(), line, place) };
                    place.done(Patch { row: line * width, rows: width, col: 0, cols: c.channels });
                }
            });
        }

        /// One line of windows.
        unsafe fn line(&self, c: &Conv, x: *const u8, line: usize, place: &impl Place) {
            let w = &c.window;
            let (image, z, y) =
                (line / w.output[1] / w.output[0], line / w.output[1] % w.output[0], line % w.output[1]);
            let mut rows = Rows::new();
            for (kz, ky) in (0..w.kernel[0]).flat_map(|kz| (0..w.kernel[1]).map(move |ky| (kz, ky))) {
                let at = |z: usize, y: usize| ((image * w.input[0] + z) * w.input[1] + y) * w.input[2] * c.channels;
                rows.push(w.at(0, z, kz).zip(w.at(1, y, ky)).map(|(z, y)| x.wrapping_add(at(z, y))));
            }
            rows.resize(4 * self.words, None);
            let reach = |windows: usize| (windows - 1) * w.stride[2] + w.dilation[2] * (w.kernel[2] - 1) + 1;
            let columns = Scratch::<u8>::new(reach(WIDTH) * self.words * 4 * BLOCK);
            let sums = Scratch::<i32>::new(WIDTH * BLOCK);
            for (block, first) in (0..c.channels).step_by(BLOCK).enumerate() {
                let cols = BLOCK.min(c.channels - first);
                let lines = Lines {
                    rows: rows.iter().map(|r| r.map(|p| p.wrapping_add(first))).collect(),
                    step: c.channels,
                    columns: w.input[2],
                    mask: u64::MAX >> (BLOCK - cols),
                    flip: self.flip,
                };
                for start in (0..w.output[2]).step_by(WIDTH) {
                    let count = WIDTH.min(w.output[2] - start);
                    // SAFETY: the caller's promise; there is room for the columns and sums of `WIDTH` windows.
                    unsafe {
                        let begin = (start * w.stride[2]) as isize - w.pad[2] as isize;
                        interleave(&lines, begin, reach(count), self.words, columns.ptr());
                        let weight = self.weight.as_ptr().add(block * w.kernel[2] * self.words * 4 * BLOCK);
                        let starts = self.starts.as_ptr().add(block * BLOCK);
                        let (stride, dilation) = (w.stride[2] * self.words, w.dilation[2] * self.words);
                        let taps = Taps { kernel: w.kernel[2], words: self.words, stride, dilation };
                        multiply(&taps, columns.ptr(), weight, starts, count, sums.ptr());
                        let row = line * w.output[2] + start;
                        place.take(sums.ptr(), BLOCK, Patch { row, rows: count, col: first, cols });
                    }
                }
            }
        }
    }

    /// How windows lie on columns, in words of columns.
    struct Taps {
        kernel: usize,
        words: usize,
        stride: usize,
        dilation: usize,
    }

    /// Columns from `begin` on, each as `words` words of four vectors.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    unsafe fn interleave(l: &Lines, begin: isize, count: usize, words: usize, to: *mut u8) {
        let none = _mm512_set1_epi8(l.flip as i8);
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..count {
                let x = begin + i as isize;
                let is_inside = x >= 0 && (x as usize) < l.columns;
                for word in 0..words {
                    let rows = &l.rows[4 * word..4 * word + 4];
                    let row = |r: usize| match rows[r] {
                        Some(p) if is_inside => {
                            let p = p.wrapping_add(x as usize * l.step);
                            _mm512_xor_si512(_mm512_maskz_loadu_epi8(l.mask, p.cast()), none)
                        }
                        _ => none,
                    };
                    let [a, b, c, d] = [row(0), row(1), row(2), row(3)];
                    let (low, high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
                    let (low2, high2) = (_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d));
                    let all = [
                        _mm512_unpacklo_epi16(low, low2),
                        _mm512_unpackhi_epi16(low, low2),
                        _mm512_unpacklo_epi16(high, high2),
                        _mm512_unpackhi_epi16(high, high2),
                    ];
                    let to = to.add((i * words + word) * 4 * BLOCK);
                    for v in 0..4 {
                        _mm512_store_si512(to.add(v * BLOCK).cast(), all[v]);
                    }
                }
            }
        }
    }

    /// The sums of `count` windows, channels in order again.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn multiply(
        t: &Taps,
        columns: *const u8,
        weight: *const u8,
        starts: *const i32,
        count: usize,
        to: *mut i32,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if (t.kernel, t.words) == (3, 1) {
                return multiply3(t, columns, weight, starts, count, to);
            }
            let start: [__m512i; 4] = std::array::from_fn(|v| _mm512_loadu_si512(starts.add(16 * v).cast()));
            for i in 0..count {
                let mut sums = start;
                for x in 0..t.kernel {
                    for word in 0..t.words {
                        let a = columns.add((i * t.stride + x * t.dilation + word) * 4 * BLOCK);
                        let b = weight.add((x * t.words + word) * 4 * BLOCK);
                        for v in 0..4 {
                            let (a, b) = (_mm512_load_si512(a.add(v * BLOCK).cast()), b.add(v * BLOCK));
                            sums[v] = _mm512_dpbusd_epi32(sums[v], a, _mm512_loadu_si512(b.cast()));
                        }
                    }
                }
                store(sums, to.add(i * BLOCK));
            }
        }
    }

    /// Three columns of one word, whose weights stay in registers.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn multiply3(
        t: &Taps,
        columns: *const u8,
        weight: *const u8,
        starts: *const i32,
        count: usize,
        to: *mut i32,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let start: [__m512i; 4] = std::array::from_fn(|v| _mm512_loadu_si512(starts.add(16 * v).cast()));
            let b: [__m512i; 12] = std::array::from_fn(|v| _mm512_loadu_si512(weight.add(v * BLOCK).cast()));
            for i in 0..count {
                let mut sums = start;
                for x in 0..3 {
                    let a = columns.add((i * t.stride + x * t.dilation) * 4 * BLOCK);
                    for v in 0..4 {
                        let a = _mm512_load_si512(a.add(v * BLOCK).cast());
                        sums[v] = _mm512_dpbusd_epi32(sums[v], a, b[4 * x + v]);
                    }
                }
                store(sums, to.add(i * BLOCK));
            }
        }
    }

    /// Stores sums in the order of channels: parts of 16 bytes change places.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    unsafe fn store(s: [__m512i; 4], to: *mut i32) {
        let a = _mm512_shuffle_i32x4::<0x44>(s[0], s[1]);
        let b = _mm512_shuffle_i32x4::<0xee>(s[0], s[1]);
        let c = _mm512_shuffle_i32x4::<0x44>(s[2], s[3]);
        let d = _mm512_shuffle_i32x4::<0xee>(s[2], s[3]);
        let all = [
            _mm512_shuffle_i32x4::<0x88>(a, c),
            _mm512_shuffle_i32x4::<0xdd>(a, c),
            _mm512_shuffle_i32x4::<0x88>(b, d),
            _mm512_shuffle_i32x4::<0xdd>(b, d),
        ];
        // SAFETY: the caller's promise.
        unsafe {
            for v in 0..4 {
                _mm512_store_si512(to.add(16 * v).cast(), all[v]);
            }
        }
    }
}
