//! `det`: the determinant.

use super::{dense, each, like, per_matrix, square};
use crate::Tensor;
use crate::pairs;
use crate::rules::{GradTensors, f64s, floats, grads};
use ir::{Attrs, Case, Grad, Meaning, Op};
use smallvec::SmallVec;

/// The row of `det`.
pub static OP: Op = Op {
    name: "det",
    doc: "The determinant of a square matrix.",
    infer: |c| {
        c.arity(1)?;
        square(c, 0)?;
        Ok(SmallVec::from_iter([like(c, &[])]))
    },
    meaning: Meaning::Kernel(|c, args| {
        let n = square(c, 0)?;
        each(c, &args[0], [&[]], |a, out| {
            out[0].push(dense::det(a, n));
            Ok(())
        })
    }),
    // The matrix of cofactors exists for singular matrices as well.
    grad: Grad::Rule(|c| grads([per_matrix(&c.g(0)) * c.x(0).cofactor()])),
    batch: super::BATCH,
    complex: on_complex!(|u| Ok(vec![pairs::eliminated(u)?.det])),
    shard: ir::Shard::Leading(2),
    cases: || {
        vec![
            Case::new(vec![floats([2, 2, 2], 1)], Attrs::new()),
            Case::new(vec![floats([3, 3], 2)], Attrs::new()),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0])], Attrs::new())
                .expect(vec![f64s((), &[-2.0])], "NumPy manual: np.linalg.det([[1, 2], [3, 4]])"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The determinant of a square matrix.
    #[track_caller]
    pub fn det(&self) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_singular_matrix_has_a_gradient() {
        // d det / d a = [[d, -c], [-b, a]], whatever the determinant is.
        let a = Tensor::from([[1.0f64, 2.0], [2.0, 4.0]]).requires_grad();
        let g = crate::grad(&a.det(), &[a]).unwrap()[0].to_vec::<f64>().unwrap();
        let want = [4.0, -2.0, -2.0, 1.0];
        assert!(g.iter().zip(want).all(|(x, y)| (x - y).abs() < 1e-12), "{g:?}");
    }
}
