//! `not`: logical not.

use crate::Tensor;
use crate::pairs;
use crate::rules::scalar_cases;
use ir::{Attrs, Case, Grad, Literal, Meaning, Op, Out, Scalar};

/// The row of `not`.
pub static OP: Op = Op {
    name: "not",
    doc: "Whether it is 0 or false, elementwise.",
    infer: |c| Scalar::infer(c, 1, Out::Bool, true),
    meaning: Meaning::Scalar(Scalar {
        arity: 1,
        out: Out::Bool,
        float: |v| (v[0] == 0.0) as u8 as f64,
        int: Some(|v| (v[0] == 0) as i128),
        code: "(!{0})",
        cost: ir::Cost::Instruction,
        ..Scalar::DEFAULT
    }),
    grad: Grad::Zero,
    complex: on_complex!(|u| pairs::real(u, |z| z.re.logical_not().and(z.im.logical_not()))),
    cases: || {
        let mut cases = scalar_cases(1, (-2.0, 2.0), (&[&[0.0, 0.5, f64::NAN]], &[1.0, 0.0, 0.0]), true, "by hand");
        let x = Literal::generate([2], |i| i == 1);
        cases.push(Case::new(vec![x], Attrs::new()).expect(vec![Literal::generate([2], |i| i == 0)], "by hand"));
        cases
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Logical not of bool, bitwise not of integers, elementwise.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::from([true, false]).not().to_vec::<bool>().unwrap(), [false, true]);
    /// assert_eq!(Tensor::from([5i64, -1]).not().to_vec::<i64>().unwrap(), [-6, 0]);
    /// ```
    #[track_caller]
    pub fn not(&self) -> Tensor {
        self.then(|t| {
            if t.dtype.is_int() {
                return Ok(self.xor(-1));
            }
            if t.dtype.is_float() {
                return Err(
                    ir::Error::dtype(format!("not defined for {}; did you mean logical_not?", t.dtype)).in_op("not")
                );
            }
            Ok(self.logical_not())
        })
    }
    /// Whether it is 0 or false, elementwise, for any element type.
    #[track_caller]
    pub fn logical_not(&self) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new())
    }
}
