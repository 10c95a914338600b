//! `glu`: one half gates the other.

use crate::rules::{expand1_wide, f64s, float, floats, one};
use crate::{Error, Tensor, axis};
use ir::{AttrKind, Attrs, Case, Meaning, Op};

/// The row of `glu`.
pub static OP: Op = Op {
    name: "glu",
    doc: "The first half along an axis times the sigmoid of the second.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| {
        c.arity(1)?;
        float(c, 0)?;
        let axis = c.axis("axis")?;
        let mut shape = c.shape(0).clone();
        if shape[axis] % 2 != 0 {
            return Err(Error::shape(format!("axis {axis} of {shape} cannot be halved")));
        }
        shape.dims_mut()[axis] /= 2;
        one(c.dtype(0), shape)
    },
    meaning: Meaning::Composite(|c, x| {
        let axis = c.axis("axis")?;
        let half = c.shape(0)[axis] / 2;
        expand1_wide(x, |x| x[0].narrow(axis as i64, 0, half) * x[0].narrow(axis as i64, half, half).sigmoid())
    }),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([2, 4], 1)], along(1)),
            Case::new(vec![floats([2, 3], 2)], along(0)),
            Case::new(vec![f64s([4], &[4.0, 3.0, 1.0986122886681098, 0.0])], along(0))
                .expect(vec![f64s([2], &[3.0, 1.5])], "by hand: the sigmoid of log 3 is 3/4"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The first half along an axis times the sigmoid of the second half.
    #[track_caller]
    pub fn glu(&self, axis_: i64) -> Tensor {
        self.then(|t| {
            let a = axis(axis_, t.shape.rank()).map_err(|e| e.in_op("glu"))?;
            Ok(Tensor::apply1(&OP, &[self], Attrs::new().with("axis", a)))
        })
    }
}
