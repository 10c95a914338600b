//! `smooth_l1_loss`: squared near zero, absolute beyond.

use super::{REDUCTION, Reduction, body, floats_only, pair_cases};
use crate::rules::by_expansion;
use crate::{Error, Operand, Tensor};
use ir::{AttrKind, Attrs, Call, Meaning, Op, Result, Value};

/// The row of `smooth_l1_loss`.
pub static OP: Op = Op {
    name: "smooth_l1_loss",
    doc: "d² / (2 beta) where the difference |d| is below beta, else |d| − beta / 2, reduced.",
    attrs: &[("beta", AttrKind::Float), REDUCTION],
    infer: |c| floats_only(c, 2).and_then(|()| by_expansion(c, expand)),
    meaning: Meaning::Composite(expand),
    autocast: ir::Autocast::Wide,
    cases: || {
        let beta = || Attrs::new().with("beta", 0.5);
        pair_cases(beta, (-2.0, 2.0), (&[1.0, 2.0], &[3.0, 2.25], &[1.75, 0.0625]), "by hand")
    },
    ..Op::DEFAULT
};

fn expand(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let beta = c.attrs.float("beta")?;
    if beta.is_nan() || beta < 0.0 {
        return Err(Error::value(format!("beta must not be negative, but is {beta}")));
    }
    body(c, args, |t| {
        let d = &t[0] - &t[1];
        let a = d.abs();
        if beta == 0.0 {
            return Ok(a);
        }
        Ok(Tensor::where_(&a.lt(beta), &(&d * &d * (0.5 / beta)), &a - 0.5 * beta))
    })
}

impl Tensor {
    /// d² / (2 beta) where the difference |d| from a target is below beta, else |d| − beta / 2,
    /// reduced.
    #[track_caller]
    pub fn smooth_l1_loss(&self, target: impl Operand, beta: f64, reduction: Reduction) -> Tensor {
        self.loss(&OP, target, Attrs::new().with("beta", beta).with("reduction", reduction))
    }
}
