//! `triplet_margin_loss`: an anchor nearer to its like than to others.

use super::{REDUCTION, Reduction, body, floats_only};
use crate::Tensor;
use crate::rules::{by_expansion, f64s, floats};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Result, Value};

/// The row of `triplet_margin_loss`.
pub static OP: Op = Op {
    name: "triplet_margin_loss",
    doc: "max(0, margin + |a − p| − |a − n|) for an anchor a, a positive p and a negative n, in the given norm with `eps` \
          added to differences; with `swap`, |p − n| stands for |a − n| where it is smaller; reduced.",
    attrs: &[
        ("margin", AttrKind::Float),
        ("norm", AttrKind::Float),
        ("eps", AttrKind::Float),
        ("swap", AttrKind::Bool),
        REDUCTION,
    ],
    infer: |c| floats_only(c, 3).and_then(|()| by_expansion(c, expand)),
    meaning: Meaning::Composite(expand),
    autocast: ir::Autocast::Wide,
    cases: || {
        let with =
            |swap: bool, r: Reduction| attrs(TripletOptions { swap, reduction: r, eps: 0.0, ..Default::default() });
        let three = |s: u64| vec![floats([2, 3], s), floats([2, 3], s + 1), floats([2, 3], s + 2)];
        let hand = vec![f64s([2], &[0.0, 0.0]), f64s([2], &[3.0, 4.0]), f64s([2], &[0.0, 2.0])];
        vec![
            Case::new(three(1), with(false, Reduction::Mean)),
            Case::new(three(5), with(true, Reduction::Sum)),
            Case::new(hand, with(false, Reduction::None)).expect(vec![f64s((), &[4.0])], "by hand: 1 + 5 − 2"),
        ]
    },
    ..Op::DEFAULT
};

fn expand(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let (margin, norm, eps) = (c.attrs.float("margin")?, c.attrs.float("norm")?, c.attrs.float("eps")?);
    let swap = c.attrs.bool("swap")?;
    body(c, args, |v| {
        let (a, p, n) = (&v[0], &v[1], &v[2]);
        let like = a.pairwise_distance(p, norm, eps);
        let other = a.pairwise_distance(n, norm, eps);
        let other = if swap { other.minimum(p.pairwise_distance(n, norm, eps)) } else { other };
        Ok((like - other + margin).clamp_min(0.0))
    })
}

fn attrs(o: TripletOptions) -> Attrs {
    Attrs::new()
        .with("margin", o.margin)
        .with("norm", o.norm)
        .with("eps", o.eps)
        .with("swap", o.swap)
        .with("reduction", o.reduction)
}

/// What [`Tensor::triplet_margin_loss`] takes beside its operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TripletOptions {
    /// How much farther the negative should be than the positive.
    pub margin: f64,
    /// Which norm measures distances.
    pub norm: f64,
    /// Added to differences.
    pub eps: f64,
    /// The positive's distance from the negative stands for the anchor's where it is smaller.
    pub swap: bool,
    /// What becomes of the losses.
    pub reduction: Reduction,
}
impl Default for TripletOptions {
    fn default() -> TripletOptions {
        TripletOptions { margin: 1.0, norm: 2.0, eps: 1e-6, swap: false, reduction: Reduction::Mean }
    }
}

impl Tensor {
    /// max(0, margin + |a − p| − |a − n|) for this anchor a, a positive p and a negative n.
    #[track_caller]
    pub fn triplet_margin_loss(&self, positive: &Tensor, negative: &Tensor, options: TripletOptions) -> Tensor {
        self.loss3(&OP, positive, negative, attrs(options))
    }
}
