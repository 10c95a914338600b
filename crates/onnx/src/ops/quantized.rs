//! Quantized operators. Each is computed as it stands; sums of products of bytes are exact.

use super::conv::Window;
use super::{Outs, Row, all, number, one, row};
use crate::element::Elem;
use crate::run::Call;
use crate::value::Value;
use ir::{DType, Error, Result};
use tensor::Tensor;

pub static ROWS: &[Row] = &[
    row("QuantizeLinear", 10, quantize_linear),
    row("DequantizeLinear", 10, dequantize_linear),
    row("DynamicQuantizeLinear", 11, |c| {
        let [y, scale, zero] = dynamic(&c.x(0)?);
        all([y, scale, zero])
    }),
    row("MatMulInteger", 10, |c| {
        let (a, b) = (c.x(0)?, c.x(1)?);
        one(product(&a, &b, c.opt(2)?.as_ref(), c.opt(3)?.as_ref())?)
    }),
    row("ConvInteger", 10, |c| {
        let (x, w) = (c.x(0)?, c.x(1)?);
        one(conv(c, &x, &w, c.opt(2)?.as_ref(), c.opt(3)?.as_ref())?)
    }),
    row("QLinearMatMul", 10, |c| {
        let (a, b) = (c.x(0)?, c.x(3)?);
        let (zero_a, zero_b) = (along_rows(&c.x(2)?)?, c.x(5)?);
        let sums = product(&a, &b, Some(&zero_a), Some(&zero_b))?;
        let scale = along_rows(&c.x(1)?)?.cast(DType::F32) * c.x(4)?.cast(DType::F32) / c.x(6)?.cast(DType::F32);
        requantized(c, sums.cast(DType::F32) * scale, 7)
    }),
    row("QLinearConv", 10, |c| {
        let (x, w) = (c.x(0)?, c.x(3)?);
        let sums = conv(c, &x, &w, Some(&c.x(2)?), Some(&c.x(5)?))?;
        let rank = x.rank()?;
        let sums = match c.opt(8)? {
            Some(b) => sums + super::per_channel(&b, rank)?,
            None => sums,
        };
        let w_scale = c.x(4)?;
        let w_scale = if w_scale.count()? == 1 { w_scale.reshape(()) } else { super::per_channel(&w_scale, rank)? };
        let scale = scalar(c.x(1)?)? * w_scale / scalar(c.x(6)?)?;
        requantized(c, sums.cast(DType::F32) * scale, 7)
    }),
];

fn scalar(t: Tensor) -> Result<Tensor> {
    super::math::scalar(t)
}

/// A scale or zero point for each row of the left factor, as a column.
fn along_rows(t: &Tensor) -> Result<Tensor> {
    Ok(if t.rank()? == 1 && t.count()? > 1 { t.unsqueeze(-1) } else { t.clone() })
}

/// A scale or zero point that broadcasts against a tensor of that shape: one, one for each index of an axis, or one
/// for each block along it.
fn spread(c: &Call<'_>, t: &Tensor, shape: &ir::Shape) -> Result<Tensor> {
    let n = t.count()?;
    if n == 1 && t.rank()? <= 1 {
        return Ok(t.reshape(()));
    }
    let axis = c.axis(1, shape.rank())?;
    let block = usize::try_from(c.int("block_size", 0)).unwrap_or(0);
    if block > 0 && t.rank()? == shape.rank() {
        let wide = t.repeat_interleave(block, axis as i64);
        return Ok(if wide.shape()?[axis] > shape[axis] { wide.narrow(axis as i64, 0, shape[axis]) } else { wide });
    }
    let mut sizes = vec![1; shape.rank()];
    sizes[axis] = n;
    Ok(t.reshape(sizes))
}

fn quantize_linear(c: &Call<'_>) -> Outs {
    let (x, scale) = (c.x(0)?, c.x(1)?);
    let shape = x.shape()?;
    let to = if c.has(2) { c.elem(2)? } else { c.elem_attribute("output_dtype", Elem::UINT8)? };
    let precision = match c.int("precision", 0) {
        0 if x.dtype()?.is_int() => DType::F32,
        // Halves are divided in f32, so that the quotient is rounded once.
        0 => {
            if x.dtype()? == DType::F64 {
                DType::F64
            } else {
                DType::F32
            }
        }
        n => Elem::known(n)?.storage().unwrap_or(DType::F32),
    };
    let q = x.cast(precision) / spread(c, &scale, &shape)?.cast(precision);
    let zero = match c.opt(2)? {
        Some(z) => Some(spread(c, &z, &shape)?),
        None => None,
    };
    if to.is_small_float() {
        let q = match zero {
            Some(z) => q + z.cast(precision),
            None => q,
        };
        return super::cast::converted(c, &q, to, c.int("saturate", 1) != 0, "up");
    }
    let (lo, hi) = to.range().ok_or_else(|| Error::dtype(format!("{} is not a quantized type", to.name())))?;
    // Sums with a zero point of 16 bits are exact in f32 only up to 2^24.
    let q = q.round().maximum(-2f64.powi(24)).minimum(2f64.powi(24));
    let q = match zero {
        Some(z) => q + z.cast(precision),
        None => q,
    };
    let y = q.maximum(lo as f64).minimum(hi as f64).cast(to.storage().unwrap_or(DType::U8));
    Ok(vec![Value::typed(y, to)])
}

fn dequantize_linear(c: &Call<'_>) -> Outs {
    let (x, scale) = (c.x(0)?, c.x(1)?);
    let shape = x.shape()?;
    let to = c.elem_attribute("output_dtype", c.elem(1)?)?;
    let dtype = to.storage().unwrap_or(DType::F32);
    let scale = spread(c, &scale, &shape)?;
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let centered = match c.opt(2)? {
        Some(z) if !x.dtype()?.is_float() => {
            let z = spread(c, &z, &shape)?;
            if x.dtype()? == DType::I32 { (x - z).cast(wide) } else { x.cast(wide) - z.cast(wide) }
        }
        Some(z) => x.cast(wide) - spread(c, &z, &shape)?.cast(wide),
        None => x.cast(wide),
    };
    Ok(vec![Value::typed((centered * scale.cast(wide)).cast(dtype), to)])
}

/// A tensor as bytes, with the scale and zero point that its range asks for.
pub fn dynamic(x: &Tensor) -> [Tensor; 3] {
    let (hi, lo) = (x.max(..).maximum(0.0), x.min(..).minimum(0.0));
    let range = &hi - &lo;
    let scale = Tensor::where_(&range.eq(0.0), &number(DType::F32, 1.0), &range) / 255.0;
    let zero = (-(&lo / &scale)).maximum(0.0).minimum(255.0).round();
    let y = ((x / &scale).round() + &zero).maximum(0.0).minimum(255.0).cast(DType::U8);
    [y, scale, zero.cast(DType::U8)]
}

/// Σ (a - za)(b - zb) in i32.
pub fn product(a: &Tensor, b: &Tensor, za: Option<&Tensor>, zb: Option<&Tensor>) -> Result<Tensor> {
    let inner = a.shape()?.dims().last().copied().unwrap_or(1) as i64;
    let wide = |t: &Tensor| t.cast(DType::I32);
    let za = za.map(along_rows).transpose()?.map(|z| wide(&z));
    let zb = zb.map(wide);
    let (a2, b2) = (
        if a.rank()? == 1 { a.unsqueeze(0) } else { a.clone() },
        if b.rank()? == 1 { b.unsqueeze(1) } else { b.clone() },
    );
    let mut y = a2.int_matmul(&b2);
    // The zero points leave sums of rows and columns.
    if let Some(zb) = &zb {
        y = y - wide(&a2).sum_keep(-1).cast(DType::I32) * zb;
    }
    if let Some(za) = &za {
        y = y - wide(&b2).sum_keep(-2).cast(DType::I32) * za;
    }
    if let (Some(za), Some(zb)) = (&za, &zb) {
        y = y + za * zb * inner as i32;
    }
    let mut y = y;
    if b.rank()? == 1 {
        y = y.squeeze(-1);
    }
    if a.rank()? == 1 {
        y = y.squeeze(if b.rank()? == 1 { -1 } else { -2 });
    }
    Ok(y)
}

/// A convolution of bytes less their zero points, in i32.
fn conv(c: &Call<'_>, x: &Tensor, w: &Tensor, zx: Option<&Tensor>, zw: Option<&Tensor>) -> Result<Tensor> {
    let window = Window::of(c, x, w)?;
    let ws = w.shape()?;
    let terms: usize = ws[1..].iter().product();
    // Sums of so many products of bytes are integers below 2^24, which f32 has exactly.
    let dtype = if terms <= 256 { DType::F32 } else { DType::F64 };
    let x = match zx {
        Some(z) => x.cast(dtype) - scalar(z.clone())?.cast(dtype),
        None => x.cast(dtype),
    };
    let w = match zw {
        Some(z) if z.count()? == 1 => w.cast(dtype) - scalar(z.clone())?.cast(dtype),
        Some(z) => {
            let mut sizes = vec![1; ws.rank()];
            sizes[0] = ws[0];
            w.cast(dtype) - z.reshape(sizes).cast(dtype)
        }
        None => w.cast(dtype),
    };
    Ok(window.conv(&x, &w, None)?.cast(DType::I32))
}

/// Rounded to the type of the zero point in input `at`, which is added.
fn requantized(c: &Call<'_>, x: Tensor, at: usize) -> Outs {
    let to = c.elem(at)?;
    let (lo, hi) = to.range().ok_or_else(|| Error::dtype(format!("{} is not a quantized type", to.name())))?;
    let zero = c.x(at)?;
    let zero = if zero.count()? == 1 { scalar(zero)? } else { along_rows(&zero)? };
    let y = (x.round() + zero.cast(DType::F32)).maximum(lo as f64).minimum(hi as f64);
    Ok(vec![Value::typed(y.cast(to.storage().unwrap_or(DType::U8)), to)])
}
