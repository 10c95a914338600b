//! `logaddexp`: addition of numbers given by their logarithms.

use crate::rules::{binary_grad, expand1_wide, f64s, floats};
use crate::{Operand, Tensor};
use ir::{Attrs, Case, Grad, Meaning, Op, Out, Scalar};

/// The row of `logaddexp`.
pub static OP: Op = Op {
    name: "logaddexp",
    doc: "log(exp(a) + exp(b)) without overflow, elementwise.",
    infer: |c| Scalar::infer(c, 2, Out::Same, false),
    meaning: Meaning::Composite(|_, a| {
        expand1_wide(a, |t| {
            let (a, b) = (&t[0], &t[1]);
            // Equal arguments, infinite ones among them, need no difference.
            let far = a.maximum(b) + (-(a - b).abs()).exp().log1p();
            Tensor::where_(&a.eq(b), &(a + std::f64::consts::LN_2), far)
        })
    }),
    grad: Grad::Rule(|c| {
        binary_grad(c, |a, b, _, g| {
            let d = a.widened() - b.widened();
            (&g * d.sigmoid().cast_like(&g), &g * (-d).sigmoid().cast_like(&g))
        })
    }),
    cases: || {
        vec![
            Case::new(vec![floats([2, 3], 1), floats([3], 2)], Attrs::new()),
            Case::new(
                vec![f64s([3], &[0.0, 1000.0, f64::NEG_INFINITY]), f64s([3], &[1.0986122886681098, 0.0, 2.0])],
                Attrs::new(),
            )
            .expect(vec![f64s([3], &[1.3862943611198906, 1000.0, 2.0])], "by hand: log(1 + 3), and limits")
            .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// log(exp(a) + exp(b)) without overflow, elementwise.
    #[track_caller]
    pub fn logaddexp(&self, other: impl Operand) -> Tensor {
        self.binary(&OP, other)
    }
}
