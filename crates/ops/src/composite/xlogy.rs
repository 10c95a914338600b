//! `xlogy`: x log(y), 0 where x is 0.

use crate::rules::{binary_grad, expand1_wide, f64s, sample};
use crate::{Operand, Tensor};
use ir::{Attrs, Case, DType, Grad, Meaning, Op, Out, Scalar};

/// The row of `xlogy`.
pub static OP: Op = Op {
    name: "xlogy",
    doc: "x log(y), elementwise; 0 where x is 0, whatever y, unless y is NaN.",
    infer: |c| Scalar::infer(c, 2, Out::Same, false),
    meaning: Meaning::Composite(|_, a| {
        expand1_wide(a, |t| {
            let (x, y) = (&t[0], &t[1]);
            let empty = x.eq(0.0).and(y.is_nan().not());
            Tensor::where_(&empty, &x.zeros_like(), x * y.log())
        })
    }),
    grad: Grad::Rule(|c| {
        binary_grad(c, |x, y, _, g| {
            let empty = x.eq(0.0).and(y.le(0.0));
            let log = Tensor::where_(&empty, &y.ones_like(), &y).log();
            (&g * log, g * (x / y))
        })
    }),
    cases: || {
        let of = |shape: &[usize], seed| sample(DType::F64, shape, seed, (0.3, 2.0));
        vec![
            Case::new(vec![of(&[2, 3], 1), of(&[3], 2)], Attrs::new()),
            Case::new(vec![f64s([2], &[0.0, 2.0]), f64s([2], &[0.0, std::f64::consts::E])], Attrs::new())
                .expect(vec![f64s([2], &[0.0, 2.0])], "by definition")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// x log(y), elementwise; 0 where x is 0.
    #[track_caller]
    pub fn xlogy(&self, y: impl Operand) -> Tensor {
        self.binary(&OP, y)
    }
}
