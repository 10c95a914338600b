//! The ops of an optimizer's step that talk to other workers: the mean of gradients, and the step in the
//! parameter store. They take the step count as an input, so that no two steps look alike to the
//! compiler and none is computed beforehand.
//!
//! Gradients that exceed a bucket are reduced in buckets, the last layers' first: a bucket's all-reduce
//! overlaps with the rest of the backward pass.

use crate::{DType, Error, Result, Tensor};
use ir::{Alone, AttrKind, Attrs, Call, Case, Effect, Grad, Literal, Meaning, Op, Peers, PeersHandle, Shape, Type};
use std::sync::Arc;

const JOB: (&str, AttrKind) = ("job", AttrKind::Peers);

/// The workers of a job, as an optimizer's step exchanges with them.
pub struct Workers {
    /// The job.
    pub handle: PeersHandle,
    /// What this worker's gradients count, a scalar.
    pub weight: Tensor,
    /// Bytes of gradients that are worth a message.
    pub bucket_bytes: usize,
}

fn run(op: &'static str, c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    c.attrs.peers("job")?.0.run(op, c, args)
}

/// What the rows share.
const EXCHANGE: Op = Op {
    grad: Grad::Missing("workers exchange gradients after differentiation"),
    effect: Effect::Ordered,
    ..Op::DEFAULT
};

/// The row of `mean_over_workers`.
pub(super) static MEAN: Op = Op {
    name: "mean_over_workers",
    doc: "The mean of each gradient over all workers. Inputs: the step count, what this worker's gradients count, the \
          gradients.",
    attrs: &[JOB],
    infer: |c| {
        floats(c)?;
        let few = || Error::value(format!("takes at least 2 inputs, but {} were given", c.types.len()));
        Ok(c.types.get(2..).ok_or_else(few)?.iter().cloned().collect())
    },
    meaning: Meaning::Kernel(|c, args| run("mean_over_workers", c, args)),
    cases: || {
        let (t, weight, g) = (f32s(&[1.0]), f32s(&[1.0]), f32s(&[2.0, 3.0]));
        vec![Case::new(vec![t, weight, g.clone()], of(Alone)).expect(vec![g], "a worker alone").kinked()]
    },
    ..EXCHANGE
};

/// The row of `begin_mean_over_workers`.
pub(super) static BEGIN: Op = Op {
    name: "begin_mean_over_workers",
    doc: "Begins to take the mean of a bucket of gradients over all workers, while the rest is computed. Inputs as \
          for `mean_over_workers`. The result stands for what is under way.",
    attrs: &[("bucket", AttrKind::Int), ("of", AttrKind::Int), JOB],
    infer: |c| {
        floats(c)?;
        Ok([Type::new(DType::F32, Shape::scalar())].into_iter().collect())
    },
    meaning: Meaning::Kernel(|c, args| run("begin_mean_over_workers", c, args)),
    cases: || {
        let attrs = Attrs::new().with("bucket", 0i64).with("of", 1i64);
        workers(attrs, vec![f32s(&[1.0]), f32s(&[1.0]), f32s(&[2.0, 3.0])], Literal::scalar(0.0f32))
    },
    effect: Effect::Starts,
    ..EXCHANGE
};

/// The row of `end_mean_over_workers`.
pub(super) static END: Op = Op {
    name: "end_mean_over_workers",
    doc: "The means of a bucket of gradients, of which `shapes` has each one's rank and sizes. The inputs stand for \
          all buckets that are under way: no worker waits before everything is computed.",
    attrs: &[("bucket", AttrKind::Int), ("shapes", AttrKind::Ints), JOB],
    infer: |c| {
        floats(c)?;
        let shapes = shapes(c)?;
        Ok(shapes.into_iter().map(|s| Type::new(DType::F32, s)).collect())
    },
    meaning: Meaning::Kernel(|c, args| run("end_mean_over_workers", c, args)),
    cases: || {
        let attrs = Attrs::new().with("bucket", 0i64).with("shapes", &[1i64, 2][..]);
        workers(attrs, vec![f32s(&[0.0])], f32s(&[5.0, 7.0]))
    },
    ..EXCHANGE
};

/// The row of `step_in_store`.
pub(super) static STEP: Op = Op {
    name: "step_in_store",
    doc: "Pushes gradients to the parameter store, ends the step and reads the parameters. Inputs: the step count, \
          what this worker's gradients count, the gradients, a learning rate for each, the numbers of those that \
          `numbers` says have any.",
    attrs: &[("tables", AttrKind::Ints), ("numbers", AttrKind::Ints), JOB],
    infer: |c| {
        floats(c)?;
        let (n, numbers) = (c.attrs.ints("tables")?.len(), c.attrs.ints("numbers")?);
        if numbers.len() != n || c.types.len() != 2 + 2 * n + numbers.iter().filter(|has| **has != 0).count() {
            return Err(Error::value(format!("{n} tables need as many gradients and rates, and their numbers")));
        }
        Ok(c.types[2..2 + n].iter().cloned().collect())
    },
    meaning: Meaning::Kernel(|c, args| run("step_in_store", c, args)),
    cases: || {
        let attrs = Attrs::new().with("tables", &[0i64][..]).with("numbers", &[0i64][..]);
        let inputs = vec![f32s(&[1.0]), f32s(&[1.0]), f32s(&[2.0, 3.0]), f32s(&[0.1])];
        workers(attrs, inputs, f32s(&[5.0, 7.0]))
    },
    ..EXCHANGE
};

fn floats(c: &Call) -> Result<()> {
    if let Some(t) = c.types.iter().find(|t| t.dtype != DType::F32) {
        return Err(Error::dtype(format!("workers exchange f32, not {}", t.dtype)));
    }
    Ok(())
}

/// The shapes of a bucket, from the attribute `shapes` of `end_mean_over_workers`.
pub fn shapes(c: &Call) -> Result<Vec<Shape>> {
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

/// Indices of gradients of these shapes in buckets of about so many bytes. The last come first, as
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
pub fn mean(job: &Workers, t: &Tensor, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let shape = |g: &Option<Tensor>| g.as_ref().and_then(|g| g.shape().ok());
    let shapes: Vec<Option<Shape>> = grads.iter().map(shape).collect();
    let buckets = buckets(&shapes, job.bucket_bytes);
    let is_bad = |g: &Tensor| g.dtype().ok() != Some(DType::F32);
    if buckets.len() < 2 || grads.iter().flatten().any(is_bad) {
        return mean_at_once(job, t, grads);
    }
    let begin = |(bucket, list): (usize, &Vec<usize>)| {
        let mut inputs = vec![t, &job.weight];
        inputs.extend(list.iter().filter_map(|i| grads[*i].as_ref()));
        let attrs = Attrs::new().with("bucket", bucket as i64).with("of", buckets.len() as i64);
        let attrs = attrs.with("job", job.handle.clone());
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
        let attrs = Attrs::new().with("bucket", bucket as i64).with("shapes", sizes.as_slice());
        let attrs = attrs.with("job", job.handle.clone());
        let means = Tensor::apply(&END, &under_way.iter().collect::<Vec<_>>(), attrs);
        // Should something be wrong, the first carries the error.
        list.iter().zip(means.iter().cycle()).for_each(|(i, m)| out[*i] = Some(m.clone()));
    }
    Ok(out)
}
fn mean_at_once(job: &Workers, t: &Tensor, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let mut inputs = vec![t, &job.weight];
    inputs.extend(grads.iter().flatten());
    let outs = Tensor::apply(&MEAN, &inputs, Attrs::new().with("job", job.handle.clone()));
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
pub fn step_in_store(job: &Workers, t: &Tensor, pushes: &[Push]) -> Result<Vec<Tensor>> {
    let mut inputs = vec![t, &job.weight];
    inputs.extend(pushes.iter().map(|p| &p.grad));
    inputs.extend(pushes.iter().map(|p| &p.lr));
    inputs.extend(pushes.iter().filter_map(|p| p.numbers.as_ref()));
    let ids: Vec<i64> = pushes.iter().map(|p| i64::from(p.table)).collect();
    let numbers: Vec<i64> = pushes.iter().map(|p| i64::from(p.numbers.is_some())).collect();
    let attrs = Attrs::new().with("tables", ids.as_slice()).with("numbers", numbers.as_slice());
    let attrs = attrs.with("job", job.handle.clone());
    let outs = Tensor::apply(&STEP, &inputs, attrs);
    Ok(if outs.len() == pushes.len() { outs.into_vec() } else { vec![outs[0].clone(); pushes.len()] })
}

fn f32s(x: &[f32]) -> Literal {
    if x.len() == 1 {
        Literal::scalar(x[0])
    } else {
        Literal::from_f64(DType::F32, [x.len()], &[x[0].into(), x[1].into()])
    }
}
fn of(peers: impl Peers) -> Attrs {
    Attrs::new().with("job", PeersHandle(Arc::new(peers)))
}
/// Workers that answer what is expected of them.
struct Known(Literal);
impl Peers for Known {
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        2
    }
    fn run(&self, _: &'static str, _: &Call, _: &[Literal]) -> Result<Vec<Literal>> {
        Ok(vec![self.0.clone()])
    }
}
fn workers(attrs: Attrs, inputs: Vec<Literal>, want: Literal) -> Vec<Case> {
    let attrs = attrs.with("job", PeersHandle(Arc::new(Known(want.clone()))));
    vec![Case::new(inputs, attrs).expect(vec![want], "by hand").kinked()]
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
