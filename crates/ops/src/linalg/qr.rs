//! `qr`: an orthogonal and a triangular factor.

use super::{dense, each, like, lower, matrix, upper};
use crate::rules::{GradTensors, f64s, floats, grads};
use crate::{Result, Tensor};
use ir::{Attrs, Case, Grad, GradCall, Meaning, Op, Value};
use smallvec::SmallVec;

/// The row of `qr`.
pub static OP: Op = Op {
    name: "qr",
    doc: "Q with orthonormal columns and upper triangular R with A = Q R; reduced: Q has as many columns as the \
          smaller size of A. Signs are LAPACK's.",
    attrs: &[],
    infer: |c| {
        c.arity(1)?;
        let (m, n) = matrix(c, 0)?;
        let k = m.min(n);
        Ok(SmallVec::from_iter([like(c, &[m, k]), like(c, &[k, n])]))
    },
    meaning: Meaning::Kernel(|c, args| {
        let (m, n) = matrix(c, 0)?;
        let k = m.min(n);
        each(c, &args[0], [&[m, k], &[k, n]], |a, out| {
            let (q, r) = dense::qr(a, m, n);
            out[0].extend(q);
            out[1].extend(r);
            Ok(())
        })
    }),
    grad: Grad::Rule(grad),
    batch: super::BATCH,
    cases: || {
        // The first column of the example's Q is in sevenths, the others in 175ths.
        let q = [-6.0, 69.0, 58.0, -3.0, -158.0, -6.0, 2.0, -30.0, 165.0];
        let q: [f64; 9] = std::array::from_fn(|i| q[i] / if i % 3 == 0 { 7.0 } else { 175.0 });
        vec![
            Case::new(vec![floats([3, 2], 1)], Attrs::new()),
            Case::new(vec![floats([2, 2], 2)], Attrs::new()),
            Case::new(vec![floats([2, 3], 4)], Attrs::new()),
            Case::new(vec![f64s([3, 3], &[12.0, -51.0, 4.0, 6.0, 167.0, -68.0, -4.0, 24.0, -41.0])], Attrs::new())
                .expect(
                    vec![f64s([3, 3], &q), f64s([3, 3], &[-14.0, -21.0, 14.0, 0.0, -175.0, 70.0, 0.0, 0.0, -35.0])],
                    "PyTorch manual: torch.linalg.qr",
                ),
        ]
    },
};

/// For a wide matrix [X Y] = Q [U V] the columns Y only see V = Qᵀ Y; the rest is square.
fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let (a, q, r) = (c.x(0), c.y(0), c.y(1));
    let shape = a.shape()?;
    let (m, n) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    if m >= n {
        return grads([tall(&q, &r, &c.g(0), &c.g(1))?]);
    }
    let (y, gv) = (a.narrow(-1, m, n - m), c.g(1).narrow(-1, m, n - m));
    let gq = c.g(0) + y.matmul(gv.t());
    let gx = tall(&q, &r.narrow(-1, 0, m), &gq, &c.g(1).narrow(-1, 0, m))?;
    grads([Tensor::concat(&[gx, q.matmul(gv)], -1)])
}
/// [gQ + Q copyltu(gR Rᵀ - Qᵀ gQ)] R⁻ᵀ.
fn tall(q: &Tensor, r: &Tensor, gq: &Tensor, gr: &Tensor) -> Result<Tensor> {
    let inner = upper(&(gr.matmul(r.t()) - q.t().matmul(gq)), 0)?;
    let whole = gq + q.matmul(&inner + lower(&inner.t(), -1)?);
    // X R⁻ᵀ = (R⁻¹ Xᵀ)ᵀ.
    Ok(r.solve_upper(&whole.t()).t())
}

impl Tensor {
    /// Q with orthonormal columns and upper triangular R with A = Q R.
    #[track_caller]
    pub fn qr(&self) -> [Tensor; 2] {
        Tensor::apply_n(&OP, &[self], Attrs::new())
    }
}
