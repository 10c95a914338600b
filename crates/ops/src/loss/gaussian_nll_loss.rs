//! `gaussian_nll_loss`: negative log-likelihood of a normal distribution.

use super::{REDUCTION, Reduction, body, floats_only};
use crate::Tensor;
use crate::rules::{by_expansion, f64s, floats, sample};
use ir::{AttrKind, Attrs, Call, Case, DType, Meaning, Op, Result, Value};

/// The row of `gaussian_nll_loss`.
pub static OP: Op = Op {
    name: "gaussian_nll_loss",
    doc: "½ (log v + (x − t)² / v) for a mean x, a target t and a variance v, which is raised to `eps` without \
          touching its gradient, plus ½ log 2π if `full`, reduced.",
    attrs: &[("full", AttrKind::Bool), ("eps", AttrKind::Float), REDUCTION],
    infer: |c| floats_only(c, 3).and_then(|()| by_expansion(c, expand)),
    meaning: Meaning::Composite(expand),
    autocast: ir::Autocast::Wide,
    cases: || {
        let with = |full: bool, r: Reduction| Attrs::new().with("full", full).with("eps", 1e-6).with("reduction", r);
        let variance = |seed| sample(DType::F64, [2, 3], seed, (0.5, 2.0));
        let constant = 0.5 * std::f64::consts::TAU.ln();
        vec![
            Case::new(vec![floats([2, 3], 1), floats([2, 3], 2), variance(3)], with(false, Reduction::Mean)),
            Case::new(vec![floats([2, 3], 4), floats([2, 3], 5), variance(6)], with(true, Reduction::Sum)),
            Case::new(vec![f64s([1], &[1.0]), f64s([1], &[3.0]), f64s([1], &[1.0])], with(true, Reduction::None))
                .expect(vec![f64s([1], &[2.0 + constant])], "minus the logarithm of the standard normal density at 2"),
        ]
    },
    ..Op::DEFAULT
};

fn expand(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let (full, eps) = (c.attrs.bool("full")?, c.attrs.float("eps")?);
    body(c, args, |v| {
        let raised = &v[2] + (v[2].maximum(eps) - &v[2]).stop_gradient();
        let d = &v[0] - &v[1];
        let each = (raised.log() + &d * &d / &raised) * 0.5;
        Ok(if full { each + 0.5 * std::f64::consts::TAU.ln() } else { each })
    })
}

impl Tensor {
    /// Negative log-likelihood of a target under a normal distribution with this mean and the given
    /// variance (at least `eps`, usually 1e-6); with its constant term if `full`; reduced. A variance
    /// without the last dimension is that of whole rows.
    #[track_caller]
    pub fn gaussian_nll_loss(
        &self,
        target: &Tensor,
        variance: &Tensor,
        full: bool,
        eps: f64,
        reduction: Reduction,
    ) -> Tensor {
        let attrs = Attrs::new().with("full", full).with("eps", eps).with("reduction", reduction);
        let is_of_rows = self
            .shape()
            .is_ok_and(|x| x.split_last().is_some_and(|(_, lead)| variance.shape().is_ok_and(|v| *v.dims() == *lead)));
        let variance = if is_of_rows { &variance.unsqueeze(-1) } else { variance };
        self.loss3(&OP, target, variance, attrs)
    }
}
