//! Losses: how far predictions are from their targets.

crate::table! {
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    class_cross_entropy,
    cosine_embedding_loss,
    cross_entropy,
    ctc_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    nll_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    softmax_cross_entropy,
    triplet_margin_loss,
}

mod forms;

pub use cross_entropy::CrossEntropyOptions;
pub use ctc_loss::CtcOptions;
pub(crate) use forms::FORMS;
pub use nll_loss::NllOptions;
pub use poisson_nll_loss::PoissonOptions;
pub use triplet_margin_loss::TripletOptions;

use crate::{Error, Result, Tensor};
use ir::{Attr, AttrKind, Call, Value};

/// How the losses of single elements become the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// They stay as they are.
    None,
    /// Their mean, weighted where the loss has weights.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// Their sum divided by the size of the first dimension.
    BatchMean,
}

impl Reduction {
    /// The word for it in attributes and in Python.
    pub fn name(self) -> &'static str {
        match self {
            Reduction::None => "none",
            Reduction::Mean => "mean",
            Reduction::Sum => "sum",
            Reduction::BatchMean => "batchmean",
        }
    }
    /// The reduction with that name.
    pub fn parse(name: &str) -> Result<Reduction> {
        match name {
            "none" => Ok(Reduction::None),
            "mean" => Ok(Reduction::Mean),
            "sum" => Ok(Reduction::Sum),
            "batchmean" => Ok(Reduction::BatchMean),
            _ => Err(Error::value(format!("reduction must be none, mean, sum or batchmean, not {name:?}"))),
        }
    }
    /// The loss from the losses of single elements.
    #[track_caller]
    pub fn apply(self, each: &Tensor) -> Tensor {
        each.then(|t| {
            Ok(match self {
                Reduction::None => each.clone(),
                Reduction::Sum => each.sum(..),
                Reduction::Mean => each.sum(..) / t.shape.count() as f64,
                Reduction::BatchMean => each.sum(..) / t.shape.first().copied().unwrap_or(1) as f64,
            })
        })
    }
}
impl From<Reduction> for Attr {
    fn from(r: Reduction) -> Attr {
        Attr::from(r.name())
    }
}

/// The attribute every loss has.
const REDUCTION: (&str, AttrKind) = ("reduction", AttrKind::Str);

/// The reduction a call asks for.
fn reduction(c: &Call) -> Result<Reduction> {
    Reduction::parse(c.attrs.str("reduction")?)
}

/// A composite's body: the losses of single elements, reduced as the call asks.
fn body(c: &Call, args: &[Value], each: impl FnOnce(&[Tensor]) -> Result<Tensor>) -> Result<Vec<Value>> {
    crate::rules::expand_wide(args, |t| Ok(vec![reduction(c)?.apply(&each(t)?)]))
}

/// Fails unless all inputs are floats of one element type.
fn floats_only(c: &Call, arity: usize) -> Result<()> {
    c.arity(arity)?;
    crate::rules::float(c, 0)?;
    crate::rules::one_dtype(c).map(|_| ())
}

/// The samples every loss of two tensors has: each reduction, and a worked example.
fn pair_cases(
    attrs: impl Fn() -> ir::Attrs,
    domain: (f64, f64),
    example: (&[f64], &[f64], &[f64]),
    source: &'static str,
) -> Vec<ir::Case> {
    use crate::rules::{f64s, sample};
    let with = |r: Reduction| attrs().with("reduction", r);
    let draw = |seed| sample(ir::DType::F64, [2, 3], seed, domain);
    let n = example.2.len();
    vec![
        ir::Case::new(vec![draw(1), draw(2)], with(Reduction::Mean)),
        ir::Case::new(vec![draw(3), draw(4)], with(Reduction::Sum)),
        ir::Case::new(vec![draw(5), draw(6)], with(Reduction::BatchMean)),
        ir::Case::new(vec![f64s([n], example.0), f64s([n], example.1)], with(Reduction::None))
            .expect(vec![f64s([n], example.2)], source)
            .kinked(),
    ]
}
