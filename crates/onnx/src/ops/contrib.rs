//! Operators of ONNX Runtime that exporters write.

use super::quantized::{dynamic, host_right, product};
use super::{Outs, Row, all, of, one, row};
use crate::element::Elem;
use crate::run::Call;
use crate::value::Value;
use ir::{DType, Error, Result};
use tensor::Tensor;

const MICROSOFT: &str = "com.microsoft";

pub static ROWS: &[Row] = &[
    // It has no schema, but exporters put it into ONNX's own domain.
    row("SimplifiedLayerNormalization", 1, |c| one(rms(c, &c.x(0)?, &c.x(1)?)?)),
    of(MICROSOFT, "SimplifiedLayerNormalization", 1, |c| one(rms(c, &c.x(0)?, &c.x(1)?)?)),
    of(MICROSOFT, "SkipSimplifiedLayerNormalization", 1, |c| {
        let mut sum = c.x(0)? + c.x(1)?;
        if let Some(b) = c.opt(3)? {
            sum = sum + b;
        }
        skipped(rms(c, &sum, &c.x(2)?)?, sum)
    }),
    of(MICROSOFT, "SkipLayerNormalization", 1, |c| {
        let mut sum = c.x(0)? + c.x(1)?;
        if let Some(b) = c.opt(4)? {
            sum = sum + b;
        }
        let y = sum.layer_norm(1, Some(&c.x(2)?), c.opt(3)?.as_ref(), c.float("epsilon", 1e-12));
        skipped(y, sum)
    }),
    of(MICROSOFT, "Gelu", 1, |c| one(c.x(0)?.gelu())),
    of(MICROSOFT, "BiasGelu", 1, |c| one((c.x(0)? + c.x(1)?).gelu())),
    of(MICROSOFT, "FastGelu", 1, |c| {
        let x = c.x(0)?;
        one(if let Some(b) = c.opt(1)? { x + b } else { x }.gelu_tanh())
    }),
    of(MICROSOFT, "QuickGelu", 1, |c| {
        let x = c.x(0)?;
        one(&x * (&x * c.float("alpha", 1.702)).sigmoid())
    }),
    of(MICROSOFT, "FusedMatMul", 1, |c| {
        let (mut a, mut b) = (c.x(0)?, c.x(1)?);
        if c.flag("transBatchA") || c.flag("transBatchB") {
            return Err(Error::value("transBatchA and transBatchB are not supported"));
        }
        if c.flag("transA") {
            a = a.transpose(-1, -2);
        }
        if c.flag("transB") {
            b = b.transpose(-1, -2);
        }
        one(a.matmul(b) * c.float("alpha", 1.0))
    }),
    of(MICROSOFT, "MatMulIntegerToFloat", 1, |c| {
        let b = host_right(c, 1, None, 5);
        let sums = product(&c.x(0)?, &c.x(1)?, c.opt(4)?.as_ref(), c.opt(5)?.as_ref(), b)?;
        scaled(c, sums, c.x(2)? * c.x(3)?, 6)
    }),
    of(MICROSOFT, "DynamicQuantizeMatMul", 1, |c| {
        let [a, scale, zero] = dynamic(&c.x(0)?);
        let b = host_right(c, 1, None, 3);
        let sums = product(&a, &c.x(1)?, Some(&zero), c.opt(3)?.as_ref(), b)?;
        scaled(c, sums, scale * c.x(2)?, 4)
    }),
    of(MICROSOFT, "MatMulNBits", 1, matmul_bits),
    of(MICROSOFT, "QLinearAdd", 1, |c| quantized(c, dequantized(c, 0)? + dequantized(c, 3)?, 6)),
    of(MICROSOFT, "QLinearMul", 1, |c| quantized(c, dequantized(c, 0)? * dequantized(c, 3)?, 6)),
    of(MICROSOFT, "QLinearSigmoid", 1, |c| quantized(c, dequantized(c, 0)?.sigmoid(), 3)),
    of(MICROSOFT, "QLinearLeakyRelu", 1, |c| {
        let x = dequantized(c, 0)?;
        quantized(c, Tensor::where_(&x.lt(0.0), &(&x * c.float("alpha", 0.01)), &x), 3)
    }),
    of(MICROSOFT, "QLinearGlobalAveragePool", 1, |c| {
        let x = dequantized(c, 0)?;
        let rank = x.rank()? as i64;
        let spatial: Vec<i64> = if c.flag("channels_last") { (1..rank - 1).collect() } else { (2..rank).collect() };
        quantized(c, x.mean_keep(spatial), 3)
    }),
    of(MICROSOFT, "QLinearConcat", 1, |c| {
        let parts = (2..c.inputs.len()).step_by(3).map(|i| dequantized(c, i)).collect::<Result<Vec<_>>>()?;
        let rank = parts.first().map_or(Ok(0), Tensor::rank)?;
        quantized(c, Tensor::concat(&parts, c.axis(0, rank)? as i64), 0)
    }),
    of(MICROSOFT, "QGemm", 1, |c| {
        let (mut a, mut b) = (c.x(0)?, c.x(3)?);
        if c.flag("transA") {
            a = a.t();
        }
        let known = if c.flag("transB") { None } else { host_right(c, 3, None, 5) };
        if c.flag("transB") {
            b = b.t();
        }
        let mut sums = product(&a, &b, c.opt(2)?.as_ref(), c.opt(5)?.as_ref(), known)?;
        if let Some(bias) = c.opt(6)? {
            sums = sums + bias;
        }
        let y = sums.cast(DType::F32) * (c.x(1)? * c.x(4)? * c.float("alpha", 1.0));
        if c.has(7) { quantized(c, y, 7) } else { one(y) }
    }),
];

/// An input of bytes, its scale and its zero point, as numbers.
fn dequantized(c: &Call<'_>, i: usize) -> Result<Tensor> {
    let x = c.x(i)?.cast(DType::F32);
    let x = if c.has(i + 2) { x - super::math::scalar(c.x(i + 2)?)?.cast(DType::F32) } else { x };
    Ok(x * super::math::scalar(c.x(i + 1)?)?)
}

/// Numbers as bytes, with the scale in input `at` and the zero point behind it.
fn quantized(c: &Call<'_>, x: Tensor, at: usize) -> Outs {
    let to = if c.has(at + 1) { c.elem(at + 1)? } else { Elem::UINT8 };
    let (lo, hi) = to.range().ok_or_else(|| Error::dtype(format!("{} is not a quantized type", to.name())))?;
    let mut q = (x / super::math::scalar(c.x(at)?)?).round();
    if c.has(at + 1) {
        q = q + super::math::scalar(c.x(at + 1)?)?.cast(DType::F32);
    }
    let y = q.maximum(lo as f64).minimum(hi as f64).cast(to.storage().unwrap_or(DType::U8));
    Ok(vec![Value::typed(y, to)])
}

fn rms(c: &Call<'_>, x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let axis = c.axis(-1, x.rank()?)?;
    Ok(x.rms_norm(x.rank()? - axis, Some(w), c.float("epsilon", 1e-5)))
}

/// A norm of a sum: the second and third results are statistics that inference leaves out.
fn skipped(y: Tensor, sum: Tensor) -> Outs {
    let none = Value::Missing;
    Ok(vec![y.into(), none.clone(), none, sum.into()])
}

fn scaled(c: &Call<'_>, sums: Tensor, scale: Tensor, bias: usize) -> Outs {
    let y = sums.cast(DType::F32) * scale;
    one(if let Some(b) = c.opt(bias)? { y + b } else { y })
}

/// A product with weights of few bits in blocks, each with a scale and perhaps a zero point.
fn matmul_bits(c: &Call<'_>) -> Outs {
    let (x, b, scale) = (c.x(0)?, c.x(1)?, c.x(2)?);
    let size = |name: &str| usize::try_from(c.int(name, 0)).ok().filter(|&n| n > 0);
    let need = |name: &str| size(name).ok_or_else(|| Error::value(format!("{name} is missing")));
    let (k, n, block) = (need("K")?, need("N")?, need("block_size")?);
    let bits = c.int("bits", 4);
    if bits != 4 && bits != 8 {
        return Err(Error::value(format!("weights of {bits} bits are not supported")));
    }
    if c.has(4) {
        return Err(Error::value("g_idx is not supported"));
    }
    let blocks = k.div_ceil(block);
    c.check_count(n.saturating_mul(blocks * block), DType::F32)?;
    let unpacked = |t: &Tensor, per: usize| -> Result<Tensor> {
        let t = t.reshape([n, t.count()? / n.max(1)]);
        if bits == 8 {
            return Ok(t.narrow(1, 0, per).cast(DType::F32));
        }
        // The low half of a byte comes first.
        let both = Tensor::stack(&[t.and(15u8), t.shr(4u8)], -1);
        let wide = both.reshape([n, both.count()? / n.max(1)]);
        Ok(wide.narrow(1, 0, per).cast(DType::F32))
    };
    let w = unpacked(&b, blocks * block)?.reshape([n, blocks, block]);
    let zero = match c.opt(3)? {
        Some(z) if z.dtype()? == DType::U8 => unpacked(&z, blocks)?.reshape([n, blocks, 1]),
        Some(z) => z.reshape([n, blocks, 1]).cast(DType::F32),
        None => super::number(DType::F32, if bits == 4 { 8.0 } else { 128.0 }),
    };
    let w = (w - zero) * scale.reshape([n, blocks, 1]).cast(DType::F32);
    let w = w.reshape([n, blocks * block]).narrow(1, 0, k).cast(x.dtype()?);
    let y = x.linear(&w, None);
    let y = if let Some(bias) = c.opt(5)? { y + bias } else { y };
    all([y])
}
