//! `polygamma`: derivatives of the digamma function.

use super::special;
use crate::rules::{GradTensors, f64s, maybe_grads, sample, unbroadcast};
use crate::{Operand, Tensor};
use ir::{Attrs, Case, DType, Grad, Meaning, Op, Out, Scalar};

/// The row of `polygamma`.
pub static OP: Op = Op {
    name: "polygamma",
    doc: "The n-th derivative of the digamma function, elementwise, from the order n and the argument x. No gradient \
          flows to the order.",
    infer: |c| Scalar::infer(c, 2, Out::Float, false),
    meaning: Meaning::Scalar(Scalar {
        arity: 2,
        out: Out::Float,
        float: |v| special::polygamma(v[0], v[1]),
        code: "polygamma({0}, {1})",
        domain: (0.5, 4.0),
        ..Scalar::DEFAULT
    }),
    grad: Grad::Rule(|c| {
        let (n, x) = (c.x(0), c.x(1));
        let slope = Tensor::apply1(&OP, &[&(n + 1.0), &x], Attrs::new());
        maybe_grads(vec![None, Some(unbroadcast(c.g(0) * slope, &c.inputs[1].ty().shape))])
    }),
    cases: || {
        let pi = std::f64::consts::PI;
        vec![
            // The order is whole, so finite differences of it make no sense; those of `digamma`
            // and `lgamma` check the gradient.
            Case::new(vec![f64s([3], &[1.0, 2.0, 3.0]), sample(DType::F64, [2, 3], 1, (0.5, 4.0))], Attrs::new())
                .kinked(),
            Case::new(vec![f64s([2], &[1.0, 3.0]), f64s((), &[1.0])], Attrs::new())
                .expect(vec![f64s([2], &[pi * pi / 6.0, pi.powi(4) / 15.0])], "Abramowitz and Stegun, 6.4.2")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The n-th derivative of the digamma function, elementwise.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let y = Tensor::from([1.0f64]).polygamma(1).item::<f64>().unwrap();
    /// assert!((y - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-14);
    /// ```
    #[track_caller]
    pub fn polygamma(&self, n: u32) -> Tensor {
        self.then(|t| {
            Ok(Tensor::apply1(
                &OP,
                &[&f64::from(n).operand(t.dtype.to_float()), &self.cast(t.dtype.to_float())],
                Attrs::new(),
            ))
        })
    }
}
