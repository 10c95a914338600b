//! `batch_norm_train`: channels moved to mean 0 and scaled to variance 1 over the batch.

use super::norm::{affine, check_channels, inputs, over_channels};
use crate::rules::{GradTensors, expand, f64s, float, floats, maybe_grads, one_dtype};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, DType, Grad, Meaning, Op, Site, Type};

/// The row of `batch_norm_train`.
pub static OP: Op = Op {
    name: "batch_norm_train",
    doc: "Each channel (axis 1) moved to mean 0 and scaled to variance 1 over all other axes, with eps under the \
          root; then times a weight and plus a bias for each channel, if given. Also returns the mean and the variance \
          (of the batch, not of the population it was drawn from).",
    attrs: &[("eps", AttrKind::Float)],
    infer: |c| {
        if c.types.is_empty() || c.types.len() > 3 {
            return Err(Error::value(format!("takes 1 to 3 inputs, but {} were given", c.types.len())));
        }
        float(c, 0)?;
        one_dtype(c)?;
        check_channels(c, 1)?;
        if c.shape(0).count() == 0 {
            return Err(Error::shape(format!("an empty batch {} has no mean", c.shape(0))));
        }
        // 16-bit statistics would be too coarse to collect over many steps.
        let stat = Type::new(wide(c.dtype(0)), c.shape(0)[1]);
        Ok([c.types[0].clone(), stat.clone(), stat].into_iter().collect())
    },
    meaning: Meaning::Composite(|c, args| {
        let (eps, shape) = (c.attrs.float("eps")?, c.shape(0));
        let place = over_channels(shape.rank(), shape[1]);
        let axes = others(c);
        expand(args, |t| {
            let x = t[0].widened();
            // Both moments in one pass over x, around a number that is close to the mean: its
            // first element in each channel. Around zero the variance would drown in the mean.
            let near = first(&t[0], &axes).widened();
            let apart = &x - &near;
            let moved = apart.mean_keep(&axes);
            let var = (apart.square().mean_keep(&axes) - moved.square()).clamp_min(0.0);
            let mean = near + moved;
            let y = (x - &mean) * (&var + eps).rsqrt();
            let y = affine(y, t.get(1), t.get(2), &place).cast(c.dtype(0));
            Ok(vec![y, mean.reshape(shape[1]), var.reshape(shape[1])])
        })
    }),
    grad: Grad::Rule(|c| {
        let ty = c.inputs[0].ty();
        let eps = c.attrs.float("eps")?;
        let place = over_channels(ty.shape.rank(), ty.shape[1]);
        let axes = others(&Call { types: std::slice::from_ref(ty), attrs: c.attrs });
        let each = ty.shape[1] as f64 / ty.shape.count() as f64;
        let (x, g) = (c.x(0).widened(), c.g(0).widened());
        let scale = (c.y(2) + eps).rsqrt().reshape(&place);
        let centered = x - c.y(1).reshape(&place);
        let y = &centered * &scale;
        let total = g.sum_keep(&axes);
        let along = (&g * &y).sum_keep(&axes);
        let scaled = if c.inputs.len() > 1 { scale * c.x(1).widened().reshape(&place) } else { scale };
        let mut dx = (g - &total * each - y * (&along * each)) * scaled;
        if c.grads[1].is_some() {
            dx = dx + c.g(1).reshape(&place) * each;
        }
        if c.grads[2].is_some() {
            dx = dx + centered * (c.g(2).reshape(&place) * (2.0 * each));
        }
        let mut out = vec![Some(dx.cast(ty.dtype))];
        for t in [along, total].into_iter().take(c.inputs.len() - 1) {
            out.push(Some(t.reshape(ty.shape[1]).cast(ty.dtype)));
        }
        maybe_grads(out)
    }),
    cases: || {
        let by = |eps: f64| Attrs::new().with("eps", eps);
        vec![
            Case::new(vec![floats([3, 2, 2], 1), floats([2], 2), floats([2], 3)], by(0.1)),
            Case::new(vec![floats([4, 2], 4)], by(1e-2)),
            Case::new(vec![f64s([2, 2], &[1.0, 3.0, 5.0, 9.0])], by(0.0))
                .expect(
                    vec![f64s([2, 2], &[-1.0, -1.0, 1.0, 1.0]), f64s([2], &[3.0, 6.0]), f64s([2], &[4.0, 9.0])],
                    "by hand: one deviation below and above the mean",
                )
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

fn wide(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

/// Every axis but the channels.
fn others(c: &Call) -> Vec<i64> {
    (0..c.shape(0).rank() as i64).filter(|&i| i != 1).collect()
}

/// The first element along some axes, which stay.
fn first(x: &Tensor, axes: &[i64]) -> Tensor {
    axes.iter().fold(x.clone(), |x, &axis| x.narrow(axis, 0, 1))
}

impl Tensor {
    /// Each channel (axis 1) moved to mean 0 and scaled to variance 1 over the batch; then times a
    /// weight and plus a bias for each channel, if given. Gives the result, and the mean and the
    /// variance of the batch.
    #[track_caller]
    pub fn batch_norm_stats(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> [Tensor; 3] {
        let site = Site::here();
        site.scope(|| match inputs(self, weight, bias) {
            Ok(list) => Tensor::apply_n(&OP, &list.iter().collect::<Vec<_>>(), Attrs::new().with("eps", eps)),
            Err(e) => std::array::from_fn(|_| e.clone().into()),
        })
    }
    /// `batch_norm_stats` with running averages: gives the result, the new running mean and the
    /// new running variance, `(1 - momentum) old + momentum new`, of which the variance is that of
    /// the population. No gradient flows through the averages.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[1.0f64], [5.0]]);
    /// let (mean, var) = (Tensor::from([0.0f64]), Tensor::from([1.0f64]));
    /// let [y, mean, var] = x.batch_norm_train([&mean, &var], None, None, 0.5, 0.0);
    /// assert_eq!(y.to_vec::<f64>().unwrap(), [-1.0, 1.0]);
    /// assert_eq!(mean.to_vec::<f64>().unwrap(), [1.5]);
    /// assert_eq!(var.to_vec::<f64>().unwrap(), [4.5]);
    /// ```
    #[track_caller]
    pub fn batch_norm_train(
        &self,
        running: [&Tensor; 2],
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        momentum: f64,
        eps: f64,
    ) -> [Tensor; 3] {
        let site = Site::here();
        site.scope(|| {
            let [y, mean, var] = self.batch_norm_stats(weight, bias, eps);
            let correction = || -> Result<f64> {
                let shape = self.shape()?;
                let n = (shape.count() / shape[1]) as f64;
                if n < 2.0 {
                    return Err(Error::shape(format!("{shape} has one value a channel, which has no variance"))
                        .in_op("batch_norm_train")
                        .at(site));
                }
                Ok(n / (n - 1.0))
            };
            let moved =
                |old: &Tensor, new: Tensor| old * (1.0 - momentum) + (new.stop_gradient() * momentum).cast_like(old);
            match (y.error(), correction()) {
                (Some(_), _) => [y.clone(), y.clone(), y],
                (None, Err(e)) => std::array::from_fn(|_| e.clone().into()),
                (None, Ok(k)) => [y, moved(running[0], mean), moved(running[1], var * k)],
            }
        })
    }
}
