//! `pairwise_distance`: the distance of each vector from its counterpart.

use super::distance::norm_keep;
use crate::Tensor;
use crate::rules::{by_expansion, expand_wide, f64s, float, floats, one_dtype};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Result, Value};

/// The row of `pairwise_distance`.
pub static OP: Op = Op {
    name: "pairwise_distance",
    doc: "The p-norm of a − b + eps along the last axis, which keeps size 1.",
    attrs: &[("p", AttrKind::Float), ("eps", AttrKind::Float)],
    infer: |c| {
        c.arity(2)?;
        float(c, 0)?;
        one_dtype(c)?;
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    autocast: ir::Autocast::Wide,
    cases: || {
        let with = |p: f64, eps: f64| Attrs::new().with("p", p).with("eps", eps);
        let far = vec![f64s([2], &[3.0, 4.0]), f64s([2], &[0.0, 0.0])];
        vec![
            Case::new(vec![floats([2, 3], 1), floats([2, 3], 2)], with(2.0, 1e-6)),
            Case::new(vec![floats([2, 3], 3), floats([3], 4)], with(3.0, 0.5)),
            Case::new(vec![floats([3], 5), floats([3], 6)], with(1.0, 0.0)),
            Case::new(vec![floats([3], 5), floats([3], 6)], with(f64::INFINITY, 0.0)),
            Case::new(vec![floats([3], 5), floats([3], 6)], with(-1.0, 0.0)),
            Case::new(far, with(2.0, 0.0)).expect(vec![f64s([1], &[5.0])], "Pythagoras"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let (p, eps) = (c.attrs.float("p")?, c.attrs.float("eps")?);
    expand_wide(args, |v| {
        let d = &v[0] - &v[1];
        Ok(vec![norm_keep(&if eps == 0.0 { d } else { d + eps }, p, -1)?])
    })
}

impl Tensor {
    /// The p-norm of the difference from `other`, plus `eps` (usually 1e-6), along the last axis,
    /// which keeps size 1.
    #[track_caller]
    pub fn pairwise_distance_keep(&self, other: &Tensor, p: f64, eps: f64) -> Tensor {
        self.then(|_| {
            let (a, b) = self.promoted(other)?;
            Ok(Tensor::apply1(&OP, &[&a, &b], Attrs::new().with("p", p).with("eps", eps)))
        })
    }
    /// The p-norm of the difference from `other`, plus `eps` (usually 1e-6), along the last axis,
    /// which is removed.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let y = Tensor::from([3.0f32, 4.0]).pairwise_distance(&Tensor::zeros([2]), 2.0, 0.0);
    /// assert_eq!(y.item::<f32>().unwrap(), 5.0);
    /// ```
    #[track_caller]
    pub fn pairwise_distance(&self, other: &Tensor, p: f64, eps: f64) -> Tensor {
        self.then(|_| Ok(self.pairwise_distance_keep(other, p, eps).squeeze(-1)))
    }
}
