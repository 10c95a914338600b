//! Block formats of quantized weights: how the bytes of a row become numbers.
//!
//! Every format stores rows in blocks of 32, 128 or 256 weights. The formats of GGUF are dequantized with the
//! arithmetic of ggml's reference functions, in the same order, so that results have the same bits.

use crate::{Error, Result};
use half::{bf16, f16};

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types)]
pub enum Format {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// bfloat16.
    BF16,
    /// 32 weights of 4 bits and a scale.
    Q4_0,
    /// 32 weights of 4 bits, a scale and a minimum.
    Q4_1,
    /// 32 weights of 5 bits and a scale.
    Q5_0,
    /// 32 weights of 5 bits, a scale and a minimum.
    Q5_1,
    /// 32 weights of 8 bits and a scale.
    Q8_0,
    /// 256 weights of 4 bits; eight sub-blocks with a 6-bit scale and minimum each.
    Q4_K,
    /// 256 weights of 5 bits; eight sub-blocks with a 6-bit scale and minimum each.
    Q5_K,
    /// 256 weights of 6 bits; sixteen sub-blocks with an 8-bit scale each.
    Q6_K,
    /// 128 weights of 8 bits and a scale: group-wise int8. Not a format of GGUF.
    INT8,
    /// 128 weights of 4 bits, a scale and a minimum: group-wise int4. Not a format of GGUF.
    INT4,
}

impl Format {
    /// The formats in which weights stay quantized while they are multiplied.
    pub const BLOCKS: [Format; 10] = [
        Format::Q4_0,
        Format::Q4_1,
        Format::Q5_0,
        Format::Q5_1,
        Format::Q8_0,
        Format::Q4_K,
        Format::Q5_K,
        Format::Q6_K,
        Format::INT8,
        Format::INT4,
    ];
    /// Floats: a weight is its own block.
    pub const FLOATS: [Format; 3] = [Format::F32, Format::F16, Format::BF16];
    /// The formats of GGUF files.
    pub const ALL: [Format; 11] = [
        Format::F32,
        Format::F16,
        Format::BF16,
        Format::Q4_0,
        Format::Q4_1,
        Format::Q5_0,
        Format::Q5_1,
        Format::Q8_0,
        Format::Q4_K,
        Format::Q5_K,
        Format::Q6_K,
    ];

    /// Its name in llama.cpp.
    pub fn name(self) -> &'static str {
        match self {
            Format::F32 => "F32",
            Format::F16 => "F16",
            Format::BF16 => "BF16",
            Format::Q4_0 => "Q4_0",
            Format::Q4_1 => "Q4_1",
            Format::Q5_0 => "Q5_0",
            Format::Q5_1 => "Q5_1",
            Format::Q8_0 => "Q8_0",
            Format::Q4_K => "Q4_K",
            Format::Q5_K => "Q5_K",
            Format::Q6_K => "Q6_K",
            Format::INT8 => "INT8",
            Format::INT4 => "INT4",
        }
    }
    /// Its name as an attribute of ops.
    pub fn attr(self) -> &'static str {
        match self {
            Format::F32 => "f32",
            Format::F16 => "f16",
            Format::BF16 => "bf16",
            Format::Q4_0 => "q4_0",
            Format::Q4_1 => "q4_1",
            Format::Q5_0 => "q5_0",
            Format::Q5_1 => "q5_1",
            Format::Q8_0 => "q8_0",
            Format::Q4_K => "q4_k",
            Format::Q5_K => "q5_k",
            Format::Q6_K => "q6_k",
            Format::INT8 => "int8",
            Format::INT4 => "int4",
        }
    }
    /// The format with that name as an attribute.
    pub fn from_attr(name: &str) -> Result<Format> {
        let all = || Format::BLOCKS.into_iter().chain(Format::FLOATS);
        all().find(|f| f.attr() == name).ok_or_else(|| {
            let names: Vec<&str> = all().map(|f| f.attr()).collect();
            Error::value(format!("format must be one of {}, not {name:?}", names.join(", ")))
        })
    }
    /// Its number in GGUF files.
    pub fn number(self) -> Option<u32> {
        Some(match self {
            Format::F32 => 0,
            Format::F16 => 1,
            Format::Q4_0 => 2,
            Format::Q4_1 => 3,
            Format::Q5_0 => 6,
            Format::Q5_1 => 7,
            Format::Q8_0 => 8,
            Format::Q4_K => 12,
            Format::Q5_K => 13,
            Format::Q6_K => 14,
            Format::BF16 => 30,
            Format::INT8 | Format::INT4 => return None,
        })
    }
    /// The format with that number.
    pub fn of(number: u32) -> Result<Format> {
        let known = Format::ALL.into_iter().find(|f| f.number() == Some(number));
        known.ok_or_else(|| {
            let names: Vec<&str> = Format::ALL.iter().map(|f| f.name()).collect();
            Error::format(format!("tensor type {number} is not supported; supported: {}", names.join(", ")))
        })
    }
    /// Weights in a block.
    pub fn block(self) -> usize {
        match self {
            Format::F32 | Format::F16 | Format::BF16 => 1,
            Format::Q4_0 | Format::Q4_1 | Format::Q5_0 | Format::Q5_1 | Format::Q8_0 => 32,
            Format::Q4_K | Format::Q5_K | Format::Q6_K => 256,
            Format::INT8 | Format::INT4 => 128,
        }
    }
    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::F16 | Format::BF16 => 2,
            Format::Q4_0 => 2 + 16,
            Format::Q4_1 => 4 + 16,
            Format::Q5_0 => 2 + 4 + 16,
            Format::Q5_1 => 4 + 4 + 16,
            Format::Q8_0 => 2 + 32,
            Format::Q4_K => 4 + 12 + 128,
            Format::Q5_K => 4 + 12 + 32 + 128,
            Format::Q6_K => 128 + 64 + 16 + 2,
            Format::INT8 => 2 + 128,
            Format::INT4 => 4 + 64,
        }
    }
    /// Weights in a row of that many bytes; an error unless they are whole blocks.
    pub fn weights(self, bytes: usize) -> Result<usize> {
        if bytes.is_multiple_of(self.block_bytes()) {
            return Ok(bytes / self.block_bytes() * self.block());
        }
        let e = format!("rows of {bytes} bytes are not whole blocks of {} bytes ({})", self.block_bytes(), self.name());
        Err(Error::shape(e))
    }
    /// Activations that share a scale where they are multiplied in 8 bits with weights of this format: 256 for the
    /// K-quants, as in ggml, else 32.
    pub fn activation_block(self) -> usize {
        if self.block() == 256 { 256 } else { 32 }
    }
    /// Bytes of that many weights; an error unless they fill whole blocks.
    pub fn bytes(self, weights: usize) -> Result<usize> {
        if !weights.is_multiple_of(self.block()) {
            let e = format!("{weights} weights do not fill blocks of {} ({})", self.block(), self.name());
            return Err(Error::format(e));
        }
        let too_large = || Error::format(format!("{weights} weights of {} are too large", self.name()));
        (weights / self.block()).checked_mul(self.block_bytes()).ok_or_else(too_large)
    }
}

/// The weights of whole blocks. `out` must have room for exactly as many as `bytes` hold.
pub fn dequantize(format: Format, bytes: &[u8], out: &mut [f32]) -> Result<()> {
    if format.bytes(out.len())? != bytes.len() {
        let e = format!(
            "{} weights of {} take {} bytes, not {}",
            out.len(),
            format.name(),
            format.bytes(out.len())?,
            bytes.len()
        );
        return Err(Error::format(e));
    }
    let block = match format {
        Format::F32 => f32_block,
        Format::F16 => f16_block,
        Format::BF16 => bf16_block,
        Format::Q4_0 => q4_0,
        Format::Q4_1 => q4_1,
        Format::Q5_0 => q5_0,
        Format::Q5_1 => q5_1,
        Format::Q8_0 => q8_0,
        Format::Q4_K => q4_k,
        Format::Q5_K => q5_k,
        Format::Q6_K => q6_k,
        Format::INT8 => q8_0,
        Format::INT4 => q4_1,
    };
    for (b, o) in bytes.chunks_exact(format.block_bytes()).zip(out.chunks_exact_mut(format.block())) {
        block(b, o);
    }
    Ok(())
}

/// The 16-bit float at byte `at`.
fn half_at(b: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([b[at], b[at + 1]]).to_f32()
}
fn f32_block(b: &[u8], out: &mut [f32]) {
    out[0] = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
}
fn f16_block(b: &[u8], out: &mut [f32]) {
    out[0] = half_at(b, 0);
}
fn bf16_block(b: &[u8], out: &mut [f32]) {
    out[0] = bf16::from_le_bytes([b[0], b[1]]).to_f32();
}

/// Low nibbles are the first half of a block, high nibbles the second.
fn nibbles(qs: &[u8], mut write: impl FnMut(usize, u8)) {
    for (j, &q) in qs.iter().enumerate() {
        write(j, q & 0xf);
        write(j + qs.len(), q >> 4);
    }
}
fn q4_0(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    nibbles(&b[2..18], |j, q| out[j] = (q as i32 - 8) as f32 * d);
}
fn q4_1(b: &[u8], out: &mut [f32]) {
    let (d, m) = (half_at(b, 0), half_at(b, 2));
    nibbles(&b[4..], |j, q| out[j] = q as f32 * d + m);
}
/// Weights of 5 bits: bit `j` of `high` is the fifth of weight `j`.
fn fives(high: &[u8], qs: &[u8], mut write: impl FnMut(usize, i32)) {
    let high = u32::from_le_bytes([high[0], high[1], high[2], high[3]]);
    nibbles(qs, |j, q| write(j, q as i32 | ((high >> j) as i32 & 1) << 4));
}
fn q5_0(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    fives(&b[2..6], &b[6..22], |j, q| out[j] = (q - 16) as f32 * d);
}
fn q5_1(b: &[u8], out: &mut [f32]) {
    let (d, m) = (half_at(b, 0), half_at(b, 2));
    fives(&b[4..8], &b[8..24], |j, q| out[j] = q as f32 * d + m);
}
fn q8_0(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (o, &q) in out.iter_mut().zip(&b[2..]) {
        *o = q as i8 as f32 * d;
    }
}

/// The 6-bit scale and minimum of sub-block `j`, packed in 12 bytes.
fn scale_and_min(packed: &[u8], j: usize) -> (f32, f32) {
    let (scale, min) = if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        ((packed[j + 4] & 0xf) | (packed[j - 4] >> 6) << 4, (packed[j + 4] >> 4) | (packed[j] >> 6) << 4)
    };
    (scale as f32, min as f32)
}
/// What Q4_K and Q5_K share: eight sub-blocks of 32, two in the nibbles of 32 bytes; `fifth(j, l)` is the fifth bit of
/// weight `l` of sub-block `j`.
fn k_quants(b: &[u8], qs: &[u8], fifth: impl Fn(usize, usize) -> u8, out: &mut [f32]) {
    let (d, d_min) = (half_at(b, 0), half_at(b, 2));
    for j in 0..8 {
        let (scale, min) = scale_and_min(&b[4..16], j);
        let (scale, min) = (d * scale, d_min * min);
        for l in 0..32 {
            let byte = qs[j / 2 * 32 + l];
            let q = if j % 2 == 0 { byte & 0xf } else { byte >> 4 };
            out[j * 32 + l] = scale * (q + 16 * fifth(j, l)) as f32 - min;
        }
    }
}
fn q4_k(b: &[u8], out: &mut [f32]) {
    k_quants(b, &b[16..], |_, _| 0, out);
}
fn q5_k(b: &[u8], out: &mut [f32]) {
    k_quants(b, &b[48..], |j, l| b[16 + l] >> j & 1, out);
}
fn q6_k(b: &[u8], out: &mut [f32]) {
    let (low, high, scales, d) = (&b[..128], &b[128..192], &b[192..208], half_at(b, 208));
    // Two halves of 128 weights, each four runs of 32.
    for half in 0..2 {
        for run in 0..4 {
            for l in 0..32 {
                let nibble = low[half * 64 + run % 2 * 32 + l] >> (run / 2 * 4) & 0xf;
                let top = high[half * 32 + l] >> (run * 2) & 3;
                let q = (nibble | top << 4) as i32 - 32;
                let scale = scales[half * 8 + run * 2 + l / 16] as i8 as f32;
                out[half * 128 + run * 32 + l] = d * scale * q as f32;
            }
        }
    }
}

/// A block of activations in 8 bits, for weights of that format; returns its scale. This is the arithmetic of ggml
/// (q8_0 and q8_1, or q8_K with the K-quants), so that products agree with llama.cpp's.
pub fn quantize_activations(format: Format, x: &[f32], q: &mut [i8]) -> f32 {
    let amax = x.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    if amax == 0.0 {
        q.fill(0);
        return 0.0;
    }
    if format.activation_block() == 256 {
        // The first number of greatest magnitude becomes −127, whatever its sign.
        let most = x.iter().copied().find(|v| v.abs() == amax).unwrap_or(amax);
        let inverse = -127.0 / most;
        q.iter_mut().zip(x).for_each(|(q, x)| *q = (inverse * x).round_ties_even().min(127.0) as i8);
        return 1.0 / inverse;
    }
    let inverse = 127.0 / amax;
    q.iter_mut().zip(x).for_each(|(q, x)| *q = (x * inverse).round_ties_even() as i8);
    rounded_scale(amax / 127.0)
}

/// A scale as ggml stores it, in 16 bits; in full where 16 bits would lose more than the last places.
pub fn rounded_scale(x: f32) -> f32 {
    let is_normal = x.abs() >= 6.2e-5 && x.abs() <= 65504.0;
    if is_normal { f16::from_f32(x).to_f32() } else { x }
}

/// Rows that [`interleave`] puts side by side.
pub const INTERLEAVED: usize = 16;

/// Weights with rows interleaved in groups of 16, as CPU kernels read them fastest. Block by block, each word (or
/// 16-bit float) of the first row is followed by that of the other rows. `rows` must be a multiple of 16.
pub fn interleave(format: Format, bytes: &[u8], rows: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; bytes.len()];
    exchange(format, bytes.len(), rows, |row, group| out[group].copy_from_slice(&bytes[row]))?;
    Ok(out)
}

/// The inverse of [`interleave`].
pub fn deinterleave(format: Format, bytes: &[u8], rows: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; bytes.len()];
    exchange(format, bytes.len(), rows, |row, group| out[row].copy_from_slice(&bytes[group]))?;
    Ok(out)
}

/// Calls `f(in rows, interleaved)` with the ranges of bytes of each field.
fn exchange(
    format: Format,
    bytes: usize,
    rows: usize,
    mut f: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>),
) -> Result<()> {
    let block = format.block_bytes();
    let row = bytes.checked_div(rows).unwrap_or(0);
    if !rows.is_multiple_of(INTERLEAVED) || row * rows != bytes || !row.is_multiple_of(block) {
        let e = format!("{bytes} bytes are not a multiple of {INTERLEAVED} rows of whole blocks ({})", format.name());
        return Err(Error::shape(e));
    }
    // Where a block has floats of 16 bits; the rest are words.
    let halves: &[usize] = match format {
        Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K | Format::INT4 => &[0, 2],
        Format::Q6_K => &[208],
        Format::F32 => &[],
        _ => &[0],
    };
    for r in 0..rows {
        let (group, lane) = (r / INTERLEAVED * INTERLEAVED * row, r % INTERLEAVED);
        for b in 0..row / block {
            let mut at = 0;
            while at < block {
                let size = if halves.contains(&at) { 2 } else { 4 };
                let (from, to) = (r * row + b * block + at, group + (b * block + at) * INTERLEAVED + lane * size);
                f(from..from + size, to..to + size);
                at += size;
            }
        }
    }
    Ok(())
}
