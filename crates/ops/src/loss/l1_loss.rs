//! `l1_loss`: the absolute difference.

use super::{REDUCTION, Reduction, body, floats_only, pair_cases};
use crate::rules::by_expansion;
use crate::{Operand, Tensor};
use ir::{Attrs, Call, Meaning, Op, Result, Value};

/// The row of `l1_loss`.
pub static OP: Op = Op {
    name: "l1_loss",
    doc: "The absolute difference of prediction and target, reduced.",
    attrs: &[REDUCTION],
    infer: |c| floats_only(c, 2).and_then(|()| by_expansion(c, expand)),
    meaning: Meaning::Composite(expand),
    autocast: ir::Autocast::Wide,
    cases: || pair_cases(Attrs::new, (-2.0, 2.0), (&[1.0, 2.0], &[3.0, 1.5], &[2.0, 0.5]), "by hand"),
    ..Op::DEFAULT
};

fn expand(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    body(c, args, |t| Ok((&t[0] - &t[1]).abs()))
}

impl Tensor {
    /// The absolute difference from a target, reduced.
    #[track_caller]
    pub fn l1_loss(&self, target: impl Operand, reduction: Reduction) -> Tensor {
        self.loss(&OP, target, Attrs::new().with("reduction", reduction))
    }
}
