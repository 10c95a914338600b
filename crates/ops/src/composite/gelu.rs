//! `gelu`: Gaussian error linear unit.

use crate::rules::{expand1, f64s, float, same, sample, unary_grad};
use crate::{DType, Tensor};
use ir::{Attrs, Case, Grad, Meaning, Op};
use std::f64::consts::FRAC_1_SQRT_2;

/// The row of `gelu`.
pub static OP: Op = Op {
    name: "gelu",
    doc: "x Φ(x) with the normal distribution function Φ, elementwise; exact, by the error function.",
    infer: |c| {
        c.arity(1)?;
        float(c, 0)?;
        same(c, 0)
    },
    meaning: Meaning::Composite(|c, args| {
        expand1(args, |t| {
            let x = &t[0].widened();
            // 1 + erf loses the digits of small results: of 16 bits f16 would show it.
            let twice = match c.dtype(0) {
                DType::F16 => (x * -FRAC_1_SQRT_2).erfc(),
                _ => (x * FRAC_1_SQRT_2).erf() + 1.0,
            };
            (x * 0.5 * twice).cast_like(&t[0])
        })
    }),
    grad: Grad::Rule(|c| unary_grad(c, |x, _, g| g * x.gelu_grad())),
    cases: || {
        let (x, y) = ([0.0, 1.0, -1.0, 1.5e308], [0.0, 0.8413447460685429, -0.15865525393145707, 1.5e308]);
        vec![
            Case::new(vec![sample(DType::F64, [2, 4], 3, (-4.0, 4.0))], Attrs::new()),
            Case::new(vec![f64s([4], &x)], Attrs::new())
                .expect(vec![f64s([4], &y)], "Abramowitz and Stegun, table 26.1")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// x Φ(x) with the normal distribution function Φ, elementwise; exact, by the error function.
    #[track_caller]
    pub fn gelu(&self) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new())
    }
}
