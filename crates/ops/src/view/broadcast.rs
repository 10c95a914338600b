//! `broadcast`: repeated along dimensions of size 1.

use crate::rules::{GradTensors, f64s, floats, grads, one, unbroadcast};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Batch, Case, Grad, Meaning, Op, Shape};

/// The row of `broadcast`.
pub static OP: Op = Op {
    name: "broadcast",
    doc: "Repeated to a larger shape by NumPy's rule, without copying.",
    attrs: &[("shape", AttrKind::Ints)],
    infer: |c| {
        c.arity(1)?;
        let shape: Shape = c.attrs.sizes("shape")?.into_iter().collect();
        if !c.shape(0).broadcasts_to(&shape) {
            return Err(Error::shape(format!("{} does not broadcast to {shape}", c.shape(0))));
        }
        one(c.dtype(0), shape)
    },
    meaning: Meaning::View(|c, layout| Ok(Some(layout.broadcast_to(&c.attrs.sizes("shape")?.into_iter().collect())))),
    grad: Grad::Rule(|c| grads([unbroadcast(c.g(0), &c.inputs[0].ty().shape)])),
    batch: Batch::Rule(|c| {
        let mut shape: Shape = c.attrs.sizes("shape")?.into_iter().collect();
        let mut from = c.inputs[0].ty().shape.clone();
        while from.rank() < shape.rank() + 1 {
            from.insert(1, 1);
        }
        shape.insert(0, c.size);
        Ok(vec![Tensor::from(c.inputs[0].clone()).reshape(from).broadcast_to(shape).value()?.clone()])
    }),
    resize: Some(super::to_shape),
    cases: || {
        let to = |s: &[usize]| Attrs::new().with("shape", s);
        vec![
            Case::new(vec![floats([3, 1], 1)], to(&[2, 3, 4])),
            Case::new(vec![f64s([2, 1], &[1.0, 2.0])], to(&[2, 2]))
                .expect(vec![f64s([2, 2], &[1.0, 1.0, 2.0, 2.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Repeated to a larger shape by NumPy's rule, without copying.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        match self.value() {
            Ok(v) if v.ty().shape == shape => self.clone(),
            _ => Tensor::apply1(&OP, &[self], Attrs::new().with("shape", &shape)),
        }
    }
    /// Repeated to a larger shape where -1 keeps a size.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::zeros([3, 1]).expand(&[2, -1, 4]).shape().unwrap().dims(), [2, 3, 4]);
    /// ```
    #[track_caller]
    pub fn expand(&self, sizes: &[i64]) -> Tensor {
        self.then(|t| {
            let bad = || Error::shape(format!("{} does not expand to {sizes:?}", t.shape)).in_op("expand");
            let lead = sizes.len().checked_sub(t.shape.rank()).ok_or_else(bad)?;
            let size = |(i, &s): (usize, &i64)| match s {
                -1 if i >= lead => Ok(t.shape[i - lead]),
                s => usize::try_from(s).map_err(|_| bad()),
            };
            Ok(self.broadcast_to(sizes.iter().enumerate().map(size).collect::<Result<Shape>>()?))
        })
    }
}
