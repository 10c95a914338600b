//! `trace`: the sum of the diagonal.

use crate::rules::{by_expansion, expand1_wide, f64s, floats};
use crate::{Result, Tensor};
use ir::{Attrs, Call, Case, Meaning, Op, Value};

/// The row of `trace`.
pub static OP: Op = Op {
    name: "trace",
    doc: "The sum of the diagonal of the last two dimensions.",
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        let x = f64s([3, 3], &[1., 2., 3., 4., 5., 6., 7., 8., 9.]);
        vec![
            Case::new(vec![floats([2, 2, 3], 1)], Attrs::new()),
            Case::new(vec![x], Attrs::new())
                .expect(vec![f64s((), &[15.])], "PyTorch manual: torch.trace(torch.arange(1., 10.).view(3, 3))"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    super::matrix(c)?;
    expand1_wide(x, |x| x[0].diagonal(0, -2, -1).sum(-1))
}

impl Tensor {
    /// The sum of the diagonal of the last two dimensions; integers are summed in 64 bits.
    #[track_caller]
    pub fn trace(&self) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new())
    }
}
