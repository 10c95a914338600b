//! `lerp`: a point on the line between two.

use super::promote;
use crate::rules::{expand1_wide, f64s, floats};
use crate::{Operand, Tensor};
use ir::{Attrs, Case, Meaning, Op, Out, Scalar};

/// The row of `lerp`.
pub static OP: Op = Op {
    name: "lerp",
    doc: "a + weight (b - a), elementwise.",
    infer: |c| Scalar::infer(c, 3, Out::Same, true),
    meaning: Meaning::Composite(|_, a| expand1_wide(a, |a| &a[0] + &a[2] * (&a[1] - &a[0]))),
    cases: || {
        vec![
            Case::new(vec![floats([2, 3], 1), floats([3], 2), floats([2, 1], 3)], Attrs::new()),
            Case::new(vec![f64s([2], &[1.0, 2.0]), f64s([2], &[10.0, 10.0]), f64s((), &[0.5])], Attrs::new())
                .expect(vec![f64s([2], &[5.5, 6.0])], "PyTorch manual: torch.lerp of 1, 2 with 10 by 0.5"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// `self + weight (end - self)`, elementwise.
    #[track_caller]
    pub fn lerp(&self, end: &Tensor, weight: impl Operand) -> Tensor {
        self.then(|t| {
            let [a, b, w] = promote([self, end, &weight.operand(t.dtype)])?;
            Ok(Tensor::apply1(&OP, &[&a, &b, &w], Attrs::new()))
        })
    }
}
