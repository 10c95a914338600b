//! `random_bernoulli`: true with a given probability.

use super::{check_key, unit, wide};
use crate::rules::{expand1, f64s, float, i64s, one};
use crate::{DType, Tensor};
use ir::{Attrs, Case, Grad, Literal, Meaning, Op};

/// The row of `random_bernoulli`.
pub static OP: Op = Op {
    name: "random_bernoulli",
    doc: "True with the probability each element gives, from a key.",
    infer: |c| {
        c.arity(2)?;
        check_key(c, 0)?;
        float(c, 1)?;
        one(DType::Bool, c.shape(1))
    },
    meaning: Meaning::Composite(|c, args| {
        let dtype = wide(c.dtype(1));
        expand1(args, |t| unit(&t[0], c.shape(1), dtype).lt(t[1].cast(dtype)))
    }),
    grad: Grad::Zero,
    cases: || {
        let p = f64s([2], &[0.39, 0.74]);
        vec![
            Case::new(vec![i64s([2], &[3, 4]), f64s([3], &[0.0, 0.5, 1.0])], Attrs::new()),
            Case::new(vec![i64s([2], &[0, 0]), p], Attrs::new()).expect(
                vec![Literal::generate([2], |i| i == 1)],
                "the Random123 answer for zeros gives 0.399 and 0.736",
            ),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Bool, true with the probability each element of `p` gives, from a key: i64, a seed and a
    /// counter.
    #[track_caller]
    pub fn random_bernoulli(key: &Tensor, p: &Tensor) -> Tensor {
        Tensor::apply1(&OP, &[key, p], Attrs::new())
    }
}
