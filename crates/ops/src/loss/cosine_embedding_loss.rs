//! `cosine_embedding_loss`: angles small for pairs, large for others.

use super::{REDUCTION, Reduction, body, floats_only};
use crate::Tensor;
use crate::rules::{by_expansion, f64s, floats};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Result, Value};

/// The row of `cosine_embedding_loss`.
pub static OP: Op = Op {
    name: "cosine_embedding_loss",
    doc: "1 − cos where the target is 1, max(0, cos − margin) where it is −1, cos the cosine of the angle between a and b \
          along the last axis, reduced.",
    attrs: &[("margin", AttrKind::Float), REDUCTION],
    infer: |c| floats_only(c, 3).and_then(|()| by_expansion(c, expand)),
    meaning: Meaning::Composite(expand),
    autocast: ir::Autocast::Wide,
    cases: || {
        let with = |r: Reduction| Attrs::new().with("margin", 0.1).with("reduction", r);
        let target = || f64s([2], &[1.0, -1.0]);
        let (a, b) = (f64s([2, 2], &[3.0, 4.0, 3.0, 4.0]), f64s([2, 2], &[4.0, 3.0, 4.0, 3.0]));
        vec![
            // The target only chooses: its own slope does not exist.
            Case::new(vec![floats([2, 3], 1), floats([2, 3], 2), target()], with(Reduction::Mean)).kinked(),
            Case::new(vec![floats([2, 3], 3), floats([2, 3], 4), target()], with(Reduction::Sum)).kinked(),
            Case::new(vec![a, b, target()], with(Reduction::None))
                .expect(vec![f64s([2], &[0.04, 0.86])], "by hand: the cosine is 24 / 25")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

fn expand(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let margin = c.attrs.float("margin")?;
    body(c, args, |v| {
        let (a, b, t) = (&v[0], &v[1], &v[2]);
        let length = |x: &Tensor| (x * x).sum(-1) + 1e-12;
        let cos = (a * b).sum(-1) / (length(a) * length(b)).sqrt();
        let apart = (&cos - margin).clamp_min(0.0);
        let zero = cos.zeros_like();
        Ok(Tensor::where_(&t.eq(1.0), &(1.0 - &cos), &zero) + Tensor::where_(&t.eq(-1.0), &apart, &zero))
    })
}

impl Tensor {
    /// 1 − cos where the target is 1, max(0, cos − margin) where it is −1, cos the cosine of the
    /// angle with `other` along the last axis, reduced.
    #[track_caller]
    pub fn cosine_embedding_loss(&self, other: &Tensor, target: &Tensor, margin: f64, reduction: Reduction) -> Tensor {
        self.loss3(&OP, other, target, Attrs::new().with("margin", margin).with("reduction", reduction))
    }
}
