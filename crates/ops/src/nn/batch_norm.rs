//! `batch_norm`: channels moved and scaled by statistics known beforehand.

use super::norm::{affine, check_channels, inputs, over_channels};
use crate::rules::{expand1, f64s, float, floats, one_dtype, same, sample};
use crate::{Error, Tensor};
use ir::{AttrKind, Attrs, Case, DType, Meaning, Op};

/// The row of `batch_norm`.
pub static OP: Op = Op {
    name: "batch_norm",
    doc: "Each channel (axis 1) less a given mean, divided by the root of a given variance plus eps; then times a \
          weight and plus a bias for each channel, if given.",
    attrs: &[("eps", AttrKind::Float)],
    infer: |c| {
        if c.types.len() < 3 || c.types.len() > 5 {
            return Err(Error::value(format!("takes 3 to 5 inputs, but {} were given", c.types.len())));
        }
        float(c, 0)?;
        one_dtype(c)?;
        check_channels(c, 1)?;
        same(c, 0)
    },
    meaning: Meaning::Composite(|c, args| {
        let (eps, shape) = (c.attrs.float("eps")?, c.shape(0));
        let place = over_channels(shape.rank(), shape[1]);
        expand1(args, |t| {
            let scale = (t[2].widened() + eps).rsqrt().reshape(&place);
            let y = (t[0].widened() - t[1].widened().reshape(&place)) * scale;
            affine(y, t.get(3), t.get(4), &place).cast(c.dtype(0))
        })
    }),
    cases: || {
        let by = |eps: f64| Attrs::new().with("eps", eps);
        let var = sample(DType::F64, [2], 3, (0.5, 2.0));
        vec![
            Case::new(vec![floats([2, 2, 2], 1), floats([2], 2), var.clone(), floats([2], 4), floats([2], 5)], by(0.1)),
            Case::new(vec![floats([3, 2], 1), floats([2], 2), var], by(1e-3)),
            Case::new(vec![f64s([1, 2], &[3.0, 5.0]), f64s([2], &[1.0, 2.0]), f64s([2], &[3.0, 8.0])], by(1.0))
                .expect(vec![f64s([1, 2], &[1.0, 1.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Each channel (axis 1) less a given mean, divided by the root of a given variance plus eps;
    /// then times a weight and plus a bias for each channel, if given: the form for inference.
    /// See [`Tensor::batch_norm_train`] for the form that takes the statistics from the batch.
    #[track_caller]
    pub fn batch_norm(
        &self,
        mean: &Tensor,
        var: &Tensor,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Tensor {
        self.then(|t| {
            let mut inputs = inputs(self, weight, bias)?;
            inputs.splice(1..1, [mean.cast(t.dtype), var.cast(t.dtype)]);
            Ok(Tensor::apply1(&OP, &inputs.iter().collect::<Vec<_>>(), Attrs::new().with("eps", eps)))
        })
    }
}
