//! `relu`: max(x, 0).

use crate::Tensor;
use crate::rules::{expand1, f64s, floats, same, unary_grad};
use ir::{Attrs, Case, Grad, Meaning, Op};

/// The row of `relu`.
pub static OP: Op = Op {
    name: "relu",
    doc: "max(x, 0), elementwise; the derivative at 0 is 0.",
    infer: |c| c.arity(1).and_then(|()| same(c, 0)),
    meaning: Meaning::Composite(|_, x| expand1(x, |x| x[0].maximum(0.0))),
    grad: Grad::Rule(|c| unary_grad(c, |x, _, g| Tensor::where_(&x.gt(0.0), &g, 0.0))),
    cases: || {
        vec![
            Case::new(vec![floats([2, 3], 1)], Attrs::new()),
            Case::new(vec![f64s([3], &[-1.0, 0.0, 2.0])], Attrs::new())
                .expect(vec![f64s([3], &[0.0, 0.0, 2.0])], "by hand")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// max(x, 0), elementwise.
    #[track_caller]
    pub fn relu(&self) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new())
    }
}
