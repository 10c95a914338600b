//! The two ops that talk to other workers. They take the step count as an input, so that no two
//! steps look alike to the compiler and none is computed beforehand.

use super::{How, failed, job, lock};
use ir::{AttrKind, Batch, Call, Grad, Meaning};
use tensor::{Attrs, DType, Error, Literal, Op, Result, Shape, Tensor};

/// The row of `mean_over_workers`.
static MEAN: Op = Op {
    name: "mean_over_workers",
    doc: "The mean of each gradient over all workers. The first input is the step count.",
    attrs: &[],
    infer: |c| {
        floats(c)?;
        Ok(c.types[1..].iter().cloned().collect())
    },
    meaning: Meaning::Kernel(run_mean),
    grad: Grad::Missing("the mean over workers is taken of gradients, after differentiation"),
    batch: Batch::Auto,
    cases: Vec::new,
};

/// The row of `step_in_store`.
static STEP: Op = Op {
    name: "step_in_store",
    doc: "Pushes gradients to the parameter store, ends the step and reads the parameters. Inputs: the step count, \
          the gradients, a learning rate for each.",
    attrs: &[("tables", AttrKind::Ints)],
    infer: |c| {
        floats(c)?;
        let n = c.attrs.ints("tables")?.len();
        if c.types.len() != 1 + 2 * n {
            return Err(Error::value(format!("{n} tables need as many gradients and rates")));
        }
        Ok(c.types[1..=n].iter().cloned().collect())
    },
    meaning: Meaning::Kernel(run_step),
    grad: Grad::Missing("the store takes its step after differentiation"),
    batch: Batch::Auto,
    cases: Vec::new,
};

fn floats(c: &Call) -> Result<()> {
    if let Some(t) = c.types.iter().find(|t| t.dtype != DType::F32) {
        return Err(Error::dtype(format!("workers exchange f32, not {}", t.dtype)));
    }
    Ok(())
}

/// The mean of each gradient that there is; every worker must have the same ones.
pub fn mean(t: &Tensor, grads: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
    let mut inputs = vec![t];
    inputs.extend(grads.iter().flatten());
    let outs = Tensor::apply(&MEAN, &inputs, Attrs::new());
    let is_error = outs.len() != inputs.len() - 1;
    let mut outs = outs.into_iter();
    let first = outs.clone().next();
    grads.iter().map(|g| g.as_ref().and_then(|_| if is_error { first.clone() } else { outs.next() })).collect()
}

/// A gradient on its way to the store.
pub struct Push {
    /// Where it goes.
    pub table: u32,
    /// The gradient.
    pub grad: Tensor,
    /// Its learning rate.
    pub lr: Tensor,
}

/// The parameters after a step in the store.
pub fn step_in_store(t: &Tensor, pushes: &[Push]) -> Vec<Tensor> {
    let mut inputs = vec![t];
    inputs.extend(pushes.iter().map(|p| &p.grad));
    inputs.extend(pushes.iter().map(|p| &p.lr));
    let ids: Vec<i64> = pushes.iter().map(|p| i64::from(p.table)).collect();
    let outs = Tensor::apply(&STEP, &inputs, Attrs::new().with("tables", ids.as_slice()));
    if outs.len() == pushes.len() { outs.into_vec() } else { vec![outs[0].clone(); pushes.len()] }
}

fn run_mean(_: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let Some(How::Reduce(reducer)) = job()?.map(|j| &j.how) else {
        return Err(Error::bug("there are no workers to reduce with"));
    };
    let mut all = Vec::with_capacity(args[1..].iter().map(Literal::count).sum());
    args[1..].iter().for_each(|g| all.extend_from_slice(g.stored::<f32>()));
    lock(reducer).mean(&mut all).map_err(failed)?;
    let mut at = 0;
    let cut = |g: &Literal| {
        at += g.count();
        literal(g.shape(), &all[at - g.count()..at])
    };
    args[1..].iter().map(cut).collect()
}

fn run_step(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let Some(How::Store(shared)) = job()?.map(|j| &j.how) else {
        return Err(Error::bug("there is no parameter store"));
    };
    let mut shared = lock(shared);
    let mut tables = Vec::new();
    for id in c.attrs.ints("tables")? {
        let table = usize::try_from(*id).ok().and_then(|i| shared.tables.get(i).copied());
        tables.push(table.ok_or_else(|| Error::bug(format!("there is no table {id} in the store")))?);
    }
    let (grads, rates) = args[1..].split_at(tables.len());
    for ((table, grad), rate) in tables.iter().zip(grads).zip(rates) {
        let rate = rate.stored::<f32>().first().copied().unwrap_or(0.0);
        shared.store.push(table, grad.stored::<f32>(), rate).map_err(failed)?;
    }
    shared.store.clock().map_err(failed)?;
    let values = shared.store.pull(&tables).map_err(failed)?;
    values.iter().zip(grads).map(|(v, g)| literal(g.shape(), v)).collect()
}

fn literal(shape: &Shape, values: &[f32]) -> Result<Literal> {
    Literal::new(shape.clone(), values)
}
