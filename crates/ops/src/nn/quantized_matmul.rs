//! `quantized_matmul`: a GEMM with block-quantized weights, which stay quantized in memory.

use super::dequantize::{attrs, format, sample_weights, weights, width};
use crate::rules::{GradTensors, f64s, floats, maybe_grads, one, real};
use crate::{Error, Result, Tensor};
use ir::blocks::{Format, INTERLEAVED, deinterleave, interleave, quantize_activations};
use ir::{AttrKind, Call, Case, Grad, Literal, Meaning, Op};

/// The row of `quantized_matmul`.
pub static OP: Op = Op {
    name: "quantized_matmul",
    doc: "x wᵀ for x[…, K] and weights w, u8[N, B], whose rows are blocks of a quantized format: […, N] of x's type. \
          Formats are those of `dequantize`. With `int8`, activations are quantized to 8 bits per block on the way, as \
          llama.cpp does: a scale for 32 of them, or for 256 with a K-quant. Sums of a block are then exact. With \
          `interleaved`, weights are in groups of 16 rows as `ir::blocks::interleave` makes them, which CPUs read \
          fastest. A row of the result does not depend on the other rows of x. Formats f32, f16 and bf16 are \
          floats, which are multiplied without `int8`: a GEMM whose sums depend on K alone.",
    attrs: &[("format", AttrKind::Str), ("int8", AttrKind::Bool), ("interleaved", AttrKind::Bool)],
    infer: |c| {
        c.arity(2)?;
        real(c, 0)?;
        let (x, k) = (c.shape(0), width(c, 1)?);
        if x.last() != Some(&k) {
            return Err(Error::shape(format!("x[…, {k}] is needed for weights {}, not {x}", c.shape(1))));
        }
        let rows = c.shape(1)[0];
        if c.attrs.bool("int8")? && format(c)?.block() == 1 {
            return Err(Error::value(format!("int8 needs quantized weights, not {}", format(c)?.attr())));
        }
        if c.attrs.bool("interleaved")? && !rows.is_multiple_of(INTERLEAVED) {
            return Err(Error::shape(format!("interleaved weights have a multiple of {INTERLEAVED} rows, not {rows}")));
        }
        let mut shape = x.clone();
        shape.dims_mut()[x.rank() - 1] = rows;
        one(c.dtype(0), shape)
    },
    meaning: Meaning::Kernel(|c, args| {
        let rows = if c.attrs.bool("interleaved")? { in_rows(c, &args[1])? } else { args[1].clone() };
        let (format, w) = weights(c, &rows, 1)?;
        let (n, k) = (c.shape(1)[0], width(c, 1)?);
        let mut x = args[0].to_f64();
        if c.attrs.bool("int8")? {
            x = x.chunks(k.max(1)).flat_map(|row| quantized_row(format, row)).collect();
        }
        let dot = |i: usize| (0..k).map(|j| x[i / n * k + j] * w[i % n * k + j] as f64).sum::<f64>();
        let mut shape = c.shape(0).clone();
        shape.dims_mut()[c.shape(0).rank() - 1] = n;
        let data: Vec<f64> = (0..shape.count()).map(dot).collect();
        Ok(vec![Literal::from_f64(c.dtype(0), shape, &data)])
    }),
    grad: Grad::Rule(|c| {
        let g = c.g(0);
        if c.attrs.bool("interleaved")? {
            return Err(Error::value("interleaved weights have no gradient with respect to x; train with rows"));
        }
        let format = Format::from_attr(c.attrs.str("format")?)?;
        let w = c.x(1).dequantize(format, g.dtype()?);
        maybe_grads(vec![Some(g.matmul(&w)), None])
    }),
    cases: || {
        let call = |f: Format, int8: bool| attrs(f).with("int8", int8).with("interleaved", false);
        let mut all = Vec::new();
        for f in Format::BLOCKS {
            let x = ir::Shape::new(&[2, 256]);
            let inputs = vec![floats(x, 3), sample_weights(f, 3, 256, 7)];
            all.push(Case::new(inputs.clone(), call(f, true)).kinked());
            // Finite differences would take a call for each element.
            all.push(Case::new(inputs, call(f, false)).kinked());
        }
        for f in [Format::Q8_0, Format::Q4_1] {
            all.push(Case::new(vec![floats([2, 1, 64], 4), sample_weights(f, 17, 64, 8)], call(f, false)));
            all.push(Case::new(vec![floats([9, 64], 4), sample_weights(f, 35, 64, 8)], call(f, true)).kinked());
        }
        for f in [Format::Q4_1, Format::Q6_K] {
            let w = sample_weights(f, 32, 512, 8);
            let packed = interleave(f, w.bytes(), 32).expect("two groups");
            let w = Literal::generate(w.shape().clone(), |i| packed[i]);
            all.push(Case::new(vec![floats([2, 512], 4), w], call(f, true).set("interleaved", true)).kinked());
        }
        for f in Format::FLOATS {
            let w = sample_floats(f, 16, 48);
            let packed = interleave(f, w.bytes(), 16).expect("a group");
            let packed = Literal::generate(w.shape().clone(), |i| packed[i]);
            all.push(Case::new(vec![floats([3, 48], 5), w], call(f, false)));
            all.push(Case::new(vec![floats([11, 48], 5), packed], call(f, false).set("interleaved", true)).kinked());
        }
        let w = Literal::generate([2, 34], |i| [0x00, 0x3c + (i / 34 * 4) as u8, 5][(i % 34).min(2)]);
        let x: Vec<f64> = (0..32).map(|i| [127.0, -1.0][i % 2]).collect();
        let case = Case::new(vec![f64s([1, 32], &x), w], call(Format::Q8_0, true));
        let source = "by hand: 16 × 126 × 5, with scales of 1 and 2";
        all.push(case.expect(vec![f64s([1, 2], &[10080.0, 20160.0])], source).kinked());
        all
    },
    ..Op::DEFAULT
};

/// Rows of float weights as bytes.
pub(super) fn sample_floats(format: Format, rows: usize, width: usize) -> Literal {
    let dtype = match format {
        Format::F16 => ir::DType::F16,
        Format::BF16 => ir::DType::BF16,
        _ => ir::DType::F32,
    };
    let w = Literal::from_f64(dtype, [rows, width], &floats([rows, width], 6).to_f64());
    let bytes = w.bytes().to_vec();
    Literal::generate([rows, bytes.len() / rows], |i| bytes[i])
}

/// Interleaved weights in rows again.
pub(super) fn in_rows(c: &Call, w: &Literal) -> Result<Literal> {
    let rows = deinterleave(format(c)?, w.bytes(), c.shape(1)[0])?;
    Ok(Literal::generate(w.shape().clone(), |i| rows[i]))
}

/// A row of activations after quantization to 8 bits.
pub(super) fn quantized_row(format: Format, row: &[f64]) -> Vec<f64> {
    let block = format.activation_block();
    let mut out = Vec::with_capacity(row.len());
    for x in row.chunks(block) {
        let x: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        let mut q = vec![0i8; x.len()];
        let scale = quantize_activations(format, &x, &mut q);
        out.extend(q.iter().map(|&q| q as f64 * scale as f64));
    }
    out
}

impl Tensor {
    /// x wᵀ on the last dimension, with block-quantized weights `u8[N, bytes of a row]`. With `int8`, activations are
    /// quantized to 8 bits per block on the way, as llama.cpp does; otherwise weights are dequantized.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// use ir::blocks::Format;
    /// let mut block = [3u8; 34]; // 32 weights of 8 bits after a scale of 16 bits
    /// block[..2].copy_from_slice(&[0x00, 0x3c]); // 1
    /// let y = Tensor::from([1.0f32; 32]).quantized_matmul(&Tensor::from([block]), Format::Q8_0, true);
    /// assert!((y.to_vec::<f32>().unwrap()[0] - 96.0).abs() < 0.1);
    /// ```
    #[track_caller]
    pub fn quantized_matmul(&self, weight: &Tensor, format: Format, int8: bool) -> Tensor {
        Tensor::apply1(&OP, &[self, weight], attrs(format).with("int8", int8).with("interleaved", false))
    }
    /// The same with weights whose rows were interleaved in groups of 16 ([`ir::blocks::interleave`]), which CPUs read
    /// fastest. They have no gradient.
    #[track_caller]
    pub fn quantized_matmul_interleaved(&self, weight: &Tensor, format: Format, int8: bool) -> Tensor {
        Tensor::apply1(&OP, &[self, weight], attrs(format).with("int8", int8).with("interleaved", true))
    }
}
