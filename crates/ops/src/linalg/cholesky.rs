//! `cholesky`: the triangular square root of a positive definite matrix.

use super::unitary::Number;
use super::{dense, each, halved, hermitian, like, square};
use crate::pairs;
use crate::rules::{GradTensors, f64s, grads};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Literal, Meaning, Op};
use smallvec::SmallVec;

/// Which part of a symmetric matrix is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Triangle {
    /// On and below the diagonal.
    #[default]
    Lower,
    /// On and above the diagonal.
    Upper,
    /// Both, averaged.
    Both,
}
impl Triangle {
    pub(super) fn word(self) -> &'static str {
        match self {
            Triangle::Lower => "lower",
            Triangle::Upper => "upper",
            Triangle::Both => "both",
        }
    }
    pub(crate) fn parse(word: &str) -> Result<Triangle> {
        [Triangle::Lower, Triangle::Upper, Triangle::Both]
            .into_iter()
            .find(|t| t.word() == word)
            .ok_or_else(|| Error::value(format!("triangle must be lower, upper or both, not {word:?}")))
    }
    /// The symmetric or Hermitian matrix that is meant.
    pub(super) fn read<T: Number>(self, a: &[T], n: usize) -> Vec<T> {
        let at = |at: usize| {
            let (i, j) = (at / n, at % n);
            let (here, there) = (a[at], a[j * n + i].conj());
            match self {
                _ if i == j => here.re().into(),
                Triangle::Both => (here + there) * 0.5,
                Triangle::Lower if i > j => here,
                Triangle::Upper if i < j => here,
                _ => there,
            }
        };
        (0..n * n).map(at).collect()
    }
}

/// The row of `cholesky`.
pub static OP: Op = Op {
    name: "cholesky",
    doc: "The lower triangular matrix L with A = L Lᵀ. `triangle` says which part of A is read; the gradient is that \
          of a symmetric matrix in any case.",
    attrs: &[("triangle", AttrKind::Str)],
    infer: |c| {
        c.arity(1)?;
        let n = square(c, 0)?;
        Triangle::parse(c.attrs.str("triangle")?)?;
        Ok(SmallVec::from_iter([like(c, &[n, n])]))
    },
    meaning: Meaning::Kernel(|c, args| {
        let (n, triangle) = (square(c, 0)?, Triangle::parse(c.attrs.str("triangle")?)?);
        each(c, &args[0], [&[n, n]], |a, out| {
            let l = dense::cholesky(&triangle.read(a, n), n);
            out[0].extend(l.map_err(|k| format!("is not positive definite (its minor of order {k} is not positive)"))?);
            Ok(())
        })
    }),
    grad: Grad::Rule(|c| {
        let (l, g) = (c.y(0), c.g(0));
        // S = L⁻ᵀ Φ(Lᵀ g) L⁻¹, symmetrized.
        let inner = halved(&l.t().matmul(&g))?;
        let left = l.t().solve_upper(&inner);
        grads([hermitian(&l.t().solve_upper(&left.t()).t())])
    }),
    batch: super::BATCH,
    complex: on_complex!(pairs::cholesky),
    shard: ir::Shard::Leading(2),
    cases: || {
        let by = |t: &str| Attrs::new().with("triangle", t);
        let a = |t: f64| {
            f64s([2, 3, 3], &[4.0, 1.0, 0.5, 1.0, 3.0, t, 0.5, t, 2.0, 5.0, 1.0, 0.0, 1.0, 4.0, -1.0, 0.0, -1.0, 3.0])
        };
        let one = || f64s([2, 2], &[4.0, 2.0, 2.0, 5.0]);
        let want = || vec![f64s([2, 2], &[2.0, 0.0, 1.0, 2.0])];
        let half = Literal::from_f64(ir::DType::F64, [2, 2], &[4.0, f64::NAN, 2.0, 5.0]);
        vec![
            Case::new(vec![a(0.3)], by("both")),
            Case::new(vec![super::definite(70)], by("lower")).kinked(),
            Case::new(vec![one()], by("both")).expect(want(), "by hand: [[2, 0], [1, 2]] squared"),
            Case::new(vec![half], by("lower")).expect(want(), "by hand; the upper triangle is not read").kinked(),
            Case::new(vec![one()], by("upper")).expect(want(), "by hand").kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The lower triangular matrix L with A = L Lᵀ; only A's lower triangle is read. A matrix
    /// that is not positive definite is an error when the value is computed.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let a = Tensor::from([[4.0f32, 2.0], [2.0, 5.0]]);
    /// assert_eq!(a.cholesky().to_vec::<f32>().unwrap(), [2.0, 0.0, 1.0, 2.0]);
    /// ```
    #[track_caller]
    pub fn cholesky(&self) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("triangle", Triangle::Lower.word()))
    }
    /// The upper triangular matrix U with A = Uᵀ U; only A's upper triangle is read.
    #[track_caller]
    pub fn cholesky_upper(&self) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("triangle", Triangle::Upper.word())).t()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_that_is_not_positive_definite_is_named() {
        let a = Tensor::from([[[1.0f64, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]]);
        let e = a.cholesky().eval().unwrap_err().to_string();
        assert!(e.contains("matrix [1] of the batch is not positive definite (its minor of order 2"), "{e}");
    }
}
