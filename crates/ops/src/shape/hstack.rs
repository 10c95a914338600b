//! `hstack`: tensors side by side.

use crate::rules::{by_expansion, expand1, f64s, floats, one_dtype};
use crate::{Result, Tensor};
use ir::{Attrs, Call, Case, Meaning, Op, Value};

/// The row of `hstack`.
pub static OP: Op = Op {
    name: "hstack",
    doc: "Tensors side by side: along the second axis, vectors along their only one.",
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        vec![
            Case::new(vec![floats([2, 3], 1), floats([2, 2], 2)], Attrs::new()),
            Case::new(vec![f64s([3], &[1., 2., 3.]), f64s([3], &[4., 5., 6.])], Attrs::new())
                .expect(vec![f64s([6], &[1., 2., 3., 4., 5., 6.])], "NumPy manual: np.hstack((a, b))"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    one_dtype(c)?;
    let vectors = c.types.iter().all(|t| t.shape.rank() <= 1);
    expand1(x, |x| {
        let parts: Vec<Tensor> = x.iter().map(|x| if x.rank() == Ok(0) { x.reshape([1]) } else { x.clone() }).collect();
        Tensor::concat(&parts, !vectors as i64)
    })
}

impl Tensor {
    /// Tensors side by side: along the second axis, vectors along their only one.
    #[track_caller]
    pub fn hstack(parts: &[Tensor]) -> Tensor {
        Tensor::joined(&OP, parts, |_| Ok(Attrs::new()))
    }
}
