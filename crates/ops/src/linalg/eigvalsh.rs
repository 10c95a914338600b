//! `eigvalsh`: eigenvalues of a symmetric or Hermitian matrix.

use super::Triangle;
use crate::Tensor;
use crate::rules::f64s;
use ir::{Attrs, Case};

super::composite!(
    "eigvalsh",
    "Eigenvalues of a symmetric or Hermitian matrix, ascending; `triangle` says which part is read.",
    1,
    [("triangle", Str)],
    |c, t| {
        let [values, _] = t[0].eigh_of(Triangle::parse(c.attrs.str("triangle")?)?);
        Ok(values)
    },
    || {
        let by = |t: &str| Attrs::new().with("triangle", t);
        vec![
            Case::new(vec![f64s([3, 3], &[2.0, 0.7, -0.3, 0.7, -1.0, 0.4, -0.3, 0.4, 0.5])], by("both")),
            Case::new(vec![f64s([2, 2], &[2.0, 1.0, 9.0, 2.0])], by("upper"))
                .expect(vec![f64s([2], &[1.0, 3.0])], "by hand: [[2, 1], [1, 2]]")
                .kinked(),
        ]
    }
);

impl Tensor {
    /// Eigenvalues of a symmetric or Hermitian matrix, ascending; the lower triangle is read.
    #[track_caller]
    pub fn eigvalsh(&self) -> Tensor {
        self.eigvalsh_of(Triangle::Lower)
    }
    /// [`Tensor::eigvalsh`], reading the given triangle.
    #[track_caller]
    pub fn eigvalsh_of(&self, triangle: Triangle) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("triangle", triangle.word()))
    }
}
