//! `triangular_solve`: linear equations with a triangular matrix.

use super::{dense, lead, lower, matrix, square, upper, with};
use crate::pairs;
use crate::rules::{GradTensors, f64s, floats, grads, one_dtype};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op, Type};
use smallvec::SmallVec;

/// The row of `triangular_solve`.
pub static OP: Op = Op {
    name: "triangular_solve",
    doc: "X with A X = B for a lower (or `upper`) triangular A; with `unit` its diagonal counts as ones. The other \
          triangle is not read.",
    attrs: &[("upper", AttrKind::Bool), ("unit", AttrKind::Bool)],
    infer: |c| {
        let (n, k) = check(c)?;
        Ok(SmallVec::from_iter([Type::new(c.dtype(0), with(&lead(c.shape(0)), &[n, k]))]))
    },
    meaning: Meaning::Kernel(reference),
    grad: Grad::Rule(|c| {
        let (a, x, g) = (c.x(0), c.y(0), c.g(0));
        let (is_upper, unit) = (c.attrs.bool("upper")?, c.attrs.bool("unit")?);
        let gb = apply(&a.t(), &g, !is_upper, unit);
        let whole = -gb.matmul(x.t());
        let ga = if is_upper { upper(&whole, unit as i64)? } else { lower(&whole, -(unit as i64))? };
        grads([ga, gb])
    }),
    batch: super::BATCH,
    complex: on_complex!(pairs::triangular_solve),
    shard: ir::Shard::Leading(2),
    cases: || {
        let by = |u: bool, unit: bool| Attrs::new().with("upper", u).with("unit", unit);
        let a = || f64s([2, 2, 2], &[2.0, 1.0, -0.5, 3.0, 1.5, 0.3, 0.7, -2.0]);
        let b = || floats([2, 2, 1], 5);
        vec![
            Case::new(vec![a(), b()], by(false, false)),
            Case::new(vec![a(), b()], by(true, false)),
            Case::new(vec![a(), b()], by(true, true)),
            Case::new(vec![f64s([2, 2], &[2.0, 9.0, 1.0, 4.0]), f64s([2, 1], &[2.0, 9.0])], by(false, false))
                .expect(vec![f64s([2, 1], &[1.0, 2.0])], "by hand: 2x = 2, x + 4y = 9"),
        ]
    },
    ..Op::DEFAULT
};

fn check(c: &Call) -> Result<(usize, usize)> {
    c.arity(2)?;
    one_dtype(c)?;
    let (n, (m, k)) = (square(c, 0)?, matrix(c, 1)?);
    if m != n || lead(c.shape(0)) != lead(c.shape(1)) {
        return Err(Error::shape(format!(
            "a matrix of shape {} does not fit right sides of shape {}",
            c.shape(0),
            c.shape(1)
        )));
    }
    Ok((n, k))
}

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let (n, k) = check(c)?;
    let (is_upper, unit) = (c.attrs.bool("upper")?, c.attrs.bool("unit")?);
    let (a, mut x) = (args[0].to_f64(), args[1].to_f64());
    let batch = lead(c.shape(0));
    for b in 0..batch.count() {
        let (a, x) = (&a[b * n * n..(b + 1) * n * n], &mut x[b * n * k..(b + 1) * n * k]);
        if !dense::substitute(a, x, n, k, is_upper, unit) {
            return Err(super::blame(&batch, b, "is singular: it has a zero on the diagonal"));
        }
    }
    Ok(vec![Literal::from_f64(c.dtype(0), c.shape(1).clone(), &x)])
}

#[track_caller]
fn apply(a: &Tensor, b: &Tensor, is_upper: bool, unit: bool) -> Tensor {
    Tensor::apply1(&OP, &[a, b], Attrs::new().with("upper", is_upper).with("unit", unit))
}

/// What a triangular system looks like.
#[derive(Clone, Copy, Debug, Default)]
pub struct TriangularOptions {
    /// The matrix is upper triangular.
    pub upper: bool,
    /// Solve X A = B instead of A X = B.
    pub right: bool,
    /// The diagonal counts as ones.
    pub unit: bool,
}

impl Tensor {
    /// X with A X = B (or X A = B) for this triangular matrix A; leading dimensions broadcast.
    ///
    /// ```
    /// # use talweg_ops::{Tensor, linalg::TriangularOptions};
    /// let a = Tensor::from([[2.0f32, 0.0], [1.0, 4.0]]);
    /// let x = a.triangular_solve(&Tensor::from([[2.0f32], [9.0]]), TriangularOptions::default());
    /// assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    /// ```
    #[track_caller]
    pub fn triangular_solve(&self, b: &Tensor, options: TriangularOptions) -> Tensor {
        self.then(|_| {
            let (a, b) = self.promoted(b)?;
            if options.right {
                let (a, b) = broadcast_batches(&a.t(), &b.t(), "triangular_solve")?;
                return Ok(apply(&a, &b, !options.upper, options.unit).t());
            }
            let (a, b) = broadcast_batches(&a, &b, "triangular_solve")?;
            Ok(apply(&a, &b, options.upper, options.unit))
        })
    }
    /// X with A X = B for this upper triangular matrix.
    pub(super) fn solve_upper(&self, b: &Tensor) -> Tensor {
        apply(self, b, true, false)
    }
}

/// Both with the same dimensions before the last two.
pub(super) fn broadcast_batches(a: &Tensor, b: &Tensor, op: &str) -> Result<(Tensor, Tensor)> {
    let (sa, sb) = (a.shape()?, b.shape()?);
    if sa.rank() < 2 || sb.rank() < 2 {
        return Err(Error::shape(format!("both must have at least two dimensions: {sa} and {sb}")).in_op(op));
    }
    let batch = lead(&sa)
        .broadcast(&lead(&sb))
        .ok_or_else(|| Error::shape(format!("leading sizes do not broadcast: {sa} and {sb}")).in_op(op))?;
    Ok((a.broadcast_to(with(&batch, &sa[sa.rank() - 2..])), b.broadcast_to(with(&batch, &sb[sb.rank() - 2..]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_singular_matrix_is_named() {
        let a = Tensor::from([[[1.0f64]], [[0.0]]]);
        let e = a.triangular_solve(&a, TriangularOptions::default()).eval().unwrap_err().to_string();
        assert!(e.contains("matrix [1] of the batch is singular"), "{e}");
    }

    #[test]
    fn from_the_right() {
        let a = Tensor::from([[2.0f64, 1.0], [0.0, 4.0]]);
        let b = Tensor::from([[2.0f64, 9.0]]);
        let x = a.triangular_solve(&b, TriangularOptions { upper: true, right: true, unit: false });
        assert_eq!(x.to_vec::<f64>().unwrap(), [1.0, 2.0]);
    }
}
