//! `logaddexp2`: addition of numbers given by their logarithms to base 2.

use crate::rules::{binary_grad, expand1_wide, f64s, floats};
use crate::{Operand, Tensor};
use ir::{Attrs, Case, Grad, Meaning, Op, Out, Scalar};
use std::f64::consts::LN_2;

/// The row of `logaddexp2`.
pub static OP: Op = Op {
    name: "logaddexp2",
    doc: "log2(2^a + 2^b) without overflow, elementwise.",
    infer: |c| Scalar::infer(c, 2, Out::Same, false),
    meaning: Meaning::Composite(|_, a| expand1_wide(a, |t| (&t[0] * LN_2).logaddexp(&t[1] * LN_2) / LN_2)),
    grad: Grad::Rule(|c| {
        binary_grad(c, |a, b, _, g| {
            let d = (a.widened() - b.widened()) * LN_2;
            (&g * d.sigmoid().cast_like(&g), &g * (-d).sigmoid().cast_like(&g))
        })
    }),
    cases: || {
        vec![
            Case::new(vec![floats([2, 3], 1), floats([3], 2)], Attrs::new()),
            Case::new(vec![f64s([2], &[0.0, 3.0]), f64s([2], &[0.0, 3.0])], Attrs::new())
                .expect(vec![f64s([2], &[1.0, 4.0])], "by hand: 1 + 1, 8 + 8")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// log2(2^a + 2^b) without overflow, elementwise.
    #[track_caller]
    pub fn logaddexp2(&self, other: impl Operand) -> Tensor {
        self.binary(&OP, other)
    }
}
