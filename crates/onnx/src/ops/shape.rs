//! Shapes: operators that move elements, make constants or say how large a tensor is.

use super::{Outs, Row, axes_of, constant, moving, number, one, row, shape_of};
use crate::graph::Attribute;
use crate::run::Call;
use crate::value::Value;
use ir::{DType, Error, Literal, Result, Shape};
use tensor::{Pad, Tensor};

pub static ROWS: &[Row] = &[
    moving("Reshape", 1, reshape),
    moving("Transpose", 1, |c| {
        let x = c.x(0)?;
        let perm = c.list("perm").unwrap_or_else(|| (0..x.rank().unwrap_or(0) as i64).rev().collect());
        one(x.permute(&perm))
    }),
    moving("Squeeze", 1, |c| {
        let x = c.x(0)?;
        let shape = x.shape()?;
        let axes = match c.list_or_input("axes", 1)? {
            Some(axes) => axes_of(&axes, shape.rank())?,
            None => (0..shape.rank()).filter(|&a| shape[a] == 1).collect(),
        };
        if let Some(&a) = axes.iter().find(|&&a| shape[a] != 1) {
            return Err(Error::shape(format!("axis {a} of shape {shape} has more than one element")));
        }
        let kept: Shape = (0..shape.rank()).filter(|a| !axes.contains(a)).map(|a| shape[a]).collect();
        one(x.reshape(kept))
    }),
    moving("Unsqueeze", 1, |c| {
        let x = c.x(0)?;
        let axes = c.list_or_input("axes", 1)?.ok_or_else(|| Error::value("axes are missing"))?;
        let shape = x.shape()?;
        let mut axes = axes_of(&axes, shape.rank() + axes.len())?;
        axes.sort_unstable();
        if axes.windows(2).any(|w| w[0] == w[1]) {
            return Err(Error::value(format!("an axis is named twice in {axes:?}")));
        }
        let mut out = shape;
        axes.iter().for_each(|&a| out.insert(a, 1));
        one(x.reshape(out))
    }),
    moving("Flatten", 1, |c| {
        let x = c.x(0)?;
        let shape = x.shape()?;
        let at = c.int("axis", 1);
        let at = if at == shape.rank() as i64 { shape.rank() } else { tensor::axis(at, shape.rank())? };
        one(x.reshape([shape[..at].iter().product::<usize>(), shape[at..].iter().product()]))
    }),
    moving("Concat", 1, |c| {
        let parts = (0..c.inputs.len()).map(|i| c.x(i)).collect::<Result<Vec<_>>>()?;
        let rank = parts.first().ok_or_else(|| Error::value("there is nothing to join"))?.rank()?;
        let along = c.axis(if c.version() < 4 { 1 } else { 0 }, rank)? as i64;
        one(Tensor::concat(&parts, along))
    }),
    moving("Split", 1, split),
    moving("Slice", 1, slice),
    moving("Expand", 8, |c| {
        let x = c.x(0)?;
        let to = shape_of(&c.ints(1)?)?;
        let from = x.shape()?;
        let shape = from.broadcast(&to).ok_or_else(|| Error::shape(format!("{from} does not expand to {to}")))?;
        c.check_count(shape.count(), x.dtype()?)?;
        one(x.broadcast_to(shape))
    }),
    moving("Tile", 1, |c| {
        let x = c.x(0)?;
        let rank = x.rank()?;
        let times = if c.version() < 6 {
            let (n, axis) = (c.ints(1)?, c.ints(2)?);
            let mut times = vec![1; rank];
            times[tensor::axis(axis.first().copied().unwrap_or(0), rank)?] = n.first().copied().unwrap_or(1);
            times
        } else {
            c.ints(1)?
        };
        let times: Vec<usize> = shape_of(&times)?.to_vec();
        let count = times.iter().try_fold(x.count()?, |n, &t| n.checked_mul(t)).unwrap_or(usize::MAX);
        c.check_count(count, x.dtype()?)?;
        if times.len() != rank {
            return Err(Error::shape(format!("{} repeats for {rank} dimensions", times.len())));
        }
        one(x.tile(&times))
    }),
    row("Shape", 1, |c| {
        let shape = c.shape(0)?;
        let n = shape.rank() as i64;
        let clamp = |v: i64| (if v < 0 { v + n } else { v }).clamp(0, n) as usize;
        let (start, end) = (clamp(c.int("start", 0)), clamp(c.int("end", n)));
        let sizes: Vec<i64> = shape[start..end.max(start)].iter().map(|&d| d as i64).collect();
        Ok(vec![Value::ints(&sizes)])
    }),
    row("Size", 1, |c| Ok(vec![Literal::scalar(c.shape(0)?.count() as i64).into()])),
    moving("Pad", 1, pad),
    row("Constant", 1, constant_of),
    row("ConstantOfShape", 9, |c| {
        let shape = shape_of(&c.ints(0)?)?;
        let (elem, value) = match c.attribute("value") {
            Some(Attribute::Value(Value::Tensor(t))) => (t.elem, t.tensor.clone()),
            _ => (crate::element::Elem::FLOAT, number(DType::F32, 0.0)),
        };
        c.check_count(shape.count(), value.dtype()?)?;
        let value = super::math::scalar(value)?;
        if shape.count() <= 64 {
            let l = c.read(&value, "value")?;
            return Ok(vec![Value::known(elem, l.pick(&shape, |_| Some(0)))]);
        }
        Ok(vec![Value::typed(value.broadcast_to(shape), elem)])
    }),
    row("Range", 11, range),
    moving("DepthToSpace", 1, |c| {
        let x = c.x(0)?;
        let ([n, d, h, w], b) = (x.dims()?, block(c)?);
        if d % (b * b) != 0 {
            return Err(Error::shape(format!("{d} channels do not divide by {b} times {b}")));
        }
        let y = if c.text("mode", "DCR") == "CRD" {
            x.reshape([n, d / (b * b), b, b, h, w]).permute(&[0, 1, 4, 2, 5, 3])
        } else {
            x.reshape([n, b, b, d / (b * b), h, w]).permute(&[0, 3, 4, 1, 5, 2])
        };
        one(y.reshape([n, d / (b * b), h * b, w * b]))
    }),
    moving("SpaceToDepth", 1, |c| {
        let x = c.x(0)?;
        let ([n, d, h, w], b) = (x.dims()?, block(c)?);
        if h % b != 0 || w % b != 0 {
            return Err(Error::shape(format!("sizes {h} and {w} do not divide by {b}")));
        }
        let y = match c.text("mode", "DCR") {
            "CRD" => x.reshape([n, d, h / b, b, w / b, b]).permute(&[0, 1, 3, 5, 2, 4]),
            _ => x.reshape([n, d, h / b, b, w / b, b]).permute(&[0, 3, 5, 1, 2, 4]),
        };
        one(y.reshape([n, d * b * b, h / b, w / b]))
    }),
    moving("CenterCropPad", 18, |c| {
        let x = c.x(0)?;
        let (shape, sizes) = (x.shape()?, c.ints(1)?);
        let axes = match c.list("axes") {
            Some(a) => axes_of(&a, shape.rank())?,
            None => (0..shape.rank()).collect(),
        };
        let (mut lo, mut hi) = (vec![0i64; shape.rank()], vec![0i64; shape.rank()]);
        for (&a, &want) in axes.iter().zip(&sizes) {
            let more = want - shape[a] as i64;
            c.check_count(usize::try_from(want).unwrap_or(0), x.dtype()?)?;
            // A crop begins at half of what is left over, rounded down, and so does a border.
            lo[a] = if more < 0 { -(-more / 2) } else { more / 2 };
            hi[a] = more - lo[a];
        }
        one(x.pad_raw(&lo, &hi, 0.0))
    }),
];

fn block(c: &Call<'_>) -> Result<usize> {
    usize::try_from(c.int("blocksize", 0)).ok().filter(|&b| b > 0).ok_or_else(|| Error::value("blocksize is missing"))
}

fn reshape(c: &Call<'_>) -> Outs {
    let to = c.list_or_input("shape", 1)?.ok_or_else(|| Error::value("the shape is missing"))?;
    let from = c.shape(0)?;
    let mut sizes = Vec::with_capacity(to.len());
    for (i, &d) in to.iter().enumerate() {
        sizes.push(match d {
            0 if !c.flag("allowzero") => {
                *from.get(i).ok_or_else(|| Error::shape(format!("{to:?} keeps axis {i}, which {from} lacks")))? as i64
            }
            d => d,
        });
    }
    if let Some(i) = sizes.iter().position(|&d| d == -1) {
        let rest: i64 = sizes.iter().enumerate().filter(|(k, _)| *k != i).map(|(_, &d)| d).product();
        if rest <= 0 && from.count() > 0 || rest == 0 || from.count() as i64 % rest != 0 {
            return Err(Error::shape(format!("{from} cannot have shape {to:?}")));
        }
        sizes[i] = from.count() as i64 / rest;
    }
    let shape = shape_of(&sizes)?;
    if let Value::Strings(_, s) = c.value(0) {
        return Ok(vec![Value::Strings(shape, s.clone())]);
    }
    one(c.x(0)?.reshape(shape))
}

fn split(c: &Call<'_>) -> Outs {
    let x = c.x(0)?;
    let along = c.axis(0, x.rank()?)?;
    let n = x.shape()?[along];
    let sizes = match c.list_or_input("split", 1)? {
        Some(s) => shape_of(&s)?.to_vec(),
        None => {
            let parts = usize::try_from(c.int("num_outputs", c.outs() as i64)).unwrap_or(0).max(1);
            let size = n.div_ceil(parts);
            (0..parts).map(|i| size.min(n.saturating_sub(i * size))).collect()
        }
    };
    if sizes.iter().sum::<usize>() != n {
        return Err(Error::shape(format!("parts {sizes:?} do not add up to {n}")));
    }
    super::all(x.split_sizes(&sizes, along as i64))
}

fn slice(c: &Call<'_>) -> Outs {
    let x = c.x(0)?;
    let shape = x.shape()?;
    let rank = shape.rank();
    let missing = || Error::value("starts and ends are missing");
    let starts = c.list_or_input("starts", 1)?.ok_or_else(missing)?;
    let ends = c.list_or_input("ends", 2)?.ok_or_else(missing)?;
    let axes = match c.list_or_input("axes", 3)? {
        Some(a) => axes_of(&a, rank)?,
        None => (0..starts.len()).collect(),
    };
    let steps = if c.has(4) { c.ints(4)? } else { vec![1; starts.len()] };
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] || axes.iter().any(|&a| a >= rank) {
        return Err(Error::value("starts, ends, axes and steps differ in length"));
    }
    let mut first = vec![0i64; rank];
    let mut sizes: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
    let mut by = vec![1i64; rank];
    for (i, &a) in axes.iter().enumerate() {
        let (n, step) = (shape[a] as i64, steps[i]);
        if step == 0 {
            return Err(Error::value("a step is 0"));
        }
        let from_end = |v: i64| if v < 0 { v.saturating_add(n) } else { v };
        let (lo, hi) = if step > 0 { (0, n) } else { (-1, n - 1) };
        let start = from_end(starts[i]).clamp(if step > 0 { 0 } else { -1 }, hi);
        let end = from_end(ends[i]).clamp(lo, hi);
        let count = if step > 0 {
            (end - start).max(0).saturating_add(step - 1) / step
        } else {
            (start - end).max(0).saturating_add(step.saturating_neg() - 1) / step.saturating_neg()
        };
        (first[a], sizes[a], by[a]) = (if count == 0 { 0 } else { start }, count, if count <= 1 { 1 } else { step });
    }
    one(x.slice_raw(&first, &sizes, &by))
}

fn pad(c: &Call<'_>) -> Outs {
    let x = c.x(0)?;
    let (rank, dtype) = (x.rank()?, x.dtype()?);
    let pads = match c.list("pads").or_else(|| c.list("paddings")) {
        Some(p) => p,
        None => c.ints(1)?,
    };
    let axes = if c.has(3) { axes_of(&c.ints(3)?, rank)? } else { (0..rank).collect() };
    if pads.len() != 2 * axes.len() {
        return Err(Error::value(format!("{} widths for {} axes", pads.len(), axes.len())));
    }
    let (mut lo, mut hi) = (vec![0i64; rank], vec![0i64; rank]);
    for (i, &a) in axes.iter().enumerate() {
        (lo[a], hi[a]) = (pads[i], pads[i + axes.len()]);
    }
    let shape = x.shape()?;
    let count = (0..rank).try_fold(1i64, |n, a| {
        let size = (shape[a] as i64).checked_add(lo[a])?.checked_add(hi[a])?;
        n.checked_mul(size.max(0))
    });
    c.check_count(count.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX), dtype)?;
    let mode = c.text("mode", "constant");
    if mode == "constant" {
        let value = if c.version() >= 11 && c.has(2) { c.opt(2)? } else { None };
        return match value {
            Some(v) if !Call::is_known(&v) => {
                let inside = x.ones_like().cast(DType::Bool).pad_raw(&lo, &hi, 0.0);
                one(Tensor::where_(&inside, &x.pad_raw(&lo, &hi, 0.0), super::math::scalar(v)?))
            }
            Some(v) => {
                let v = c.read(&v, "constant_value")?.to_f64();
                one(x.pad_raw(&lo, &hi, v.first().copied().unwrap_or(0.0)))
            }
            None => one(x.pad_raw(&lo, &hi, c.float("value", 0.0))),
        };
    }
    let mode = match mode {
        "reflect" => Pad::Reflect,
        "edge" => Pad::Replicate,
        "wrap" => Pad::Circular,
        m => return Err(Error::value(format!("mode is {m:?}"))),
    };
    let widths: Vec<i64> = (0..rank).rev().flat_map(|a| [lo[a], hi[a]]).collect();
    one(x.pad(&widths, mode))
}

fn constant_of(c: &Call<'_>) -> Outs {
    for name in ["value", "sparse_value"] {
        if let Some(Attribute::Value(v)) = c.attribute(name) {
            return Ok(vec![v.clone()]);
        }
    }
    let v: Value = match (c.attribute("value_float"), c.attribute("value_int"), c.attribute("value_string")) {
        (Some(Attribute::Float(x)), ..) => Literal::scalar(*x).into(),
        (_, Some(Attribute::Int(x)), _) => Literal::scalar(*x).into(),
        (.., Some(Attribute::Text(x))) => Value::strings(Shape::scalar(), vec![x.clone()]),
        _ => {
            if let Some(x) = c.float_list("value_floats") {
                Literal::new([x.len()], &x)?.into()
            } else if let Some(x) = c.list("value_ints") {
                Value::ints(&x)
            } else if let Some(x) = c.texts("value_strings") {
                Value::strings([x.len()].into(), x.to_vec())
            } else {
                return Err(Error::value("the constant has no value"));
            }
        }
    };
    Ok(vec![v])
}

fn range(c: &Call<'_>) -> Outs {
    let (start, limit, step) = (c.host(0)?, c.host(1)?, c.host(2)?);
    let dtype = start.dtype();
    let number = |l: &Literal| l.to_f64().first().copied().ok_or_else(|| Error::shape("a scalar is needed"));
    let (a, b, s) = (number(&start)?, number(&limit)?, number(&step)?);
    if s == 0.0 || !s.is_finite() {
        return Err(Error::value("the step is 0"));
    }
    let count = ((b - a) / s).ceil().max(0.0);
    let count = if count < 1e15 { count as usize } else { usize::MAX };
    c.check_count(count, dtype)?;
    if count <= 4096 {
        let values: Vec<f64> = (0..count).map(|i| a + i as f64 * s).collect();
        let l = if dtype.is_int() {
            let (a, s) = (start.to_i64()[0], step.to_i64()[0]);
            let values: Vec<i64> = (0..count as i64).map(|i| a.wrapping_add(i.wrapping_mul(s))).collect();
            Literal::from_i64(dtype, [count], &values)
        } else {
            Literal::from_f64(dtype, [count], &values)
        };
        return Ok(vec![l.into()]);
    }
    one(Tensor::iota(count, dtype) * constant(step.reshaped(())) + constant(start.reshaped(())))
}
