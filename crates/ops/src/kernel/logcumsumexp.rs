//! `logcumsumexp`: the logarithm of running sums of exponentials.

use super::{BATCH_AXIS, advance};
use crate::rules::{GradTensors, f64s, float, floats, grads, same};
use crate::{Result, Tensor};
use ir::AxisSplit;
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op};

/// The row of `logcumsumexp`.
pub static OP: Op = Op {
    name: "logcumsumexp",
    doc: "The logarithm of the running sums of the exponentials along `axis`, without overflow.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| {
        c.arity(1)?;
        c.axis("axis")?;
        float(c, 0)?;
        same(c, 0)
    },
    meaning: Meaning::Kernel(reference),
    grad: Grad::Rule(|c| {
        // dx[i] = Σ_{k ≥ i} g[k] · exp(x[i] - y[k]) = exp(x[i] - y[i]) · r[i] with
        // r[i] = g[i] + exp(y[i] - y[i + 1]) · r[i + 1]: no exponent is ever positive.
        let (x, y, at) = (c.x(0), c.y(0), c.attrs.size("axis")?);
        if x.count()? == 0 {
            return grads([x]);
        }
        let y = Tensor::where_(&y.eq(f64::NEG_INFINITY), &y.zeros_like(), &y);
        let shrink = (&y - advance(&y, at, f64::INFINITY)?).exp();
        grads([(x - &y).exp() * shrink.recur_back(&c.g(0), at)])
    }),
    batch: BATCH_AXIS,
    autocast: ir::Autocast::Wide,
    shard: ir::Shard::Lanes,
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        let far = f64s([3], &[-1000.0, 0.0, 1000.0]);
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], along(1)),
            Case::new(vec![far.clone()], along(0)).expect(vec![far], "by hand: each term dwarfs those before it"),
            Case::new(vec![f64s([3], &[0.0; 3])], along(0))
                .expect(vec![f64s([3], &[0.0, 2f64.ln(), 3f64.ln()])], "by hand: sums of ones"),
        ]
    },
    ..Op::DEFAULT
};

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let mut x = args[0].to_f64();
    for lane in AxisSplit::new(c.shape(0), c.axis("axis")?).each() {
        lane.fold(f64::NEG_INFINITY, |sum, i| {
            let (lo, hi) = if x[i] < sum { (x[i], sum) } else { (sum, x[i]) };
            x[i] = if lo == hi && lo.is_infinite() { lo } else { hi + (lo - hi).exp().ln_1p() };
            x[i]
        });
    }
    Ok(vec![Literal::from_f64(c.dtype(0), c.shape(0).clone(), &x)])
}

impl Tensor {
    /// The logarithm of the running sums of the exponentials along an axis, without overflow.
    #[track_caller]
    pub fn logcumsumexp(&self, along: i64) -> Tensor {
        self.then(|t| {
            let (x, at) = self.cast(t.dtype.to_float()).at_axis("logcumsumexp", along)?;
            Ok(Tensor::apply1(&OP, &[&x], Attrs::new().with("axis", at)).reshape(&t.shape))
        })
    }
}
