//! Elementwise operators.

use super::{Outs, Row, number, one, row};
use crate::run::Call;
use ir::{DType, Error, Result};
use tensor::Tensor;

pub static ROWS: &[Row] = &[
    row("Add", 1, |c| arithmetic(c, |a, b| a + b)),
    row("Sub", 1, |c| arithmetic(c, |a, b| a - b)),
    row("Mul", 1, |c| arithmetic(c, |a, b| a * b)),
    row("Div", 1, |c| arithmetic(c, |a, b| divide(&a, &b))),
    row("Mod", 10, modulo),
    row("Pow", 1, power),
    row("Max", 1, |c| fold(c, |a, b| a.maximum(b))),
    row("Min", 1, |c| fold(c, |a, b| a.minimum(b))),
    row("Sum", 1, |c| fold(c, |a, b| a + b)),
    row("Mean", 1, |c| {
        let n = c.inputs.len() as f64;
        let sum = sum_of(c, |a, b| a + b)?;
        one(&sum / n)
    }),
    row("Abs", 1, |c| one(c.x(0)?.abs())),
    row("Neg", 1, |c| one(-c.x(0)?)),
    row("Sign", 9, |c| one(c.x(0)?.sign())),
    row("Floor", 1, |c| one(c.x(0)?.floor())),
    row("Ceil", 1, |c| one(c.x(0)?.ceil())),
    row("Round", 11, |c| one(c.x(0)?.round())),
    row("Sqrt", 1, |c| one(c.x(0)?.sqrt())),
    row("Exp", 1, |c| one(c.x(0)?.exp())),
    row("Log", 1, |c| one(c.x(0)?.log())),
    row("Reciprocal", 1, |c| one(c.x(0)?.recip())),
    row("Erf", 9, |c| one(c.x(0)?.erf())),
    row("Sin", 7, |c| one(c.x(0)?.sin())),
    row("Cos", 7, |c| one(c.x(0)?.cos())),
    row("Tan", 7, |c| one(c.x(0)?.tan())),
    row("Asin", 7, |c| one(c.x(0)?.asin())),
    row("Acos", 7, |c| one(c.x(0)?.acos())),
    row("Atan", 7, |c| one(c.x(0)?.atan())),
    row("Sinh", 9, |c| one(c.x(0)?.sinh())),
    row("Cosh", 9, |c| one(c.x(0)?.cosh())),
    row("Tanh", 1, |c| one(c.x(0)?.tanh())),
    row("Asinh", 9, |c| one(c.x(0)?.asinh())),
    row("Acosh", 9, |c| one(c.x(0)?.acosh())),
    row("Atanh", 9, |c| one(c.x(0)?.atanh())),
    row("Sigmoid", 1, |c| one(c.x(0)?.sigmoid())),
    row("Relu", 1, |c| one(c.x(0)?.relu())),
    row("LeakyRelu", 1, |c| {
        let x = c.x(0)?;
        one(Tensor::where_(&x.lt(0), &(&x * c.float("alpha", 0.01)), &x))
    }),
    row("PRelu", 1, |c| {
        let (x, mut slope) = (c.x(0)?, c.x(1)?);
        if c.version() < 7 && slope.count()? > 1 {
            slope = super::per_channel(&slope, x.rank()?)?;
        }
        one(Tensor::where_(&x.lt(0), &(&x * &slope), &x))
    }),
    row("ThresholdedRelu", 1, |c| {
        let x = c.x(0)?;
        one(Tensor::where_(&x.gt(c.float("alpha", 1.0)), &x, &x.zeros_like()))
    }),
    row("Elu", 1, |c| one(elu(&c.x(0)?, c.float("alpha", 1.0)))),
    row("Celu", 12, |c| {
        let (x, alpha) = (c.x(0)?, c.float("alpha", 1.0));
        one(x.maximum(0.0) + (((&x / alpha).exp() - 1.0) * alpha).minimum(0.0))
    }),
    row("Selu", 1, |c| {
        // The standard's numbers are those of f32.
        let alpha = c.float("alpha", f64::from(1.673_263_2_f32));
        let gamma = c.float("gamma", f64::from(1.050_701_f32));
        one(elu(&c.x(0)?, alpha) * gamma)
    }),
    row("HardSigmoid", 1, |c| one(hard_sigmoid(&c.x(0)?, c.float("alpha", 0.2), c.float("beta", 0.5)))),
    row("HardSwish", 14, |c| {
        let x = c.x(0)?;
        one(&x * hard_sigmoid(&x, 1.0 / 6.0, 0.5))
    }),
    row("Softplus", 1, |c| one(softplus(&c.x(0)?))),
    row("Softsign", 1, |c| {
        let x = c.x(0)?;
        one(&x / (x.abs() + 1.0))
    }),
    row("Mish", 18, |c| {
        let x = c.x(0)?;
        one(&x * softplus(&x).tanh())
    }),
    row("Gelu", 20, |c| {
        let x = c.x(0)?;
        match c.text("approximate", "none") {
            "none" => one(x.gelu()),
            "tanh" => one(x.gelu_tanh()),
            w => Err(Error::value(format!("approximate is {w:?}"))),
        }
    }),
    row("Swish", 24, |c| {
        let x = c.x(0)?;
        one(&x * (&x * c.float("alpha", 1.0)).sigmoid())
    }),
    row("SwiGLU", 28, |c| {
        let (a, b) = (c.x(0)?, c.x(1)?);
        one(&a * (&a * c.float("alpha", 1.0)).sigmoid() * b)
    }),
    row("Shrink", 9, |c| {
        let (x, bias, lambda) = (c.x(0)?, c.float("bias", 0.0), c.float("lambd", 0.5));
        let dtype = x.dtype()?;
        let (bias, zero) = (number(dtype, bias), x.zeros_like());
        let y = Tensor::where_(&x.gt(lambda), &(&x - &bias), &zero);
        one(Tensor::where_(&x.lt(-lambda), &(&x + &bias), &y))
    }),
    row("Clip", 1, clip),
    row("BitShift", 11, |c| {
        let (a, b) = (c.x(0)?, c.x(1)?);
        // Amounts below zero or beyond the bits leave the sign alone: that of a right shift, or nothing.
        let dtype = a.dtype()?;
        let last = (8 * dtype.size() - 1) as f64;
        let is_out = b.lt(number(dtype, 0.0)).logical_or(&b.gt(number(dtype, last)));
        let at = |out: f64| Tensor::where_(&is_out, &number(dtype, out), &b);
        match c.text("direction", "") {
            "LEFT" => one(Tensor::where_(&is_out, &number(dtype, 0.0), &a.shl(at(0.0)))),
            "RIGHT" if dtype.is_unsigned() => one(Tensor::where_(&is_out, &number(dtype, 0.0), &a.shr(at(0.0)))),
            "RIGHT" => one(a.shr(at(last))),
            d => Err(Error::value(format!("direction must be LEFT or RIGHT, not {d:?}"))),
        }
    }),
    row("BitwiseAnd", 18, |c| one(c.x(0)?.and(c.x(1)?))),
    row("BitwiseOr", 18, |c| one(c.x(0)?.or(c.x(1)?))),
    row("BitwiseXor", 18, |c| one(c.x(0)?.xor(c.x(1)?))),
    row("BitwiseNot", 18, |c| {
        let x = c.x(0)?;
        let ones = if x.dtype()?.is_unsigned() { number(DType::U64, 0.0) - 1u64 } else { number(DType::I64, -1.0) };
        one(x.xor(ones.cast(x.dtype()?)))
    }),
    row("CumSum", 11, |c| cumulate(c, false)),
    row("CumProd", 26, |c| cumulate(c, true)),
];

/// Two inputs; before version 7 the second is aligned by an attribute.
fn arithmetic(c: &Call<'_>, f: impl Fn(Tensor, Tensor) -> Tensor) -> Outs {
    let (a, mut b) = (c.x(0)?, c.x(1)?);
    if c.version() < 7 && c.node.domain.is_empty() {
        b = aligned(c, &a, b)?;
    }
    if a.dtype()? != b.dtype()? {
        return Err(Error::dtype(format!("types differ: {} and {}", c.elem(0)?.name(), c.elem(1)?.name())));
    }
    one(f(a, b))
}

/// The second input of an old operator, whose axes begin at `axis` of the first.
pub fn aligned(c: &Call<'_>, a: &Tensor, b: Tensor) -> Result<Tensor> {
    let (to, from) = (a.rank()?, b.rank()?);
    if !c.flag("broadcast") || c.attribute("axis").is_none() {
        return Ok(b);
    }
    let at = c.axis(0, to)?;
    let mut sizes = b.shape()?;
    (0..to.saturating_sub(at + from)).for_each(|_| sizes.push(1));
    Ok(b.reshape(sizes))
}

/// True quotient of floats; of integers, the part before the point.
pub fn divide(a: &Tensor, b: &Tensor) -> Tensor {
    a.then(|t| {
        if !t.dtype.is_int() {
            return Ok(a / b);
        }
        let q = a.floor_divide(b);
        if t.dtype.is_unsigned() {
            return Ok(q);
        }
        let is_inexact = (&q * b).ne(a);
        let differs = a.lt(0).xor(b.lt(0));
        Ok(q + is_inexact.and(differs).cast(t.dtype))
    })
}

fn modulo(c: &Call<'_>) -> Outs {
    let (a, b) = (c.x(0)?, c.x(1)?);
    if c.flag("fmod") {
        return one(a.fmod(b));
    }
    one(a.rem(b))
}

fn power(c: &Call<'_>) -> Outs {
    let (a, mut b) = (c.x(0)?, c.x(1)?);
    if c.version() < 7 {
        b = aligned(c, &a, b)?;
    }
    let (to, by) = (a.dtype()?, b.dtype()?);
    if to.is_int() && by.is_float() {
        let wide = if by == DType::F64 || to.size() > 2 { DType::F64 } else { DType::F32 };
        return one(a.cast(wide).pow(b.cast(wide)).cast(to));
    }
    // Small whole exponents are products, which vector loops compute faster and exactly.
    if to.is_float() && b.count()? == 1 && Call::is_known(&b) {
        let e = c.scalar(1)?;
        let shape = a.shape()?.broadcast(&b.shape()?).ok_or_else(|| Error::shape("shapes do not broadcast"))?;
        if let Some(y) = [(1.0, a.clone()), (2.0, a.square()), (0.5, a.sqrt())].into_iter().find(|(k, _)| *k == e) {
            return one(if a.shape()? == shape { y.1 } else { y.1.broadcast_to(shape) });
        }
    }
    one(a.pow(b.cast(to)))
}

fn sum_of(c: &Call<'_>, f: impl Fn(Tensor, Tensor) -> Tensor) -> Result<Tensor> {
    let mut out = c.x(0)?;
    for i in 1..c.inputs.len() {
        out = f(out, c.x(i)?);
    }
    Ok(out)
}

fn fold(c: &Call<'_>, f: impl Fn(Tensor, Tensor) -> Tensor) -> Outs {
    one(sum_of(c, f)?)
}

pub fn elu(x: &Tensor, alpha: f64) -> Tensor {
    Tensor::where_(&x.gt(0), x, &((x.minimum(0.0).exp() - 1.0) * alpha))
}

pub fn hard_sigmoid(x: &Tensor, alpha: f64, beta: f64) -> Tensor {
    (x * alpha + beta).maximum(0.0).minimum(1.0)
}

pub fn softplus(x: &Tensor) -> Tensor {
    (-x.abs()).exp().log1p() + x.maximum(0.0)
}

fn clip(c: &Call<'_>) -> Outs {
    let mut x = c.x(0)?;
    let dtype = x.dtype()?;
    if c.version() < 11 {
        // The defaults are the ends of the type.
        if let Some(lo) = c.maybe_float("min") {
            x = x.maximum(number(dtype, lo));
        }
        if let Some(hi) = c.maybe_float("max") {
            x = x.minimum(number(dtype, hi));
        }
        return one(x);
    }
    if let Some(lo) = c.opt(1)? {
        x = x.maximum(scalar(lo)?);
    }
    if let Some(hi) = c.opt(2)? {
        x = x.minimum(scalar(hi)?);
    }
    one(x)
}

/// A tensor of one element without axes.
pub fn scalar(t: Tensor) -> Result<Tensor> {
    if t.count()? != 1 {
        return Err(Error::shape(format!("a scalar is needed, not {}", t.shape()?)));
    }
    Ok(t.reshape(()))
}

fn cumulate(c: &Call<'_>, is_product: bool) -> Outs {
    let x = c.x(0)?;
    let (dtype, rank) = (x.dtype()?, x.rank()?);
    let along = tensor::axis(c.ints(1)?.first().copied().unwrap_or(0), rank)? as i64;
    let turned = if c.flag("reverse") { x.flip(along) } else { x };
    let mut y = if is_product { turned.cumprod(along) } else { turned.cumsum(along) }.cast(dtype);
    if c.flag("exclusive") {
        let n = y.shape()?[along as usize];
        let mut lo = vec![0; rank];
        let mut hi = vec![0; rank];
        (lo[along as usize], hi[along as usize]) = (1.min(n as i64), -1.min(n as i64));
        y = y.pad_raw(&lo, &hi, if is_product { 1.0 } else { 0.0 });
    }
    one(if c.flag("reverse") { y.flip(along) } else { y })
}
