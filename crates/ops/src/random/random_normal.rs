//! `random_normal`: normally distributed, by the method of Box and Muller.

use super::{check_key, fine, float_of, shape_of, wide};
use crate::rules::{expand1, f64s, i64s, one};
use crate::{DType, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Op, Shape};

/// The row of `random_normal`.
pub static OP: Op = Op {
    name: "random_normal",
    doc: "Normally distributed with mean 0 and variance 1, from a key.",
    attrs: &[("shape", AttrKind::Ints), ("dtype", AttrKind::DType)],
    infer: |c| {
        c.arity(1)?;
        check_key(c, 0)?;
        one(float_of(c)?, shape_of(c)?)
    },
    meaning: Meaning::Composite(|c, args| {
        let (dtype, shape) = (float_of(c)?, shape_of(c)?);
        expand1(args, |t| {
            let [u, v] = fine(&t[0], &shape, wide(dtype));
            ((u.log() * -2.0).sqrt() * (v * std::f64::consts::TAU).cos()).cast(dtype)
        })
    }),
    grad: Grad::Zero,
    cases: || {
        let of = |shape: &[usize], dtype| Attrs::new().with("shape", shape).with("dtype", dtype);
        vec![
            Case::new(vec![i64s([2], &[3, 4])], of(&[2, 3], DType::F32)),
            Case::new(vec![i64s([2], &[0, 0])], of(&[2], DType::F64)).expect(
                vec![f64s([2], &[-0.12151796233958032, -0.0818742106090954])],
                "formula of Box and Muller on the Random123 answer for zeros",
            ),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// f32 numbers, normally distributed with mean 0 and variance 1, from a key: i64, a seed and a
    /// counter.
    #[track_caller]
    pub fn random_normal(key: &Tensor, shape: impl Into<Shape>) -> Tensor {
        Tensor::random_normal_of(key, shape, DType::F32)
    }
    /// Numbers of type `dtype`, normally distributed with mean 0 and variance 1, from a key.
    #[track_caller]
    pub fn random_normal_of(key: &Tensor, shape: impl Into<Shape>, dtype: DType) -> Tensor {
        Tensor::apply1(&OP, &[key], Attrs::new().with("shape", &shape.into()).with("dtype", dtype))
    }
}
