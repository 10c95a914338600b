//! `outer`: every product of an element of one vector and an element of another.

use super::ranks;
use crate::rules::{f64s, floats};
use crate::{Operand, Tensor};
use ir::{Attrs, Case};

super::composite!(
    "outer",
    "Matrix of the products of each element of the first vector with each of the second.",
    2,
    [],
    |c, t| ranks(c, [1, 1]).map(|()| t[0].unsqueeze(1) * &t[1]),
    || {
        vec![
            Case::new(vec![floats([3], 1), floats([2], 2)], Attrs::new()),
            Case::new(vec![f64s([2], &[1.0, 2.0]), f64s([3], &[1.0, 2.0, 3.0])], Attrs::new())
                .expect(vec![f64s([2, 3], &[1.0, 2.0, 3.0, 2.0, 4.0, 6.0])], "PyTorch manual: torch.outer, first rows"),
        ]
    },
    autocast: ir::Autocast::Narrow
);

impl Tensor {
    /// Matrix of the products of each element of this vector with each of another.
    #[track_caller]
    pub fn outer(&self, other: impl Operand) -> Tensor {
        self.product(&OP, other, Attrs::new())
    }
}
