//! `cosine_similarity`: the cosine of the angle between vectors.

use super::distance::length_keep;
use crate::rules::{by_expansion, expand1_wide, f64s, float, floats, one_dtype};
use crate::{Tensor, axis};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Result, Value};

/// The row of `cosine_similarity`.
pub static OP: Op = Op {
    name: "cosine_similarity",
    doc: "a · b / (|a| |b|) along an axis, which is removed; lengths are raised to `eps` without touching their \
          gradients. The axis is counted from the end, −1 the last, so that shapes may broadcast.",
    attrs: &[("axis", AttrKind::Int), ("eps", AttrKind::Float)],
    infer: |c| {
        c.arity(2)?;
        float(c, 0)?;
        one_dtype(c)?;
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    autocast: ir::Autocast::Wide,
    cases: || {
        let with = |a: i64| Attrs::new().with("axis", a).with("eps", 1e-8);
        vec![
            Case::new(vec![floats([2, 3], 1), floats([2, 3], 2)], with(-1)),
            Case::new(vec![floats([2, 3], 3), floats([2, 1, 3], 4)], with(-1)),
            Case::new(vec![floats([1, 2, 2], 3), floats([2, 1, 2], 4)], with(-2)),
            Case::new(vec![f64s([2, 2], &[3.0, 4.0, 0.0, 0.0]), f64s([2, 2], &[4.0, 3.0, 1.0, 0.0])], with(-1))
                .expect(vec![f64s([2], &[0.96, 0.0])], "by hand: 24 / 25; a vector without length")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let (along, eps) = (c.attrs.int("axis")?, c.attrs.float("eps")?);
    expand1_wide(args, |v| {
        let unit = |x: &Tensor| {
            let length = length_keep(x, along);
            x / (&length + (length.maximum(eps) - &length).stop_gradient())
        };
        let shape = ir::broadcast_shapes(&[c.shape(0), c.shape(1)]);
        v[0].then(|_| {
            let shape = shape?;
            let wide = |x: &Tensor| x.broadcast_to(&shape);
            Ok((unit(&wide(&v[0])) * unit(&wide(&v[1]))).sum(along))
        })
    })
}

impl Tensor {
    /// The cosine of the angle between vectors along an axis of the common shape; lengths count as
    /// at least `eps` (usually 1e-8).
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let y = Tensor::from([3.0f64, 4.0]).cosine_similarity(&Tensor::from([4.0f64, 3.0]), 0, 1e-8);
    /// assert!((y.item::<f64>().unwrap() - 0.96).abs() < 1e-12);
    /// ```
    #[track_caller]
    pub fn cosine_similarity(&self, other: &Tensor, along: i64, eps: f64) -> Tensor {
        self.then(|_| {
            let (mut a, mut b) = self.promoted(other)?;
            if a.rank()? == 0 && b.rank()? == 0 {
                (a, b) = (a.reshape([1]), b.reshape([1]));
            }
            let rank = a.rank()?.max(b.rank()?);
            let at = axis(along, rank).map_err(|e| e.in_op("cosine_similarity"))?;
            let attrs = Attrs::new().with("axis", at as i64 - rank as i64).with("eps", eps);
            Ok(Tensor::apply1(&OP, &[&a, &b], attrs))
        })
    }
}
