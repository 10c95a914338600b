//! `log_softmax`: logarithms of shares that sum to one.

use crate::Tensor;
use crate::rules::{GradTensors, expand1, f64s, floats, grads};
use ir::{Attrs, Case, Grad, Meaning, Op};

/// The row of `log_softmax`.
pub static OP: Op = Op {
    name: "log_softmax",
    doc: "The logarithm of softmax along an axis, computed without it.",
    meaning: Meaning::Composite(|c, x| {
        let axis = c.axis("axis")?;
        if c.shape(0).count() == 0 {
            return Ok(vec![x[0].clone()]);
        }
        expand1(x, |x| {
            let x = x[0].widened();
            let z = &x - x.max_keep(axis).stop_gradient();
            (&z - z.exp().sum_keep(axis).log()).cast(c.dtype(0))
        })
    }),
    grad: Grad::Rule(|c| grads([c.y(0).log_softmax_grad(&c.g(0), c.attrs.size("axis")?)])),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([2, 3], 1)], along(1)),
            Case::new(vec![floats([3, 2], 2)], along(0)),
            Case::new(vec![f64s([2, 2], &[0.0, 1.0986122886681098, 1000.0, 0.0])], along(1))
                .expect(
                    vec![f64s([2, 2], &[-1.3862943611198906, -0.2876820724517809, 0.0, -1000.0])],
                    "by hand: log(1/4), log(3/4), and a limit",
                )
                .kinked(),
        ]
    },
    ..super::ALONG_AXIS
};

impl Tensor {
    /// The logarithm of softmax along an axis, computed without it.
    #[track_caller]
    pub fn log_softmax(&self, along: i64) -> Tensor {
        self.normalized_along(&OP, along)
    }
}
