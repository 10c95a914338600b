//! `clamp`: the value held between two bounds.

use super::{parted, promote, tie};
use crate::rules::{GradTensors, expand1, f64s, floats, grads, unbroadcast};
use crate::{Operand, Tensor};
use ir::{Attrs, Case, Grad, Meaning, Op, Out, Scalar};

/// The row of `clamp`.
pub static OP: Op = Op {
    name: "clamp",
    doc: "min(max(x, lo), hi), elementwise. At a bound x and a tensor each get half of the gradient, and x none of a number; hi wins over a greater lo.",
    infer: |c| Scalar::infer(c, 3, Out::Same, true),
    meaning: Meaning::Composite(|_, a| expand1(a, |a| a[0].maximum(&a[1]).minimum(&a[2]))),
    grad: Grad::Rule(|c| {
        let (x, lo, hi, g) = (c.x(0), c.x(1), c.x(2), c.g(0));
        let raised = x.maximum(&lo);
        let (inside, of_hi) = parted(&raised.lt(&hi), &raised.eq(&hi), tie(&c.inputs[2]), &g);
        let (of_x, of_lo) = parted(&x.gt(&lo), &x.eq(&lo), tie(&c.inputs[1]), &inside);
        let part = |g: Tensor, i: usize| unbroadcast(g, &c.inputs[i].ty().shape);
        grads([part(of_x, 0), part(of_lo, 1), part(of_hi, 2)])
    }),
    cases: || {
        vec![
            Case::new(vec![floats([2, 3], 1), f64s([3], &[-1.0, -0.5, -0.7]), f64s([2, 1], &[0.8, 1.0])], Attrs::new()),
            Case::new(vec![f64s([3], &[-1.0, 0.5, 2.0]), f64s((), &[0.0]), f64s((), &[1.0])], Attrs::new())
                .expect(vec![f64s([3], &[0.0, 0.5, 1.0])], "by hand")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// min(max(x, lo), hi), elementwise; the bounds are tensors or numbers. For one bound alone
    /// see [`Tensor::clamp_min`] and [`Tensor::clamp_max`].
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([-1.0f32, 0.5, 2.0]);
    /// assert_eq!(x.clamp(0.0, 1.0).to_vec::<f32>().unwrap(), [0.0, 0.5, 1.0]);
    /// ```
    #[track_caller]
    pub fn clamp(&self, lo: impl Operand, hi: impl Operand) -> Tensor {
        self.then(|t| {
            let args = promote([self, &lo.operand(t.dtype), &hi.operand(t.dtype)])?;
            Ok(Tensor::apply1(&OP, &[&args[0], &args[1], &args[2]], Attrs::new()))
        })
    }
}
