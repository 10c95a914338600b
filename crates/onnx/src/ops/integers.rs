//! Layers in integers: what `DequantizeLinear`, a layer of floats and `QuantizeLinear` mean together. A tensor that was
//! dequantized remembers its bytes ([`Steps`]); convolutions and products with constant weights then multiply bytes, sum
//! them in 32 bits and scale the sums. The kernels quantize their results themselves.

use super::conv::Window;
use super::{Row, constant, number};
use crate::element::Elem;
use crate::run::Call;
use crate::value::{Item, Steps, Value};
use ir::{DType, Literal, Result, Shape};
use std::sync::Arc;
use tensor::Tensor;

/// Numbers of bytes in steps of one size, remembering the bytes.
pub fn dequantized(bytes: Tensor, scale: f32, zero: i64) -> Value {
    let steps = bytes.cast(DType::F32);
    let steps = if zero == 0 { steps } else { steps - zero as f64 };
    let mut item = Item::new(steps * f64::from(scale), Elem::FLOAT, None);
    item.steps = Some(Arc::new(Steps { bytes, host: None, scale: vec![scale], zero: vec![zero], axis: 0 }));
    Value::Tensor(item)
}

/// The sizes and zero points of `input` in steps, with the scale and the zero point in the next inputs, if all are
/// constants of the usual types.
pub fn steps_of(c: &Call<'_>, input: usize) -> Result<Option<Steps>> {
    let (item, scale) = (c.item(input)?, c.item(input + 1)?);
    let is_plain = scale.elem == Elem::FLOAT && c.int("block_size", 0) == 0;
    let is_integer = matches!(item.tensor.dtype()?, DType::I8 | DType::U8 | DType::I32) && !item.elem.is_small_float();
    let (true, true, Some(scale)) = (is_plain, is_integer, &scale.host) else { return Ok(None) };
    let zero = match c.value(input + 2) {
        Value::Missing => vec![0],
        Value::Tensor(Item { host: Some(l), .. }) => l.to_i64(),
        _ => return Ok(None),
    };
    let rank = item.tensor.rank()?;
    let scale: Vec<f32> = scale.to_f64().into_iter().map(|s| s as f32).collect();
    // One zero point for all, if they are alike.
    let zero = if zero.iter().all(|z| *z == zero[0]) { vec![zero[0]] } else { zero };
    let axis = if scale.len() > 1 || zero.len() > 1 { c.axis(1, rank)? } else { 0 };
    Ok(Some(Steps { bytes: item.tensor.clone(), host: item.host.clone(), scale, zero, axis }))
}

/// What a row that only moves elements does to the bytes behind them.
pub fn keep_steps(row: &Row, c: &Call<'_>, outs: &mut [Value]) -> Result<()> {
    const MOVES: [&str; 7] = ["Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Split"];
    let Some(Value::Tensor(Item { steps: Some(steps), .. })) = c.inputs.first() else { return Ok(()) };
    let is_bytes = matches!(steps.bytes.dtype()?, DType::I8 | DType::U8);
    let (true, Some((scale, zero))) = (is_bytes && MOVES.contains(&row.name), steps.whole()) else { return Ok(()) };
    let mut inputs = c.inputs.clone();
    inputs[0] = steps.bytes.clone().into();
    let moved = (row.run)(&Call { node: c.node, inputs, scope: c.scope })?;
    for (out, v) in outs.iter_mut().zip(moved) {
        if let Value::Tensor(t) = v {
            *out = dequantized(t.tensor, scale, zero);
        }
    }
    Ok(())
}

/// What results of a row inherit from its inputs: that they descend from scaled sums, and how they were computed.
pub fn keep_marks(row: &Row, c: &Call<'_>, outs: &mut [Value]) {
    let inputs = || c.inputs.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(t) } else { None });
    let is_scaled = inputs().any(|t| t.is_scaled);
    let last = inputs().find(|t| t.is_channels_last && !row.moves).map(|t| t.tensor.shape());
    for out in outs {
        if let Value::Tensor(t) = out {
            t.is_scaled |= is_scaled;
            t.is_channels_last |= matches!((&last, t.tensor.shape()), (Some(Ok(a)), Ok(b)) if *a == b);
        }
    }
}

/// A weight of signed bytes without zero points, with one size for each output, and the sum of each output's bytes.
pub struct Weight {
    pub bytes: Literal,
    pub scale: Vec<f32>,
    pub sums: Vec<i64>,
}

impl Weight {
    /// A constant weight whose outputs are `axis`, or `None` if its numbers of steps need more than eight bits.
    pub fn new(s: &Steps, axis: usize) -> Option<Weight> {
        let host = s.host.as_ref().filter(|l| matches!(l.dtype(), DType::I8 | DType::U8))?;
        let shape = host.shape().clone();
        let outputs = *shape.get(axis)?;
        let fits = |n: usize| n == 1 || (n == outputs && s.axis == axis);
        if !fits(s.scale.len()) || !fits(s.zero.len()) || outputs == 0 {
            return None;
        }
        let inner: usize = shape[axis + 1..].iter().product();
        let of = |i: usize| i / inner % outputs;
        let is_signed = host.dtype() == DType::I8;
        let value = |b: u8| if is_signed { i64::from(b as i8) } else { i64::from(b) };
        let mut sums = vec![0i64; outputs];
        let mut bytes = Vec::with_capacity(host.count());
        for (i, &b) in host.bytes().iter().enumerate() {
            let steps = value(b) - s.zero[if s.zero.len() == 1 { 0 } else { of(i) }];
            bytes.push(i8::try_from(steps).ok()? as u8);
            sums[of(i)] += steps;
        }
        let scale = (0..outputs).map(|o| s.scale[if s.scale.len() == 1 { 0 } else { o }]).collect();
        Some(Weight { bytes: Literal::from_bytes(DType::I8, shape, &bytes).ok()?, scale, sums })
    }
    /// What the zero point of the other side adds to the sums of each output, and an integer for each.
    pub fn offset(&self, zero: i64, bias: Option<&[i64]>) -> Option<Tensor> {
        if zero == 0 && bias.is_none() {
            return None;
        }
        let all = self.sums.iter().enumerate().map(|(o, s)| bias.map_or(0, |b| b[o]).wrapping_sub(zero * s));
        let all: Vec<i64> = all.map(|n| i64::from(n as i32)).collect();
        Some(constant(Literal::from_i64(DType::I32, [all.len()], &all)))
    }
    /// The size of a unit of the sums, times `by`.
    pub fn scale(&self, by: impl Fn(f32) -> f32) -> Tensor {
        constant(Literal::generate([self.scale.len()], |o| by(self.scale[o])))
    }
}

fn to_last(rank: usize) -> Vec<i64> {
    std::iter::once(0).chain(2..rank as i64).chain([1]).collect()
}
fn to_first(rank: usize) -> Vec<i64> {
    let last = rank as i64 - 1;
    [0, last].into_iter().chain(1..last).collect()
}

/// The sums of a convolution of bytes `[N, C, *S]` less their zero point, channels last; what is added to a channel
/// comes in `offset`. A zero point that is not constant is `given`.
pub fn conv_sums(
    window: &Window,
    x: &Tensor,
    zero: i64,
    given: Option<&Tensor>,
    weight: &Literal,
    offset: Option<Tensor>,
) -> Result<Tensor> {
    let rank = x.rank()?;
    let mut x = x.permute(&to_last(rank));
    let is_padded = window.lo.iter().chain(&window.hi).any(|&p| p != 0);
    let mut options = window.options();
    if is_padded && (zero != 0 || given.is_some()) {
        // Outside the image numbers are zero: bytes are the zero point.
        let around = |sides: &[i64]| [&[0], sides, &[0]].concat();
        let (lo, hi) = (around(&window.lo), around(&window.hi));
        x = match given {
            None => x.pad_raw(&lo, &hi, zero as f64),
            Some(z) => {
                let mut sizes = x.shape()?.to_vec();
                (sizes[0], sizes[rank - 1]) = (1, 1);
                let outside = Tensor::zeros_of(sizes, x.dtype()?).pad_raw(&lo, &hi, 1.0);
                x.pad_raw(&lo, &hi, 0.0) + outside * z
            }
        };
        let inside = Window { lo: vec![0; rank - 2], hi: vec![0; rank - 2], ..window.clone() };
        options = inside.options();
    }
    let sums = x.int_conv(&constant(weight.clone()), options);
    Ok(if let Some(o) = offset { sums + o } else { sums })
}

/// Sums with channels last as `[N, C, *S]`.
pub fn channels_first(y: &Tensor) -> Result<Tensor> {
    Ok(y.permute(&to_first(y.rank()?)))
}

fn scaled(y: Tensor) -> Value {
    let mut item = Item::new(y, Elem::FLOAT, None);
    item.is_scaled = true;
    Value::Tensor(item)
}

/// `Conv` of dequantized bytes with a dequantized constant weight.
pub fn conv(c: &Call<'_>) -> Result<Option<Value>> {
    let (Some(x), Some(w)) = (&c.item(0)?.steps, &c.item(1)?.steps) else { return Ok(None) };
    let (Some((scale, zero)), Some(w)) = (x.whole(), Weight::new(w, 0)) else { return Ok(None) };
    let is_bytes = matches!(x.bytes.dtype()?, DType::I8 | DType::U8);
    if !is_bytes || w.bytes.shape().rank() != x.bytes.rank()? || !(3..=5).contains(&w.bytes.shape().rank()) {
        return Ok(None);
    }
    let window = Window::of(c, &x.bytes, &c.x(1)?)?;
    let sums = conv_sums(&window, &x.bytes, zero, None, &w.bytes, w.offset(zero, None))?;
    let mut y = sums.cast(DType::F32) * w.scale(|s| scale * s);
    if let Some(bias) = c.opt(2)? {
        y = y + bias;
    }
    let mut y = scaled(channels_first(&y)?);
    if let Value::Tensor(t) = &mut y {
        t.is_channels_last = true;
    }
    Ok(Some(y))
}

/// `MatMul` or `Gemm` of dequantized bytes with a dequantized constant weight `[K, N]`, or `[N, K]` if it is transposed.
pub fn matmul(c: &Call<'_>, is_transposed: bool, bias: Option<&Tensor>) -> Result<Option<Value>> {
    let (Some(a), Some(b)) = (&c.item(0)?.steps, &c.item(1)?.steps) else { return Ok(None) };
    let (Some((scale, zero)), Some(host)) = (a.whole(), &b.host) else { return Ok(None) };
    let shape = a.bytes.shape()?;
    if host.shape().rank() != 2 || shape.rank() == 0 || !matches!(a.bytes.dtype()?, DType::I8 | DType::U8) {
        return Ok(None);
    }
    let Some(w) = Weight::new(b, usize::from(!is_transposed)) else { return Ok(None) };
    let bytes = if is_transposed { transposed(&w.bytes) } else { w.bytes.clone() };
    let (k, n) = (bytes.shape()[0], bytes.shape()[1]);
    if shape.last() != Some(&k) || bias.is_some_and(|b| b.count().map_or(true, |m| m != n && m != 1)) {
        return Ok(None);
    }
    let rows: usize = shape[..shape.rank() - 1].iter().product();
    let mut sums = a.bytes.reshape([rows, k]).int_matmul(&constant(bytes));
    if let Some(offset) = w.offset(zero, None) {
        sums = sums + offset;
    }
    let mut y = sums.cast(DType::F32) * w.scale(|s| scale * s);
    if let Some(b) = bias {
        y = y + if b.count()? == 1 { b.reshape(()) } else { b.reshape([n]) };
    }
    let mut out: Shape = shape[..shape.rank() - 1].into();
    out.push(n);
    Ok(Some(scaled(y.reshape(out))))
}

fn transposed(l: &Literal) -> Literal {
    let (n, k) = (l.shape()[0], l.shape()[1]);
    l.pick(&Shape::new(&[k, n]), |i| Some(i % n * k + i / n))
}

/// Numbers as bytes of one size and zero point: `round(x / scale) + zero`, held in what a byte is. What descends from
/// scaled sums is multiplied with `1 / scale`, as their kernels do.
pub fn quantized(c: &Call<'_>, to: Elem) -> Result<Option<Value>> {
    let item = c.item(0)?;
    let (signed, Some(s)) = (to == Elem::INT8, quantization(c)?) else { return Ok(None) };
    if !(signed || to == Elem::UINT8) || item.tensor.dtype()? != DType::F32 {
        return Ok(None);
    }
    let (scale, zero) = s;
    let more = if signed { 128 } else { 0 };
    let of_steps = |unsigned: Tensor| {
        let mut out = Item::new(unsigned.clone(), to, None);
        if signed {
            out.tensor = (unsigned.cast(DType::I16) - 128i16).cast(DType::I8);
            out.unsigned = Some(unsigned);
        }
        Ok(Some(Value::Tensor(out)))
    };
    if let Some(steps) = &item.steps
        && steps.whole() == Some((scale, zero + more))
        && steps.bytes.dtype()? == DType::U8
    {
        // Nothing but moves lies between.
        return of_steps(steps.bytes.clone());
    }
    // The change of the layout is where the kernels have theirs, so that both cancel.
    let rank = item.tensor.rank()?;
    let x = &if item.is_channels_last { item.tensor.permute(&to_last(rank)) } else { item.tensor.clone() };
    let steps = if item.is_scaled { x * f64::from(1.0 / scale) } else { x / number(DType::F32, f64::from(scale)) };
    let steps = steps.round();
    let zero = zero + more;
    let steps = if zero == 0 { steps } else { steps + zero as f64 };
    let bytes = steps.maximum(0.0).minimum(255.0).cast(DType::U8);
    of_steps(if item.is_channels_last { bytes.permute(&to_first(rank)) } else { bytes })
}

/// The size and the zero point of `QuantizeLinear`, if there is one of each and both are constants.
fn quantization(c: &Call<'_>) -> Result<Option<(f32, i64)>> {
    let scale = c.item(1)?;
    let (Some(scale), true) = (&scale.host, scale.elem == Elem::FLOAT) else { return Ok(None) };
    let zero = match c.value(2) {
        Value::Missing => vec![0],
        Value::Tensor(Item { host: Some(l), .. }) => l.to_i64(),
        _ => return Ok(None),
    };
    let is_plain = c.int("precision", 0) == 0 && c.int("block_size", 0) == 0;
    Ok(match (&scale.to_f64()[..], &zero[..]) {
        ([s], [z]) if is_plain && *s > 0.0 && s.is_finite() => Some((*s as f32, *z)),
        _ => None,
    })
}
