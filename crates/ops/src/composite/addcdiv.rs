//! `addcdiv`: a sum with a scaled quotient.

use super::promote;
use crate::Tensor;
use crate::rules::{expand1_wide, f64s, sample};
use ir::{AttrKind, Attrs, Case, DType, Meaning, Op, Out, Scalar};

/// The row of `addcdiv`.
pub static OP: Op = Op {
    name: "addcdiv",
    doc: "x + value (a / b), elementwise.",
    attrs: &[("value", AttrKind::Float)],
    infer: |c| Scalar::infer(c, 3, Out::Float, true),
    meaning: Meaning::Composite(|c, args| {
        let value = c.attrs.float("value")?;
        expand1_wide(args, |t| {
            if value == 1.0 { &t[0] + &t[1] / &t[2] } else { &t[0] + &t[1] * value / &t[2] }.cast(c.dtype(0).to_float())
        })
    }),
    cases: || {
        let by = |v: f64| Attrs::new().with("value", v);
        let of = |shape: &[usize], seed| sample(DType::F64, shape, seed, (0.5, 2.0));
        vec![
            Case::new(vec![of(&[2, 3], 1), of(&[3], 2), of(&[2, 1], 3)], by(0.3)),
            Case::new(vec![of(&[3], 1), of(&[], 2), of(&[3], 3)], by(1.0)),
            Case::new(vec![f64s([1], &[1.0]), f64s([1], &[3.0]), f64s([1], &[2.0])], by(0.5))
                .expect(vec![f64s([1], &[1.0 + 0.5 * 1.5])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// x + value (a / b), elementwise.
    #[track_caller]
    pub fn addcdiv(&self, a: &Tensor, b: &Tensor, value: f64) -> Tensor {
        self.then(|_| {
            let [x, a, b] = promote([self, a, b])?;
            Ok(Tensor::apply1(&OP, &[&x, &a, &b], Attrs::new().with("value", value)))
        })
    }
}
