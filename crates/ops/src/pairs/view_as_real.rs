//! `view_as_real`: complex numbers as pairs of real ones.

use crate::rules::{GradTensors, f64s, floats, grads};
use crate::{Error, Tensor};
use ir::{Attrs, Case, DType, Grad, Meaning, Op};

/// The row of `view_as_real`.
pub static OP: Op = Op {
    name: "view_as_real",
    doc: "Complex numbers as their parts: a new last dimension of size 2, real and imaginary.",
    infer: |c| {
        c.arity(1)?;
        if !c.dtype(0).is_complex() {
            return Err(Error::dtype(format!("expected complex numbers, not {}", c.dtype(0))));
        }
        Ok([c.types[0].paired()].into_iter().collect())
    },
    meaning: Meaning::Recast,
    grad: Grad::Rule(|c| grads([c.g(0).view_as_complex()])),
    batch: super::BATCH,
    cases: || {
        let x = f64s([2, 2], &[1.0, -2.0, 3.0, 0.5]);
        vec![
            Case::new(vec![floats([2, 3, 2], 1).retyped(DType::C128, [2, 3])], Attrs::new()),
            Case::new(vec![x.retyped(DType::C128, [2])], Attrs::new()).expect(vec![x], "by definition"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Complex numbers as their parts: a new last dimension of size 2, real and imaginary.
    #[track_caller]
    pub fn view_as_real(&self) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new())
    }
}
