//! `softmax_grad`: the gradient of `softmax`.

use crate::Tensor;
use crate::rules::{expand1, f64s, floats};
use ir::{Attrs, Case, Meaning, Op};

/// The row of `softmax_grad`.
pub static OP: Op = Op {
    name: "softmax_grad",
    doc: "The gradient of `softmax` from its result y and the gradient g of that: y (g - Σ g y) along an axis.",
    meaning: Meaning::Composite(|c, args| {
        let axis = c.axis("axis")?;
        expand1(args, |t| {
            let (y, g) = (t[0].widened(), t[1].widened());
            let dot = (&g * &y).sum_keep(axis);
            (y * (g - dot)).cast(c.dtype(0))
        })
    }),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([2, 3], 1), floats([2, 3], 2)], along(1)),
            Case::new(vec![floats([3, 2], 3), floats([3, 2], 4)], along(0)),
            Case::new(vec![f64s([2], &[0.25, 0.75]), f64s([2], &[4.0, 0.0])], along(0))
                .expect(vec![f64s([2], &[0.75, -0.75])], "by hand: Σ g y is 1"),
        ]
    },
    ..super::GRAD_ALONG_AXIS
};

impl Tensor {
    /// The gradient of `softmax` along an axis from its result (`self`) and the gradient of that.
    #[track_caller]
    pub(crate) fn softmax_grad(&self, g: &Tensor, axis: usize) -> Tensor {
        Tensor::apply1(&OP, &[self, g], Attrs::new().with("axis", axis))
    }
}
