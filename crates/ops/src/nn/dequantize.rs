//! `dequantize`: block-quantized weights as floats.

use crate::rules::one;
use crate::{DType, Error, Result, Tensor};
use ir::blocks::{self, Format};
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op, Shape};

/// The row of `dequantize`.
pub static OP: Op = Op {
    name: "dequantize",
    doc: "Weights w, u8[N, B], whose rows are blocks of a quantized format, as floats [N, K] of type `dtype`. `format` \
          is q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k (GGUF), int8 or int4 (groups of 128).",
    attrs: &[("format", AttrKind::Str), ("dtype", AttrKind::DType)],
    infer: |c| {
        c.arity(1)?;
        one(float_type(c)?, [c.shape(0).first().copied().unwrap_or(0), width(c, 0)?])
    },
    meaning: Meaning::Kernel(|c, args| {
        let (_, weights) = weights(c, &args[0], 0)?;
        let shape = Shape::new(&[c.shape(0)[0], width(c, 0)?]);
        Ok(vec![floats_as(c.attrs.dtype("dtype")?, shape, &weights)])
    }),
    grad: Grad::Missing("quantized weights are integers; train adapters beside them"),
    cases: || {
        let mut all: Vec<Case> = Format::BLOCKS
            .into_iter()
            .map(|f| Case::new(vec![sample_weights(f, 3, 256, 5)], attrs(f).with("dtype", DType::F32)))
            .collect();
        // Two blocks of q4_1: scale 2 and minimum 1, then scale 0.5 and minimum −1; all nibbles 0x21.
        let mut bytes = [0x21u8; 40];
        bytes[..4].copy_from_slice(&[0x00, 0x40, 0x00, 0x3c]);
        bytes[20..24].copy_from_slice(&[0x00, 0x38, 0x00, 0xbc]);
        let want: Vec<f64> = (0..64).map(|i| [3.0, 5.0, -0.5, 0.0][i / 16]).collect();
        let w = Literal::generate([1, 40], |i| bytes[i]);
        let expect = Literal::from_f64(DType::F32, [1, 64], &want);
        all.push(Case::new(vec![w], attrs(Format::Q4_1).with("dtype", DType::F32)).expect(vec![expect], "by hand"));
        all
    },
    ..Op::DEFAULT
};

/// The attributes that name a format.
pub(super) fn attrs(format: Format) -> Attrs {
    Attrs::new().with("format", format.attr())
}
/// The block format in attribute `format`.
pub(super) fn format(c: &Call) -> Result<Format> {
    Format::from_attr(c.attrs.str("format")?)
}
/// The float type in attribute `dtype`.
pub(super) fn float_type(c: &Call) -> Result<DType> {
    let dtype = c.attrs.dtype("dtype")?;
    dtype.check_computes()?;
    if dtype.is_float() { Ok(dtype) } else { Err(Error::dtype(format!("dtype must be a float, not {dtype}"))) }
}
/// Weights in a row of input `i`.
pub(super) fn width(c: &Call, i: usize) -> Result<usize> {
    let format = format(c)?;
    let w = c.shape(i);
    if c.dtype(i) != DType::U8 || w.rank() != 2 {
        return Err(Error::shape(format!("weights must be u8[N, bytes of a row], not {}", c.types[i])));
    }
    format.weights(w[1])
}
/// The format and all weights of input `i`.
pub(super) fn weights(c: &Call, w: &Literal, i: usize) -> Result<(Format, Vec<f32>)> {
    let format = format(c)?;
    let mut out = vec![0.0; c.shape(i)[0] * width(c, i)?];
    blocks::dequantize(format, w.bytes(), &mut out)?;
    Ok((format, out))
}
/// Floats rounded to another type.
pub(super) fn floats_as(dtype: DType, shape: Shape, data: &[f32]) -> Literal {
    Literal::from_f64(dtype, shape, &data.iter().map(|&x| x as f64).collect::<Vec<_>>())
}

/// Blocks of random weights with scales of moderate size, the same every time.
pub(super) fn sample_weights(format: Format, rows: usize, width: usize, seed: u64) -> Literal {
    let row = format.bytes(width).expect("a width of whole blocks");
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    let mut bytes: Vec<u8> = (0..rows * row).map(|_| next()).collect();
    // Where the 16-bit floats of a block are: with an exponent in the middle, and either sign.
    let halves: &[usize] = match format {
        Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K | Format::INT4 => &[1, 3],
        Format::Q6_K => &[209],
        _ => &[1],
    };
    let is_k = format.block() == 256;
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        for &at in halves {
            block[at] = (block[at] & 0x87) | if is_k { 0x10 } else { 0x20 };
        }
    }
    Literal::generate([rows, row], |i| bytes[i])
}

impl Tensor {
    /// These block-quantized weights, `u8[N, bytes of a row]`, as floats `[N, K]`.
    ///
    /// ```
    /// # use talweg_ops::{DType, Tensor};
    /// use ir::blocks::Format;
    /// let mut block = [3u8; 34]; // 32 weights of 8 bits after a scale of 16 bits
    /// block[..2].copy_from_slice(&[0x00, 0x3c]); // 1
    /// let w = Tensor::from([block]).dequantize(Format::Q8_0, DType::F32);
    /// assert_eq!(w.to_vec::<f32>().unwrap(), [3.0; 32]);
    /// ```
    #[track_caller]
    pub fn dequantize(&self, format: Format, dtype: DType) -> Tensor {
        Tensor::apply1(&OP, &[self], attrs(format).with("dtype", dtype))
    }
}
