//! `mm`: matrix times matrix.

use super::ranks;
use crate::rules::{f64s, floats};
use crate::{Operand, Tensor};
use ir::{Attrs, Case};

super::composite!(
    "mm",
    "Product of two matrices, without broadcasting.",
    2,
    [],
    |c, t| ranks(c, [2, 2]).map(|()| t[0].matmul(&t[1])),
    || {
        vec![
            Case::new(vec![floats([2, 3], 1), floats([3, 2], 2)], Attrs::new()),
            Case::new(vec![f64s([1, 2], &[1.0, 2.0]), f64s([2, 1], &[3.0, 4.0])], Attrs::new())
                .expect(vec![f64s([1, 1], &[11.0])], "by hand"),
        ]
    },
    autocast: ir::Autocast::Narrow
);

impl Tensor {
    /// Product of two matrices, without broadcasting.
    #[track_caller]
    pub fn mm(&self, other: impl Operand) -> Tensor {
        self.product(&OP, other, Attrs::new())
    }
}
