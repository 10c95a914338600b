//! `svd`: the singular value decomposition.

use super::eigh::divided;
use super::{dense, diagonal_matrix, each, like, matrix};
use crate::rules::{GradTensors, f64s, floats, grads};
use crate::{Result, Tensor};
use ir::{Attrs, Case, Grad, GradCall, Meaning, Op, Value};
use smallvec::SmallVec;

/// The row of `svd`.
pub static OP: Op = Op {
    name: "svd",
    doc: "U, the singular values in descending order, and Vᵀ with A = U diag(s) Vᵀ; reduced: as many columns of U and \
          rows of Vᵀ as singular values. The largest component of each column of U is positive.",
    attrs: &[],
    infer: |c| {
        c.arity(1)?;
        let (m, n) = matrix(c, 0)?;
        let k = m.min(n);
        Ok(SmallVec::from_iter([like(c, &[m, k]), like(c, &[k]), like(c, &[k, n])]))
    },
    meaning: Meaning::Kernel(|c, args| {
        let (m, n) = matrix(c, 0)?;
        let k = m.min(n);
        each(c, &args[0], [&[m, k], &[k], &[k, n]], |a, out| {
            let (u, s, vt) = dense::svd(a, m, n);
            out[0].extend(u);
            out[1].extend(s);
            out[2].extend(vt);
            Ok(())
        })
    }),
    grad: Grad::Rule(grad),
    batch: super::BATCH,
    cases: || {
        vec![
            Case::new(vec![floats([3, 2], 1)], Attrs::new()),
            Case::new(vec![floats([2, 3], 2)], Attrs::new()),
            Case::new(vec![f64s([2, 2], &[3.0, 0.0, 4.0, 5.0])], Attrs::new()),
            Case::new(vec![f64s([2, 2], &[0.0, 2.0, 3.0, 0.0])], Attrs::new()).expect(
                vec![f64s([2, 2], &[0.0, 1.0, 1.0, 0.0]), f64s([2], &[3.0, 2.0]), f64s([2, 2], &[1.0, 0.0, 0.0, 1.0])],
                "by hand: a permutation times diag(3, 2)",
            ),
        ]
    },
};

/// PyTorch's formula: the part within the singular vectors, and what sticks out of them.
fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let (u, s, vt) = (c.y(0), c.y(1), c.y(2));
    let (m, n) = (c.inputs[0].ty().shape.rank(), c.inputs[0].ty().shape.clone());
    let (rows, columns) = (n[m - 2], n[m - 1]);
    let (row, column) = (s.unsqueeze(-2), s.unsqueeze(-1));
    let skew = |x: Tensor| &x - x.t();
    let gap = &row * &row - &column * &column;
    let mut inner = diagonal_matrix(&c.g(1))?;
    if c.grads[0].is_some() {
        inner = inner + divided(&skew(u.t().matmul(c.g(0))), &gap) * &row;
    }
    if c.grads[2].is_some() {
        inner = inner + divided(&skew(vt.matmul(c.g(2).t())), &gap) * &column;
    }
    let mut out = u.matmul(inner).matmul(&vt);
    if c.grads[0].is_some() && rows > columns {
        let g = c.g(0) / &row;
        out = out + (&g - u.matmul(u.t().matmul(&g))).matmul(&vt);
    }
    if c.grads[2].is_some() && columns > rows {
        let g = c.g(2) / &column;
        out = out + u.matmul(&g - g.matmul(vt.t()).matmul(&vt));
    }
    grads([out])
}

impl Tensor {
    /// U, s and Vᵀ with A = U diag(s) Vᵀ: the reduced singular value decomposition.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let [u, s, vt] = Tensor::from([[0.0f32, 2.0], [3.0, 0.0]]).svd();
    /// assert_eq!(s.to_vec::<f32>().unwrap(), [3.0, 2.0]);
    /// assert_eq!((u * s).matmul(vt).to_vec::<f32>().unwrap(), [0.0, 2.0, 3.0, 0.0]);
    /// ```
    #[track_caller]
    pub fn svd(&self) -> [Tensor; 3] {
        Tensor::apply_n(&OP, &[self], Attrs::new())
    }
}
