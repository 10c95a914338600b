//! `addmv`: beta times the tensor plus alpha times the product of a matrix and a vector.

use super::addmm::{sum, three};
use super::ranks;
use crate::Tensor;
use crate::rules::{f64s, floats};
use ir::{Attrs, Case};

super::composite!(
    "addmv",
    "beta times the tensor plus alpha times the product of a matrix and a vector.",
    3,
    [("beta", Float), ("alpha", Float)],
    |c, t| {
        ranks(&ir::Call { types: &c.types[1..], attrs: c.attrs }, [2, 1])?;
        sum(c, t, t[1].matmul(&t[2]))
    },
    || {
        let by = |b: f64, a: f64| Attrs::new().with("beta", b).with("alpha", a);
        vec![
            Case::new(vec![floats([2], 1), floats([2, 3], 2), floats([3], 3)], by(0.5, 2.0)),
            Case::new(vec![floats((), 1), floats([2, 3], 2), floats([3], 3)], by(1.0, 1.0)),
            Case::new(vec![f64s([2], &[1.0, 1.0]), f64s([2, 1], &[1.0, 2.0]), f64s([1], &[3.0])], by(2.0, 1.0))
                .expect(vec![f64s([2], &[5.0, 8.0])], "by hand"),
        ]
    },
    autocast: ir::Autocast::Narrow
);

impl Tensor {
    /// beta times the tensor plus alpha times the product of a matrix and a vector.
    #[track_caller]
    pub fn addmv(&self, matrix: &Tensor, vector: &Tensor, beta: f64, alpha: f64) -> Tensor {
        three(&OP, [self, matrix, vector], beta, alpha)
    }
}
