//! `random_uniform`: evenly distributed in an interval.

use super::{check_key, float_of, shape_of, unit};
use crate::rules::{expand1, f64s, i64s, one};
use crate::{DType, Tensor};
use ir::{AttrKind, Attrs, Batch, Case, Grad, Meaning, Op, Shape};

/// The row of `random_uniform`.
pub static OP: Op = Op {
    name: "random_uniform",
    doc: "Evenly distributed in [lo, hi), from a key.",
    attrs: &[("shape", AttrKind::Ints), ("lo", AttrKind::Float), ("hi", AttrKind::Float), ("dtype", AttrKind::DType)],
    infer: |c| {
        c.arity(1)?;
        check_key(c, 0)?;
        one(float_of(c)?, shape_of(c)?)
    },
    meaning: Meaning::Composite(|c, args| {
        let (lo, hi) = (c.attrs.float("lo")?, c.attrs.float("hi")?);
        let (dtype, shape) = (float_of(c)?, shape_of(c)?);
        expand1(args, |t| {
            let x = unit(&t[0], &shape, dtype);
            if (lo, hi) == (0.0, 1.0) { x } else { x * (hi - lo) + lo }
        })
    }),
    grad: Grad::Zero,
    batch: Batch::Auto,
    cases: || {
        let of = |shape: &[usize], lo: f64, hi: f64, dtype| {
            Attrs::new().with("shape", shape).with("lo", lo).with("hi", hi).with("dtype", dtype)
        };
        vec![
            Case::new(vec![i64s([2], &[3, 4])], of(&[2, 3], -1.0, 1.0, DType::F32)),
            Case::new(vec![i64s([2], &[3, 4])], of(&[3], 0.0, 1.0, DType::BF16)),
            Case::new(vec![i64s([2], &[0, 0])], of(&[2], 0.0, 2.0, DType::F64)).expect(
                vec![f64s([2], &[2.0 * 0.39904647231489565, 2.0 * 0.7357127860596914])],
                "53 bits of the Random123 known answer for zeros",
            ),
        ]
    },
};

impl Tensor {
    /// f32 numbers evenly distributed in [lo, hi), from a key: i64, a seed and a counter. Rounding
    /// can give hi itself where the interval lies far from 0.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let key = Tensor::from([0i64, 0]);
    /// let x = Tensor::random_uniform(&key, [2], 0.0, 1.0);
    /// assert_eq!(x.to_vec::<f32>().unwrap(), [0.39904642, 0.88052016]);
    /// ```
    #[track_caller]
    pub fn random_uniform(key: &Tensor, shape: impl Into<Shape>, lo: f64, hi: f64) -> Tensor {
        Tensor::random_uniform_of(key, shape, lo, hi, DType::F32)
    }
    /// Numbers of type `dtype` evenly distributed in [lo, hi), from a key.
    #[track_caller]
    pub fn random_uniform_of(key: &Tensor, shape: impl Into<Shape>, lo: f64, hi: f64, dtype: DType) -> Tensor {
        let attrs = Attrs::new().with("shape", &shape.into()).with("lo", lo).with("hi", hi).with("dtype", dtype);
        Tensor::apply1(&OP, &[key], attrs)
    }
}
