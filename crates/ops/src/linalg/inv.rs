//! `inv`: the inverse of a matrix.

use super::{dense, each, like, square};
use crate::Tensor;
use crate::pairs;
use crate::rules::{GradTensors, f64s, floats, grads};
use ir::{Attrs, Case, Grad, Meaning, Op};
use smallvec::SmallVec;

/// The row of `inv`.
pub static OP: Op = Op {
    name: "inv",
    doc: "The inverse of a square matrix.",
    infer: |c| {
        c.arity(1)?;
        let n = square(c, 0)?;
        Ok(SmallVec::from_iter([like(c, &[n, n])]))
    },
    meaning: Meaning::Kernel(|c, args| {
        let n = square(c, 0)?;
        let eye: Vec<f64> = (0..n * n).map(|i| (i / n == i % n) as u8 as f64).collect();
        each(c, &args[0], [&[n, n]], |a, out| {
            out[0].extend(dense::solve(a, &eye, n, n).ok_or("is singular")?);
            Ok(())
        })
    }),
    grad: Grad::Rule(|c| {
        let back = c.y(0).t();
        grads([-back.matmul(c.g(0)).matmul(&back)])
    }),
    batch: super::BATCH,
    complex: on_complex!(pairs::by_block),
    shard: ir::Shard::Leading(2),
    cases: || {
        vec![
            Case::new(vec![super::definite(40)], Attrs::new()).kinked(),
            Case::new(vec![floats([2, 2, 2], 1)], Attrs::new()),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0])], Attrs::new())
                .expect(vec![f64s([2, 2], &[-2.0, 1.0, 1.5, -0.5])], "NumPy manual: np.linalg.inv([[1, 2], [3, 4]])"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The inverse of a square matrix; a singular one is an error when the value is computed.
    #[track_caller]
    pub fn inv(&self) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new())
    }
}
