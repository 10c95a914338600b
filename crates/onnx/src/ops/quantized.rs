//! Quantized operators. Sums of products of bytes are exact; kernels of integers compute them where the weight is known.

use super::conv::Window;
use super::integers::{self, Weight};
use super::{Outs, Row, all, constant, number, one, row};
use crate::element::Elem;
use crate::run::Call;
use crate::value::{Item, Steps, Value};
use ir::{DType, Error, Literal, Result};
use std::sync::Arc;
use tensor::Tensor;

/// Elements up to which constants are dequantized while tracing.
const SMALL: usize = 4096;

pub static ROWS: &[Row] = &[
    row("QuantizeLinear", 10, quantize_linear),
    row("DequantizeLinear", 10, dequantize_linear),
    row("DynamicQuantizeLinear", 11, |c| {
        let [y, scale, zero] = dynamic(&c.x(0)?);
        all([y, scale, zero])
    }),
    row("MatMulInteger", 10, |c| {
        let b = host_right(c, 1, None, 3);
        one(product(&c.x(0)?, &c.x(1)?, c.opt(2)?.as_ref(), c.opt(3)?.as_ref(), b)?)
    }),
    row("ConvInteger", 10, |c| {
        let (x, w) = (c.x(0)?, c.x(1)?);
        if let Some(weight) = weight(c, 1, None, 3)? {
            let window = Window::of(c, &x, &w)?;
            let sums = match (c.opt(2)?, host_int(c, 2)) {
                (Some(z), None) => {
                    let columns = Literal::from_i64(DType::I32, [weight.sums.len()], &weight.sums);
                    let offset = -(constant(columns) * scalar(z.cast(DType::I32))?);
                    integers::conv_sums(&window, &x, 0, Some(&scalar(z)?), &weight.bytes, Some(offset))?
                }
                (_, zero) => {
                    let zero = zero.unwrap_or(0);
                    integers::conv_sums(&window, &x, zero, None, &weight.bytes, weight.offset(zero, None))?
                }
            };
            return one(integers::channels_first(&sums)?);
        }
        one(conv(c, &x, &w, c.opt(2)?.as_ref(), c.opt(3)?.as_ref())?)
    }),
    row("QLinearMatMul", 10, |c| {
        let (a, b) = (c.x(0)?, c.x(3)?);
        if let (Some(w), Some(sa), Some(za), Some(sy), 2) =
            (weight(c, 3, Some(4), 5)?, host_float(c, 1), host_int(c, 2), host_float(c, 6), b.rank()?)
        {
            let shape = a.shape()?;
            let (k, n) = (w.bytes.shape()[0], w.bytes.shape()[1]);
            if shape.last() == Some(&k) {
                let mut sums = a.reshape([shape.count() / k.max(1), k]).int_matmul(&constant(w.bytes.clone()));
                if let Some(offset) = w.offset(za, None) {
                    sums = sums + offset;
                }
                let y = sums.cast(DType::F32) * w.scale(|s| sa * s / sy);
                let mut out: ir::Shape = shape[..shape.rank() - 1].into();
                out.push(n);
                return requantized(c, y, 7, |y| Ok(y.reshape(out)));
            }
        }
        let (zero_a, zero_b) = (along_rows(&c.x(2)?)?, c.x(5)?);
        let sums = product(&a, &b, Some(&zero_a), Some(&zero_b), None)?;
        let scale = along_rows(&c.x(1)?)?.cast(DType::F32) * c.x(4)?.cast(DType::F32) / c.x(6)?.cast(DType::F32);
        requantized(c, sums.cast(DType::F32) * scale, 7, Ok)
    }),
    row("QLinearConv", 10, |c| {
        let (x, w) = (c.x(0)?, c.x(3)?);
        let bias = if c.has(8) { host_ints(c, 8).map(Some) } else { Some(None) };
        if let (Some(w), Some(sx), Some(zx), Some(sy), Some(bias), 3..=5) =
            (weight(c, 3, Some(4), 5)?, host_float(c, 1), host_int(c, 2), host_float(c, 6), bias, w.rank()?)
        {
            let window = Window::of(c, &x, &c.x(3)?)?;
            let offset = w.offset(zx, bias.as_deref());
            let sums = integers::conv_sums(&window, &x, zx, None, &w.bytes, offset)?;
            let y = sums.cast(DType::F32) * w.scale(|s| sx * s / sy);
            return requantized(c, y, 7, |y| integers::channels_first(&y));
        }
        let sums = conv(c, &x, &w, Some(&c.x(2)?), Some(&c.x(5)?))?;
        let rank = x.rank()?;
        let sums = match c.opt(8)? {
            Some(b) => sums + super::per_channel(&b, rank)?,
            None => sums,
        };
        let w_scale = c.x(4)?;
        let w_scale = if w_scale.count()? == 1 { w_scale.reshape(()) } else { super::per_channel(&w_scale, rank)? };
        let scale = scalar(c.x(1)?)? * w_scale / scalar(c.x(6)?)?;
        requantized(c, sums.cast(DType::F32) * scale, 7, Ok)
    }),
];

/// Integers of an input that is known.
fn host_ints(c: &Call<'_>, i: usize) -> Option<Vec<i64>> {
    match c.value(i) {
        Value::Tensor(Item { host: Some(l), .. }) => Some(l.to_i64()),
        _ => None,
    }
}
/// The only integer of an input that is known.
fn host_int(c: &Call<'_>, i: usize) -> Option<i64> {
    host_ints(c, i).filter(|v| v.len() == 1).map(|v| v[0])
}
/// The numbers of an input of `f32` that is known.
fn host_floats(c: &Call<'_>, i: usize) -> Option<Vec<f32>> {
    match c.value(i) {
        Value::Tensor(Item { host: Some(l), elem: Elem::FLOAT, .. }) => {
            Some(l.to_f64().into_iter().map(|x| x as f32).collect())
        }
        _ => None,
    }
}
fn host_float(c: &Call<'_>, i: usize) -> Option<f32> {
    host_floats(c, i).filter(|v| v.len() == 1).map(|v| v[0])
}

/// The weight in input `at`, if it is a constant of signed bytes less its zero point. The outputs of a product are its
/// last axis, those of a convolution its first.
fn weight(c: &Call<'_>, at: usize, scale: Option<usize>, zero: usize) -> Result<Option<Weight>> {
    let item = c.item(at)?;
    let rank = item.tensor.rank()?;
    let axis = if rank == 2 { 1 } else { 0 };
    let scale = match scale {
        Some(i) => host_floats(c, i),
        None => Some(vec![1.0]),
    };
    let zero = if c.has(zero) { host_ints(c, zero) } else { Some(vec![0]) };
    let (Some(scale), Some(zero), Some(_)) = (scale, zero, &item.host) else { return Ok(None) };
    let s = Steps { bytes: item.tensor.clone(), host: item.host.clone(), scale, zero, axis };
    Ok(Weight::new(&s, axis))
}

/// A constant right side of a product, as signed bytes less their zero point.
pub fn host_right(c: &Call<'_>, at: usize, scale: Option<usize>, zero: usize) -> Option<Weight> {
    weight(c, at, scale, zero).ok().flatten().filter(|w| w.bytes.shape().rank() == 2)
}

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
    if let Some(y) = integers::quantized(c, to)? {
        return Ok(vec![y]);
    }
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
    let steps = if to == Elem::FLOAT { integers::steps_of(c, 0)? } else { None };
    if let Some(s) = &steps
        && let (Some((scale, zero)), None) = (s.whole(), &s.host)
        && matches!(x.dtype()?, DType::I8 | DType::U8)
    {
        return Ok(vec![match &c.item(0)?.unsigned {
            Some(bytes) => integers::dequantized(bytes.clone(), scale, zero + 128),
            None => integers::dequantized(x, scale, zero),
        }]);
    }
    if let Some(Steps { host: Some(l), scale, zero, axis, .. }) = &steps
        && (l.count() <= SMALL || l.dtype() == DType::I32)
    {
        // Biases and the like: numbers that are known.
        let inner: usize = shape.get(axis + 1..).map_or(1, |s| s.iter().product());
        let of = |n: usize, i: usize| if n == 1 { 0 } else { i / inner % n };
        let at = l.to_i64();
        let number = |i: usize| (at[i] - zero[of(zero.len(), i)]) as f32 * scale[of(scale.len(), i)];
        let mut known = Value::known(Elem::FLOAT, Literal::generate(shape, number));
        if let Value::Tensor(t) = &mut known {
            t.steps = steps.map(Arc::new);
        }
        return Ok(vec![known]);
    }
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
    let mut item = Item::new((centered * scale.cast(wide)).cast(dtype), to, None);
    item.steps = steps.map(Arc::new);
    Ok(vec![Value::Tensor(item)])
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

/// Σ (a - za)(b - zb) in i32. `known` is `b - zb` if it is a constant of signed bytes.
pub fn product(
    a: &Tensor,
    b: &Tensor,
    za: Option<&Tensor>,
    zb: Option<&Tensor>,
    known: Option<Weight>,
) -> Result<Tensor> {
    let shape = a.shape()?;
    if let (Some(w), true) = (known, za.is_none_or(|z| z.count().is_ok_and(|n| n == 1)))
        && shape.last() == w.bytes.shape().first()
    {
        let (k, n) = (w.bytes.shape()[0], w.bytes.shape()[1]);
        let mut y = a.reshape([shape.count() / k.max(1), k]).int_matmul(&constant(w.bytes.clone()));
        if let Some(z) = za {
            let columns = constant(Literal::from_i64(DType::I32, [n], &w.sums));
            y = y - columns * scalar(z.cast(DType::I32))?;
        }
        let mut out: ir::Shape = shape[..shape.rank() - 1].into();
        out.push(n);
        return Ok(y.reshape(out));
    }
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

/// Rounded to the type of the zero point in input `at`, which is added, then laid out.
fn requantized(c: &Call<'_>, x: Tensor, at: usize, lay_out: impl FnOnce(Tensor) -> Result<Tensor>) -> Outs {
    let to = c.elem(at)?;
    let (lo, hi) = to.range().ok_or_else(|| Error::dtype(format!("{} is not a quantized type", to.name())))?;
    let zero = c.x(at)?;
    let x = x.round();
    let x = match host_int(c, at) {
        Some(0) => x,
        Some(z) => x + z as f64,
        None if zero.count()? == 1 => x + scalar(zero)?.cast(DType::F32),
        None => x + along_rows(&zero)?.cast(DType::F32),
    };
    let y = x.maximum(lo as f64).minimum(hi as f64).cast(to.storage().unwrap_or(DType::U8));
    Ok(vec![Value::typed(lay_out(y)?, to)])
}
