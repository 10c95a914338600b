//! Kernels: ops with a slow obvious reference that devices claim.

crate::table! {
    concat,
    cumsum,
    fold,
    iota,
    matmul,
    pad,
}

use crate::{Result, Tensor};
use ir::{Batch, BatchCall, Shape};

/// How the elements lie along one axis: `outer` × `size` × `inner`, row-major.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    pub outer: usize,
    pub size: usize,
    pub inner: usize,
}
impl Lanes {
    pub fn new(shape: &Shape, axis: usize) -> Lanes {
        let outer = shape[..axis].iter().product();
        Lanes { outer, size: shape[axis], inner: shape[axis + 1..].iter().product() }
    }
    /// The positions of each lane's elements.
    pub fn each(self) -> impl Iterator<Item = impl DoubleEndedIterator<Item = usize> + ExactSizeIterator + Clone> {
        let Lanes { outer, size, inner } = self;
        (0..outer * inner).map(move |l| (0..size).map(move |i| (l / inner * size + i) * inner + l % inner))
    }
}

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
