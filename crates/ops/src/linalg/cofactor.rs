//! `cofactor`: the determinants of what is left of a matrix without a row and a column.

use super::{dense, each, like, per_matrix, square, unitary};
use crate::Tensor;
use crate::rules::{GradTensors, f64s, floats, grads};
use ir::{Attrs, Case, Grad, Meaning, Op};
use smallvec::SmallVec;

/// The row of `cofactor`.
pub static OP: Op = Op {
    name: "cofactor",
    doc: "The matrix of cofactors: determinant times transposed inverse where there is one. Its gradient needs the \
          matrix to be invertible.",
    infer: |c| {
        c.arity(1)?;
        let n = square(c, 0)?;
        Ok(SmallVec::from_iter([like(c, &[n, n])]))
    },
    meaning: Meaning::Kernel(|c, args| {
        let n = square(c, 0)?;
        each(c, &args[0], [&[n, n]], |a, out| {
            // Through the singular values: the product of all but one needs no division.
            let (u, s, vt) = unitary::svd(a, n, n, false);
            let sign = (dense::det(&u, n) * dense::det(&vt, n)).signum();
            let others = |k: usize| (0..n).filter(|&j| j != k).map(|j| s[j]).product::<f64>() * sign;
            let scaled: Vec<f64> = (0..n * n).map(|i| u[i] * others(i % n)).collect();
            out[0].extend(dense::matmul(&scaled, &vt, n, n, n));
            Ok(())
        })
    }),
    grad: Grad::Rule(|c| {
        let (x, y, g) = (c.x(0), c.y(0), c.g(0));
        let back = x.inv().t();
        let along = (&g * &back).sum([-2, -1]);
        grads([per_matrix(&along) * y - per_matrix(&x.det()) * back.matmul(g.t()).matmul(&back)])
    }),
    batch: super::BATCH,
    shard: ir::Shard::Leading(2),
    cases: || {
        vec![
            Case::new(vec![floats([2, 2, 2], 1)], Attrs::new()),
            Case::new(vec![floats([3, 3], 2)], Attrs::new()),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0])], Attrs::new())
                .expect(vec![f64s([2, 2], &[4.0, -3.0, -2.0, 1.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The matrix of cofactors of a square matrix: what the determinant's gradient is.
    #[track_caller]
    pub fn cofactor(&self) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new())
    }
}
