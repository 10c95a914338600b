//! `group_norm`: groups of channels moved to mean 0 and scaled to variance 1.

use super::norm::{affine, check_channels, inputs, over_channels};
use crate::rules::{expand1, f64s, float, floats, one_dtype, same};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op};

/// The row of `group_norm`.
pub static OP: Op = Op {
    name: "group_norm",
    doc: "Channels (axis 1) in `groups`, each group of each example moved to mean 0 and scaled to variance 1 with eps \
          under the root; then times a weight and plus a bias for each channel, if given.",
    attrs: &[("groups", AttrKind::Int), ("eps", AttrKind::Float)],
    infer: |c| check(c).and_then(|()| same(c, 0)),
    meaning: Meaning::Composite(|c, args| {
        let (groups, eps, shape) = (c.attrs.size("groups")?, c.attrs.float("eps")?, c.shape(0));
        if shape.count() == 0 {
            return Ok(vec![args[0].clone()]);
        }
        let grouped = [shape[0], groups, shape.count() / (shape[0] * groups)];
        expand1(args, |t| {
            let y = t[0].widened().reshape(grouped).layer_norm(1, None, None, eps).reshape(shape);
            affine(y, t.get(1), t.get(2), &over_channels(shape.rank(), shape[1])).cast(c.dtype(0))
        })
    }),
    cases: || {
        let by = |n: i64, eps: f64| Attrs::new().with("groups", n).with("eps", eps);
        vec![
            Case::new(vec![floats([2, 4, 2], 1), floats([4], 2), floats([4], 3)], by(2, 0.1)),
            Case::new(vec![floats([2, 4], 4)], by(1, 1e-3)),
            Case::new(vec![f64s([1, 4], &[1.0, 5.0, 3.0, 9.0]), f64s([4], &[1.0, 2.0, 3.0, 4.0])], by(2, 0.0))
                .expect(vec![f64s([1, 4], &[-1.0, 2.0, -3.0, 4.0])], "by hand: one deviation below and above the mean")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

fn check(c: &Call) -> Result<()> {
    if c.types.is_empty() || c.types.len() > 3 {
        return Err(Error::value(format!("takes 1 to 3 inputs, but {} were given", c.types.len())));
    }
    float(c, 0)?;
    one_dtype(c)?;
    check_channels(c, 1)?;
    let (groups, channels) = (c.attrs.size("groups")?, c.shape(0)[1]);
    if groups == 0 || channels % groups != 0 {
        return Err(Error::value(format!("{channels} channels cannot be divided into {groups} groups")));
    }
    Ok(())
}

impl Tensor {
    /// Channels (axis 1) in groups, each group of each example moved to mean 0 and scaled to
    /// variance 1; then times a weight and plus a bias for each channel, if given.
    #[track_caller]
    pub fn group_norm(&self, groups: usize, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
        self.then(|_| {
            let inputs = inputs(self, weight, bias)?;
            let attrs = Attrs::new().with("groups", groups).with("eps", eps);
            Ok(Tensor::apply1(&OP, &inputs.iter().collect::<Vec<_>>(), attrs))
        })
    }
}
