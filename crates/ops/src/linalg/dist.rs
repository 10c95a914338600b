//! `dist`: the length of the difference of two tensors.

use crate::rules::{f64s, floats};
use crate::{Operand, Tensor};
use ir::{Attrs, Case};

super::composite!(
    "dist",
    "The norm of order `ord` of the difference of two tensors that broadcast.",
    2,
    [("ord", Float)],
    |c, t| Ok((t[0].widened() - t[1].widened()).vector_norm(c.attrs.float("ord")?, ..).cast(c.dtype(0).part())),
    || {
        let by = |p: f64| Attrs::new().with("ord", p);
        vec![
            Case::new(vec![floats([2, 3], 1), floats([3], 2)], by(2.0)),
            Case::new(vec![floats([3], 1), floats([3], 2)], by(3.5)),
            Case::new(vec![f64s([2], &[1.0, 2.0]), f64s([2], &[4.0, 6.0])], by(2.0))
                .expect(vec![f64s((), &[5.0])], "by hand: 3, 4, 5"),
        ]
    },
    autocast: ir::Autocast::Wide
);

impl Tensor {
    /// The norm of order `ord` of the difference to another tensor.
    #[track_caller]
    pub fn dist(&self, other: impl Operand, ord: f64) -> Tensor {
        self.product(&OP, other, Attrs::new().with("ord", ord))
    }
}
