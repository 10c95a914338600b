//! `unfold`: sliding windows along an axis.

use crate::rules::{GradTensors, f64s, floats, grads, reshaped};
use crate::{Error, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Batch, Call, Case, Grad, Layout, Meaning, Op, Shape};

/// The row of `unfold`.
pub static OP: Op = Op {
    name: "unfold",
    doc: "Windows of `size` elements along `axis`, `step` apart; the elements of a window are a new last dimension.",
    attrs: &[("axis", AttrKind::Int), ("size", AttrKind::Int), ("step", AttrKind::Int)],
    infer: |c| reshaped(c, out_shape(c)?),
    meaning: Meaning::View(|c, l| {
        let (at, shape) = (c.axis("axis")?, out_shape(c)?);
        let mut strides = l.strides.clone();
        strides.push(l.strides[at]);
        strides[at] *= c.attrs.size("step")? as isize;
        Ok(Some(Layout { shape, strides, offset: l.offset }))
    }),
    grad: Grad::Rule(|c| {
        let at = c.attrs.size("axis")?;
        let length = c.inputs[0].ty().shape[at];
        grads([c.g(0).fold(at as i64, c.attrs.size("step")?, length)])
    }),
    batch: Batch::Rule(|c| {
        let x = Tensor::from(c.inputs[0].clone());
        Ok(vec![x.unfold(c.attrs.int("axis")? + 1, c.attrs.size("size")?, c.attrs.size("step")?).value()?.clone()])
    }),
    cases: || {
        let by = |a: i64, n: i64, s: i64| Attrs::new().with("axis", a).with("size", n).with("step", s);
        let x: Vec<f64> = (1..8).map(f64::from).collect();
        let windows = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        vec![
            Case::new(vec![floats([5, 2], 1)], by(0, 3, 1)),
            Case::new(vec![floats([2, 6], 2)], by(1, 2, 3)),
            Case::new(vec![f64s([7], &x)], by(0, 2, 2))
                .expect(vec![f64s([3, 2], &windows)], "PyTorch manual: torch.arange(1., 8).unfold(0, 2, 2)"),
        ]
    },
    ..Op::DEFAULT
};

fn out_shape(c: &Call) -> Result<Shape> {
    c.arity(1)?;
    let (at, size, step) = (c.axis("axis")?, c.attrs.size("size")?, c.attrs.size("step")?);
    let mut shape = c.shape(0).clone();
    if step == 0 {
        return Err(Error::value("step must be 1 or more"));
    }
    if size > shape[at] {
        return Err(Error::shape(format!("a window of {size} does not fit into axis {at} of {shape}")));
    }
    shape.dims_mut()[at] = (shape[at] - size) / step + 1;
    shape.push(size);
    Ok(shape)
}

impl Tensor {
    /// Windows of `size` elements along an axis, `step` apart; the elements of a window are a new
    /// last dimension.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([1, 2, 3, 4]);
    /// assert_eq!(x.unfold(0, 2, 1).to_vec::<i32>().unwrap(), [1, 2, 2, 3, 3, 4]);
    /// ```
    #[track_caller]
    pub fn unfold(&self, along: i64, size: usize, step: usize) -> Tensor {
        self.then(|t| {
            let at = axis(along, t.shape.rank()).map_err(|e| e.in_op("unfold"))?;
            Ok(Tensor::apply1(&OP, &[self], Attrs::new().with("axis", at).with("size", size).with("step", step)))
        })
    }
}
