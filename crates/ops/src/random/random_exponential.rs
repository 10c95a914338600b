//! `random_exponential`: exponentially distributed.

use super::{check_key, exponential, float_of, shape_of, wide};
use crate::rules::{expand1, f64s, i64s, one};
use crate::{DType, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Op, Shape};

/// The row of `random_exponential`.
pub static OP: Op = Op {
    name: "random_exponential",
    doc: "Exponentially distributed with mean 1, from a key; always positive.",
    attrs: &[("shape", AttrKind::Ints), ("dtype", AttrKind::DType)],
    infer: |c| {
        c.arity(1)?;
        check_key(c, 0)?;
        one(float_of(c)?, shape_of(c)?)
    },
    meaning: Meaning::Composite(|c, args| {
        let (dtype, shape) = (float_of(c)?, shape_of(c)?);
        expand1(args, |t| exponential(&t[0], &shape, wide(dtype)).cast(dtype))
    }),
    grad: Grad::Zero,
    cases: || {
        let of = |shape: &[usize], dtype| Attrs::new().with("shape", shape).with("dtype", dtype);
        vec![
            Case::new(vec![i64s([2], &[3, 4])], of(&[2, 3], DType::F32)),
            Case::new(vec![i64s([2], &[0, 0])], of(&[2], DType::F64)).expect(
                vec![f64s([2], &[0.5092376724198475, 1.3307188356124438])],
                "-log(1 - u) of the Random123 answer for zeros",
            ),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// f32 numbers, exponentially distributed with mean 1, from a key: i64, a seed and a counter.
    #[track_caller]
    pub fn random_exponential(key: &Tensor, shape: impl Into<Shape>) -> Tensor {
        Tensor::apply1(&OP, &[key], Attrs::new().with("shape", &shape.into()).with("dtype", DType::F32))
    }
}
