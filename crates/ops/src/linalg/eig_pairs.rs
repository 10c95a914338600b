//! `eig_pairs`: eigenvalues and eigenvectors of a square matrix given as pairs.

use super::eigh::divided;
use super::{adjoint, diagonal_matrix, each, paired, schur, square};
use crate::rules::{GradTensors, f64s, floats, grads};
use crate::{Result, Tensor};
use ir::{Attrs, Call, Case, Grad, GradCall, Meaning, Op, Type, Value};
use smallvec::SmallVec;

/// The row of `eig_pairs`.
pub static OP: Op = Op {
    name: "eig_pairs",
    doc: "Eigenvalues of a square matrix of pairs, in no order, and eigenvectors as columns of length 1, each with a \
          real and positive largest component; both as pairs.",
    infer: |c| {
        let ty = paired::matrices(c)?;
        square(&Call { types: std::slice::from_ref(&ty), attrs: c.attrs }, 0)?;
        let rank = ty.shape.rank();
        let values = Type::new(ty.dtype, ty.shape[..rank - 1].iter().chain(&[2]).copied().collect::<ir::Shape>());
        Ok(SmallVec::from_iter([values, c.types[0].clone()]))
    },
    meaning: Meaning::Kernel(|c, args| {
        let plain = Call { types: &[paired::matrices(c)?], attrs: c.attrs };
        let n = square(&plain, 0)?;
        each(&plain, &args[0], [&[n, 2], &[n, n, 2]], |a, out| {
            let (values, vectors) = schur::eig(&paired::numbers(a), n)?;
            out[0].extend(paired::parts(values));
            out[1].extend(paired::parts(vectors));
            Ok(())
        })
    }),
    grad: Grad::Rule(grad),
    batch: super::BATCH,
    cases: || {
        let r = 0.5f64.sqrt();
        let triangle = f64s([2, 2, 2], &[1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0]);
        let values = f64s([2, 2], &[1.0, 0.0, 2.0, 0.0]);
        let vectors = f64s([2, 2, 2], &[1.0, 0.0, r, 0.0, 0.0, 0.0, r, 0.0]);
        vec![
            Case::new(vec![floats([3, 3, 2], 1)], Attrs::new()),
            Case::new(vec![floats([2, 2, 2, 2], 3)], Attrs::new()),
            Case::new(vec![triangle], Attrs::new()).expect(vec![values, vectors], "by hand: [[1, 1], [0, 2]]").kinked(),
        ]
    },
    ..Op::DEFAULT
};

/// PyTorch's formula: V⁻* (diag(gλ) + (V* gV - V* V Re(diag(V* gV))) / (λⱼ - λᵢ)*) V*.
fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let (w, v) = (c.y(0).view_as_complex(), c.y(1).view_as_complex());
    let vh = adjoint(&v);
    let mut inner = diagonal_matrix(&c.g(0).view_as_complex())?;
    if c.grads[1].is_some() {
        let g = c.g(1).view_as_complex();
        let g = paired::settled(&v, &g, &paired::turning(&v, &g))?;
        // The length stays 1.
        let along = (v.conj() * &g).real().sum(-2);
        let g = &g - &v * along.unsqueeze(-2);
        inner = inner + divided(&vh.matmul(&g), &(w.unsqueeze(-2) - w.unsqueeze(-1)).conj());
    }
    grads([vh.solve(&inner.matmul(&vh)).view_as_real()])
}

impl Tensor {
    /// Eigenvalues of a square matrix, in no order, and eigenvectors as columns of length 1; both
    /// complex. Of a symmetric or Hermitian matrix [`Tensor::eigh`] gives real ones, ascending.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let [w, _] = Tensor::from([[0.0f32, -1.0], [1.0, 0.0]]).eig();
    /// assert!(w.square().real().to_vec::<f32>().unwrap().iter().all(|x| (x + 1.0).abs() < 1e-6));
    /// ```
    #[track_caller]
    pub fn eig(&self) -> [Tensor; 2] {
        let [w, v]: [Tensor; 2] = Tensor::apply_n(&OP, &[&self.to_complex().view_as_real()], Attrs::new());
        [w.view_as_complex(), v.view_as_complex()]
    }
    /// Eigenvalues of a square matrix, in no order.
    #[track_caller]
    pub fn eigvals(&self) -> Tensor {
        let [w, _] = self.eig();
        w
    }
}
