//! `matrix_exp`: the exponential of a matrix.

use super::{dense, each, like, square};
use crate::Tensor;
use crate::pairs;
use crate::rules::{GradTensors, f64s, floats, grads};
use ir::{Attrs, Case, Grad, Meaning, Op};
use smallvec::SmallVec;

/// The row of `matrix_exp`.
pub static OP: Op = Op {
    name: "matrix_exp",
    doc: "The exponential of a square matrix: the sum of its powers over factorials.",
    infer: |c| {
        c.arity(1)?;
        let n = square(c, 0)?;
        Ok(SmallVec::from_iter([like(c, &[n, n])]))
    },
    meaning: Meaning::Kernel(|c, args| {
        let n = square(c, 0)?;
        each(c, &args[0], [&[n, n]], |a, out| {
            out[0].extend(dense::exp(a, n));
            Ok(())
        })
    }),
    // exp of [[Aᵀ, g], [0, Aᵀ]] has the derivative at Aᵀ along g in its corner.
    grad: Grad::Rule(|c| {
        let (at, g) = (c.x(0).t(), c.g(0));
        let n = c.inputs[0].ty().shape.last().copied().unwrap_or(0);
        let top = Tensor::concat(&[at.clone(), g.clone()], -1);
        let whole = Tensor::concat(&[top, Tensor::concat(&[g.zeros_like(), at], -1)], -2);
        grads([whole.matrix_exp().narrow(-2, 0, n).narrow(-1, n, n)])
    }),
    batch: super::BATCH,
    complex: on_complex!(pairs::by_block),
    shard: ir::Shard::Leading(2),
    cases: || {
        let turn = std::f64::consts::FRAC_PI_2;
        vec![
            Case::new(vec![floats([2, 2, 2], 1)], Attrs::new()),
            Case::new(vec![floats([3, 3], 2)], Attrs::new()),
            Case::new(vec![f64s([2, 2], &[0.0, 1.0, 0.0, 0.0])], Attrs::new())
                .expect(vec![f64s([2, 2], &[1.0, 1.0, 0.0, 1.0])], "by hand: the square is zero"),
            Case::new(vec![f64s([2, 2], &[0.0, -turn, turn, 0.0])], Attrs::new())
                .expect(vec![f64s([2, 2], &[0.0, -1.0, 1.0, 0.0])], "by hand: a quarter turn"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The exponential of a square matrix, or of each of a batch.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[0.0f32, 3.0], [0.0, 0.0]]).matrix_exp();
    /// assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 3.0, 0.0, 1.0]);
    /// ```
    #[track_caller]
    pub fn matrix_exp(&self) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new())
    }
}
