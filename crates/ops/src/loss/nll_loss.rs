//! `nll_loss`: the negative log-probability of a class, and what losses over classes share.

use super::{REDUCTION, Reduction};
use crate::rules::{by_expansion, expand_wide, f64s, float, floats, i64s, sample};
use crate::{Error, Tensor};
use ir::{AttrKind, Attrs, Call, Case, DType, Meaning, Op, Result, Shape, Value};

/// The row of `nll_loss`.
pub static OP: Op = Op {
    name: "nll_loss",
    doc: "−x at the target class, for log-probabilities x[N, C, *D] (or [C]) and class labels t[N, *D], optionally \
          with a weight for each class, reduced. Elements whose class is `ignore_index` do not count. The mean is \
          weighted. A class label out of range is an error when the loss is computed.",
    attrs: &[("ignore_index", AttrKind::Int), REDUCTION],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    autocast: ir::Autocast::Wide,
    cases: || {
        let with = |r: Reduction| Attrs::new().with("ignore_index", -100i64).with("reduction", r);
        let weight = || sample(DType::F64, [3], 7, (0.5, 1.5));
        vec![
            Case::new(vec![floats([2, 3], 1), i64s([2], &[2, 0])], with(Reduction::Mean)),
            Case::new(vec![floats([2, 3, 2], 2), i64s([2, 2], &[2, -100, 1, 1]), weight()], with(Reduction::Mean)),
            Case::new(vec![floats([3], 3), i64s([], &[1]), weight()], with(Reduction::Sum)),
            Case::new(
                vec![f64s([2, 2], &[-1.0, -2.0, -3.0, -4.0]), i64s([2], &[1, 0]), f64s([2], &[1.0, 3.0])],
                with(Reduction::Mean),
            )
            .expect(vec![f64s((), &[2.25])], "by hand: (3·2 + 1·3) / (3 + 1)"),
        ]
    },
    ..Op::DEFAULT
};

/// Class labels, ready to be compared with every class.
pub(super) struct Classes<'a> {
    numbers: Tensor,
    weight: Option<&'a Tensor>,
    ignored: i64,
    dtype: DType,
    /// Shape of the predictions.
    shape: Shape,
    /// The axis of the classes among the predictions' axes.
    pub axis: usize,
}

impl<'a> Classes<'a> {
    pub(super) fn new(op: &'static str, c: &Call, v: &'a [Tensor]) -> Result<Classes<'a>> {
        let axis = class_axis(c)?;
        let shape = v[0].shape()?;
        let (want, got) = (shape.reduce(&[axis], false), v[1].shape()?);
        if want != got {
            let e = format!(
                "predictions {shape} need class numbers of shape {want} or class probabilities of shape {shape}, not {got}"
            );
            return Err(Error::shape(e));
        }
        let ignored = c.attrs.int("ignore_index")?;
        let numbers = v[1].cast(DType::I64).check_class(shape[axis], ignored, op);
        Ok(Classes { numbers, weight: v.get(2), ignored, dtype: v[0].dtype()?, shape, axis })
    }
    /// The numbers with a place for the axis of the classes.
    fn wide(&self) -> Tensor {
        self.numbers.reshape(self.shape.reduce(&[self.axis], true))
    }
    /// The weight of each class, broadcast over the predictions.
    fn weights(&self) -> Tensor {
        match self.weight {
            Some(w) => along(w, self.axis, self.shape.rank()),
            None => Tensor::full_of((), 1.0, self.dtype),
        }
    }
    /// Where a number is the class at its index along the axis.
    fn hits(&self) -> Tensor {
        let classes = along(&Tensor::iota(self.shape[self.axis], DType::I64), self.axis, self.shape.rank());
        self.wide().eq(classes)
    }
    /// The numbers with a class in place of what is ignored, and which are not.
    pub(super) fn counted(&self) -> Result<(Tensor, Tensor)> {
        let counts = self.numbers.ne(self.ignored);
        Ok((Tensor::where_(&counts, &self.numbers, 0i64), counts))
    }
    /// The weight of each number's class; zero where it is ignored.
    pub(super) fn scale(&self, numbers: &Tensor, counts: &Tensor) -> Result<Tensor> {
        match self.weight {
            Some(w) => Ok(Tensor::where_(counts, &w.take(numbers, 0), 0.0)),
            None => Ok(counts.cast(self.dtype)),
        }
    }
    /// The uniform distribution, weighted; zero where the class is ignored.
    pub(super) fn uniform(&self) -> Result<Tensor> {
        let each = (self.weights() / self.shape[self.axis] as f64).broadcast_to(&self.shape);
        Ok(Tensor::where_(&self.wide().ne(self.ignored), &each, 0.0))
    }
}

/// One at the target class, times its weight; zero everywhere where the class is ignored.
pub(super) fn one_hot_weights(c: &Classes) -> Result<Tensor> {
    let counts = c.hits().and(c.wide().ne(c.ignored));
    let weights = c.weights().broadcast_to(&c.shape);
    Ok(Tensor::where_(&counts, &weights, 0.0))
}

/// The axis of the classes, after checking what both losses over classes need.
pub(super) fn class_axis(c: &Call) -> Result<usize> {
    if !(2..=3).contains(&c.types.len()) {
        return Err(Error::value(format!("takes 2 or 3 inputs, but {} were given", c.types.len())));
    }
    float(c, 0)?;
    let shape = c.shape(0);
    if shape.rank() == 0 {
        return Err(Error::shape("predictions must have a dimension of classes: [N, C, …] or [C]"));
    }
    let axis = if shape.rank() == 1 { 0 } else { 1 };
    let target = c.dtype(1);
    if target == DType::Bool || (target.is_float() && target != c.dtype(0)) {
        return Err(Error::dtype(format!("the target must be integers or {}, not {target}", c.dtype(0))));
    }
    if target.is_float() && c.shape(1) != shape {
        let labels: Vec<usize> = shape.iter().enumerate().filter(|&(i, _)| i != axis).map(|(_, &d)| d).collect();
        return Err(Error::shape(format!(
            "labels must be integers of shape {labels:?}, or probabilities of shape {shape}, not {} of shape {}",
            target,
            c.shape(1)
        )));
    }
    if let Some(w) = c.types.get(2)
        && (w.shape.dims() != [shape[axis]] || w.dtype != c.dtype(0))
    {
        let (n, dtype) = (shape[axis], c.dtype(0));
        return Err(Error::shape(format!("the weights of {n} classes must be {dtype}[{n}], not {w}")));
    }
    Ok(axis)
}

/// A vector laid along one axis of `rank`.
pub(super) fn along(x: &Tensor, axis: usize, rank: usize) -> Tensor {
    x.then(|t| {
        let mut shape = Shape::new(&vec![1; rank]);
        shape.dims_mut()[axis] = t.shape.count();
        Ok(x.reshape(shape))
    })
}

/// With a batch dimension, so that the classes lie along axis 1.
pub(super) fn as_batch(x: &Tensor, axis: usize) -> Result<Tensor> {
    if axis == 1 {
        return Ok(x.clone());
    }
    let mut shape = x.shape()?;
    shape.insert(0, 1);
    Ok(x.reshape(shape))
}

/// The mean of losses that carry their weights already.
pub(super) fn weighted_mean(each: &Tensor, weights: &Tensor) -> Tensor {
    each.sum(..) / weights.sum(..)
}

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let reduction = super::reduction(c)?;
    expand_wide(args, |v| {
        let axis = class_axis(c)? as i64;
        if v[1].dtype()?.is_float() {
            return Err(Error::dtype(format!("class numbers must be integers, not {}", v[1].dtype()?)));
        }
        let classes = Classes::new(OP.name, c, v)?;
        let (numbers, counts) = classes.counted()?;
        let scale = classes.scale(&numbers, &counts)?;
        // Log-probabilities of other classes, and of one that does not count, may be −∞.
        let picked = Tensor::where_(&classes.hits(), &v[0], 0.0).sum(axis);
        let each = Tensor::where_(&scale.ne(0.0), &(-picked * &scale), 0.0);
        Ok(vec![match reduction {
            Reduction::Mean => weighted_mean(&each, &scale),
            other => other.apply(&each),
        }])
    })
}

/// What [`Tensor::nll_loss`] takes beside its operands.
#[derive(Clone, Debug)]
pub struct NllOptions {
    /// A weight for each class.
    pub weight: Option<Tensor>,
    /// Elements of this class do not count.
    pub ignore_index: i64,
    /// What becomes of the losses.
    pub reduction: Reduction,
}
impl Default for NllOptions {
    fn default() -> NllOptions {
        NllOptions { weight: None, ignore_index: -100, reduction: Reduction::Mean }
    }
}

impl Tensor {
    /// Minus these log-probabilities `[N, C, *D]` (or `[C]`) at the classes `[N, *D]`.
    #[track_caller]
    pub fn nll_loss(&self, target: &Tensor, options: NllOptions) -> Tensor {
        let attrs = Attrs::new().with("ignore_index", options.ignore_index).with("reduction", options.reduction);
        self.class_loss(&OP, target, options.weight.as_ref(), attrs)
    }
    /// A loss over classes.
    #[track_caller]
    pub(super) fn class_loss(&self, op: &'static Op, target: &Tensor, weight: Option<&Tensor>, attrs: Attrs) -> Tensor {
        self.then(|t| {
            let target = if target.dtype()?.is_float() { target.cast(t.dtype) } else { target.clone() };
            let weight = weight.map(|w| w.cast(t.dtype));
            let all: Vec<&Tensor> = [self, &target].into_iter().chain(&weight).collect();
            Ok(Tensor::apply1(op, &all, attrs))
        })
    }
}
