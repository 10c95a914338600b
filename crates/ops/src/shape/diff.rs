//! `diff`: differences of neighbors.

use crate::rules::{by_expansion, expand1, f64s, floats};
use crate::{DType, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `diff`.
pub static OP: Op = Op {
    name: "diff",
    doc: "Differences of neighbors along `axis`, taken `n` times.",
    attrs: &[("n", AttrKind::Int), ("axis", AttrKind::Int)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        let by = |n: i64, a: i64| Attrs::new().with("n", n).with("axis", a);
        vec![
            Case::new(vec![floats([2, 4], 1)], by(2, 1)),
            Case::new(vec![f64s([5], &[1., 2., 4., 7., 0.])], by(1, 0))
                .expect(vec![f64s([4], &[1., 2., 3., -7.])], "NumPy manual: np.diff([1, 2, 4, 7, 0])"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    let (n, at) = (c.attrs.size("n")?, c.axis("axis")?);
    let size = c.shape(0)[at];
    expand1(x, |x| {
        (0..n.min(size)).fold(x[0].clone(), |x, i| {
            let k = size - i - 1;
            let (next, this) = (x.narrow(at as i64, 1, k), x.narrow(at as i64, 0, k));
            if c.dtype(0) == DType::Bool { next.ne(this) } else { next - this }
        })
    })
}

impl Tensor {
    /// Differences of neighbors along an axis, taken `n` times.
    #[track_caller]
    pub fn diff(&self, n: usize, along: i64) -> Tensor {
        self.then(|t| {
            let at = axis(along, t.shape.rank()).map_err(|e| e.in_op("diff"))?;
            Ok(Tensor::apply1(&OP, &[self], Attrs::new().with("n", n).with("axis", at)))
        })
    }
}
