//! `binary_cross_entropy_with_logits`: cross entropy of probabilities given as logits.

use super::binary_cross_entropy::{check, each_gradient};
use super::{REDUCTION, Reduction, body};
use crate::rules::{by_expansion, f64s, floats, maybe_grads, sample, unbroadcast};
use crate::{Error, Tensor};
use ir::{AttrKind, Attrs, Call, Case, DType, Grad, Meaning, Op, Result, Value};

/// The row of `binary_cross_entropy_with_logits`.
pub static OP: Op = Op {
    name: "binary_cross_entropy_with_logits",
    doc: "−w (p t log s + (1 − t) log(1 − s)), s the sigmoid of x, for a target t, a weight w (an input if \
          `weighted`) and a weight p of the positive class (an optional last input), reduced; computed without \
          overflow.",
    attrs: &[("weighted", AttrKind::Bool), REDUCTION],
    infer: |c| {
        let weighted = c.attrs.bool("weighted")?;
        check(c, 3 + weighted as usize)?;
        if weighted && c.types.len() < 3 {
            return Err(Error::value("weighted, but without a weight"));
        }
        by_expansion(c, expand)
    },
    meaning: Meaning::Composite(expand),
    grad: Grad::Rule(|c| {
        let all: Vec<Tensor> = c.inputs.iter().cloned().map(Tensor::from).collect();
        let Parts { x, t, weight, positive } = parts(c.attrs, &all)?;
        let g = each_gradient(c, weight.cloned())?;
        let tail = -x.log_sigmoid();
        let factor = positive_factor(t, positive);
        // d softplus(−x) = −sigmoid(−x)
        let slope = (1.0 - t) - factor * (-x).sigmoid();
        let of_target = match positive {
            Some(p) => (p - 1.0) * &tail - x,
            None => -x,
        };
        let mut got = vec![&g * slope, &g * of_target];
        if weight.is_some() {
            got.push(each_gradient(c, None)? * losses(x, t, positive));
        }
        if positive.is_some() {
            got.push(&g * t * &tail);
        }
        let undo = |(g, v): (Tensor, &Value)| Some(unbroadcast(g, &v.ty().shape));
        maybe_grads(got.into_iter().zip(c.inputs).map(undo).collect())
    }),
    autocast: ir::Autocast::Wide,
    cases: || {
        let with = |w: bool, r: Reduction| Attrs::new().with("weighted", w).with("reduction", r);
        let p = |seed| sample(DType::F64, [2, 3], seed, (0.1, 0.9));
        let weight = |seed| sample(DType::F64, [3], seed, (0.5, 1.5));
        let ln2 = std::f64::consts::LN_2;
        vec![
            Case::new(vec![floats([2, 3], 1), p(2)], with(false, Reduction::Mean)),
            Case::new(vec![floats([2, 3], 3), p(4), weight(5)], with(true, Reduction::Sum)),
            Case::new(vec![floats([2, 3], 3), p(4), weight(5)], with(false, Reduction::None)),
            Case::new(vec![floats([2, 3], 3), p(4), weight(5), weight(6)], with(true, Reduction::Mean)),
            Case::new(
                vec![f64s([3], &[0.0, 1000.0, -1000.0]), f64s([3], &[1.0, 1.0, 1.0])],
                with(false, Reduction::None),
            )
            .expect(vec![f64s([3], &[ln2, 0.0, 1000.0])], "by hand")
            .kinked(),
        ]
    },
    ..Op::DEFAULT
};

struct Parts<'a> {
    x: &'a Tensor,
    t: &'a Tensor,
    weight: Option<&'a Tensor>,
    positive: Option<&'a Tensor>,
}

fn parts<'a>(attrs: &Attrs, all: &'a [Tensor]) -> Result<Parts<'a>> {
    let weighted = attrs.bool("weighted")?;
    let weight = if weighted { all.get(2) } else { None };
    Ok(Parts { x: &all[0], t: &all[1], weight, positive: all.get(2 + weighted as usize) })
}

/// What log(1 + exp(−x)) is multiplied by: 1 + (p − 1) t.
fn positive_factor(t: &Tensor, positive: Option<&Tensor>) -> Tensor {
    match positive {
        Some(p) => (p - 1.0) * t + 1.0,
        None => t.ones_like(),
    }
}
fn losses(x: &Tensor, t: &Tensor, positive: Option<&Tensor>) -> Tensor {
    let tail = -x.log_sigmoid();
    let tail = if positive.is_some() { positive_factor(t, positive) * tail } else { tail };
    (1.0 - t) * x + tail
}

fn expand(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    body(c, args, |v| {
        let Parts { x, t, weight, positive } = parts(c.attrs, v)?;
        let each = losses(x, t, positive);
        Ok(match weight {
            Some(w) => each * w,
            None => each,
        })
    })
}

impl Tensor {
    /// Cross entropy of the probabilities with these logits with target probabilities; each element
    /// and the positive class optionally weighted; reduced.
    #[track_caller]
    pub fn binary_cross_entropy_with_logits(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        pos_weight: Option<&Tensor>,
        reduction: Reduction,
    ) -> Tensor {
        let attrs = Attrs::new().with("weighted", weight.is_some()).with("reduction", reduction);
        self.weighted_loss(&OP, target, [weight, pos_weight], attrs)
    }
}
