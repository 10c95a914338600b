//! `solve`: linear equations.

use super::triangular_solve::broadcast_batches;
use super::{dense, lead, matrix, square, with};
use crate::pairs;
use crate::rules::{GradTensors, f64s, floats, grads, one_dtype};
use crate::{Error, Result, Tensor};
use ir::{Attrs, Call, Case, Grad, Literal, Meaning, Op, Type};
use smallvec::SmallVec;

/// The row of `solve`.
pub static OP: Op = Op {
    name: "solve",
    doc: "X with A X = B, by elimination with pivoting.",
    infer: |c| {
        let (n, k) = check(c)?;
        Ok(SmallVec::from_iter([Type::new(c.dtype(0), with(&lead(c.shape(0)), &[n, k]))]))
    },
    meaning: Meaning::Kernel(reference),
    grad: Grad::Rule(|c| {
        let gb = Tensor::apply1(&OP, &[&c.x(0).t(), &c.g(0)], Attrs::new());
        grads([-gb.matmul(c.y(0).t()), gb])
    }),
    batch: super::BATCH,
    complex: on_complex!(pairs::solve),
    shard: ir::Shard::Leading(2),
    cases: || {
        vec![
            Case::new(vec![super::definite(70), floats([70, 3], 5)], Attrs::new()).kinked(),
            Case::new(vec![floats([2, 2, 2], 1), floats([2, 2, 1], 2)], Attrs::new()),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 5.0]), f64s([2, 1], &[1.0, 2.0])], Attrs::new())
                .expect(vec![f64s([2, 1], &[-1.0, 1.0])], "NumPy manual: np.linalg.solve([[1, 2], [3, 5]], [1, 2])"),
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
    let (a, b) = (args[0].to_f64(), args[1].to_f64());
    let batch = lead(c.shape(0));
    let mut out = Vec::with_capacity(b.len());
    for i in 0..batch.count() {
        let x = dense::solve(&a[i * n * n..(i + 1) * n * n], &b[i * n * k..(i + 1) * n * k], n, k);
        out.extend(x.ok_or_else(|| super::blame(&batch, i, "is singular"))?);
    }
    Ok(vec![Literal::from_f64(c.dtype(0), c.shape(1).clone(), &out)])
}

impl Tensor {
    /// X with A X = B for this square matrix A; leading dimensions broadcast. `b` may also be a
    /// vector for each matrix, as in NumPy: then so is the result. A singular matrix is an error
    /// when the value is computed.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 5.0]]);
    /// let x = a.solve(&Tensor::from([1.0f32, 2.0]));
    /// assert!((x - Tensor::from([-1.0f32, 1.0])).abs().max(..).item::<f32>().unwrap() < 1e-5);
    /// ```
    #[track_caller]
    pub fn solve(&self, b: &Tensor) -> Tensor {
        self.then(|_| {
            let (a, b) = self.promoted(b)?;
            let (sa, sb) = (a.shape()?, b.shape()?);
            let is_vector = sb.rank() == 1 || (sa.rank() == sb.rank() + 1 && sa[..sa.rank() - 1] == sb[..]);
            let (a, b) = broadcast_batches(&a, &if is_vector { b.unsqueeze(-1) } else { b }, "solve")?;
            let x = Tensor::apply1(&OP, &[&a, &b], Attrs::new());
            Ok(if is_vector { x.squeeze(-1) } else { x })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_singular_matrix_is_named() {
        let a = Tensor::from([[1.0f64, 2.0], [2.0, 4.0]]);
        let e = a.solve(&Tensor::from([1.0f64, 1.0])).eval().unwrap_err().to_string();
        assert!(e.starts_with("solve: the matrix is singular"), "{e}");
    }
}
