//! `random_permutation`: the numbers 0, 1, 2… in random order.

use super::{check_key, long, words};
use crate::rules::{expand1, i64s, one};
use crate::{DType, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Op, Shape};

/// The row of `random_permutation`.
pub static OP: Op = Op {
    name: "random_permutation",
    doc: "The numbers 0, 1, 2… up to `size` in random order, from a key.",
    attrs: &[("size", AttrKind::Int)],
    infer: |c| {
        c.arity(1)?;
        check_key(c, 0)?;
        one(DType::I64, c.attrs.size("size")?)
    },
    meaning: Meaning::Composite(|c, args| {
        let shape = Shape::from(c.attrs.size("size")?);
        expand1(args, |t| {
            let [_, order] = long(words(&t[0], &shape)).sort(0);
            order
        })
    }),
    grad: Grad::Zero,
    cases: || {
        let of = |size: i64| Attrs::new().with("size", size);
        vec![
            Case::new(vec![i64s([2], &[3, 4])], of(7)),
            Case::new(vec![i64s([2], &[0, 0])], of(4))
                .expect(vec![i64s([4], &[0, 3, 1, 2])], "order of 63 bits of the Random123 answer for zeros"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The i64 numbers 0, 1, 2… up to `size` in random order, from a key: i64, a seed and a counter.
    #[track_caller]
    pub fn random_permutation(key: &Tensor, size: usize) -> Tensor {
        Tensor::apply1(&OP, &[key], Attrs::new().with("size", size))
    }
}
