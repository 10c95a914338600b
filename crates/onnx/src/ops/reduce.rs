//! Reductions, softmax and the places of extremes.

use super::{Outs, Row, one, row};
use crate::run::Call;
use ir::{DType, Error, Result, Shape};
use tensor::Tensor;

pub static ROWS: &[Row] = &[
    row("ReduceSum", 1, |c| reduce(c, |x, a| x.sum_keep(a))),
    row("ReduceMean", 1, |c| {
        reduce(c, |x, a| match x.dtype() {
            Ok(d) if d.is_int() => x.cast(DType::F64).mean_keep(a).trunc(),
            _ => x.mean_keep(a),
        })
    }),
    row("ReduceProd", 1, |c| reduce(c, |x, a| x.prod_keep(a))),
    row("ReduceMax", 1, |c| reduce(c, |x, a| extreme(x, a, true))),
    row("ReduceMin", 1, |c| reduce(c, |x, a| extreme(x, a, false))),
    row("ReduceL1", 1, |c| reduce(c, |x, a| x.abs().sum_keep(a))),
    row("ReduceL2", 1, |c| {
        reduce(c, |x, a| match x.dtype() {
            Ok(d) if d.is_int() => x.cast(DType::F64).square().sum_keep(a).sqrt(),
            _ => x.square().sum_keep(a).sqrt(),
        })
    }),
    row("ReduceSumSquare", 1, |c| reduce(c, |x, a| x.square().sum_keep(a))),
    row("ReduceLogSum", 1, |c| reduce(c, |x, a| float(x).sum_keep(a).log())),
    row("ReduceLogSumExp", 1, |c| reduce(c, |x, a| float(x).logsumexp_keep(a))),
    row("ArgMax", 1, |c| place(c, true)),
    row("ArgMin", 1, |c| place(c, false)),
    row("Softmax", 1, |c| flattened(c, |x| x.softmax(-1))),
    row("Softmax", 13, |c| along(c, |x, a| x.softmax(a))),
    row("LogSoftmax", 1, |c| flattened(c, |x| x.log_softmax(-1))),
    row("LogSoftmax", 13, |c| along(c, |x, a| x.log_softmax(a))),
    row("Hardmax", 1, |c| flattened(c, |x| hardmax(x, -1))),
    row("Hardmax", 13, |c| along(c, hardmax)),
    row("TopK", 1, top_k),
];

fn float(x: &Tensor) -> Tensor {
    match x.dtype() {
        Ok(d) if d.is_int() => x.cast(DType::F64),
        _ => x.clone(),
    }
}

/// The largest or smallest elements; of nothing, the least or greatest of the type.
fn extreme(x: &Tensor, axes: &[i64], is_max: bool) -> Tensor {
    x.then(|t| {
        let along: Vec<usize> = axes.iter().map(|&a| a as usize).collect();
        if along.iter().any(|&a| t.shape[a] == 0) {
            let e = crate::element::Elem::of(t.dtype).range();
            let (lo, hi) = match e {
                Some((lo, hi)) => (lo as f64, hi as f64),
                None if t.dtype == DType::Bool => (0.0, 1.0),
                None => (f64::NEG_INFINITY, f64::INFINITY),
            };
            return Ok(Tensor::full_of(t.shape.reduce(&along, true), if is_max { lo } else { hi }, t.dtype));
        }
        if t.dtype == DType::Bool {
            return Ok(if is_max { x.any_keep(axes) } else { x.all_keep(axes) });
        }
        Ok(if is_max { x.max_keep(axes) } else { x.min_keep(axes) })
    })
}

/// A reduction whose axes are an attribute or, since 13 or 18, an input.
fn reduce(c: &Call<'_>, f: impl Fn(&Tensor, &[i64]) -> Tensor) -> Outs {
    let x = c.x(0)?;
    let (rank, dtype) = (x.rank()?, x.dtype()?);
    let axes = c.list_or_input("axes", 1)?.unwrap_or_default();
    if axes.is_empty() && c.flag("noop_with_empty_axes") {
        // Since 18 the function is still applied, to each element alone.
        let y = f(&x.unsqueeze(rank as i64), &[rank as i64]);
        return one(y.squeeze(rank as i64).cast(dtype));
    }
    let mut axes: Vec<usize> = if axes.is_empty() { (0..rank).collect() } else { super::axes_of(&axes, rank)? };
    axes.sort_unstable();
    let list: Vec<i64> = axes.iter().map(|&a| a as i64).collect();
    let y = if rank == 0 { f(&x.reshape([1]), &[0]).reshape(()) } else { f(&x, &list) };
    let y = y.cast(dtype);
    if c.int("keepdims", 1) != 0 {
        return one(y);
    }
    let kept: Shape = x.shape()?.reduce(&axes, false);
    one(y.reshape(kept))
}

fn place(c: &Call<'_>, is_max: bool) -> Outs {
    let x = c.x(0)?;
    let a = c.axis(0, x.rank()?)? as i64;
    let n = x.shape()?[a as usize] as i64;
    let find = |x: &Tensor| if is_max { x.argmax_keep(a) } else { x.argmin_keep(a) };
    let y = if c.flag("select_last_index") { -find(&x.flip(a)) + (n - 1) } else { find(&x) };
    let y = y.cast(DType::I64);
    one(if c.int("keepdims", 1) != 0 { y } else { y.squeeze(a) })
}

/// Before version 13: all axes from `axis` on are one.
fn flattened(c: &Call<'_>, f: impl Fn(&Tensor) -> Tensor) -> Outs {
    let x = c.x(0)?;
    let shape = x.shape()?;
    let at = c.int("axis", 1);
    let at = if at == shape.rank() as i64 { shape.rank() } else { tensor::axis(at, shape.rank())? };
    let rows: usize = shape[..at].iter().product();
    let columns: usize = shape[at..].iter().product();
    // The last axis alone needs no flattening.
    if at + 1 == shape.rank() {
        return one(f(&x));
    }
    one(f(&x.reshape([rows, columns])).reshape(shape))
}

fn along(c: &Call<'_>, f: impl Fn(&Tensor, i64) -> Tensor) -> Outs {
    let x = c.x(0)?;
    let a = c.axis(-1, x.rank()?)?;
    one(f(&x, a as i64))
}

fn hardmax(x: &Tensor, along: i64) -> Tensor {
    x.then(|t| {
        let a = tensor::axis(along, t.shape.rank())?;
        let n = t.shape[a];
        let mut sizes = vec![1; t.shape.rank()];
        sizes[a] = n;
        Ok(Tensor::iota(n, DType::I64).reshape(sizes).eq(x.argmax_keep(a as i64).cast(DType::I64)).cast(t.dtype))
    })
}

fn top_k(c: &Call<'_>) -> Outs {
    let x = c.x(0)?;
    let a = c.axis(-1, x.rank()?)? as i64;
    let k = if c.version() < 10 { c.int("k", 0) } else { c.ints(1)?.first().copied().unwrap_or(0) };
    let k = usize::try_from(k).map_err(|_| Error::value(format!("k is {k}")))?;
    if k > x.shape()?[a as usize] {
        return Err(Error::value(format!("k is {k}, but the axis has {} elements", x.shape()?[a as usize])));
    }
    let [values, places] = sorted(&x, k, a, c.int("largest", 1) != 0)?;
    super::all([values, places.cast(DType::I64)])
}

/// The first `k` in order; of equal ones the one that comes first.
fn sorted(x: &Tensor, k: usize, a: i64, is_largest: bool) -> Result<[Tensor; 2]> {
    Ok(if is_largest { x.top_k(k, a) } else { x.bottom_k(k, a) })
}
