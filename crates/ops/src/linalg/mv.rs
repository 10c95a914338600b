//! `mv`: matrix times vector.

use super::ranks;
use crate::rules::{f64s, floats};
use crate::{Operand, Tensor};
use ir::{Attrs, Case};

super::composite!(
    "mv",
    "Product of a matrix and a vector.",
    2,
    [],
    |c, t| ranks(c, [2, 1]).map(|()| t[0].matmul(&t[1])),
    || {
        vec![
            Case::new(vec![floats([2, 3], 1), floats([3], 2)], Attrs::new()),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0]), f64s([2], &[1.0, 10.0])], Attrs::new())
                .expect(vec![f64s([2], &[21.0, 43.0])], "by hand"),
        ]
    },
    autocast: ir::Autocast::Narrow
);

impl Tensor {
    /// Product of a matrix and a vector.
    #[track_caller]
    pub fn mv(&self, vector: impl Operand) -> Tensor {
        self.product(&OP, vector, Attrs::new())
    }
}
