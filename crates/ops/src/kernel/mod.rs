//! Kernels: ops with a slow obvious reference that devices claim.

crate::table! {
    concat,
    cummax,
    cummin,
    cumprod,
    cumsum,
    fold,
    grouped_mm,
    int_matmul,
    iota,
    logcumsumexp,
    matmul,
    pad,
    recur_back,
}

use crate::rules::{GradTensors, grads, number};
use crate::{DType, Result, Tensor};
use ir::{AttrKind, Attrs, AxisSplit, Batch, BatchCall, Call, Grad, Literal, Op, Type, Types};

/// What rows of running extremes have in common: values and indices along an axis.
const RUNNING: Op = Op {
    attrs: &[("axis", AttrKind::Int)],
    infer: infer_values_and_places,
    grad: Grad::Rule(|c| {
        let zeros = c.x(0).zeros_like();
        grads([zeros.scatter_add(c.attrs.int("axis")?, &c.y(1), &c.g(0))])
    }),
    batch: BATCH_AXIS,
    shard: ir::Shard::Lanes,
    ..Op::DEFAULT
};

/// Input `i` of a batching rule with the batch dimension in front, repeated if it has none.
pub(crate) fn batched_input(c: &BatchCall, i: usize) -> Tensor {
    let x = Tensor::from(c.inputs[i].clone());
    if c.batched[i] {
        return x;
    }
    let mut shape = c.inputs[i].ty().shape.clone();
    shape.insert(0, c.size);
    x.broadcast_to(shape)
}

/// The batching rule of ops along one axis, attribute `axis`, whose inputs have one rank.
pub(crate) const BATCH_AXIS: Batch = Batch::Rule(|c| {
    let inputs: Vec<Tensor> = (0..c.inputs.len()).map(|i| batched_input(c, i)).collect();
    let attrs = c.attrs.clone().set("axis", c.attrs.int("axis")? + 1);
    let outs = Tensor::apply(c.op, &inputs.iter().collect::<Vec<_>>(), attrs);
    outs.iter().map(|t| t.value().cloned()).collect::<Result<Vec<_>>>()
});

/// The elements of an axis moved one place, with `first` coming in at the start.
pub(crate) fn delay(x: &Tensor, axis: usize, first: f64) -> Result<Tensor> {
    let shape = x.shape()?;
    let (mut lo, mut hi) = (vec![0; shape.rank()], vec![0; shape.rank()]);
    (lo[axis], hi[axis]) = (1, -1);
    Ok(x.pad_raw(&lo, &hi, first))
}
/// The elements of an axis moved one place toward its start, with `last` coming in at the end.
pub(crate) fn advance(x: &Tensor, axis: usize, last: f64) -> Result<Tensor> {
    let shape = x.shape()?;
    let (mut lo, mut hi) = (vec![0; shape.rank()], vec![0; shape.rank()]);
    (lo[axis], hi[axis]) = (-1, 1);
    Ok(x.pad_raw(&lo, &hi, last))
}

/// The type rule of ops along `axis` that give values and where they came from.
pub(crate) fn infer_values_and_places(c: &Call) -> Result<Types> {
    c.arity(1)?;
    number(c, 0)?;
    c.axis("axis")?;
    Ok([c.types[0].clone(), Type::new(DType::I64, c.shape(0))].into_iter().collect())
}

/// The largest or smallest element so far in each lane, and its index.
fn running_extreme(c: &Call, args: &[Literal], greatest: bool) -> Result<Vec<Literal>> {
    let lanes = AxisSplit::new(c.shape(0), c.axis("axis")?);
    let float = c.dtype(0).is_float();
    let floats = if float { args[0].to_f64() } else { vec![] };
    let ints = if float { vec![] } else { args[0].to_ints() };
    // True if the element at `new` takes the place of the one at `old`.
    let replaces = |new: usize, old: usize| match float {
        true if floats[new].is_nan() => true,
        true if greatest => floats[new] >= floats[old],
        true => floats[new] <= floats[old],
        false if greatest => ints[new] >= ints[old],
        false => ints[new] <= ints[old],
    };
    let (mut from, mut places) = (vec![0; args[0].count()], vec![0i64; args[0].count()]);
    for lane in lanes.each() {
        let mut best = None;
        for (i, p) in lane.enumerate() {
            let (at, place) = match best {
                Some((q, j)) if !replaces(p, q) => (q, j),
                _ => (p, i),
            };
            best = Some((at, place));
            (from[p], places[p]) = (at, place as i64);
        }
    }
    let values = args[0].pick(c.shape(0), |i| Some(from[i]));
    Ok(vec![values, Literal::from_i64(DType::I64, c.shape(0).clone(), &places)])
}

impl Tensor {
    #[track_caller]
    fn running(&self, op: &'static Op, along: i64) -> [Tensor; 2] {
        self.then2(|t| {
            let (x, at) = self.at_axis(op.name, along)?;
            let [values, places] = Tensor::apply_n(op, &[&x], Attrs::new().with("axis", at));
            Ok([values.reshape(&t.shape), places.reshape(&t.shape)])
        })
    }
}
