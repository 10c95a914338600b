//! `unsqueeze`: a new dimension of size 1.

use crate::rules::{expand1, f64s, floats, reshaped};
use crate::{Error, Tensor, axis};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Result, Shape};

/// The row of `unsqueeze`.
pub static OP: Op = Op {
    name: "unsqueeze",
    doc: "A new dimension of size 1 at `axis`.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| reshaped(c, out_shape(c)?),
    meaning: Meaning::Composite(|c, x| {
        let shape = out_shape(c)?;
        expand1(x, |x| x[0].reshape(shape))
    }),
    cases: || {
        let at = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([3, 2], 1)], at(1)),
            Case::new(vec![f64s([4], &[1.0, 2.0, 3.0, 4.0])], at(1)).expect(
                vec![f64s([4, 1], &[1.0, 2.0, 3.0, 4.0])],
                "PyTorch manual: torch.unsqueeze(torch.tensor([1, 2, 3, 4]), 1)",
            ),
        ]
    },
    ..Op::DEFAULT
};

fn out_shape(c: &Call) -> Result<Shape> {
    c.arity(1)?;
    let (at, mut shape) = (c.attrs.size("axis")?, c.shape(0).clone());
    if at > shape.rank() {
        return Err(Error::index(format!("a tensor of rank {} has no place {at} for a new axis", shape.rank())));
    }
    shape.insert(at, 1);
    Ok(shape)
}

impl Tensor {
    /// With a new dimension of size 1 at `axis` of the result; -1 appends it.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3]).unsqueeze(-1).shape().unwrap().dims(), [2, 3, 1]);
    /// ```
    #[track_caller]
    pub fn unsqueeze(&self, at: i64) -> Tensor {
        self.then(|t| {
            let at = axis(at, t.shape.rank() + 1).map_err(|e| e.in_op("unsqueeze"))?;
            Ok(Tensor::apply1(&OP, &[self], Attrs::new().with("axis", at)))
        })
    }
}
