//! Elements chosen and written by index.

use super::{Outs, Row, moving, one, row};
use crate::run::Call;
use crate::value::Value;
use ir::{DType, Error, Literal, Result, Shape};
use tensor::{Combine, Tensor};

pub static ROWS: &[Row] = &[
    moving("Gather", 1, |c| {
        let x = c.x(0)?;
        let along = c.axis(0, x.rank()?)?;
        one(x.take(&wrapped(&c.x(1)?, x.shape()?[along])?, along as i64))
    }),
    moving("GatherElements", 11, |c| {
        let x = c.x(0)?;
        let along = c.axis(0, x.rank()?)?;
        let index = wrapped(&c.x(1)?, x.shape()?[along])?;
        // Other sizes of the index may be smaller.
        let (shape, want) = (x.shape()?, index.shape()?);
        let sizes: Vec<i64> = (0..shape.rank()).map(|a| if a == along { shape[a] } else { want[a] } as i64).collect();
        let x = x.slice_raw(&vec![0; sizes.len()], &sizes, &vec![1; sizes.len()]);
        one(x.gather(along as i64, &index))
    }),
    moving("GatherND", 11, gather_nd),
    moving("ScatterElements", 11, |c| scatter(c, c.text("reduction", "none"))),
    moving("Scatter", 9, |c| scatter(c, "none")),
    moving("ScatterND", 11, scatter_nd),
    row("OneHot", 9, one_hot),
    row("NonZero", 9, |c| {
        let l = c.host(0)?;
        let shape = l.shape().clone();
        let is_set: Vec<bool> = l.to_f64().iter().map(|&x| x != 0.0).collect();
        let places: Vec<usize> = (0..is_set.len()).filter(|&i| is_set[i]).collect();
        let (n, strides) = (places.len(), shape.strides());
        let out = Literal::generate::<i64>([shape.rank(), n], |k| {
            let (axis, i) = (k / n.max(1), k % n.max(1));
            (places[i] / strides[axis] as usize % shape[axis]) as i64
        });
        Ok(vec![out.into()])
    }),
    moving("Compress", 9, |c| {
        let x = c.x(0)?;
        let keep: Vec<i64> = c.ints(1)?.iter().enumerate().filter(|(_, b)| **b != 0).map(|(i, _)| i as i64).collect();
        let index = super::constant(Literal::from_i64(DType::I64, [keep.len()], &keep));
        if c.attribute("axis").is_none() {
            return one(x.ravel().take(&index, 0));
        }
        one(x.take(&index, c.axis(0, x.rank()?)? as i64))
    }),
    row("Unique", 11, unique),
    moving("ReverseSequence", 10, |c| {
        let x = c.x(0)?;
        let (batch, time) = (c.int("batch_axis", 1), c.int("time_axis", 0));
        let y = x.moveaxis(&[batch, time], &[0, 1]);
        let shape = y.shape()?;
        let (n, t) = (shape[0], shape[1]);
        let lengths = c.x(1)?.cast(DType::I64).reshape([n, 1]);
        let i = Tensor::iota(t, DType::I64).reshape([1, t]);
        let at = Tensor::where_(&i.lt(&lengths), &(&lengths - 1i64 - &i), &i.broadcast_to([n, t]));
        let mut sizes = vec![1; shape.rank()];
        (sizes[0], sizes[1]) = (n, t);
        let y = y.gather(1, &at.reshape(sizes).broadcast_to(&shape));
        one(y.moveaxis(&[0, 1], &[batch, time]))
    }),
    row("TensorScatter", 24, tensor_scatter),
];

/// Indices counted from the front.
fn wrapped(index: &Tensor, size: usize) -> Result<Tensor> {
    let index = if index.dtype()? == DType::I64 { index.clone() } else { index.cast(DType::I64) };
    if Call::is_known(&index) && index.count()? <= 64 {
        let l = index.literal()?;
        if l.to_i64().iter().all(|&i| i >= 0) {
            return Ok(index);
        }
    }
    Ok(Tensor::where_(&index.lt(0), &(&index + size as i64), &index))
}

/// Flat places of index tuples that lie along the last axis, in the given leading sizes.
fn flat_places(index: &Tensor, sizes: &[usize]) -> Result<Tensor> {
    let k = sizes.len();
    let shape = index.shape()?;
    let index = index.cast(DType::I64);
    let last = shape.rank() as i64 - 1;
    let mut flat: Option<Tensor> = None;
    for (a, &size) in sizes.iter().enumerate() {
        let i = index.narrow(last, a, 1);
        let i = Tensor::where_(&i.lt(0), &(&i + size as i64), &i);
        flat = Some(match flat {
            Some(f) => f * size as i64 + i,
            None => i,
        });
    }
    let kept: Shape = shape[..shape.rank() - 1].into();
    let flat = flat.unwrap_or_else(|| Tensor::zeros_of(kept.clone(), DType::I64));
    debug_assert!(k == sizes.len());
    Ok(flat.reshape(kept))
}

fn gather_nd(c: &Call<'_>) -> Outs {
    let (x, index) = (c.x(0)?, c.x(1)?);
    let (shape, at) = (x.shape()?, index.shape()?);
    let b = usize::try_from(c.int("batch_dims", 0)).unwrap_or(0);
    let k = *at.dims().last().ok_or_else(|| Error::shape("the index is a scalar"))?;
    if b + k > shape.rank() || b >= at.rank() {
        return Err(Error::shape(format!("an index {at} does not fit {shape}")));
    }
    let batch: usize = shape[..b].iter().product();
    let inner: usize = shape[b..b + k].iter().product();
    let rest: Vec<usize> = shape[b + k..].to_vec();
    let mut flat = flat_places(&index, &shape[b..b + k])?;
    if b > 0 {
        let each: usize = flat.count()? / batch.max(1);
        let offset = Tensor::iota(batch, DType::I64).reshape([batch, 1]) * inner as i64;
        flat = (flat.reshape([batch, each]) + offset).reshape(&at[..at.rank() - 1]);
    }
    let rows: Vec<usize> = [&[batch * inner], &rest[..]].concat();
    one(x.reshape(rows).take(&flat, 0))
}

fn scatter(c: &Call<'_>, how: &str) -> Outs {
    let (x, src) = (c.x(0)?, c.x(2)?);
    let along = c.axis(0, x.rank()?)?;
    let index = wrapped(&c.x(1)?, x.shape()?[along])?;
    let a = along as i64;
    one(match how {
        "none" => x.scatter(a, &index, &src),
        "add" => x.scatter_add(a, &index, &src),
        "mul" => x.scatter_reduce(a, &index, &src, Combine::Prod, true),
        "max" => x.scatter_reduce(a, &index, &src, Combine::Max, true),
        "min" => x.scatter_reduce(a, &index, &src, Combine::Min, true),
        w => return Err(Error::value(format!("reduction is {w:?}"))),
    })
}

fn scatter_nd(c: &Call<'_>) -> Outs {
    let (x, index, src) = (c.x(0)?, c.x(1)?, c.x(2)?);
    let (shape, at) = (x.shape()?, index.shape()?);
    let k = *at.dims().last().ok_or_else(|| Error::shape("the index is a scalar"))?;
    if k > shape.rank() {
        return Err(Error::shape(format!("an index {at} does not fit {shape}")));
    }
    let rows: usize = shape[..k].iter().product();
    let width: usize = shape[k..].iter().product();
    let n: usize = at[..at.rank() - 1].iter().product();
    let flat = flat_places(&index, &shape[..k])?.reshape([n, 1]).broadcast_to([n, width]);
    let (x, src) = (x.reshape([rows, width]), src.reshape([n, width]));
    let y = match c.text("reduction", "none") {
        "none" => x.scatter(0, &flat, &src),
        "add" => x.scatter_add(0, &flat, &src),
        "mul" => x.scatter_reduce(0, &flat, &src, Combine::Prod, true),
        "max" => x.scatter_reduce(0, &flat, &src, Combine::Max, true),
        "min" => x.scatter_reduce(0, &flat, &src, Combine::Min, true),
        w => return Err(Error::value(format!("reduction is {w:?}"))),
    };
    one(y.reshape(shape))
}

fn one_hot(c: &Call<'_>) -> Outs {
    let (index, values) = (c.x(0)?, c.x(2)?);
    let depth = c.scalar(1)?;
    if !(0.0..1e12).contains(&depth) {
        return Err(Error::value(format!("the depth is {depth}")));
    }
    let (depth, rank) = (depth as usize, index.rank()?);
    let dtype = values.dtype()?;
    c.check_count(index.count()?.saturating_mul(depth), dtype)?;
    let along = c.axis(-1, rank + 1)?;
    let index = wrapped(&index.cast(DType::I64), depth)?.unsqueeze(along as i64);
    let mut sizes = vec![1; rank + 1];
    sizes[along] = depth;
    let is_hot = Tensor::iota(depth, DType::I64).reshape(sizes).eq(index);
    let (off, on) = (values.narrow(0, 0, 1).reshape(()), values.narrow(0, 1, 1).reshape(()));
    one(Tensor::where_(&is_hot, &on, &off))
}

fn unique(c: &Call<'_>) -> Outs {
    let l = c.host(0)?;
    let (axis, shape) = match c.attribute("axis") {
        Some(_) => (c.axis(0, l.shape().rank())?, l.shape().clone()),
        None => (0, [l.count()].into()),
    };
    let (n, stride) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let outer: usize = shape[..axis].iter().product();
    let values = l.to_f64();
    let slice = |i: usize| -> Vec<f64> {
        (0..outer)
            .flat_map(|o| (0..stride).map(move |s| (o, s)))
            .map(|(o, s)| values[(o * n + i) * stride + s])
            .collect()
    };
    let slices: Vec<Vec<f64>> = (0..n).map(slice).collect();
    let compare = |a: &Vec<f64>, b: &Vec<f64>| {
        a.iter().zip(b).map(|(x, y)| x.total_cmp(y)).find(|o| o.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    };
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| compare(&slices[a], &slices[b]).then(a.cmp(&b)));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &i in &order {
        match groups.last_mut() {
            Some(g) if compare(&slices[g[0]], &slices[i]).is_eq() => g.push(i),
            _ => groups.push(vec![i]),
        }
    }
    if c.int("sorted", 1) == 0 {
        groups.sort_by_key(|g| g[0]);
    }
    let mut inverse = vec![0i64; n];
    groups.iter().enumerate().for_each(|(k, g)| g.iter().for_each(|&i| inverse[i] = k as i64));
    let first: Vec<i64> = groups.iter().map(|g| g[0] as i64).collect();
    let counts: Vec<i64> = groups.iter().map(|g| g.len() as i64).collect();
    let flat = super::constant(l.reshaped(shape));
    let y = flat.take(&super::constant(Literal::from_i64(DType::I64, [first.len()], &first)), axis as i64);
    Ok(vec![y.into(), Value::ints(&first), Value::ints(&inverse), Value::ints(&counts)])
}

/// A cache with new rows written at places along an axis.
fn tensor_scatter(c: &Call<'_>) -> Outs {
    let (past, update) = (c.x(0)?, c.x(1)?);
    let (shape, new) = (past.shape()?, update.shape()?);
    let along = c.axis(-2, shape.rank())?;
    let (n, t, size) = (shape[0], new[along], shape[along] as i64);
    let start = match c.opt(2)? {
        Some(s) => s.cast(DType::I64).reshape([n, 1]),
        None => Tensor::zeros_of([n, 1], DType::I64),
    };
    let mut at = start + Tensor::iota(t, DType::I64).reshape([1, t]);
    match c.text("mode", "linear") {
        "linear" => {}
        "circular" => at = at.rem(size),
        m => return Err(Error::value(format!("mode is {m:?}"))),
    }
    let mut sizes = vec![1; shape.rank()];
    (sizes[0], sizes[along]) = (n, t);
    one(past.scatter(along as i64, &at.reshape(sizes).broadcast_to(new), &update))
}
