//! `binary_cross_entropy`: cross entropy of probabilities.

use super::{REDUCTION, Reduction, body};
use crate::rules::{GradTensors, by_expansion, f64s, float, maybe_grads, one_dtype, sample, unbroadcast};
use crate::{Error, Tensor};
use ir::{Attrs, Call, Case, DType, Grad, GradCall, Meaning, Op, Result, Value};

/// The row of `binary_cross_entropy`.
pub static OP: Op = Op {
    name: "binary_cross_entropy",
    doc: "−w (t log x + (1 − t) log(1 − x)) for a probability x, a target t and optionally a weight w, reduced. \
          Logarithms do not go below −100.",
    attrs: &[REDUCTION],
    infer: |c| {
        check(c, 3)?;
        by_expansion(c, expand)
    },
    meaning: Meaning::Composite(expand),
    grad: Grad::Rule(|c| {
        let (x, t) = (c.x(0), c.x(1));
        let shape = &c.inputs[0].ty().shape;
        let g = each_gradient(c, c.inputs.get(2).map(|v| v.clone().into()))?;
        // The curvature is kept finite where the probability is 0 or 1.
        let gx = &g * (&x - &t) / (&x * (1.0 - &x)).maximum(1e-12);
        let gt = &g * (log(&(1.0 - &x)) - log(&x));
        let mut all = vec![Some(unbroadcast(gx, shape)), Some(unbroadcast(gt, shape))];
        if c.inputs.len() == 3 {
            let each = each_gradient(c, None)? * losses(&x, &t);
            all.push(Some(unbroadcast(each, &c.inputs[2].ty().shape)));
        }
        maybe_grads(all)
    }),
    autocast: ir::Autocast::Wide,
    cases: || {
        let with = |r: Reduction| Attrs::new().with("reduction", r);
        let p = |seed| sample(DType::F64, [2, 3], seed, (0.1, 0.9));
        let weight = sample(DType::F64, [3], 7, (0.5, 1.5));
        let ln2 = std::f64::consts::LN_2;
        vec![
            Case::new(vec![p(1), p(2)], with(Reduction::Mean)),
            Case::new(vec![p(3), p(4), weight], with(Reduction::Sum)),
            Case::new(vec![f64s([3], &[0.5, 0.25, 0.0]), f64s([3], &[0.5, 1.0, 1.0])], with(Reduction::None))
                .expect(vec![f64s([3], &[ln2, 2.0 * ln2, 100.0])], "by hand; the last logarithm is cut at −100")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

/// Prediction and target of one shape, then at most `most − 2` weights.
pub(super) fn check(c: &Call, most: usize) -> Result<()> {
    if !(2..=most).contains(&c.types.len()) {
        return Err(Error::value(format!("takes 2 to {most} inputs, but {} were given", c.types.len())));
    }
    float(c, 0)?;
    one_dtype(c)?;
    if c.shape(0) != c.shape(1) {
        return Err(Error::shape(format!("prediction {} and target {} differ in shape", c.shape(0), c.shape(1))));
    }
    Ok(())
}

/// The gradient that reaches each element: the result's, undone from its reduction, times a weight.
pub(super) fn each_gradient(c: &GradCall, weight: Option<Tensor>) -> Result<Tensor> {
    let shapes: Vec<&ir::Shape> = c.inputs.iter().map(|v| &v.ty().shape).collect();
    let shape = ir::broadcast_shapes(&shapes)?;
    let g = match Reduction::parse(c.attrs.str("reduction")?)? {
        Reduction::None | Reduction::Sum => c.g(0),
        Reduction::Mean => c.g(0) / shape.count() as f64,
        Reduction::BatchMean => c.g(0) / shape.first().copied().unwrap_or(1) as f64,
    };
    let g = g.broadcast_to(shape);
    Ok(match weight {
        Some(w) => g * w,
        None => g,
    })
}

/// A logarithm that does not go below −100.
fn log(x: &Tensor) -> Tensor {
    x.log().maximum(-100.0)
}
fn losses(x: &Tensor, t: &Tensor) -> Tensor {
    -(t * log(x) + (1.0 - t) * log(&(1.0 - x)))
}

fn expand(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    body(c, args, |v| {
        let each = losses(&v[0], &v[1]);
        Ok(if v.len() == 3 { each * &v[2] } else { each })
    })
}

impl Tensor {
    /// Cross entropy of these probabilities with target probabilities, each element optionally
    /// weighted, reduced.
    #[track_caller]
    pub fn binary_cross_entropy(&self, target: &Tensor, weight: Option<&Tensor>, reduction: Reduction) -> Tensor {
        self.weighted_loss(&OP, target, [weight], Attrs::new().with("reduction", reduction))
    }
    /// A loss of two tensors and optional weights in their common type.
    #[track_caller]
    pub(super) fn weighted_loss<const N: usize>(
        &self,
        op: &'static Op,
        target: &Tensor,
        weights: [Option<&Tensor>; N],
        attrs: Attrs,
    ) -> Tensor {
        self.then(|t| {
            let all: Vec<&Tensor> = [self, target].into_iter().chain(weights.into_iter().flatten()).collect();
            let mut dtype = t.dtype;
            for t in &all {
                dtype = dtype.promote(t.dtype()?);
            }
            let all: Vec<Tensor> = all.into_iter().map(|t| t.cast(dtype)).collect();
            Ok(Tensor::apply1(op, &all.iter().collect::<Vec<_>>(), attrs))
        })
    }
}
