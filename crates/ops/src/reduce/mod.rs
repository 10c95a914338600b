//! Reductions: elements combined along axes.

crate::table! {
    all,
    any,
    count_nonzero,
    max,
    mean,
    min,
    nanmean,
    nansum,
    prod,
    std,
    sum,
    var,
}

use crate::rules::{GradTensors, grads, number};
use crate::{Axes, Error, Result, Tensor};
use ir::{Attrs, Batch, Call, Grad, Op, Type, Types};
use smallvec::SmallVec;

/// What the rows of `max` and `min` have in common.
const EXTREME: ir::Op = ir::Op {
    attrs: &[("axes", ir::AttrKind::Ints)],
    infer: infer_nonempty,
    grad: SHARED_BY_EQUALS,
    batch: BATCH,
    ..ir::Op::DEFAULT
};
/// What the rows of `all` and `any` have in common.
const TRUTH: ir::Op = ir::Op {
    attrs: &[("axes", ir::AttrKind::Ints)],
    infer: |c| {
        let mut out = infer(c)?;
        out[0].dtype = ir::DType::Bool;
        Ok(out)
    },
    grad: ir::Grad::Zero,
    batch: BATCH,
    ..ir::Op::DEFAULT
};

/// A reduction of booleans by an extreme; `empty` of nothing.
fn truth(
    c: &ir::Call,
    x: &[ir::Value],
    empty: bool,
    extreme: fn(&crate::Tensor, &[i64]) -> crate::Tensor,
) -> ir::Result<Vec<ir::Value>> {
    let (axes, sizes) = (c.attrs.ints("axes")?, c.attrs.sizes("axes")?);
    let is_empty = sizes.iter().any(|&a| c.shape(0)[a] == 0);
    let shape = c.shape(0).reduce(&sizes, true);
    crate::rules::expand1(x, |x| match is_empty {
        true => crate::Tensor::full(shape, empty),
        false => extreme(&x[0].cast(ir::DType::Bool), axes),
    })
}

/// The type rule of every reduction.
pub(crate) fn infer(c: &Call) -> Result<Types> {
    c.arity(1)?;
    number(c, 0)?;
    let axes = c.attrs.sizes("axes")?;
    let rank = c.shape(0).rank();
    if let Some(a) = axes.iter().find(|&&a| a >= rank) {
        return Err(Error::index(format!("axis {a} is out of range for a tensor of rank {rank}")));
    }
    Ok(SmallVec::from_iter([Type::new(c.dtype(0), c.shape(0).reduce(&axes, true))]))
}

/// The type rule of reductions without a neutral element: an empty axis has no result.
pub(crate) fn infer_nonempty(c: &Call) -> Result<Types> {
    let out = infer(c)?;
    match c.attrs.sizes("axes")?.iter().find(|&&a| c.shape(0)[a] == 0) {
        Some(a) if out[0].shape.count() > 0 => {
            Err(Error::shape(format!("axis {a} of {} is empty and has no such element", c.shape(0))))
        }
        _ => Ok(out),
    }
}

/// The batching rule of every reduction: the axes move one up.
pub(crate) const BATCH: Batch = Batch::Rule(|c| {
    let axes: Vec<i64> = c.attrs.ints("axes")?.iter().map(|a| a + 1).collect();
    let x = Tensor::from(c.inputs[0].clone());
    Ok(vec![Tensor::apply1(c.op, &[&x], c.attrs.clone().set("axes", &axes)).value()?.clone()])
});

/// The gradient of the largest or smallest element: equal ones share it evenly.
pub(crate) const SHARED_BY_EQUALS: Grad = Grad::Rule(|c| {
    let (x, g, axes) = (c.x(0), c.g(0), c.attrs.ints("axes")?);
    let hit = x.eq(c.y(0)).cast_like(&g);
    grads([(g / hit.sum_keep(axes)) * hit])
});

impl Tensor {
    /// A reduction with its axes resolved; they stay as size 1.
    #[track_caller]
    pub(crate) fn reduce(&self, op: &'static Op, axes: &Axes) -> Tensor {
        self.reduce_with(op, axes, Attrs::new())
    }
    /// A reduction with further attributes behind the axes.
    #[track_caller]
    pub(crate) fn reduce_with(&self, op: &'static Op, axes: &Axes, more: Attrs) -> Tensor {
        self.then(|t| {
            let axes = axes.resolve(t.shape.rank()).map_err(|e| e.in_op(op.name))?;
            let attrs = more.iter().fold(Attrs::new().with("axes", &axes), |a, (n, v)| a.with(n, v.clone()));
            Ok(Tensor::apply1(op, &[self], attrs))
        })
    }
    /// This reduction of `x` without the axes it was taken over.
    #[track_caller]
    pub(crate) fn squeezed_after(&self, x: &Tensor, axes: &Axes) -> Tensor {
        self.then(|_| {
            let shape = x.shape()?;
            Ok(self.reshape(shape.reduce(&axes.resolve(shape.rank())?, false)))
        })
    }
    /// The element along one axis whose place `find` gives, and that index, both without the axis.
    #[track_caller]
    pub(crate) fn with_place(&self, op: &'static Op, along: i64, find: fn(&Tensor, usize) -> Tensor) -> [Tensor; 2] {
        self.then2(|t| {
            let (x, at) = self.at_axis(op.name, along)?;
            let place = find(&x, at);
            let gone: &[usize] = if t.shape.rank() == 0 { &[] } else { &[at] };
            let out = t.shape.reduce(gone, false);
            Ok([x.gather(at as i64, &place).reshape(&out), place.reshape(&out)])
        })
    }
}
