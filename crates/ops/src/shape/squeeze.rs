//! `squeeze`: dimensions of size 1 left out.

use crate::rules::{expand1, f64s, floats, reshaped};
use crate::{Axes, Error, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Result, Shape};

/// The row of `squeeze`.
pub static OP: Op = Op {
    name: "squeeze",
    doc: "The dimensions `axes`, which must be of size 1, left out.",
    attrs: &[("axes", AttrKind::Ints)],
    infer: |c| reshaped(c, out_shape(c)?),
    meaning: Meaning::Composite(|c, x| {
        let shape = out_shape(c)?;
        expand1(x, |x| x[0].reshape(shape))
    }),
    cases: || {
        let over = |a: &[i64]| Attrs::new().with("axes", a);
        vec![
            Case::new(vec![floats([1, 3, 1, 2], 1)], over(&[0, 2])),
            Case::new(vec![f64s([1, 3, 1], &[0.0, 1.0, 2.0])], over(&[0]))
                .expect(vec![f64s([3, 1], &[0.0, 1.0, 2.0])], "NumPy manual: np.squeeze(x, axis=0)"),
        ]
    },
    ..Op::DEFAULT
};

fn out_shape(c: &Call) -> Result<Shape> {
    c.arity(1)?;
    let axes = c.attrs.sizes("axes")?;
    for &a in &axes {
        if c.shape(0).get(a) != Some(&1) {
            return Err(Error::shape(format!("axis {a} of {} is not of size 1", c.shape(0))));
        }
    }
    Ok(c.shape(0).reduce(&axes, false))
}

impl Tensor {
    /// Without the dimensions of size 1 among `axes`, or without all of size 1 for `..`;
    /// larger ones stay, as in PyTorch.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::zeros([1, 3, 1]);
    /// assert_eq!(x.squeeze(..).shape().unwrap().dims(), [3]);
    /// assert_eq!(x.squeeze([0, 1]).shape().unwrap().dims(), [3, 1]);
    /// ```
    #[track_caller]
    pub fn squeeze(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.then(|t| {
            let rank = t.shape.rank();
            let named =
                axes.resolve(if axes == Axes::All { rank } else { rank.max(1) }).map_err(|e| e.in_op("squeeze"))?;
            let ones: Vec<usize> = named.into_iter().filter(|&a| t.shape.get(a) == Some(&1)).collect();
            if ones.is_empty() {
                return Ok(self.clone());
            }
            Ok(Tensor::apply1(&OP, &[self], Attrs::new().with("axes", &ones)))
        })
    }
}
