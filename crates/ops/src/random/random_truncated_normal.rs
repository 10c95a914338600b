//! `random_truncated_normal`: normally distributed within bounds.

use super::{check_key, fine, float_of, shape_of, wide};
use crate::rules::{expand1, f64s, i64s, one};
use crate::{DType, Error, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Op, Shape};
use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};

/// The row of `random_truncated_normal`.
pub static OP: Op = Op {
    name: "random_truncated_normal",
    doc: "Distributed in [lo, hi] as the normal distribution with mean 0 and variance 1 is there, from a key.",
    attrs: &[("shape", AttrKind::Ints), ("lo", AttrKind::Float), ("hi", AttrKind::Float), ("dtype", AttrKind::DType)],
    infer: |c| {
        c.arity(1)?;
        check_key(c, 0)?;
        let (lo, hi) = (c.attrs.float("lo")?, c.attrs.float("hi")?);
        // A NaN bound fails here as well.
        if !matches!(lo.partial_cmp(&hi), Some(std::cmp::Ordering::Less)) {
            return Err(Error::value(format!("there is nothing between {lo} and {hi}")));
        }
        one(float_of(c)?, shape_of(c)?)
    },
    meaning: Meaning::Composite(|c, args| {
        let (lo, hi) = (c.attrs.float("lo")?, c.attrs.float("hi")?);
        let (dtype, shape) = (float_of(c)?, shape_of(c)?);
        // Bounds on the scale of the error function, through which the inverse is taken.
        let (a, b) = (libm::erf(lo * FRAC_1_SQRT_2), libm::erf(hi * FRAC_1_SQRT_2));
        expand1(args, |t| {
            let [u] = fine(&t[0], &shape, wide(dtype));
            ((u * (b - a) + a).erfinv() * SQRT_2).maximum(lo).minimum(hi).cast(dtype)
        })
    }),
    grad: Grad::Zero,
    cases: || {
        let of = |shape: &[usize], lo: f64, hi: f64, dtype| {
            Attrs::new().with("shape", shape).with("lo", lo).with("hi", hi).with("dtype", dtype)
        };
        vec![
            Case::new(vec![i64s([2], &[3, 4])], of(&[2, 3], -2.0, 2.0, DType::F32)),
            Case::new(vec![i64s([2], &[0, 0])], of(&[2], -1.0, 0.5, DType::F64)).expect(
                vec![f64s([2], &[-0.32849135341970814, 0.12729951741949588])],
                "inverse of the distribution function on the Random123 answer for zeros",
            ),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// f32 numbers in [lo, hi], distributed as the normal distribution with mean 0 and variance 1
    /// is there, from a key: i64, a seed and a counter.
    #[track_caller]
    pub fn random_truncated_normal(key: &Tensor, shape: impl Into<Shape>, lo: f64, hi: f64) -> Tensor {
        let attrs = Attrs::new().with("shape", &shape.into()).with("lo", lo).with("hi", hi).with("dtype", DType::F32);
        Tensor::apply1(&OP, &[key], attrs)
    }
}
