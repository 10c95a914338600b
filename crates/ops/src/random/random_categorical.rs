//! `random_categorical`: classes drawn by the logarithms of their weights.

use super::{check_key, exponential, wide};
use crate::rules::{expand1, f64s, float, i64s, one};
use crate::{DType, Error, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Op};

/// The row of `random_categorical`.
pub static OP: Op = Op {
    name: "random_categorical",
    doc: "Classes drawn with probabilities softmax(logits) along the last axis, `samples` times independently, from a \
          key: i64 of shape [samples, …].",
    attrs: &[("samples", AttrKind::Int)],
    infer: |c| {
        c.arity(2)?;
        check_key(c, 0)?;
        float(c, 1)?;
        let mut shape = c.shape(1).clone();
        if shape.rank() == 0 || shape[shape.rank() - 1] == 0 {
            return Err(Error::shape(format!("there are no classes to draw from in logits of shape {shape}")));
        }
        shape.remove(shape.rank() - 1);
        shape.insert(0, c.attrs.size("samples")?);
        one(DType::I64, shape)
    },
    meaning: Meaning::Composite(|c, args| {
        let dtype = wide(c.dtype(1));
        let mut shape = c.shape(1).clone();
        shape.insert(0, c.attrs.size("samples")?);
        // The greatest logit with Gumbel noise falls on each class with its probability.
        expand1(args, |t| (t[1].cast(dtype) - exponential(&t[0], &shape, dtype).log()).argmax(-1))
    }),
    grad: Grad::Zero,
    cases: || {
        let of = |samples: i64| Attrs::new().with("samples", samples);
        vec![
            Case::new(vec![i64s([2], &[3, 4]), f64s([2, 3], &[0.0, 1.0, -1.0, 2.0, 0.5, 0.0])], of(2)),
            Case::new(vec![i64s([2], &[0, 0]), f64s([2], &[0.0, 0.0])], of(2)).expect(
                vec![i64s([2], &[0, 1])],
                "noise -log(-log(1 - u)) of the Random123 answer for zeros: 0.67, -0.29; -1.28, -0.17",
            ),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Classes drawn with probabilities softmax(logits) along the last axis, `samples` times
    /// independently, from a key: i64 of shape [samples, …].
    #[track_caller]
    pub fn random_categorical(key: &Tensor, logits: &Tensor, samples: usize) -> Tensor {
        Tensor::apply1(&OP, &[key, logits], Attrs::new().with("samples", samples))
    }
}
