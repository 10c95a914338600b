//! `cdist`: the distance of every vector from every other.

use super::distance::norm_keep;
use crate::rules::{by_expansion, expand_wide, f64s, float, floats, one_dtype};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `cdist`.
pub static OP: Op = Op {
    name: "cdist",
    doc: "The p-norm of a[…, i, :] − b[…, j, :] for every i and j: […, I, J] from […, I, M] and […, J, M].",
    attrs: &[("p", AttrKind::Float)],
    infer: |c| {
        c.arity(2)?;
        float(c, 0)?;
        one_dtype(c)?;
        let (a, b) = (c.shape(0), c.shape(1));
        if a.rank() < 2 || b.rank() < 2 || a[a.rank() - 1] != b[b.rank() - 1] {
            return Err(Error::shape(format!("takes […, I, M] and […, J, M], not {a} and {b}")));
        }
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    autocast: ir::Autocast::Wide,
    cases: || {
        let with = |p: f64| Attrs::new().with("p", p);
        let near = vec![f64s([2, 2], &[0.0, 0.0, 3.0, 4.0]), f64s([1, 2], &[3.0, 0.0])];
        vec![
            Case::new(vec![floats([2, 3], 1), floats([2, 3], 2)], with(2.0)),
            Case::new(vec![floats([2, 2], 3), floats([2, 3, 2], 4)], with(1.5)),
            Case::new(vec![floats([2, 2], 5), floats([1, 2], 6)], with(1.0)),
            Case::new(near, with(2.0)).expect(vec![f64s([2, 1], &[3.0, 4.0])], "by hand").kinked(),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let p = c.attrs.float("p")?;
    expand_wide(args, |v| {
        let d = v[0].unsqueeze(-2) - v[1].unsqueeze(-3);
        Ok(vec![norm_keep(&d, p, -1)?.squeeze(-1)])
    })
}

impl Tensor {
    /// The p-norm of the difference of every vector `[…, I, M]` from every one of `other`
    /// `[…, J, M]`: `[…, I, J]`.
    #[track_caller]
    pub fn cdist(&self, other: &Tensor, p: f64) -> Tensor {
        self.then(|_| {
            let (a, b) = self.promoted(other)?;
            Ok(Tensor::apply1(&OP, &[&a, &b], Attrs::new().with("p", p)))
        })
    }
}
