//! `bmm`: products of two lists of matrices.

use super::ranks;
use crate::rules::{f64s, floats};
use crate::{Error, Operand, Tensor};
use ir::{Attrs, Case};

super::composite!(
    "bmm",
    "Products of two lists of matrices of one length, without broadcasting.",
    2,
    [],
    |c, t| {
        ranks(c, [3, 3])?;
        if c.shape(0)[0] != c.shape(1)[0] {
            return Err(Error::shape(format!("the lists differ in length: {} and {}", c.shape(0), c.shape(1))));
        }
        Ok(t[0].matmul(&t[1]))
    },
    || {
        vec![
            Case::new(vec![floats([2, 2, 3], 1), floats([2, 3, 1], 2)], Attrs::new()),
            Case::new(vec![f64s([2, 1, 1], &[1.0, 2.0]), f64s([2, 1, 1], &[3.0, 4.0])], Attrs::new())
                .expect(vec![f64s([2, 1, 1], &[3.0, 8.0])], "by hand"),
        ]
    },
    autocast: ir::Autocast::Narrow
);

impl Tensor {
    /// Products of two lists of matrices of one length, without broadcasting.
    #[track_caller]
    pub fn bmm(&self, other: impl Operand) -> Tensor {
        self.product(&OP, other, Attrs::new())
    }
}
