//! `instance_norm`: each channel of each example moved to mean 0 and scaled to variance 1.

use super::norm::{affine, check_channels, inputs, over_channels};
use crate::rules::{expand1, f64s, float, floats, one_dtype, same};
use crate::{Error, Tensor};
use ir::{AttrKind, Attrs, Case, Meaning, Op};

/// The row of `instance_norm`.
pub static OP: Op = Op {
    name: "instance_norm",
    doc: "Each channel (axis 1) of each example moved to mean 0 and scaled to variance 1 with eps under the root; then \
          times a weight and plus a bias for each channel, if given.",
    attrs: &[("eps", AttrKind::Float)],
    infer: |c| {
        if c.types.is_empty() || c.types.len() > 3 {
            return Err(Error::value(format!("takes 1 to 3 inputs, but {} were given", c.types.len())));
        }
        float(c, 0)?;
        one_dtype(c)?;
        check_channels(c, 1)?;
        if c.shape(0).rank() < 3 {
            return Err(Error::shape(format!("a batch, a channel and other axes are needed, not {}", c.shape(0))));
        }
        same(c, 0)
    },
    meaning: Meaning::Composite(|c, args| {
        let (eps, shape) = (c.attrs.float("eps")?, c.shape(0));
        if shape.count() == 0 {
            return Ok(vec![args[0].clone()]);
        }
        expand1(args, |t| {
            let y = t[0].widened().layer_norm(shape.rank() - 2, None, None, eps);
            affine(y, t.get(1), t.get(2), &over_channels(shape.rank(), shape[1])).cast(c.dtype(0))
        })
    }),
    cases: || {
        let by = |eps: f64| Attrs::new().with("eps", eps);
        vec![
            Case::new(vec![floats([2, 2, 2, 2], 1), floats([2], 2), floats([2], 3)], by(0.1)),
            Case::new(vec![floats([2, 2, 3], 4)], by(1e-3)),
            Case::new(vec![f64s([1, 2, 2], &[1.0, 5.0, 3.0, 9.0]), f64s([2], &[1.0, 2.0])], by(0.0))
                .expect(
                    vec![f64s([1, 2, 2], &[-1.0, 1.0, -2.0, 2.0])],
                    "by hand: one deviation below and above the mean",
                )
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Each channel (axis 1) of each example moved to mean 0 and scaled to variance 1; then times
    /// a weight and plus a bias for each channel, if given.
    #[track_caller]
    pub fn instance_norm(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
        self.then(|_| {
            let inputs = inputs(self, weight, bias)?;
            Ok(Tensor::apply1(&OP, &inputs.iter().collect::<Vec<_>>(), Attrs::new().with("eps", eps)))
        })
    }
}
