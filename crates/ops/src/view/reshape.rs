//! `reshape`: the same elements in another shape.

use crate::rules::{GradTensors, f64s, floats, grads, one};
use crate::{Error, Tensor};
use ir::{AttrKind, Attrs, Batch, Case, Grad, Meaning, Op, Result, Shape};

/// The row of `reshape`.
pub static OP: Op = Op {
    name: "reshape",
    doc: "The same elements, in row-major order, in another shape of the same size.",
    attrs: &[("shape", AttrKind::Ints)],
    infer: |c| {
        c.arity(1)?;
        let shape: Shape = c.attrs.sizes("shape")?.into_iter().collect();
        if shape.count() != c.shape(0).count() {
            let (from, to) = (c.shape(0), &shape);
            return Err(Error::shape(format!("{from} has {} elements, {to} has {}", from.count(), to.count())));
        }
        one(c.dtype(0), shape)
    },
    meaning: Meaning::View(|c, layout| {
        let shape: Shape = c.attrs.sizes("shape")?.into_iter().collect();
        Ok(layout.reshape(&shape))
    }),
    grad: Grad::Rule(|c| grads([c.g(0).reshape(&c.inputs[0].ty().shape)])),
    batch: Batch::Rule(|c| {
        let mut shape: Shape = c.attrs.sizes("shape")?.into_iter().collect();
        shape.insert(0, c.size);
        Ok(vec![Tensor::from(c.inputs[0].clone()).reshape(shape).value()?.clone()])
    }),
    resize: Some(super::to_shape),
    cases: || {
        let to = |s: &[usize]| Attrs::new().with("shape", s);
        vec![
            Case::new(vec![floats([2, 3, 4], 1)], to(&[4, 6])),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0])], to(&[4]))
                .expect(vec![f64s([4], &[1.0, 2.0, 3.0, 4.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The same elements in another shape.
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        match self.value() {
            Ok(v) if v.ty().shape == shape => self.clone(),
            _ => Tensor::apply1(&OP, &[self], Attrs::new().with("shape", &shape)),
        }
    }
    /// The same elements in another shape, where one size may be -1: whatever is left.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::zeros([2, 6]).view(&[-1, 4]).dims().unwrap(), [3, 4]);
    /// ```
    #[track_caller]
    pub fn view(&self, sizes: &[i64]) -> Tensor {
        self.then(|t| Ok(self.reshape(infer_size(sizes, t.shape.count()).map_err(|e| e.in_op("reshape"))?)))
    }
}

/// Puts a number in place of a -1.
pub(crate) fn infer_size(sizes: &[i64], count: usize) -> Result<Shape> {
    let fail = |e: &str| Err(Error::shape(format!("{e}: {sizes:?} for {count} elements")));
    let mut given = sizes.iter().filter(|&&s| s != -1);
    let Some(known) = given.try_fold(1i64, |n, &s| n.checked_mul(s)) else {
        return fail("there are not so many elements");
    };
    match sizes.iter().filter(|&&s| s == -1).count() {
        _ if sizes.iter().any(|&s| s < -1) => fail("sizes must not be negative"),
        0 => Ok(sizes.iter().map(|&s| s as usize).collect()),
        1 if known > 0 && count.is_multiple_of(known as usize) => {
            Ok(sizes.iter().map(|&s| if s == -1 { count / known as usize } else { s as usize }).collect())
        }
        1 => fail("no size fits in place of -1"),
        _ => fail("only one size may be -1"),
    }
}
