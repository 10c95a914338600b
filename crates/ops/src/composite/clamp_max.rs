//! `clamp_max`: the value, not above a bound.

use super::{parted, tie};
use crate::rules::{binary_grad, expand1, f64s, floats};
use crate::{Operand, Tensor};
use ir::{Attrs, Case, Grad, Meaning, Op, Out, Scalar};

/// The row of `clamp_max`.
pub static OP: Op = Op {
    name: "clamp_max",
    doc: "x, or the bound where x is above it, elementwise. Where they are equal, x and a tensor each get half of the gradient, and x none of a number.",
    infer: |c| Scalar::infer(c, 2, Out::Same, true),
    meaning: Meaning::Composite(|_, a| expand1(a, |a| a[0].minimum(&a[1]))),
    grad: Grad::Rule(|c| {
        let tie = tie(&c.inputs[1]);
        binary_grad(c, |x, hi, _, g| parted(&x.lt(&hi), &x.eq(&hi), tie, &g))
    }),
    cases: || {
        vec![
            Case::new(vec![floats([2, 3], 1), floats([3], 2)], Attrs::new()),
            Case::new(vec![f64s([3], &[-1.0, 0.0, 2.0]), f64s((), &[0.0])], Attrs::new())
                .expect(vec![f64s([3], &[-1.0, 0.0, 0.0])], "by hand")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// x, or the bound where x is above it, elementwise.
    #[track_caller]
    pub fn clamp_max(&self, hi: impl Operand) -> Tensor {
        self.binary(&OP, hi)
    }
}
