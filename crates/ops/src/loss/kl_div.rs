//! `kl_div`: Kullback-Leibler divergence.

use super::{REDUCTION, Reduction, body, floats_only, pair_cases};
use crate::rules::by_expansion;
use crate::{Operand, Tensor};
use ir::{AttrKind, Attrs, Call, Meaning, Op, Result, Value};

/// The row of `kl_div`.
pub static OP: Op = Op {
    name: "kl_div",
    doc: "Kullback-Leibler divergence t (log t − x) of log-probabilities x from a target t, which is given as its \
          logarithm if `log_target`, reduced. Where t is 0 it is 0.",
    attrs: &[("log_target", AttrKind::Bool), REDUCTION],
    infer: |c| floats_only(c, 2).and_then(|()| by_expansion(c, expand)),
    meaning: Meaning::Composite(expand),
    autocast: ir::Autocast::Wide,
    cases: || {
        let log = || Attrs::new().with("log_target", true);
        let plain = || Attrs::new().with("log_target", false);
        let ln2 = std::f64::consts::LN_2;
        let mut cases = pair_cases(log, (-2.0, 0.0), (&[-1.0], &[0.0], &[1.0]), "by hand");
        cases.extend(pair_cases(plain, (0.1, 1.0), (&[0.0, -1.0], &[2.0, 0.0], &[2.0 * ln2, 0.0]), "by hand"));
        cases
    },
    ..Op::DEFAULT
};

fn expand(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let log_target = c.attrs.bool("log_target")?;
    body(c, args, |v| {
        let (x, t) = (&v[0], &v[1]);
        if log_target {
            return Ok(t.exp() * (t - x));
        }
        // The logarithm of a zero must not reach the product, nor its slope the gradient.
        let positive = t.gt(0.0);
        let safe = Tensor::where_(&positive, t, 1.0);
        Ok(Tensor::where_(&positive, &(t * safe.log()), 0.0) - t * x)
    })
}

impl Tensor {
    /// Kullback-Leibler divergence of these log-probabilities from a target, which is given as its
    /// logarithm if `log_target`, reduced ([`Reduction::BatchMean`] is the mathematical one).
    #[track_caller]
    pub fn kl_div(&self, target: impl Operand, log_target: bool, reduction: Reduction) -> Tensor {
        self.loss(&OP, target, Attrs::new().with("log_target", log_target).with("reduction", reduction))
    }
}
