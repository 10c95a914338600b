//! `svd`: the singular value decomposition.

use super::eigh::divided;
use super::{adjoint, complemented, diagonal_matrix, each, like, matrix, unitary};
use crate::pairs;
use crate::rules::{GradTensors, f64s, floats, grads};
use crate::{Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, GradCall, Meaning, Op, Value};
use smallvec::SmallVec;

/// The row of `svd`.
pub static OP: Op = Op {
    name: "svd",
    doc: "U, the singular values in descending order, and V* with A = U diag(s) V*. Reduced: as many columns of U and \
          rows of V* as singular values; `full`: square matrices, of which the gradient determines the additional \
          vectors up to an orthogonal transformation of them. The largest component of each column of U is positive.",
    attrs: &[("full", AttrKind::Bool)],
    infer: |c| {
        c.arity(1)?;
        let (m, n) = matrix(c, 0)?;
        let (left, right) = sides(c, m, n)?;
        Ok(SmallVec::from_iter([like(c, &[m, left]), like(c, &[m.min(n)]), like(c, &[right, n])]))
    },
    meaning: Meaning::Kernel(|c, args| {
        let (m, n) = matrix(c, 0)?;
        let ((left, right), is_full) = (sides(c, m, n)?, c.attrs.bool("full")?);
        each(c, &args[0], [&[m, left], &[m.min(n)], &[right, n]], |a, out| {
            let (u, s, vh) = unitary::svd(a, m, n, is_full);
            out[0].extend(u);
            out[1].extend(s);
            out[2].extend(vh);
            Ok(())
        })
    }),
    grad: Grad::Rule(grad),
    batch: super::BATCH,
    complex: on_complex!(|u| pairs::on_pairs(u, &super::svd_pairs::OP, [true, false, true])),
    shard: ir::Shard::Leading(2),
    cases: || {
        let by = |full: bool| Attrs::new().with("full", full);
        let r = 0.5f64.sqrt();
        vec![
            Case::new(vec![floats([3, 2], 1)], by(false)),
            Case::new(vec![floats([2, 3], 2)], by(false)),
            Case::new(vec![f64s([2, 2], &[3.0, 0.0, 4.0, 5.0])], by(false)),
            Case::new(vec![floats([3, 2], 1)], by(true)),
            Case::new(vec![floats([2, 3], 2)], by(true)),
            Case::new(vec![f64s([2, 1], &[1.0, 1.0])], by(true))
                .expect(
                    vec![f64s([2, 2], &[r, r, r, -r]), f64s([1], &[2f64.sqrt()]), f64s([1, 1], &[1.0])],
                    "by hand: a line and its normal",
                )
                .kinked(),
            Case::new(vec![f64s([2, 2], &[0.0, 2.0, 3.0, 0.0])], by(false)).expect(
                vec![f64s([2, 2], &[0.0, 1.0, 1.0, 0.0]), f64s([2], &[3.0, 2.0]), f64s([2, 2], &[1.0, 0.0, 0.0, 1.0])],
                "by hand: a permutation times diag(3, 2)",
            ),
        ]
    },
    ..Op::DEFAULT
};

/// Columns of U and rows of V*.
pub(super) fn sides(c: &Call, m: usize, n: usize) -> Result<(usize, usize)> {
    Ok(if c.attrs.bool("full")? { (m, n) } else { (m.min(n), m.min(n)) })
}

fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let g = |i: usize| c.grads[i].is_some().then(|| c.g(i));
    grads([pulled(Factors::reduced(&c.y(0), &c.y(1), &adjoint(&c.y(2)), g(0), g(2).map(|g| adjoint(&g)))?, &c.g(1))?])
}

/// Singular vectors as columns, as many as values, with the gradients that reach them.
pub(super) struct Factors {
    pub u: Tensor,
    pub s: Tensor,
    pub v: Tensor,
    pub gu: Option<Tensor>,
    pub gv: Option<Tensor>,
}
impl Factors {
    /// From bases that may be full ones.
    pub fn reduced(u: &Tensor, s: &Tensor, v: &Tensor, gu: Option<Tensor>, gv: Option<Tensor>) -> Result<Factors> {
        let k = s.shape()?.last().copied().unwrap_or(0);
        let gu = gu.map(|g| complemented(u, &g, k)).transpose()?;
        let gv = gv.map(|g| complemented(v, &g, k)).transpose()?;
        Ok(Factors { u: u.narrow(-1, 0, k), s: s.clone(), v: v.narrow(-1, 0, k), gu, gv })
    }
}

/// PyTorch's formula: the part within the singular vectors, and what sticks out of them. Turning a
/// pair of vectors by a phase must not change the loss.
pub(super) fn pulled(f: Factors, gs: &Tensor) -> Result<Tensor> {
    let Factors { u, s, v, gu, gv } = f;
    let (uh, vh) = (adjoint(&u), adjoint(&v));
    let (row, column) = (s.unsqueeze(-2), s.unsqueeze(-1));
    let gap = &row * &row - &column * &column;
    let skew = |x: &Tensor| x - adjoint(x);
    let mut inner = diagonal_matrix(gs)?;
    if let Some(gu) = &gu {
        let along = uh.matmul(gu);
        inner = inner + divided(&skew(&along), &gap) * &row;
        if along.dtype()?.is_complex() {
            let phase = divided(&along.diagonal(0, -2, -1).imag(), &s);
            inner = inner + Tensor::complex(&s.zeros_like(), &phase).unsqueeze(-1) * diagonal_matrix(&s.ones_like())?;
        }
    }
    if let Some(gv) = &gv {
        inner = inner + divided(&skew(&vh.matmul(gv)), &gap) * &column;
    }
    let mut out = u.matmul(inner).matmul(&vh);
    let [rows, columns] = [&u, &v].map(|x| x.shape().map(|s| s[s.rank() - 2]));
    let (rows, columns) = (rows?, columns?);
    if let Some(gu) = gu.filter(|_| rows > columns) {
        let g = gu / &row;
        out = out + (&g - u.matmul(uh.matmul(&g))).matmul(&vh);
    }
    if let Some(gv) = gv.filter(|_| columns > rows) {
        let g = adjoint(&gv) / &column;
        out = out + u.matmul(&g - g.matmul(&v).matmul(&vh));
    }
    Ok(out)
}

impl Tensor {
    /// U, s and V* with A = U diag(s) V*: the reduced singular value decomposition.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let [u, s, vt] = Tensor::from([[0.0f32, 2.0], [3.0, 0.0]]).svd();
    /// assert_eq!(s.to_vec::<f32>().unwrap(), [3.0, 2.0]);
    /// assert_eq!((u * s).matmul(vt).to_vec::<f32>().unwrap(), [0.0, 2.0, 3.0, 0.0]);
    /// ```
    #[track_caller]
    pub fn svd(&self) -> [Tensor; 3] {
        Tensor::apply_n(&OP, &[self], Attrs::new().with("full", false))
    }
    /// [`Tensor::svd`] with square U and V*, whose additional vectors span what is left.
    #[track_caller]
    pub fn svd_full(&self) -> [Tensor; 3] {
        Tensor::apply_n(&OP, &[self], Attrs::new().with("full", true))
    }
}
