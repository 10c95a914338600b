//! `random_uniform`: evenly distributed in an interval.

use super::{check_key, float_of, shape_of, unit};
use crate::rules::{expand1, f64s, i64s, one};
use crate::{DType, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Literal, Meaning, Op, Shape, bf16, f16};

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
            if (lo, hi) == (0.0, 1.0) {
                return x;
            }
            let y = x.widened() * (hi - lo) + lo;
            // Rounding may reach hi, which is left out.
            if lo < hi { y.minimum(below(hi, dtype)).cast(dtype) } else { y.cast(dtype) }
        })
    }),
    grad: Grad::Zero,
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
    ..Op::DEFAULT
};

/// The largest number of a float type below another.
fn below(x: f64, dtype: DType) -> f64 {
    let nearest = Literal::scalar_f64(dtype, x).to_f64()[0];
    let down = |bits: u16| match bits {
        0 | 0x8000 => 0x8001,
        b if b < 0x8000 => b - 1,
        b => b + 1,
    };
    match dtype {
        _ if nearest < x => nearest,
        DType::F64 => nearest.next_down(),
        DType::F32 => f64::from((nearest as f32).next_down()),
        DType::F16 => f16::from_bits(down(f16::from_f64(nearest).to_bits())).to_f64(),
        _ => bf16::from_bits(down(bf16::from_f64(nearest).to_bits())).to_f64(),
    }
}

impl Tensor {
    /// f32 numbers evenly distributed in [lo, hi), from a key: i64, a seed and a counter.
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
