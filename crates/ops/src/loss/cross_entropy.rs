//! `cross_entropy`: cross entropy of logits with classes or class probabilities.

use super::nll_loss::{Classes, as_batch, class_axis, one_hot_weights, weighted_mean};
use super::{REDUCTION, Reduction, class_cross_entropy};
use crate::rules::{by_expansion, expand, f64s, floats, i64s, sample};
use crate::{Error, Tensor};
use ir::{AttrKind, Attrs, Call, Case, DType, Meaning, Op, Result, Value};

/// The row of `cross_entropy`.
pub static OP: Op = Op {
    name: "cross_entropy",
    doc: "Cross entropy of logits x[N, C, *D] (or [C]) with class labels t[N, *D] or class probabilities t[N, C, \
          *D], optionally with a weight for each class, reduced. Elements whose class is `ignore_index` do not count; \
          `label_smoothing` mixes the target with the uniform distribution. The mean is weighted. A class label out of \
          range is an error when the loss is computed.",
    attrs: &[("ignore_index", AttrKind::Int), ("label_smoothing", AttrKind::Float), REDUCTION],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    autocast: ir::Autocast::Wide,
    cases: || {
        let with = |smooth: f64, r: Reduction| {
            Attrs::new().with("ignore_index", -100i64).with("label_smoothing", smooth).with("reduction", r)
        };
        let weight = || sample(DType::F64, [3], 7, (0.5, 1.5));
        let p = sample(DType::F64, [2, 3], 8, (0.1, 0.9));
        let ln3 = 3f64.ln();
        vec![
            Case::new(vec![floats([2, 3], 1), i64s([2], &[2, 0])], with(0.0, Reduction::Mean)),
            Case::new(vec![floats([2, 3, 2], 2), i64s([2, 2], &[2, -100, 1, 1]), weight()], with(0.0, Reduction::Mean)),
            Case::new(vec![floats([2, 3], 3), i64s([2], &[2, -100]), weight()], with(0.2, Reduction::Sum)),
            Case::new(vec![floats([2, 3], 4), p, weight()], with(0.1, Reduction::Mean)),
            Case::new(vec![floats([3], 5), i64s([], &[1])], with(0.0, Reduction::Mean)),
            Case::new(
                vec![f64s([3, 3], &[0.0, 0.0, 0.0, 1e4, 0.0, 0.0, 1.0, 2.0, 3.0]), i64s([3], &[1, 1, -100])],
                with(0.0, Reduction::None),
            )
            .expect(vec![f64s([3], &[ln3, 1e4, 0.0])], "by hand")
            .kinked(),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let smoothing = c.attrs.float("label_smoothing")?;
    if !(0.0..=1.0).contains(&smoothing) {
        return Err(Error::value(format!("label_smoothing must lie between 0 and 1, not {smoothing}")));
    }
    let reduction = super::reduction(c)?;
    expand(args, |v| {
        let classes = class_axis(c)?;
        let weight = v.get(2);
        // The logits stay as they are; sums of losses need more than 16 bits.
        let narrow = |y: Tensor| vec![y.cast_like(&v[0])];
        if smoothing == 0.0 && !v[1].dtype()?.is_float() {
            return Ok(narrow(of_numbers(c, v, reduction)?));
        }
        let target = if v[1].dtype()?.is_float() {
            Target { p: mixed(&v[1], weight, smoothing, classes)?, scale: None }
        } else {
            Target::of_numbers(c, v, smoothing)?
        };
        let x = as_batch(&v[0], classes)?;
        let p = as_batch(&target.p, classes)?;
        let shape = v[0].shape()?.reduce(&[classes], false);
        let each = x.softmax_cross_entropy(&p, 1).reshape(shape).widened();
        Ok(narrow(match (reduction, target.scale) {
            (Reduction::Mean, Some(scale)) => weighted_mean(&each, &scale.widened()),
            _ => reduction.apply(&each),
        }))
    })
}

/// The loss of class labels as they are: no distribution is made of them.
fn of_numbers(c: &Call, v: &[Tensor], reduction: Reduction) -> Result<Tensor> {
    let classes = Classes::new(OP.name, c, v)?;
    let (numbers, counts) = classes.counted()?;
    let scale = classes.scale(&numbers, &counts)?.widened();
    let each = Tensor::apply1(&class_cross_entropy::OP, &[&v[0], &numbers], Attrs::new().with("axis", classes.axis));
    let each = Tensor::where_(&counts, &(each.widened() * &scale), 0.0);
    Ok(match reduction {
        Reduction::Mean => weighted_mean(&each, &scale),
        other => other.apply(&each),
    })
}

/// What the logits are compared with.
struct Target {
    /// Weighted probabilities in the shape of the logits.
    p: Tensor,
    /// The weight of each element in a mean; equal if `None`.
    scale: Option<Tensor>,
}

impl Target {
    fn of_numbers(c: &Call, v: &[Tensor], smoothing: f64) -> Result<Target> {
        let classes = Classes::new(OP.name, c, v)?;
        let hard = one_hot_weights(&classes)?;
        let scale = hard.sum(classes.axis as i64);
        let p = if smoothing == 0.0 {
            hard
        } else {
            let uniform = classes.uniform()?;
            hard * (1.0 - smoothing) + uniform * smoothing
        };
        Ok(Target { p, scale: Some(scale) })
    }
}

/// Probabilities mixed with the uniform distribution and weighted by class.
fn mixed(p: &Tensor, weight: Option<&Tensor>, smoothing: f64, axis: usize) -> Result<Tensor> {
    let shape = p.shape()?;
    let p = if smoothing == 0.0 { p.clone() } else { p * (1.0 - smoothing) + smoothing / shape[axis] as f64 };
    Ok(match weight {
        Some(w) => p * super::nll_loss::along(w, axis, shape.rank()),
        None => p,
    })
}

/// What [`Tensor::cross_entropy_with`] takes beside its operands.
#[derive(Clone, Debug)]
pub struct CrossEntropyOptions {
    /// A weight for each class.
    pub weight: Option<Tensor>,
    /// Elements of this class do not count.
    pub ignore_index: i64,
    /// How much of the uniform distribution is mixed into the target.
    pub label_smoothing: f64,
    /// What becomes of the losses.
    pub reduction: Reduction,
}
impl Default for CrossEntropyOptions {
    fn default() -> CrossEntropyOptions {
        CrossEntropyOptions { weight: None, ignore_index: -100, label_smoothing: 0.0, reduction: Reduction::Mean }
    }
}

impl Tensor {
    /// Cross entropy of these logits `[N, C, *D]` (or `[C]`) with class labels `[N, *D]` or class
    /// probabilities `[N, C, *D]`.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let logits = Tensor::from([[0.0f64, 0.0], [0.0, 0.0]]);
    /// let y = logits.cross_entropy(&Tensor::from([0i64, 1]));
    /// assert!((y.item::<f64>().unwrap() - 2f64.ln()).abs() < 1e-12);
    /// ```
    #[track_caller]
    pub fn cross_entropy(&self, target: &Tensor) -> Tensor {
        self.cross_entropy_with(target, CrossEntropyOptions::default())
    }

    /// Cross entropy of these logits `[N, C, *D]` (or `[C]`) with class labels `[N, *D]` or class probabilities
    /// `[N, C, *D]`; options weight classes, ignore one, smooth labels, or choose a reduction other than the mean.
    #[track_caller]
    pub fn cross_entropy_with(&self, target: &Tensor, options: CrossEntropyOptions) -> Tensor {
        let attrs = Attrs::new()
            .with("ignore_index", options.ignore_index)
            .with("label_smoothing", options.label_smoothing)
            .with("reduction", options.reduction);
        self.class_loss(&OP, target, options.weight.as_ref(), attrs)
    }
}
