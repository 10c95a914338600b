//! `view_as_complex`: pairs of real numbers as complex ones.

use crate::rules::{GradTensors, f64s, floats, grads, one};
use crate::{DType, Error, Tensor};
use ir::{Attrs, Case, Grad, Meaning, Op, Shape};

/// The row of `view_as_complex`.
pub static OP: Op = Op {
    name: "view_as_complex",
    doc: "The complex numbers whose parts, real and imaginary, lie along the last dimension, which has size 2.",
    infer: |c| {
        c.arity(1)?;
        let (dtype, dims) = (c.dtype(0), c.shape(0).dims());
        match (dtype, dims) {
            (DType::F32 | DType::F64, [rest @ .., 2]) => one(dtype.to_complex(), Shape::new(rest)),
            (DType::F32 | DType::F64, _) => {
                Err(Error::shape(format!("the last dimension must have size 2, but the shape is {}", c.shape(0))))
            }
            _ => Err(Error::dtype(format!("the parts must be f32 or f64, not {dtype}"))),
        }
    },
    meaning: Meaning::Recast,
    grad: Grad::Rule(|c| grads([c.g(0).view_as_real()])),
    batch: super::BATCH,
    cases: || {
        let x = f64s([2, 2], &[1.0, -2.0, 3.0, 0.5]);
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], Attrs::new()),
            Case::new(vec![x.clone()], Attrs::new()).expect(vec![x.retyped(DType::C128, [2])], "by definition"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The complex numbers whose parts, real and imaginary, lie along the last dimension.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let z = Tensor::from([[3.0f32, 4.0]]).view_as_complex();
    /// assert_eq!(z.abs().to_vec::<f32>().unwrap(), [5.0]);
    /// ```
    #[track_caller]
    pub fn view_as_complex(&self) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new())
    }
}
