//! The ops that talk to other workers. They take the step count as an input, so that no two steps
//! look alike to the compiler and none is computed beforehand.
//!
//! Gradients that are more than a bucket are reduced in buckets, the last layers' first: a bucket's
//! reduction begins when its gradients are there and goes on while the others are computed.

use super::part::weight;
use super::{How, failed, job, lock, pulse, setting};
use dist::{Overlap, Reducer};
use ir::{AttrKind, Bytes, Call, Grad, Meaning, ORDERED, SOON, Type};
use std::sync::{Arc, Mutex};
use tensor::{Attrs, DType, Error, Literal, Op, Result, Shape, Tensor};

/// Bytes of gradients that are worth a message of their own; `TALWEG_BUCKET` says another number.
const BUCKET_BYTES: usize = 1 << 20;

/// The row of `mean_over_workers`.
static MEAN: Op = Op {
    name: "mean_over_workers",
    doc: "The mean of each gradient over all workers. Inputs: the step count, what this worker's gradients count, the \
          gradients.",
    attrs: &[(ORDERED, AttrKind::Bool)],
    infer: |c| {
        floats(c)?;
        Ok(c.types[2..].iter().cloned().collect())
    },
    meaning: Meaning::Kernel(run_mean),
    grad: Grad::Missing("the mean over workers is taken of gradients, after differentiation"),
    ..Op::DEFAULT
};

/// The row of `begin_mean_over_workers`.
static BEGIN: Op = Op {
    name: "begin_mean_over_workers",
    doc: "Begins to take the mean of a bucket of gradients over all workers, while the rest is computed. Inputs as \
          for `mean_over_workers`. The result stands for what is under way.",
    attrs: &[("bucket", AttrKind::Int), ("of", AttrKind::Int), (SOON, AttrKind::Bool)],
    infer: |c| {
        floats(c)?;
        Ok([Type::new(DType::F32, Shape::scalar())].into_iter().collect())
    },
    meaning: Meaning::Kernel(run_begin),
    grad: Grad::Missing("the mean over workers is taken of gradients, after differentiation"),
    ..Op::DEFAULT
};

/// The row of `end_mean_over_workers`.
static END: Op = Op {
    name: "end_mean_over_workers",
    doc: "The means of a bucket of gradients, of which `shapes` has each one's rank and sizes. The inputs stand for \
          all buckets that are under way: nobody waits before everything is computed.",
    attrs: &[("bucket", AttrKind::Int), ("shapes", AttrKind::Ints), (ORDERED, AttrKind::Bool)],
    infer: |c| {
        floats(c)?;
        let shapes = shapes(c)?;
        Ok(shapes.into_iter().map(|s| Type::new(DType::F32, s)).collect())
    },
    meaning: Meaning::Kernel(run_end),
    grad: Grad::Missing("the mean over workers is taken of gradients, after differentiation"),
    ..Op::DEFAULT
};

/// The row of `step_in_store`.
static STEP: Op = Op {
    name: "step_in_store",
    doc: "Pushes gradients to the parameter store, ends the step and reads the parameters. Inputs: the step count, \
          what this worker's gradients count, the gradients, a learning rate for each, the numbers of those that \
          `numbers` says have any.",
    attrs: &[("tables", AttrKind::Ints), ("numbers", AttrKind::Ints), (ORDERED, AttrKind::Bool)],
    infer: |c| {
        floats(c)?;
        let (n, numbers) = (c.attrs.ints("tables")?.len(), c.attrs.ints("numbers")?);
        if numbers.len() != n || c.types.len() != 2 + 2 * n + numbers.iter().filter(|has| **has != 0).count() {
            return Err(Error::value(format!("{n} tables need as many gradients and rates, and their numbers")));
        }
        Ok(c.types[2..2 + n].iter().cloned().collect())
    },
    meaning: Meaning::Kernel(run_step),
    grad: Grad::Missing("the store takes its step after differentiation"),
    ..Op::DEFAULT
};

fn floats(c: &Call) -> Result<()> {
    if let Some(t) = c.types.iter().find(|t| t.dtype != DType::F32) {
        return Err(Error::dtype(format!("workers exchange f32, not {}", t.dtype)));
    }
    Ok(())
}

fn shapes(c: &Call) -> Result<Vec<Shape>> {
    let (mut rest, mut out) = (c.attrs.ints("shapes")?, Vec::new());
    while let Some((rank, sizes)) = rest.split_first() {
        let bad = || Error::value("shapes are each a rank and so many sizes");
        let (sizes, after) = sizes.split_at_checked(usize::try_from(*rank).map_err(|_| bad())?).ok_or_else(bad)?;
        let sizes = sizes.iter().map(|n| usize::try_from(*n).map_err(|_| bad())).collect::<Result<Vec<_>>>()?;
        out.push(Shape::from(sizes.as_slice()));
        rest = after;
    }
    Ok(out)
}

/// Places of gradients of these shapes in buckets of about so many bytes, the last ones first, as
/// differentiation makes them.
fn buckets(shapes: &[Option<Shape>], bytes: usize) -> Vec<Vec<usize>> {
    let (mut out, mut filled): (Vec<Vec<usize>>, usize) = (Vec::new(), bytes);
    for (i, shape) in shapes.iter().enumerate().rev() {
        let Some(shape) = shape else { continue };
        if filled >= bytes {
            out.push(Vec::new());
            filled = 0;
        }
        filled += 4 * shape.count();
        out.last_mut().into_iter().for_each(|b| b.push(i));
    }
    out
}

/// The mean of each gradient that there is; every worker must have the same ones.
pub fn mean(t: &Tensor, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let bytes = setting("TALWEG_BUCKET", BUCKET_BYTES)?;
    let shape = |g: &Option<Tensor>| g.as_ref().and_then(|g| g.shape().ok());
    let shapes: Vec<Option<Shape>> = grads.iter().map(shape).collect();
    let buckets = buckets(&shapes, bytes);
    let is_bad = |g: &Tensor| g.dtype().ok() != Some(DType::F32);
    if buckets.len() < 2 || grads.iter().flatten().any(is_bad) {
        return mean_at_once(t, grads);
    }
    let weight = weight()?;
    let begin = |(bucket, list): (usize, &Vec<usize>)| {
        let mut inputs = vec![t, &weight];
        inputs.extend(list.iter().filter_map(|i| grads[*i].as_ref()));
        let attrs = Attrs::new().with("bucket", bucket as i64).with("of", buckets.len() as i64).with(SOON, true);
        Tensor::apply1(&BEGIN, &inputs, attrs)
    };
    let under_way: Vec<Tensor> = buckets.iter().enumerate().map(begin).collect();
    let mut out = vec![None; grads.len()];
    for (bucket, list) in buckets.iter().enumerate() {
        let mut sizes: Vec<i64> = Vec::new();
        for shape in list.iter().filter_map(|i| shapes[*i].as_ref()) {
            sizes.push(shape.rank() as i64);
            sizes.extend(shape.iter().map(|n| *n as i64));
        }
        let attrs = Attrs::new().with("bucket", bucket as i64).with("shapes", sizes.as_slice()).with(ORDERED, true);
        let means = Tensor::apply(&END, &under_way.iter().collect::<Vec<_>>(), attrs);
        // Should something be wrong, the first carries the error.
        list.iter().zip(means.iter().cycle()).for_each(|(i, m)| out[*i] = Some(m.clone()));
    }
    Ok(out)
}
fn mean_at_once(t: &Tensor, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let weight = weight()?;
    let mut inputs = vec![t, &weight];
    inputs.extend(grads.iter().flatten());
    let outs = Tensor::apply(&MEAN, &inputs, Attrs::new().with(ORDERED, true));
    let is_error = outs.len() != inputs.len() - 2;
    let mut outs = outs.into_iter();
    let first = outs.clone().next();
    Ok(grads.iter().map(|g| g.as_ref().and_then(|_| if is_error { first.clone() } else { outs.next() })).collect())
}

/// A gradient on its way to the store.
pub struct Push {
    /// Where it goes.
    pub table: u32,
    /// The gradient.
    pub grad: Tensor,
    /// Its learning rate.
    pub lr: Tensor,
    /// What its rule is told beside it.
    pub numbers: Option<Tensor>,
}

/// The parameters after a step in the store.
pub fn step_in_store(t: &Tensor, pushes: &[Push]) -> Result<Vec<Tensor>> {
    let weight = weight()?;
    let mut inputs = vec![t, &weight];
    inputs.extend(pushes.iter().map(|p| &p.grad));
    inputs.extend(pushes.iter().map(|p| &p.lr));
    inputs.extend(pushes.iter().filter_map(|p| p.numbers.as_ref()));
    let ids: Vec<i64> = pushes.iter().map(|p| i64::from(p.table)).collect();
    let numbers: Vec<i64> = pushes.iter().map(|p| i64::from(p.numbers.is_some())).collect();
    let attrs = Attrs::new().with("tables", ids.as_slice()).with("numbers", numbers.as_slice()).with(ORDERED, true);
    let outs = Tensor::apply(&STEP, &inputs, attrs);
    Ok(if outs.len() == pushes.len() { outs.into_vec() } else { vec![outs[0].clone(); pushes.len()] })
}

/// Hands the reducing thread to `f`; it is started when there is first something to reduce.
fn with_overlap<T>(f: impl FnOnce(&mut Overlap) -> dist::Result<T>) -> Result<T> {
    let Some(How::Reduce(_, overlap)) = job()?.map(|j| &j.how) else {
        return Err(Error::bug("there are no workers to reduce with"));
    };
    let mut overlap = lock(overlap);
    if overlap.is_none() {
        let reduce = |number: usize, bucket: &mut [f32]| match job().map(|j| j.map(|j| &j.how)) {
            Ok(Some(How::Reduce(reducer, _))) => match bucket.split_last_mut() {
                Some((weight, bucket)) => reduce(reducer, number, *weight, bucket),
                None => Err(dist::Error::value("a bucket begins without a weight")),
            },
            _ => Err(dist::Error::value("there are no workers to reduce with")),
        };
        *overlap = Some(Overlap::new(reduce).map_err(failed)?);
    }
    overlap.as_mut().map_or_else(|| Err(Error::bug("started above")), |o| f(o).map_err(failed))
}
fn number(c: &Call, name: &str) -> Result<usize> {
    usize::try_from(c.attrs.int(name)?).map_err(|_| Error::bug("a bucket has no such number"))
}
fn run_begin(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let (bucket, of) = (number(c, "bucket")?, number(c, "of")?);
    // What the gradients count goes last.
    let parts = args[2..].iter().chain([&args[1]]);
    with_overlap(|o| o.begin(bucket, of, parts.map(|g| g.stored::<f32>())))?;
    Ok(vec![Literal::scalar(0.0f32)])
}
fn run_end(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let shapes = shapes(c)?;
    let cut = |values: &[f32]| {
        let mut at = 0;
        let cut = |s: &Shape| {
            at += s.count();
            literal(s, &values[at - s.count()..at])
        };
        shapes.iter().map(cut).collect()
    };
    with_overlap(|o| o.end(number(c, "bucket").map_err(|e| dist::Error::value(e.to_string()))?, args.len(), cut))
}

/// The mean over all workers, counted as a step of this one.
fn reduce(reducer: &Mutex<Reducer>, bucket: usize, weight: f32, data: &mut [f32]) -> dist::Result<()> {
    let mut reducer = pulse::exchange(reducer);
    reducer.mean_of(bucket, weight, data)?;
    let world = job().ok().flatten().map_or(0, |j| j.place.world as usize);
    pulse::stepped(reducer.done(), world.saturating_sub(reducer.workers()));
    Ok(())
}

fn run_mean(_: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let Some(How::Reduce(reducer, _)) = job()?.map(|j| &j.how) else {
        return Err(Error::bug("there are no workers to reduce with"));
    };
    let (weight, grads) = (scalar(&args[1]), &args[2..]);
    let mut all = Vec::with_capacity(grads.iter().map(Literal::count).sum());
    grads.iter().for_each(|g| all.extend_from_slice(g.stored::<f32>()));
    reduce(reducer, 0, weight, &mut all).map_err(failed)?;
    let mut at = 0;
    let cut = |g: &Literal| {
        at += g.count();
        literal(g.shape(), &all[at - g.count()..at])
    };
    Ok(grads.iter().map(cut).collect())
}

fn run_step(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let Some(How::Store(shared)) = job()?.map(|j| &j.how) else {
        return Err(Error::bug("there is no parameter store"));
    };
    let mut shared = pulse::exchange(shared);
    let mut tables = Vec::new();
    for id in c.attrs.ints("tables")? {
        let table = usize::try_from(*id).ok().and_then(|i| shared.tables.get(i).copied());
        tables.push(table.ok_or_else(|| Error::bug(format!("there is no table {id} in the store")))?);
    }
    let (weight, (grads, rest)) = (scalar(&args[1]), args[2..].split_at(tables.len()));
    let (rates, numbers) = rest.split_at(tables.len());
    let mut numbers = numbers.iter().map(|n| Arc::new(n.stored::<f32>().to_vec()));
    for (((table, grad), rate), has) in tables.iter().zip(grads).zip(rates).zip(c.attrs.ints("numbers")?) {
        let grad = dist::merge::weighted(grad.stored::<f32>(), weight);
        let numbers = if *has == 0 { None } else { numbers.next() };
        shared.store.push_with(table, &grad, scalar(rate), numbers.as_ref()).map_err(failed)?;
    }
    shared.clock().map_err(failed)?;
    let mut values: Vec<Literal> = grads.iter().map(|g| unwritten(g.shape())).collect();
    let mut into: Vec<&mut [f32]> = values.iter_mut().map(Literal::stored_mut::<f32>).collect();
    shared.store.pull_into(&tables, &mut into).map_err(failed)?;
    Ok(values)
}

fn scalar(x: &Literal) -> f32 {
    x.stored::<f32>().first().copied().unwrap_or(0.0)
}
/// Memory for so many elements, whatever is in it.
fn unwritten(shape: &Shape) -> Literal {
    Literal::from_buffer(DType::F32, shape.clone(), Arc::new(Bytes::any(4 * shape.count())))
}
fn literal(shape: &Shape, values: &[f32]) -> Literal {
    let mut out = unwritten(shape);
    out.stored_mut::<f32>().copy_from_slice(values);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_the_last_gradients_first() {
        let shape = |n: usize| Some(Shape::from([n]));
        let shapes = [shape(100), None, shape(10), shape(10), shape(300)];
        assert_eq!(buckets(&shapes, 100), [vec![4], vec![3, 2, 0]]);
        assert_eq!(buckets(&shapes, 1), [vec![4], vec![3], vec![2], vec![0]]);
        assert_eq!(buckets(&shapes, 1 << 20).len(), 1);
        assert!(buckets(&[None], 100).is_empty());
    }
}
