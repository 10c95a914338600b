//! `fold`: overlapping windows added up, the transpose of `unfold`.

use crate::rules::{GradTensors, f64s, floats, grads, number, reshaped};
use crate::{Error, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Batch, Call, Case, Grad, Literal, Meaning, Op, Shape};

/// The row of `fold`.
pub static OP: Op = Op {
    name: "fold",
    doc: "Windows along `axis`, `step` apart and `size` long (the last dimension), added up where they overlap in an \
          axis of `length` elements: the transpose of unfold.",
    attrs: &[("axis", AttrKind::Int), ("size", AttrKind::Int), ("step", AttrKind::Int), ("length", AttrKind::Int)],
    infer: |c| number(c, 0).and_then(|()| reshaped(c, out_shape(c)?)),
    meaning: Meaning::Kernel(reference),
    grad: Grad::Rule(|c| grads([c.g(0).unfold(c.attrs.int("axis")?, c.attrs.size("size")?, c.attrs.size("step")?)])),
    batch: Batch::Rule(|c| {
        let x = Tensor::from(c.inputs[0].clone());
        Ok(vec![x.fold(c.attrs.int("axis")? + 1, c.attrs.size("step")?, c.attrs.size("length")?).value()?.clone()])
    }),
    linear: true,
    cases: || {
        let by = |a: i64, n: i64, s: i64, l: i64| {
            Attrs::new().with("axis", a).with("size", n).with("step", s).with("length", l)
        };
        vec![
            Case::new(vec![floats([3, 2, 3], 1)], by(0, 3, 1, 5)),
            Case::new(vec![floats([2, 2, 2], 2)], by(1, 2, 3, 6)),
            Case::new(vec![f64s([3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])], by(0, 2, 1, 4))
                .expect(vec![f64s([4], &[1.0, 5.0, 9.0, 6.0])], "by hand: 1, 2 + 3, 4 + 5, 6"),
        ]
    },
    ..Op::DEFAULT
};

fn out_shape(c: &Call) -> Result<Shape> {
    c.arity(1)?;
    let x = c.shape(0);
    if x.rank() < 2 {
        return Err(Error::shape(format!("windows have at least two dimensions, not {x}")));
    }
    let mut shape = Shape::new(&x[..x.rank() - 1]);
    let (at, size, step) = (c.attrs.size("axis")?, c.attrs.size("size")?, c.attrs.size("step")?);
    let length = c.attrs.size("length")?;
    if at >= shape.rank() {
        return Err(Error::index(format!("axis {at} is out of range for windows of {shape}")));
    }
    let fits = step > 0 && size <= length && (length - size) / step + 1 == shape[at] && x[x.rank() - 1] == size;
    if !fits {
        return Err(Error::shape(format!(
            "{x} holds no windows of {size} elements, {step} apart, along axis {at} of length {length}"
        )));
    }
    shape.dims_mut()[at] = length;
    Ok(shape)
}

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let (out, at, step) = (out_shape(c)?, c.attrs.size("axis")?, c.attrs.size("step")?);
    let (x, size) = (c.shape(0), c.attrs.size("size")?);
    let (windows, inner) = (x[at], out[at + 1..].iter().product::<usize>());
    // Element i of the input is element i % size of a window; its place in the result.
    let place = |i: usize| {
        let (j, rest) = (i % size, i / size);
        let (low, rest) = (rest % inner, rest / inner);
        let (w, high) = (rest % windows, rest / windows);
        (high * out[at] + w * step + j) * inner + low
    };
    Ok(vec![if c.dtype(0).is_float() {
        let mut sum = vec![0.0; out.count()];
        args[0].to_f64().iter().enumerate().for_each(|(i, v)| sum[place(i)] += v);
        Literal::from_f64(c.dtype(0), out, &sum)
    } else {
        let mut sum = vec![0i64; out.count()];
        args[0].to_i64().iter().enumerate().for_each(|(i, &v)| sum[place(i)] = sum[place(i)].wrapping_add(v));
        Literal::from_i64(c.dtype(0), out, &sum)
    }])
}

impl Tensor {
    /// Windows along an axis, `step` apart, their elements in the last dimension, added up where
    /// they overlap in an axis of `length` elements: the transpose of `unfold`.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([1, 2, 3, 4]).unfold(0, 2, 1).fold(0, 1, 4);
    /// assert_eq!(x.to_vec::<i32>().unwrap(), [1, 4, 6, 4]);
    /// ```
    #[track_caller]
    pub fn fold(&self, along: i64, step: usize, length: usize) -> Tensor {
        self.then(|t| {
            let at = axis(along, t.shape.rank().saturating_sub(1)).map_err(|e| e.in_op("fold"))?;
            let size = t.shape[t.shape.rank() - 1];
            let attrs = Attrs::new().with("axis", at).with("size", size).with("step", step).with("length", length);
            Ok(Tensor::apply1(&OP, &[self], attrs))
        })
    }
}
