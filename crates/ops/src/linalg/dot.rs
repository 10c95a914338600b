//! `dot`: the product of two vectors.

use super::ranks;
use crate::rules::{f64s, floats};
use crate::{Operand, Tensor};
use ir::{Attrs, Case, Site};

super::composite!(
    "dot",
    "Sum of the products of two vectors of one length.",
    2,
    [],
    |c, t| {
        ranks(c, [1, 1])?;
        if c.shape(0) != c.shape(1) {
            return Err(crate::Error::shape(format!("sizes differ: {} and {}", c.shape(0), c.shape(1))));
        }
        Ok(t[0].matmul(&t[1]))
    },
    || {
        vec![
            Case::new(vec![floats([3], 1), floats([3], 2)], Attrs::new()),
            Case::new(vec![f64s([2], &[2.0, 3.0]), f64s([2], &[2.0, 1.0])], Attrs::new())
                .expect(vec![f64s((), &[7.0])], "PyTorch manual: torch.dot([2, 3], [2, 1])"),
        ]
    },
    autocast: ir::Autocast::Narrow
);

impl Tensor {
    /// Sum of the products of two vectors of one length.
    #[track_caller]
    pub fn dot(&self, other: impl Operand) -> Tensor {
        self.product(&OP, other, Attrs::new())
    }
    /// An op of two tensors in their common type.
    #[track_caller]
    pub(super) fn product(&self, op: &'static ir::Op, other: impl Operand, attrs: Attrs) -> Tensor {
        Site::here().scope(|| match self.promoted(other) {
            Ok((a, b)) => Tensor::apply1(op, &[&a, &b], attrs),
            Err(e) => e.into(),
        })
    }
}
