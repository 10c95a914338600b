//! `unflatten`: one dimension split into several.

use crate::rules::{expand1, f64s, floats, product, reshaped};
use crate::{Error, Tensor, axis};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Result, Shape};

/// The row of `unflatten`.
pub static OP: Op = Op {
    name: "unflatten",
    doc: "The dimension `axis` split into `sizes`.",
    attrs: &[("axis", AttrKind::Int), ("sizes", AttrKind::Ints)],
    infer: |c| reshaped(c, out_shape(c)?),
    meaning: Meaning::Composite(|c, x| {
        let shape = out_shape(c)?;
        expand1(x, |x| x[0].reshape(shape))
    }),
    cases: || {
        let into = |a: i64, s: &[i64]| Attrs::new().with("axis", a).with("sizes", s);
        let x = [1.0, 2.0, 3.0, 4.0];
        vec![
            Case::new(vec![floats([2, 6], 1)], into(1, &[3, 2])),
            Case::new(vec![f64s([4], &x)], into(0, &[2, 2])).expect(vec![f64s([2, 2], &x)], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

fn out_shape(c: &Call) -> Result<Shape> {
    c.arity(1)?;
    let (at, sizes, x) = (c.axis("axis")?, c.attrs.sizes("sizes")?, c.shape(0));
    if sizes.is_empty() || product(&sizes)? != x[at] {
        return Err(Error::shape(format!("axis {at} of {x} cannot be split into {sizes:?}")));
    }
    Ok(x[..at].iter().chain(&sizes).chain(&x[at + 1..]).copied().collect())
}

impl Tensor {
    /// One dimension split into several; one size may be -1: whatever is left.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::zeros([2, 12]).unflatten(1, &[3, -1]).shape().unwrap().dims(), [2, 3, 4]);
    /// ```
    #[track_caller]
    pub fn unflatten(&self, along: i64, sizes: &[i64]) -> Tensor {
        self.then(|t| {
            let at = axis(along, t.shape.rank()).map_err(|e| e.in_op("unflatten"))?;
            let sizes = crate::view::reshape::infer_size(sizes, t.shape[at]).map_err(|e| e.in_op("unflatten"))?;
            Ok(Tensor::apply1(&OP, &[self], Attrs::new().with("axis", at).with("sizes", &sizes)))
        })
    }
}
