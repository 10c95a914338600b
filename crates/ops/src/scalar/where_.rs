//! `where`: one of two values, by a condition.

use crate::rules::{GradTensors, f64s, floats, maybe_grads, unbroadcast};
use crate::{Operand, Tensor};
use ir::{Attrs, Case, Grad, Literal, Meaning, Op, Out, Scalar, Site};

/// The row of `where`.
pub static OP: Op = Op {
    name: "where",
    doc: "`a` where the condition holds, else `b`, elementwise.",
    infer: |c| Scalar::infer(c, 3, Out::Select, true),
    meaning: Meaning::Scalar(Scalar {
        arity: 3,
        out: Out::Select,
        float: |v| if v[0] != 0.0 { v[1] } else { v[2] },
        int: Some(|v| if v[0] != 0 { v[1] } else { v[2] }),
        code: "({0} ? {1} : {2})",
        cost: ir::Cost::Instruction,
        ..Scalar::DEFAULT
    }),
    grad: Grad::Rule(|c| {
        let (cond, g) = (c.x(0), c.g(0));
        let zero = g.zeros_like();
        let a = unbroadcast(Tensor::where_(&cond, &g, &zero), &c.inputs[1].ty().shape);
        let b = unbroadcast(Tensor::where_(&cond, &zero, &g), &c.inputs[2].ty().shape);
        maybe_grads(vec![None, Some(a), Some(b)])
    }),
    linear: true,
    cases: || {
        let cond = Literal::generate([2, 3], |i| i % 2 == 0);
        let two = Literal::generate([2], |i| i == 0);
        vec![
            Case::new(vec![cond, floats([2, 3], 1), floats([3], 2)], Attrs::new()),
            Case::new(vec![two, f64s([2], &[1.0, 2.0]), f64s([2], &[3.0, 4.0])], Attrs::new())
                .expect(vec![f64s([2], &[1.0, 4.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// `a` where the condition holds, else `b`, elementwise; the two are promoted.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([1.0f32, -2.0]);
    /// assert_eq!(Tensor::where_(&x.gt(0.0), &x, 0.0).to_vec::<f32>().unwrap(), [1.0, 0.0]);
    /// ```
    #[track_caller]
    pub fn where_(cond: &Tensor, a: &Tensor, b: impl Operand) -> Tensor {
        let site = Site::here();
        site.scope(|| match a.promoted(b) {
            Ok((a, b)) => Tensor::apply1(&OP, &[cond, &a, &b], Attrs::new()),
            Err(e) => e.into(),
        })
    }
}
