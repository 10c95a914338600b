//! `poisson_nll_loss`: negative log-likelihood of a Poisson distribution.

use super::{REDUCTION, Reduction, body, floats_only, pair_cases};
use crate::rules::by_expansion;
use crate::{Operand, Tensor};
use ir::{AttrKind, Attrs, Call, Meaning, Op, Result, Value};

/// The row of `poisson_nll_loss`.
pub static OP: Op = Op {
    name: "poisson_nll_loss",
    doc: "exp x − t x for a logarithm x of the rate (`log_input`), or x − t log(x + eps) for a rate x, and a count t; \
          with Stirling's approximation of log t! for t above 1 if `full`; reduced.",
    attrs: &[("log_input", AttrKind::Bool), ("full", AttrKind::Bool), ("eps", AttrKind::Float), REDUCTION],
    infer: |c| floats_only(c, 2).and_then(|()| by_expansion(c, expand)),
    meaning: Meaning::Composite(expand),
    autocast: ir::Autocast::Wide,
    cases: || {
        let with =
            |log: bool, full: bool| move || Attrs::new().with("log_input", log).with("full", full).with("eps", 1e-8);
        let stirling = 2.0 * 2f64.ln() - 2.0 + 0.5 * (2.0 * std::f64::consts::TAU).ln();
        let mut cases = pair_cases(with(true, false), (-1.0, 1.0), (&[0.0], &[3.0], &[1.0]), "by hand");
        let full = (&[0.0, 0.0][..], &[0.5, 2.0][..], &[1.0, 1.0 + stirling][..]);
        cases.extend(pair_cases(with(true, true), (0.2, 0.9), full, "by hand, with Stirling's formula"));
        cases.extend(pair_cases(with(false, true), (1.1, 2.0), (&[0.5], &[0.0], &[0.5]), "by hand"));
        cases
    },
    ..Op::DEFAULT
};

fn expand(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let (log_input, full, eps) = (c.attrs.bool("log_input")?, c.attrs.bool("full")?, c.attrs.float("eps")?);
    body(c, args, |v| {
        let (x, t) = (&v[0], &v[1]);
        let each = if log_input { x.exp() - t * x } else { x - t * (x + eps).log() };
        if !full {
            return Ok(each);
        }
        // Counts up to 1 have log t! = 0; their logarithm must not reach the gradient.
        let many = t.gt(1.0);
        let safe = Tensor::where_(&many, t, 1.0);
        let stirling = &safe * safe.log() - &safe + (&safe * std::f64::consts::TAU).log() * 0.5;
        Ok(each + Tensor::where_(&many, &stirling, 0.0))
    })
}

/// What [`Tensor::poisson_nll_loss`] takes beside its operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoissonOptions {
    /// The prediction is the logarithm of the rate.
    pub log_input: bool,
    /// Stirling's approximation of log t! is added.
    pub full: bool,
    /// Added to a rate before its logarithm is taken.
    pub eps: f64,
    /// What becomes of the losses.
    pub reduction: Reduction,
}
impl Default for PoissonOptions {
    fn default() -> PoissonOptions {
        PoissonOptions { log_input: true, full: false, eps: 1e-8, reduction: Reduction::Mean }
    }
}

impl Tensor {
    /// Negative log-likelihood of counts under Poisson distributions with these rates.
    #[track_caller]
    pub fn poisson_nll_loss(&self, target: impl Operand, options: PoissonOptions) -> Tensor {
        let PoissonOptions { log_input, full, eps, reduction } = options;
        let attrs = Attrs::new().with("log_input", log_input).with("full", full).with("eps", eps);
        self.loss(&OP, target, attrs.with("reduction", reduction))
    }
}
