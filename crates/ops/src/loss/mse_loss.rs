//! `mse_loss`: the squared difference.

use super::{REDUCTION, Reduction, body, floats_only, pair_cases};
use crate::rules::by_expansion;
use crate::{Operand, Tensor};
use ir::{Attrs, Call, Meaning, Op, Result, Value};

/// The row of `mse_loss`.
pub static OP: Op = Op {
    name: "mse_loss",
    doc: "The squared difference of prediction and target, reduced.",
    attrs: &[REDUCTION],
    infer: |c| floats_only(c, 2).and_then(|()| by_expansion(c, expand)),
    meaning: Meaning::Composite(expand),
    autocast: ir::Autocast::Wide,
    cases: || pair_cases(Attrs::new, (-2.0, 2.0), (&[1.0, 2.0], &[3.0, 2.5], &[4.0, 0.25]), "by hand"),
    ..Op::DEFAULT
};

fn expand(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    body(c, args, |t| {
        let d = &t[0] - &t[1];
        Ok(&d * &d)
    })
}

impl Tensor {
    /// The squared difference from a target, reduced.
    ///
    /// ```
    /// # use talweg_ops::{Tensor, loss::Reduction};
    /// let y = Tensor::from([1.0f32, 2.0]).mse_loss(&Tensor::from([3.0f32, 2.0]), Reduction::Mean);
    /// assert_eq!(y.item::<f32>().unwrap(), 2.0);
    /// ```
    #[track_caller]
    pub fn mse_loss(&self, target: impl Operand, reduction: Reduction) -> Tensor {
        self.loss(&OP, target, Attrs::new().with("reduction", reduction))
    }
    /// A loss of two tensors in their common type.
    #[track_caller]
    pub(super) fn loss(&self, op: &'static Op, target: impl Operand, attrs: Attrs) -> Tensor {
        let site = ir::Site::here();
        site.scope(|| match self.promoted(target) {
            Ok((x, t)) => Tensor::apply1(op, &[&x, &t], attrs),
            Err(e) => e.at(site).into(),
        })
    }
}
