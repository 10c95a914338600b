//! `qr`: an orthogonal and a triangular factor.

use super::{adjoint, complemented, diagonal_matrix, each, like, matrix, unitary, upper};
use crate::pairs;
use crate::rules::{GradTensors, f64s, floats, grads};
use crate::{Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, GradCall, Meaning, Op, Value};
use smallvec::SmallVec;

/// The row of `qr`.
pub static OP: Op = Op {
    name: "qr",
    doc: "Q with orthonormal columns and upper triangular R with A = Q R. Reduced: Q has as many columns as the \
          smaller size of A; `full`: Q is square, and its gradient determines the additional columns up to an \
          orthogonal transformation of them. Signs are LAPACK's.",
    attrs: &[("full", AttrKind::Bool)],
    infer: |c| {
        c.arity(1)?;
        let (m, n) = matrix(c, 0)?;
        let k = columns(c, m, n)?;
        Ok(SmallVec::from_iter([like(c, &[m, k]), like(c, &[k, n])]))
    },
    meaning: Meaning::Kernel(|c, args| {
        let (m, n) = matrix(c, 0)?;
        let k = columns(c, m, n)?;
        each(c, &args[0], [&[m, k], &[k, n]], |a, out| {
            let (q, r) = unitary::qr(a, m, n, k);
            out[0].extend(q);
            out[1].extend(r);
            Ok(())
        })
    }),
    grad: Grad::Rule(grad),
    batch: super::BATCH,
    complex: on_complex!(|u| pairs::on_pairs(u, &super::qr_pairs::OP, [true, true])),
    shard: ir::Shard::Leading(2),
    cases: || {
        // The first column of the example's Q is in sevenths, the others in 175ths.
        let q = [-6.0, 69.0, 58.0, -3.0, -158.0, -6.0, 2.0, -30.0, 165.0];
        let q: [f64; 9] = std::array::from_fn(|i| q[i] / if i % 3 == 0 { 7.0 } else { 175.0 });
        let by = |full: bool| Attrs::new().with("full", full);
        vec![
            Case::new(vec![floats([3, 2], 1)], by(true)),
            Case::new(vec![floats([3, 2], 1)], by(false)),
            Case::new(vec![floats([2, 2], 2)], by(false)),
            Case::new(vec![super::definite(40)], by(false)).kinked(),
            Case::new(vec![floats([2, 3], 4)], by(false)),
            Case::new(vec![f64s([3, 3], &[12.0, -51.0, 4.0, 6.0, 167.0, -68.0, -4.0, 24.0, -41.0])], by(false)).expect(
                vec![f64s([3, 3], &q), f64s([3, 3], &[-14.0, -21.0, 14.0, 0.0, -175.0, 70.0, 0.0, 0.0, -35.0])],
                "PyTorch manual: torch.linalg.qr",
            ),
        ]
    },
    ..Op::DEFAULT
};

/// Columns of Q.
pub(super) fn columns(c: &Call, m: usize, n: usize) -> Result<usize> {
    Ok(if c.attrs.bool("full")? { m } else { m.min(n) })
}

fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    grads([pulled(&c.x(0), &c.y(0), &c.y(1), &c.g(0), &c.g(1))?])
}
/// For a wide matrix [X Y] = Q [U V] the columns Y only see V = Q* Y; the rest is square.
pub(super) fn pulled(a: &Tensor, q: &Tensor, r: &Tensor, gq: &Tensor, gr: &Tensor) -> Result<Tensor> {
    let shape = a.shape()?;
    let (m, n) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    if m >= n {
        // Rows of R beyond the square are zero whatever A is.
        let gq = complemented(q, gq, n)?;
        return tall(&q.narrow(-1, 0, n), &r.narrow(-2, 0, n), &gq, &gr.narrow(-2, 0, n));
    }
    let (y, gv) = (a.narrow(-1, m, n - m), gr.narrow(-1, m, n - m));
    let gq = gq + y.matmul(adjoint(&gv));
    let gx = tall(q, &r.narrow(-1, 0, m), &gq, &gr.narrow(-1, 0, m))?;
    Ok(Tensor::concat(&[gx, q.matmul(gv)], -1))
}
/// [gQ + Q copyltu(gR R* - Q* gQ)] R⁻*, of which the diagonal is real as that of R is.
fn tall(q: &Tensor, r: &Tensor, gq: &Tensor, gr: &Tensor) -> Result<Tensor> {
    let inner = gr.matmul(adjoint(r)) - adjoint(q).matmul(gq);
    let above = upper(&inner, 1)?;
    let diagonal = diagonal_matrix(&inner.diagonal(0, -2, -1).real())?;
    let whole = gq + q.matmul(&above + adjoint(&above) + diagonal);
    // X R⁻* = (R⁻¹ X*)*.
    Ok(adjoint(&r.solve_upper(&adjoint(&whole))))
}

impl Tensor {
    /// Q with orthonormal columns and upper triangular R with A = Q R.
    #[track_caller]
    pub fn qr(&self) -> [Tensor; 2] {
        Tensor::apply_n(&OP, &[self], Attrs::new().with("full", false))
    }
    /// [`Tensor::qr`] with a square Q, whose additional columns span what is left, and as many rows
    /// of R.
    #[track_caller]
    pub fn qr_full(&self) -> [Tensor; 2] {
        Tensor::apply_n(&OP, &[self], Attrs::new().with("full", true))
    }
}
