//! `lstsq`: least squares.

use crate::Tensor;
use crate::rules::{f64s, floats};
use ir::{Attrs, Case};

super::composite!(
    "lstsq",
    "The X of least length among those that make A X - B shortest.",
    2,
    [],
    |c, t| {
        super::matrix(c, 1)?;
        Ok(t[0].widened().pinv().matmul(t[1].widened()).cast(c.dtype(0)))
    },
    || {
        vec![
            Case::new(vec![floats([3, 2], 1), floats([3, 1], 2)], Attrs::new()),
            Case::new(
                vec![f64s([4, 2], &[0.0, 1.0, 1.0, 1.0, 2.0, 1.0, 3.0, 1.0]), f64s([4, 1], &[-1.0, 0.2, 0.9, 2.1])],
                Attrs::new(),
            )
            .expect(vec![f64s([2, 1], &[1.0, -0.95])], "NumPy manual, np.linalg.lstsq: the line through noisy points"),
        ]
    }
);

impl Tensor {
    /// The X of smallest length among those that make A X - B shortest, for this matrix A.
    #[track_caller]
    pub fn lstsq(&self, b: &Tensor) -> Tensor {
        self.product(&OP, b, Attrs::new())
    }
}
