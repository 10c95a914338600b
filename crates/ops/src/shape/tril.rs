//! `tril`: the elements on and below a diagonal, zeros elsewhere.

use crate::rules::{GradTensors, by_expansion, f64s, floats, grads};
use crate::{Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Meaning, Op, Value};

/// The row of `tril`.
pub static OP: Op = Op {
    name: "tril",
    doc: "The elements on and below diagonal `k` of the last two dimensions, zeros elsewhere.",
    attrs: &[("k", AttrKind::Int)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    grad: Grad::Rule(|c| grads([c.g(0).tril(c.attrs.int("k")?)])),
    cases: || {
        let on = |k: i64| Attrs::new().with("k", k);
        let x = f64s([3, 3], &[1., 2., 3., 4., 5., 6., 7., 8., 9.]);
        vec![
            Case::new(vec![floats([2, 2, 3], 1)], on(1)),
            Case::new(vec![floats([3, 2], 2)], on(-1)),
            Case::new(vec![x], on(0)).expect(vec![f64s([3, 3], &[1., 0., 0., 4., 5., 0., 7., 8., 9.])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    super::triangle(c, x, |row, column| row.ge(column))
}

impl Tensor {
    /// The elements on and below diagonal `k` of the last two dimensions, zeros elsewhere.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::from([[1, 2], [3, 4]]).tril(0).to_vec::<i32>().unwrap(), [1, 0, 3, 4]);
    /// ```
    #[track_caller]
    pub fn tril(&self, k: i64) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("k", k))
    }
}
