//! `margin_ranking_loss`: one value above another.

use super::{REDUCTION, Reduction, body, floats_only};
use crate::Tensor;
use crate::rules::{by_expansion, f64s, floats};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Result, Value};

/// The row of `margin_ranking_loss`.
pub static OP: Op = Op {
    name: "margin_ranking_loss",
    doc: "max(0, margin − t (a − b)) for values a, b and a target t of 1 (a above) or −1 (b above), reduced.",
    attrs: &[("margin", AttrKind::Float), REDUCTION],
    infer: |c| floats_only(c, 3).and_then(|()| by_expansion(c, expand)),
    meaning: Meaning::Composite(expand),
    autocast: ir::Autocast::Wide,
    cases: || {
        let with = |r: Reduction| Attrs::new().with("margin", 0.5).with("reduction", r);
        let target = || f64s([4], &[1.0, -1.0, 1.0, -1.0]);
        vec![
            Case::new(vec![floats([4], 1), floats([4], 2), target()], with(Reduction::Mean)),
            Case::new(vec![floats([4], 3), floats([4], 4), target()], with(Reduction::Sum)),
            Case::new(
                vec![f64s([4], &[1.0, 1.0, 2.0, 2.0]), f64s([4], &[2.0, 2.0, 1.0, 1.0]), target()],
                with(Reduction::None),
            )
            .expect(vec![f64s([4], &[1.5, 0.0, 0.0, 1.5])], "by hand")
            .kinked(),
        ]
    },
    ..Op::DEFAULT
};

fn expand(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let margin = c.attrs.float("margin")?;
    body(c, args, |v| Ok((margin - &v[2] * (&v[0] - &v[1])).clamp_min(0.0)))
}

impl Tensor {
    /// max(0, margin − t (this − other)) for a target t of 1 (this above) or −1 (other above),
    /// reduced.
    #[track_caller]
    pub fn margin_ranking_loss(&self, other: &Tensor, target: &Tensor, margin: f64, reduction: Reduction) -> Tensor {
        let attrs = Attrs::new().with("margin", margin).with("reduction", reduction);
        self.loss3(&OP, other, target, attrs)
    }
    /// A loss of three tensors in their common type.
    #[track_caller]
    pub(super) fn loss3(&self, op: &'static Op, b: &Tensor, c: &Tensor, attrs: Attrs) -> Tensor {
        self.then(|t| {
            let dtype = t.dtype.promote(b.dtype()?).promote(c.dtype()?);
            Ok(Tensor::apply1(op, &[&self.cast(dtype), &b.cast(dtype), &c.cast(dtype)], attrs))
        })
    }
}
