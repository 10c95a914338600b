//! `huber_loss`: squared near zero, linear beyond.

use super::{REDUCTION, Reduction, body, floats_only, pair_cases};
use crate::rules::by_expansion;
use crate::{Error, Operand, Tensor};
use ir::{AttrKind, Attrs, Call, Meaning, Op, Result, Value};

/// The row of `huber_loss`.
pub static OP: Op = Op {
    name: "huber_loss",
    doc: "d² / 2 where the difference |d| is at most delta, else delta (|d| − delta / 2), reduced.",
    attrs: &[("delta", AttrKind::Float), REDUCTION],
    infer: |c| floats_only(c, 2).and_then(|()| by_expansion(c, expand)),
    meaning: Meaning::Composite(expand),
    autocast: ir::Autocast::Wide,
    cases: || {
        let delta = || Attrs::new().with("delta", 0.5);
        pair_cases(delta, (-2.0, 2.0), (&[1.0, 2.0], &[3.0, 2.25], &[0.875, 0.03125]), "by hand")
    },
    ..Op::DEFAULT
};

fn expand(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let delta = c.attrs.float("delta")?;
    if delta.is_nan() || delta <= 0.0 {
        return Err(Error::value(format!("delta must be positive, but is {delta}")));
    }
    body(c, args, |t| {
        let d = &t[0] - &t[1];
        let a = d.abs();
        Ok(Tensor::where_(&a.le(delta), &(&d * &d * 0.5), (&a - 0.5 * delta) * delta))
    })
}

impl Tensor {
    /// d² / 2 where the difference |d| from a target is at most delta, else
    /// delta (|d| − delta / 2), reduced.
    #[track_caller]
    pub fn huber_loss(&self, target: impl Operand, delta: f64, reduction: Reduction) -> Tensor {
        self.loss(&OP, target, Attrs::new().with("delta", delta).with("reduction", reduction))
    }
}
