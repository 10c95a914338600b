//! `softmax`: positive shares that sum to one.

use crate::Tensor;
use crate::rules::{GradTensors, expand1, f64s, floats, grads};
use ir::{Attrs, Case, Grad, Meaning, Op};

/// The row of `softmax`.
pub static OP: Op = Op {
    name: "softmax",
    doc: "exp(x) divided by its sum along an axis, without overflow.",
    meaning: Meaning::Composite(|c, x| {
        let axis = c.axis("axis")?;
        if c.shape(0).count() == 0 {
            return Ok(vec![x[0].clone()]);
        }
        expand1(x, |x| {
            let x = x[0].widened();
            let e = (&x - x.max_keep(axis).stop_gradient()).exp();
            (&e / e.sum_keep(axis)).cast(c.dtype(0))
        })
    }),
    grad: Grad::Rule(|c| grads([c.y(0).softmax_grad(&c.g(0), c.attrs.size("axis")?)])),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([2, 3], 1)], along(1)),
            Case::new(vec![floats([3, 2], 2)], along(0)),
            Case::new(vec![f64s([2, 2], &[0.0, 1.0986122886681098, 1000.0, 0.0])], along(1))
                .expect(vec![f64s([2, 2], &[0.25, 0.75, 1.0, 0.0])], "by hand: 1 to 3, and a limit")
                .kinked(),
        ]
    },
    ..super::ALONG_AXIS
};

impl Tensor {
    /// exp(x) divided by its sum along an axis, without overflow.
    #[track_caller]
    pub fn softmax(&self, along: i64) -> Tensor {
        self.normalized_along(&OP, along)
    }
}
