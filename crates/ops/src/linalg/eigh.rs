//! `eigh`: eigenvalues and eigenvectors of a symmetric or Hermitian matrix.

use super::{Triangle, adjoint, diagonal_matrix, each, hermitian, like, square, unitary};
use crate::pairs;
use crate::rules::{GradTensors, f64s, grads};
use crate::{Result, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, GradCall, Meaning, Op, Value};
use smallvec::SmallVec;

/// The row of `eigh`.
pub static OP: Op = Op {
    name: "eigh",
    doc: "Eigenvalues of a symmetric or Hermitian matrix, ascending, and its eigenvectors as columns, each with a positive largest \
          component. `triangle` says which part is read; the gradient is that of a symmetric matrix in any case.",
    attrs: &[("triangle", AttrKind::Str)],
    infer: |c| {
        c.arity(1)?;
        let n = square(c, 0)?;
        Triangle::parse(c.attrs.str("triangle")?)?;
        Ok(SmallVec::from_iter([like(c, &[n]), like(c, &[n, n])]))
    },
    meaning: Meaning::Kernel(|c, args| {
        let (n, triangle) = (square(c, 0)?, Triangle::parse(c.attrs.str("triangle")?)?);
        each(c, &args[0], [&[n], &[n, n]], |a, out| {
            let (values, vectors) = unitary::eigh(&triangle.read(a, n), n);
            out[0].extend(values);
            out[1].extend(vectors);
            Ok(())
        })
    }),
    grad: Grad::Rule(grad),
    batch: super::BATCH,
    complex: on_complex!(|u| pairs::on_pairs(u, &super::eigh_pairs::OP, [false, true])),
    shard: ir::Shard::Leading(2),
    cases: || {
        let by = |t: &str| Attrs::new().with("triangle", t);
        let a = || vec![f64s([3, 3], &[2.0, 0.7, -0.3, 0.7, -1.0, 0.4, -0.3, 0.4, 0.5])];
        let half = f64s([2, 2], &[2.0, 9.0, 1.0, 2.0]);
        let r = 0.5f64.sqrt();
        let want = || vec![f64s([2], &[1.0, 3.0]), f64s([2, 2], &[r, r, -r, r])];
        vec![
            Case::new(a(), by("both")),
            Case::new(a(), by("upper")).kinked(),
            Case::new(vec![half], by("lower")).expect(want(), "by hand: [[2, 1], [1, 2]]").kinked(),
        ]
    },
    ..Op::DEFAULT
};

fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let gv = c.grads[1].is_some().then(|| c.g(1));
    grads([pulled(&c.y(0), &c.y(1), &c.g(0), gv.as_ref())?])
}
/// The gradient of the matrix: the Hermitian part of V (diag(gλ) + (V* gV) / (λⱼ - λᵢ)) V*.
pub(super) fn pulled(w: &Tensor, v: &Tensor, gw: &Tensor, gv: Option<&Tensor>) -> Result<Tensor> {
    let mut inner = diagonal_matrix(gw)?;
    if let Some(gv) = gv {
        let gap = w.unsqueeze(-2) - w.unsqueeze(-1);
        inner = inner + divided(&adjoint(v).matmul(gv), &gap);
    }
    Ok(hermitian(&v.matmul(inner).matmul(adjoint(v))))
}
/// The quotient, zero where the divisor is: vectors of equal values are not determined.
pub(super) fn divided(x: &Tensor, by: &Tensor) -> Tensor {
    let is_zero = by.eq(0.0);
    let safe = Tensor::where_(&is_zero, &by.ones_like(), by);
    Tensor::where_(&is_zero, &x.zeros_like(), x / safe)
}

impl Tensor {
    /// Eigenvalues of a symmetric or Hermitian matrix, ascending, and eigenvectors as columns; the
    /// lower triangle is read.
    #[track_caller]
    pub fn eigh(&self) -> [Tensor; 2] {
        self.eigh_of(Triangle::Lower)
    }
    /// [`Tensor::eigh`], reading the given triangle.
    #[track_caller]
    pub fn eigh_of(&self, triangle: Triangle) -> [Tensor; 2] {
        Tensor::apply_n(&OP, &[self], Attrs::new().with("triangle", triangle.word()))
    }
}
