//! `vstack`: tensors on top of each other.

use crate::rules::{by_expansion, expand1, f64s, floats, one_dtype};
use crate::{Result, Tensor};
use ir::{Attrs, Call, Case, Meaning, Op, Value};

/// The row of `vstack`.
pub static OP: Op = Op {
    name: "vstack",
    doc: "Tensors on top of each other: along the first axis, vectors as rows.",
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        vec![
            Case::new(vec![floats([2, 3], 1), floats([3], 2)], Attrs::new()),
            Case::new(vec![f64s([3], &[1., 2., 3.]), f64s([3], &[4., 5., 6.])], Attrs::new())
                .expect(vec![f64s([2, 3], &[1., 2., 3., 4., 5., 6.])], "NumPy manual: np.vstack((a, b))"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    one_dtype(c)?;
    expand1(x, |x| {
        let row =
            |x: &Tensor| x.then(|t| Ok(if t.shape.rank() < 2 { x.reshape([1, t.shape.count()]) } else { x.clone() }));
        Tensor::concat(&x.iter().map(row).collect::<Vec<_>>(), 0)
    })
}

impl Tensor {
    /// Tensors on top of each other: along the first axis, vectors as rows.
    #[track_caller]
    pub fn vstack(parts: &[Tensor]) -> Tensor {
        Tensor::joined(&OP, parts, |_| Ok(Attrs::new()))
    }
}
