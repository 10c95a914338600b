//! `hinge_embedding_loss`: distances small for pairs, large for others.

use super::{REDUCTION, Reduction, body, floats_only};
use crate::rules::{by_expansion, f64s, floats};
use crate::{Operand, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Result, Value};

/// The row of `hinge_embedding_loss`.
pub static OP: Op = Op {
    name: "hinge_embedding_loss",
    doc: "x where the target is 1, max(0, margin − x) where it is −1, reduced.",
    attrs: &[("margin", AttrKind::Float), REDUCTION],
    infer: |c| floats_only(c, 2).and_then(|()| by_expansion(c, expand)),
    meaning: Meaning::Composite(expand),
    autocast: ir::Autocast::Wide,
    cases: || {
        let with = |r: Reduction| Attrs::new().with("margin", 1.0).with("reduction", r);
        let target = || f64s([4], &[1.0, -1.0, 1.0, -1.0]);
        vec![
            Case::new(vec![floats([4], 1), target()], with(Reduction::Mean)).kinked(),
            Case::new(vec![floats([4], 2), target()], with(Reduction::Sum)).kinked(),
            Case::new(vec![f64s([4], &[0.25, 0.25, 2.0, 2.0]), target()], with(Reduction::None))
                .expect(vec![f64s([4], &[0.25, 0.75, 2.0, 0.0])], "by hand")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

fn expand(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let margin = c.attrs.float("margin")?;
    body(c, args, |v| {
        let (x, t) = (&v[0], &v[1]);
        let apart = Tensor::where_(&t.ne(1.0), &(margin - x).clamp_min(0.0), 0.0);
        Ok(apart + Tensor::where_(&t.ne(-1.0), x, 0.0))
    })
}

impl Tensor {
    /// This distance where the target is 1, max(0, margin − distance) where it is −1, reduced.
    #[track_caller]
    pub fn hinge_embedding_loss(&self, target: impl Operand, margin: f64, reduction: Reduction) -> Tensor {
        self.loss(&OP, target, Attrs::new().with("margin", margin).with("reduction", reduction))
    }
}
