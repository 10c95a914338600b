//! `vecdot`: products of vectors that lie along one axis.

use crate::rules::{f64s, floats};
use crate::{Error, Operand, Result, Tensor, axis};
use ir::{Attrs, Case};

super::composite!(
    "vecdot",
    "Sums of products along one axis, counted from the end, of two tensors that broadcast.",
    2,
    [("axis", Int)],
    |c, t| {
        let y = t[0].widened() * t[1].widened();
        Ok(y.sum(c.attrs.int("axis")?).cast(c.dtype(0)))
    },
    || {
        let by = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([2, 3], 1), floats([3], 2)], by(-1)),
            Case::new(vec![floats([2, 3], 1), floats([2, 1], 2)], by(-2)),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0]), f64s([2], &[1.0, -1.0])], by(-1))
                .expect(vec![f64s([2], &[-1.0, -1.0])], "by hand"),
        ]
    },
    autocast: ir::Autocast::Narrow,
    complex: on_complex!(crate::pairs::vecdot)
);

impl Tensor {
    /// Sums of products along one axis, of one size in both, of two tensors that broadcast.
    #[track_caller]
    pub fn vecdot(&self, other: impl Operand, along: i64) -> Tensor {
        self.then(|_| {
            let (a, b) = self.promoted(other)?;
            let rank = a.rank()?.max(b.rank()?);
            let at = axis(along, rank).map_err(|e| e.in_op("vecdot"))? as i64 - rank as i64;
            let size = |t: &Tensor| -> Result<usize> {
                let shape = t.shape()?;
                Ok(shape.rank().checked_sub(-at as usize).map_or(1, |d| shape[d]))
            };
            let (m, n) = (size(&a)?, size(&b)?);
            if m != n {
                let e = format!("sizes along axis {along} differ: {} · {}", a.shape()?, b.shape()?);
                return Err(Error::shape(e).in_op("vecdot"));
            }
            Ok(Tensor::apply1(&OP, &[&a, &b], Attrs::new().with("axis", at)))
        })
    }
}
