//! `svdvals`: singular values.

use crate::Tensor;
use crate::rules::{f64s, floats};
use ir::{Attrs, Case};

super::composite!(
    "svdvals",
    "Singular values in descending order.",
    1,
    [],
    |_, t| {
        let [_, s, _] = t[0].svd();
        Ok(s)
    },
    || {
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], Attrs::new()),
            Case::new(vec![f64s([2, 2], &[3.0, 0.0, 4.0, 5.0])], Attrs::new())
                .expect(vec![f64s([2], &[45f64.sqrt(), 5f64.sqrt()])], "Strang, Introduction to Linear Algebra, 7.2"),
        ]
    }
);

impl Tensor {
    /// Singular values in descending order.
    #[track_caller]
    pub fn svdvals(&self) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new())
    }
}
