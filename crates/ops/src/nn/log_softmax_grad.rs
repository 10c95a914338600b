//! `log_softmax_grad`: the gradient of `log_softmax`.

use crate::Tensor;
use crate::rules::{expand1, f64s, floats};
use ir::{Attrs, Case, Meaning, Op};

/// The row of `log_softmax_grad`.
pub static OP: Op = Op {
    name: "log_softmax_grad",
    doc: "The gradient of `log_softmax` from its result y and the gradient g of that: g - exp(y) Σ g along an axis.",
    meaning: Meaning::Composite(|c, args| {
        let axis = c.axis("axis")?;
        expand1(args, |t| {
            let (y, g) = (t[0].widened(), t[1].widened());
            let total = g.sum_keep(axis);
            (g - y.exp() * total).cast(c.dtype(0))
        })
    }),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([2, 3], 1), floats([2, 3], 2)], along(1)),
            Case::new(vec![floats([3, 2], 3), floats([3, 2], 4)], along(0)),
            Case::new(vec![f64s([2], &[0.0, 0.0]), f64s([2], &[4.0, -1.0])], along(0))
                .expect(vec![f64s([2], &[1.0, -4.0])], "by hand: Σ g is 3"),
        ]
    },
    ..super::GRAD_ALONG_AXIS
};

impl Tensor {
    /// The gradient of `log_softmax` along an axis from its result (`self`) and the gradient of that.
    #[track_caller]
    pub(crate) fn log_softmax_grad(&self, g: &Tensor, axis: usize) -> Tensor {
        Tensor::apply1(&OP, &[self, g], Attrs::new().with("axis", axis))
    }
}
