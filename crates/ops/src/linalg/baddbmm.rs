//! `baddbmm`: beta times the tensor plus alpha times the products of two lists of matrices.

use super::addmm::{sum, three};
use super::ranks;
use crate::Tensor;
use crate::rules::{f64s, floats};
use ir::{Attrs, Case};

super::composite!(
    "baddbmm",
    "beta times the tensor plus alpha times the products of two lists of matrices.",
    3,
    [("beta", Float), ("alpha", Float)],
    |c, t| {
        ranks(&ir::Call { types: &c.types[1..], attrs: c.attrs }, [3, 3])?;
        sum(c, t, t[1].matmul(&t[2]))
    },
    || {
        let by = |b: f64, a: f64| Attrs::new().with("beta", b).with("alpha", a);
        vec![
            Case::new(vec![floats([2, 2, 2], 1), floats([2, 2, 3], 2), floats([2, 3, 2], 3)], by(0.5, 2.0)),
            Case::new(
                vec![f64s([1], &[1.0]), f64s([2, 1, 1], &[1.0, 2.0]), f64s([2, 1, 1], &[3.0, 4.0])],
                by(1.0, 1.0),
            )
            .expect(vec![f64s([2, 1, 1], &[4.0, 9.0])], "by hand"),
        ]
    },
    autocast: ir::Autocast::Narrow
);

impl Tensor {
    /// beta times the tensor plus alpha times the products of two lists of matrices.
    #[track_caller]
    pub fn baddbmm(&self, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Tensor {
        three(&OP, [self, a, b], beta, alpha)
    }
}
