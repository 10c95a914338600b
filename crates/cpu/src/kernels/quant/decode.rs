//! Blocks of quantized weights, unpacked for the dot products of [`super::dot`].
//!
//! A panel holds 16 rows. Four neighboring weights of a row are the bytes of a 32-bit word, and words of the 16 rows
//! lie side by side. Each sub-block of 32 weights (16 with Q6_K) has a scale per row and, in some formats, a minimum.
//! The packed formats were made for this: nibbles and high bits of four weights are unpacked by shifts and masks of
//! whole words, so one source serves a scalar word and a vector of words of many rows.
//!
//! Rows are read as files have them, or interleaved by `ir::blocks::interleave`, which saves the transposition.

#![allow(unsafe_code)]

use super::ROWS;
use ir::blocks::Format;

/// Four weights of each of `N` rows.
pub(in crate::kernels) trait Words: Copy {
    /// Rows.
    const N: usize;
    /// A float per row.
    type F: Copy;

    /// One word of each row, rows `stride` bytes apart.
    ///
    /// # Safety
    /// The bytes are valid for reading.
    unsafe fn load(p: *const u8, stride: usize) -> Self;
    /// Four neighboring words of each row.
    ///
    /// # Safety
    /// As for [`Words::load`].
    unsafe fn load4(p: *const u8, stride: usize) -> [Self; 4];
    /// A word of each row, side by side.
    ///
    /// # Safety
    /// As for [`Words::load`].
    unsafe fn side_by_side(p: *const u8) -> Self;
    /// A 16-bit float of each row, side by side.
    ///
    /// # Safety
    /// As for [`Words::load`].
    unsafe fn halves(p: *const u8) -> Self::F;
    /// # Safety
    /// Room for a word per row.
    unsafe fn store(self, to: *mut u32);
    fn and(self, mask: u32) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, mask: u32) -> Self;
    fn mul(self, by: u32) -> Self;
    fn shr(self, by: u32) -> Self;
    fn shl(self, by: u32) -> Self;
    /// The 16-bit float in the lower half of each word.
    fn half(self) -> Self::F;
    /// The number in each word as a float.
    fn float(self) -> Self::F;
    /// The topmost byte of each word as a signed number.
    fn top_byte(self) -> Self::F;
    fn times(a: Self::F, b: Self::F) -> Self::F;
    fn negative(a: Self::F) -> Self::F;
    /// # Safety
    /// Room for a float per row.
    unsafe fn store_float(x: Self::F, to: *mut f32);
}

/// Where a panel lies.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    /// Words, `[k / 4][ROWS]`.
    pub words: *mut u32,
    /// Scales, `[sub-blocks][ROWS]`.
    pub scales: *mut f32,
    /// Minimums, `[sub-blocks][ROWS]`, in formats that have them.
    pub mins: *mut f32,
}

/// How the weights of a format are to be read in a panel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Weights of a sub-block.
    pub sub: usize,
    /// Whether sub-blocks have a minimum.
    pub has_min: bool,
    /// What is taken from each byte (0 with a minimum).
    pub offset: i32,
    /// Whether bytes use all 8 bits.
    pub is_wide: bool,
}

pub(super) fn shape(format: Format) -> Shape {
    let (sub, has_min, offset, is_wide) = match format {
        Format::Q4_0 => (32, false, 8, false),
        Format::Q5_0 => (32, false, 16, false),
        Format::Q6_K => (16, false, 32, false),
        Format::Q8_0 | Format::INT8 => (32, false, 128, true),
        _ => (32, true, 0, false),
    };
    Shape { sub, has_min, offset, is_wide }
}

const NIBBLES: u32 = 0x0f0f_0f0f;
/// Bytes ahead of interleaved blocks that are asked for: their fields are not read in order.
const AHEAD: usize = 4096;

/// Asks for the bytes `AHEAD` of a group of blocks.
#[inline(always)]
fn prefetch(p: *const u8, bytes: usize) {
    for line in (0..bytes).step_by(64) {
        let at = p.wrapping_add(AHEAD + line);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch touches no memory, wherever it points.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}

/// Unpacks `blocks` blocks of `W::N` rows into the lanes of a panel from `lane` on. Bytes of wide formats are flipped
/// by `flip`. `X`: the rows are interleaved.
///
/// # Safety
/// The 16 rows, `stride` bytes apart if not interleaved, are valid for reading, and the panel has room.
#[inline(always)]
pub(super) unsafe fn decode<W: Words, const X: bool>(
    format: Format,
    p: *const u8,
    stride: usize,
    blocks: usize,
    to: Panel,
    lane: usize,
    flip: u32,
) {
    let subs = format.block() / shape(format).sub;
    for b in 0..blocks {
        if X && lane == 0 {
            prefetch(p.wrapping_add(b * ROWS * format.block_bytes()), ROWS * format.block_bytes());
        }
        // SAFETY: the caller's promise.
        unsafe {
            let at = Block::<W, X> {
                p: p.add(b * format.block_bytes() * if X { ROWS } else { 1 } + lane * stride),
                stride,
                lane,
                words: to.words.add(b * format.block() / 4 * ROWS + lane),
                scales: to.scales.add(b * subs * ROWS + lane),
                mins: to.mins.wrapping_add(b * subs * ROWS + lane),
                marker: std::marker::PhantomData,
            };
            match format {
                Format::Q4_0 => at.fours(0, false),
                Format::Q4_1 => at.fours(0, true),
                Format::Q5_0 => at.fives(2, false),
                Format::Q5_1 => at.fives(4, true),
                Format::Q8_0 => at.bytes(2, flip),
                Format::INT8 => at.bytes(8, flip),
                Format::INT4 => at.fours_wide(),
                Format::Q4_K => at.k_quants(false),
                Format::Q5_K => at.k_quants(true),
                _ => at.sixes(),
            }
        }
    }
}

/// A block of several rows.
struct Block<W, const X: bool> {
    p: *const u8,
    stride: usize,
    lane: usize,
    words: *mut u32,
    scales: *mut f32,
    mins: *mut f32,
    marker: std::marker::PhantomData<W>,
}

impl<W: Words, const X: bool> Block<W, X> {
    #[inline(always)]
    unsafe fn put(&self, i: usize, w: W) {
        // SAFETY: the panel has room.
        unsafe { w.store(self.words.add(i * ROWS)) }
    }
    #[inline(always)]
    unsafe fn put_scale(&self, i: usize, x: W::F) {
        // SAFETY: the panel has room.
        unsafe { W::store_float(x, self.scales.add(i * ROWS)) }
    }
    #[inline(always)]
    unsafe fn put_min(&self, i: usize, x: W::F) {
        // SAFETY: the panel has room.
        unsafe { W::store_float(x, self.mins.add(i * ROWS)) }
    }
    #[inline(always)]
    unsafe fn load(&self, at: usize) -> W {
        // SAFETY: inside the block.
        unsafe {
            if X {
                W::side_by_side(self.p.add(ROWS * at + 4 * self.lane))
            } else {
                W::load(self.p.add(at), self.stride)
            }
        }
    }
    #[inline(always)]
    unsafe fn load4(&self, at: usize) -> [W; 4] {
        // SAFETY: inside the block.
        unsafe { if X { [0, 4, 8, 12].map(|i| self.load(at + i)) } else { W::load4(self.p.add(at), self.stride) } }
    }
    /// Two neighboring 16-bit floats.
    #[inline(always)]
    unsafe fn halves(&self, at: usize) -> [W::F; 2] {
        // SAFETY: inside the block.
        unsafe {
            if X {
                return [at, at + 2].map(|at| W::halves(self.p.add(ROWS * at + 2 * self.lane)));
            }
            let w = self.load(at);
            [w.half(), w.shr(16).half()]
        }
    }
    /// The scale and perhaps a minimum at the start of a block; returns how many bytes they take.
    #[inline(always)]
    unsafe fn header(&self, subs: usize, has_min: bool) -> usize {
        // SAFETY: inside the block, which is longer than two floats.
        unsafe {
            let [d, m] = self.halves(0);
            for i in 0..subs {
                self.put_scale(i, d);
                if has_min {
                    self.put_min(i, m);
                }
            }
        }
        if has_min { 4 } else { 2 }
    }
    /// Q4_0 and Q4_1.
    #[inline(always)]
    unsafe fn fours(&self, first: usize, has_min: bool) {
        // SAFETY: inside the block.
        unsafe {
            let at = self.header(1, has_min);
            let q = self.load4(at);
            for i in 0..4 {
                self.put(first + i, q[i].and(NIBBLES));
                self.put(first + i + 4, q[i].shr(4).and(NIBBLES));
            }
        }
    }
    /// Q5_0 and Q5_1; the fifth bits are a word at `high`.
    #[inline(always)]
    unsafe fn fives(&self, high: usize, has_min: bool) {
        // SAFETY: inside the block.
        unsafe {
            self.header(1, has_min);
            let (high, q) = (self.load(high), self.load4(high + 4));
            // Four neighboring bits become bit 4 of four bytes.
            let fifth = |i: u32| high.shr(4 * i).and(15).mul(0x0020_4081).and(0x0101_0101).shl(4);
            for i in 0..4 {
                self.put(i, q[i].and(NIBBLES).or(fifth(i as u32)));
                self.put(i + 4, q[i].shr(4).and(NIBBLES).or(fifth(i as u32 + 4)));
            }
        }
    }
    /// Q8_0 and INT8, of `quads` times 16 bytes.
    #[inline(always)]
    unsafe fn bytes(&self, quads: usize, flip: u32) {
        // SAFETY: inside the block.
        unsafe {
            self.header(quads / 2, false);
            for j in 0..quads {
                let q = self.load4(2 + 16 * j);
                for i in 0..4 {
                    self.put(4 * j + i, q[i].xor(flip));
                }
            }
        }
    }
    /// INT4: 64 low nibbles, then 64 high ones.
    #[inline(always)]
    unsafe fn fours_wide(&self) {
        // SAFETY: inside the block.
        unsafe {
            self.header(4, true);
            for j in 0..4 {
                let q = self.load4(4 + 16 * j);
                for i in 0..4 {
                    self.put(4 * j + i, q[i].and(NIBBLES));
                    self.put(4 * j + i + 16, q[i].shr(4).and(NIBBLES));
                }
            }
        }
    }
    /// Q4_K and Q5_K: eight sub-blocks with 6-bit scales and minimums in 12 bytes.
    #[inline(always)]
    unsafe fn k_quants(&self, has_fifth: bool) {
        // SAFETY: inside the block.
        unsafe {
            let [d, d_min] = self.halves(0);
            let (d_min, [a, b, c]) = (W::negative(d_min), [4, 8, 12].map(|at| self.load(at)));
            let top = |w: W| w.shr(6).and(0x0303_0303).shl(4);
            let scales = [a.and(0x3f3f_3f3f), c.and(NIBBLES).or(top(a))];
            let mins = [b.and(0x3f3f_3f3f), c.shr(4).and(NIBBLES).or(top(b))];
            for j in 0..8 {
                let byte = |w: [W; 2]| w[j / 4].shr(8 * (j as u32 % 4)).and(255).float();
                self.put_scale(j, W::times(d, byte(scales)));
                self.put_min(j, W::times(d_min, byte(mins)));
            }
            let high = if has_fifth { [self.load4(16), self.load4(32)] } else { [[a; 4]; 2] };
            let qs = if has_fifth { 48 } else { 16 };
            for pair in 0..4 {
                for j in 0..2 {
                    let q = self.load4(qs + 32 * pair + 16 * j);
                    for i in 0..4 {
                        let fifth = |s: usize| high[j][i].shr(s as u32).and(0x0101_0101).shl(4);
                        let (mut low, mut up) = (q[i].and(NIBBLES), q[i].shr(4).and(NIBBLES));
                        if has_fifth {
                            (low, up) = (low.or(fifth(2 * pair)), up.or(fifth(2 * pair + 1)));
                        }
                        self.put(16 * pair + 4 * j + i, low);
                        self.put(16 * pair + 8 + 4 * j + i, up);
                    }
                }
            }
        }
    }
    /// Q6_K: sixteen sub-blocks with 8-bit scales.
    #[inline(always)]
    unsafe fn sixes(&self) {
        // SAFETY: inside the block.
        unsafe {
            let d = if X {
                W::halves(self.p.add(ROWS * 208 + 2 * self.lane))
            } else {
                W::load(self.p.add(206), self.stride).shr(16).half()
            };
            let scales = self.load4(192);
            for s in 0..4 {
                self.put_scale(4 * s, W::times(d, scales[s].shl(24).top_byte()));
                self.put_scale(4 * s + 1, W::times(d, scales[s].shl(16).top_byte()));
                self.put_scale(4 * s + 2, W::times(d, scales[s].shl(8).top_byte()));
                self.put_scale(4 * s + 3, W::times(d, scales[s].top_byte()));
            }
            for half in 0..2 {
                for j in 0..2 {
                    let high = self.load4(128 + 32 * half + 16 * j);
                    let low = [self.load4(64 * half + 16 * j), self.load4(64 * half + 32 + 16 * j)];
                    let first = 32 * half + 4 * j;
                    self.six_run::<0>(first, low[0], high);
                    self.six_run::<1>(first, low[1], high);
                    self.six_run::<2>(first, low[0], high);
                    self.six_run::<3>(first, low[1], high);
                }
            }
        }
    }
    /// 16 weights of run `RUN` of a half: nibbles and two high bits.
    #[inline(always)]
    unsafe fn six_run<const RUN: u32>(&self, first: usize, low: [W; 4], high: [W; 4]) {
        for i in 0..4 {
            let (nibble, top) = (low[i].shr(RUN / 2 * 4).and(NIBBLES), high[i].shr(2 * RUN).and(0x0303_0303).shl(4));
            // SAFETY: inside the block.
            unsafe { self.put(first + 8 * RUN as usize + i, nibble.or(top)) };
        }
    }
}

/// One row.
impl Words for u32 {
    const N: usize = 1;
    type F = f32;
    #[inline(always)]
    unsafe fn load(p: *const u8, _: usize) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { u32::from_le(p.cast::<u32>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn load4(p: *const u8, stride: usize) -> [u32; 4] {
        // SAFETY: the caller's promise.
        unsafe { [0, 4, 8, 12].map(|i| u32::load(p.add(i), stride)) }
    }
    #[inline(always)]
    unsafe fn side_by_side(p: *const u8) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { u32::load(p, 0) }
    }
    #[inline(always)]
    unsafe fn halves(p: *const u8) -> f32 {
        // SAFETY: the caller's promise.
        ir::f16::from_bits(u16::from_le(unsafe { p.cast::<u16>().read_unaligned() })).to_f32()
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: the caller's promise.
        unsafe { to.write(self.to_le()) }
    }
    #[inline(always)]
    fn and(self, mask: u32) -> u32 {
        self & mask
    }
    #[inline(always)]
    fn or(self, other: u32) -> u32 {
        self | other
    }
    #[inline(always)]
    fn xor(self, mask: u32) -> u32 {
        self ^ mask
    }
    #[inline(always)]
    fn mul(self, by: u32) -> u32 {
        self.wrapping_mul(by)
    }
    #[inline(always)]
    fn shr(self, by: u32) -> u32 {
        self >> by
    }
    #[inline(always)]
    fn shl(self, by: u32) -> u32 {
        self << by
    }
    #[inline(always)]
    fn half(self) -> f32 {
        ir::f16::from_bits(self as u16).to_f32()
    }
    #[inline(always)]
    fn float(self) -> f32 {
        self as f32
    }
    #[inline(always)]
    fn top_byte(self) -> f32 {
        (self as i32 >> 24) as f32
    }
    #[inline(always)]
    fn times(a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    fn negative(a: f32) -> f32 {
        -a
    }
    #[inline(always)]
    unsafe fn store_float(x: f32, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.write(x) }
    }
}

#[cfg(target_arch = "x86_64")]
pub(in crate::kernels) mod x86 {
    use super::Words;
    use std::arch::x86_64::*;

    /// Sixteen rows in a vector of AVX-512.
    #[derive(Clone, Copy)]
    pub struct Sixteen(__m512i);

    /// Writes a method that is instructions of the vector's own.
    macro_rules! lanes {
        ($($name:ident($self:ident $(, $arg:ident: $t:ty)?) -> $ret:ty { $body:expr })*) => {$(
            #[inline(always)]
            fn $name($self $(, $arg: $t)?) -> $ret {
                // SAFETY: values of this type are only made where the machine has the instructions.
                unsafe { $body }
            }
        )*};
    }

    impl Words for Sixteen {
        const N: usize = 16;
        type F = __m512;
        #[inline(always)]
        unsafe fn load(p: *const u8, stride: usize) -> Sixteen {
            // SAFETY: the caller's promise.
            unsafe {
                let word = |r: usize| p.add(r * stride).cast::<i32>().read_unaligned();
                let four = |r: usize| {
                    let x = _mm_cvtsi32_si128(word(r));
                    let x = _mm_insert_epi32::<1>(x, word(r + 1));
                    let x = _mm_insert_epi32::<2>(x, word(r + 2));
                    _mm_insert_epi32::<3>(x, word(r + 3))
                };
                let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(four(0)), four(4));
                let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(four(8)), four(12));
                Sixteen(_mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high))
            }
        }
        #[inline(always)]
        unsafe fn load4(p: *const u8, stride: usize) -> [Sixteen; 4] {
            // SAFETY: the caller's promise.
            unsafe {
                // Rows r, r + 4, r + 8 and r + 12 side by side, then a transposition in each quarter.
                let quad = |r: usize| {
                    let row = |r: usize| _mm_loadu_si128(p.add(r * stride).cast());
                    let x = _mm512_castsi128_si512(row(r));
                    let x = _mm512_inserti32x4::<1>(x, row(r + 4));
                    let x = _mm512_inserti32x4::<2>(x, row(r + 8));
                    _mm512_inserti32x4::<3>(x, row(r + 12))
                };
                let (a, b, c, d) = (quad(0), quad(1), quad(2), quad(3));
                let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
                let (up, down) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
                [
                    Sixteen(_mm512_unpacklo_epi64(ab, cd)),
                    Sixteen(_mm512_unpackhi_epi64(ab, cd)),
                    Sixteen(_mm512_unpacklo_epi64(up, down)),
                    Sixteen(_mm512_unpackhi_epi64(up, down)),
                ]
            }
        }
        #[inline(always)]
        unsafe fn side_by_side(p: *const u8) -> Sixteen {
            // SAFETY: the caller's promise.
            unsafe { Sixteen(_mm512_loadu_si512(p.cast())) }
        }
        #[inline(always)]
        unsafe fn halves(p: *const u8) -> __m512 {
            // SAFETY: the caller's promise.
            unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut u32) {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_si512(to.cast(), self.0) }
        }
        lanes! {
            and(self, mask: u32) -> Self { Sixteen(_mm512_and_si512(self.0, _mm512_set1_epi32(mask as i32))) }
            or(self, other: Self) -> Self { Sixteen(_mm512_or_si512(self.0, other.0)) }
            xor(self, mask: u32) -> Self { Sixteen(_mm512_xor_si512(self.0, _mm512_set1_epi32(mask as i32))) }
            mul(self, by: u32) -> Self { Sixteen(_mm512_mullo_epi32(self.0, _mm512_set1_epi32(by as i32))) }
            shr(self, by: u32) -> Self { Sixteen(_mm512_srl_epi32(self.0, _mm_cvtsi32_si128(by as i32))) }
            shl(self, by: u32) -> Self { Sixteen(_mm512_sll_epi32(self.0, _mm_cvtsi32_si128(by as i32))) }
            half(self) -> __m512 { _mm512_cvtph_ps(_mm512_cvtepi32_epi16(self.0)) }
            float(self) -> __m512 { _mm512_cvtepi32_ps(self.0) }
            top_byte(self) -> __m512 { _mm512_cvtepi32_ps(_mm512_srai_epi32::<24>(self.0)) }
        }
        #[inline(always)]
        fn times(a: __m512, b: __m512) -> __m512 {
            // SAFETY: as above.
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        fn negative(a: __m512) -> __m512 {
            // SAFETY: as above.
            unsafe { _mm512_sub_ps(_mm512_set1_ps(-0.0), a) }
        }
        #[inline(always)]
        unsafe fn store_float(x: __m512, to: *mut f32) {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_ps(to, x) }
        }
    }

    /// Eight rows in a vector of AVX2.
    #[derive(Clone, Copy)]
    pub struct Eight(__m256i);

    impl Words for Eight {
        const N: usize = 8;
        type F = __m256;
        #[inline(always)]
        unsafe fn load(p: *const u8, stride: usize) -> Eight {
            // SAFETY: the caller's promise.
            unsafe {
                let word = |r: usize| p.add(r * stride).cast::<i32>().read_unaligned();
                let four = |r: usize| _mm_setr_epi32(word(r), word(r + 1), word(r + 2), word(r + 3));
                Eight(_mm256_inserti128_si256::<1>(_mm256_castsi128_si256(four(0)), four(4)))
            }
        }
        #[inline(always)]
        unsafe fn load4(p: *const u8, stride: usize) -> [Eight; 4] {
            // SAFETY: the caller's promise.
            unsafe {
                let pair = |r: usize| {
                    let row = |r: usize| _mm_loadu_si128(p.add(r * stride).cast());
                    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(row(r)), row(r + 4))
                };
                let (a, b, c, d) = (pair(0), pair(1), pair(2), pair(3));
                let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
                let (up, down) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
                [
                    Eight(_mm256_unpacklo_epi64(ab, cd)),
                    Eight(_mm256_unpackhi_epi64(ab, cd)),
                    Eight(_mm256_unpacklo_epi64(up, down)),
                    Eight(_mm256_unpackhi_epi64(up, down)),
                ]
            }
        }
        #[inline(always)]
        unsafe fn side_by_side(p: *const u8) -> Eight {
            // SAFETY: the caller's promise.
            unsafe { Eight(_mm256_loadu_si256(p.cast())) }
        }
        #[inline(always)]
        unsafe fn halves(p: *const u8) -> __m256 {
            // SAFETY: the caller's promise.
            unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut u32) {
            // SAFETY: the caller's promise.
            unsafe { _mm256_storeu_si256(to.cast(), self.0) }
        }
        lanes! {
            and(self, mask: u32) -> Self { Eight(_mm256_and_si256(self.0, _mm256_set1_epi32(mask as i32))) }
            or(self, other: Self) -> Self { Eight(_mm256_or_si256(self.0, other.0)) }
            xor(self, mask: u32) -> Self { Eight(_mm256_xor_si256(self.0, _mm256_set1_epi32(mask as i32))) }
            mul(self, by: u32) -> Self { Eight(_mm256_mullo_epi32(self.0, _mm256_set1_epi32(by as i32))) }
            shr(self, by: u32) -> Self { Eight(_mm256_srl_epi32(self.0, _mm_cvtsi32_si128(by as i32))) }
            shl(self, by: u32) -> Self { Eight(_mm256_sll_epi32(self.0, _mm_cvtsi32_si128(by as i32))) }
            half(self) -> __m256 {{
                let low = _mm256_and_si256(self.0, _mm256_set1_epi32(0xffff));
                let (a, b) = (_mm256_castsi256_si128(low), _mm256_extracti128_si256::<1>(low));
                _mm256_cvtph_ps(_mm_packus_epi32(a, b))
            }}
            float(self) -> __m256 { _mm256_cvtepi32_ps(self.0) }
            top_byte(self) -> __m256 { _mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(self.0)) }
        }
        #[inline(always)]
        fn times(a: __m256, b: __m256) -> __m256 {
            // SAFETY: as above.
            unsafe { _mm256_mul_ps(a, b) }
        }
        #[inline(always)]
        fn negative(a: __m256) -> __m256 {
            // SAFETY: as above.
            unsafe { _mm256_sub_ps(_mm256_set1_ps(-0.0), a) }
        }
        #[inline(always)]
        unsafe fn store_float(x: __m256, to: *mut f32) {
            // SAFETY: the caller's promise.
            unsafe { _mm256_storeu_ps(to, x) }
        }
    }
}
