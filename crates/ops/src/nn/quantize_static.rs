//! `quantize_static`: numbers as bytes, in steps of one size that is known beforehand.

use crate::rules::{expand1, f64s, floats, one};
use crate::{DType, Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op, Value};

/// The row of `quantize_static`.
pub static OP: Op = Op {
    name: "quantize_static",
    doc: "x in steps of size `step`, rounded to the nearest (to even ones between two), as i8 or u8; what is out of range \
          becomes the nearest integer.",
    attrs: &[("step", AttrKind::Float), ("dtype", AttrKind::DType)],
    infer: |c| {
        c.arity(1)?;
        if !c.dtype(0).is_float() {
            return Err(Error::dtype(format!("floats are needed, not {}", c.dtype(0))));
        }
        step(c)?;
        match c.attrs.dtype("dtype")? {
            to @ (DType::I8 | DType::U8) => one(to, c.shape(0).clone()),
            to => Err(Error::dtype(format!("steps are i8 or u8, not {to}"))),
        }
    },
    meaning: Meaning::Composite(body),
    grad: Grad::Missing("it rounds to integers"),
    cases: || {
        let at = |step: f64, dtype: DType| Attrs::new().with("step", step).with("dtype", dtype);
        let x = f64s([5], &[0.25, -0.75, 3.0, 1e9, -1e9]);
        vec![
            Case::new(vec![floats([3, 4], 1)], at(0.01, DType::I8)),
            Case::new(vec![floats([2, 3], 2)], at(0.004, DType::U8)),
            Case::new(vec![x.clone()], at(0.5, DType::I8))
                .expect(vec![Literal::from_i64(DType::I8, [5], &[0, -2, 6, 127, -128])], "by hand"),
            Case::new(vec![x], at(0.5, DType::U8))
                .expect(vec![Literal::from_i64(DType::U8, [5], &[0, 0, 6, 255, 0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

/// The attribute `step`.
pub(super) fn step(c: &Call) -> Result<f64> {
    let step = c.attrs.float("step")?;
    let is_size = step.is_finite() && step > 0.0;
    if is_size { Ok(step) } else { Err(Error::value(format!("a step must be greater than 0, not {step}"))) }
}

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let (step, to) = (step(c)?, c.attrs.dtype("dtype")?);
    let (low, high) = if to == DType::I8 { (-128.0, 127.0) } else { (0.0, 255.0) };
    expand1(args, |v| (v[0].cast(DType::F32) * (1.0 / step)).round().clamp(low, high).cast(to))
}

impl Tensor {
    /// The numbers in steps of a size that is known beforehand, as `i8` or `u8`.
    ///
    /// ```
    /// # use talweg_ops::{DType, Tensor};
    /// let q = Tensor::from([0.1f32, -0.2, 9.0]).quantize_static(0.05, DType::I8);
    /// assert_eq!(q.to_vec::<i8>().unwrap(), [2, -4, 127]);
    /// ```
    #[track_caller]
    pub fn quantize_static(&self, step: f64, dtype: DType) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("step", step).with("dtype", dtype))
    }
}
