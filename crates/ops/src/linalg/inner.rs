//! `inner`: sums of products over the last dimensions.

use crate::rules::{f64s, floats};
use crate::{Error, Operand, Tensor};
use ir::{Attrs, Case};

super::composite!(
    "inner",
    "Sums of products over the last dimension of both; a scalar multiplies.",
    2,
    [],
    |c, t| {
        let (a, b) = (c.shape(0), c.shape(1));
        if a.rank() == 0 || b.rank() == 0 {
            return Ok(&t[0] * &t[1]);
        }
        if a.last() != b.last() {
            return Err(Error::shape(format!("the last sizes differ: {a} and {b}")));
        }
        Ok(t[0].tensordot(&t[1], &[-1], &[-1]))
    },
    || {
        vec![
            Case::new(vec![floats([2, 3], 1), floats([2, 2, 3], 2)], Attrs::new()),
            Case::new(vec![f64s([3], &[1.0, 2.0, 3.0]), f64s([3], &[0.0, 1.0, 0.0])], Attrs::new())
                .expect(vec![f64s((), &[2.0])], "NumPy manual: np.inner([1, 2, 3], [0, 1, 0])"),
        ]
    },
    autocast: ir::Autocast::Narrow
);

impl Tensor {
    /// Sums of products over the last dimension of both tensors.
    #[track_caller]
    pub fn inner(&self, other: impl Operand) -> Tensor {
        self.product(&OP, other, Attrs::new())
    }
}
