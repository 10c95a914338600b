//! `stack`: tensors of one shape along a new axis.

use crate::rules::{expand1, f64s, floats, one, one_dtype};
use crate::{Error, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Shape};

/// The row of `stack`.
pub static OP: Op = Op {
    name: "stack",
    doc: "Tensors of one shape one after the other along a new axis.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| {
        let (mut shape, at) = out_shape(c)?;
        shape.dims_mut()[at] = c.types.len();
        one(one_dtype(c)?, shape)
    },
    meaning: Meaning::Composite(|c, x| {
        let (shape, at) = out_shape(c)?;
        expand1(x, |x| {
            let parts: Vec<Tensor> = x.iter().map(|x| x.reshape(&shape)).collect();
            Tensor::concat(&parts, at as i64)
        })
    }),
    cases: || {
        let at = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([2, 3], 1), floats([2, 3], 2)], at(1)),
            Case::new(vec![f64s([3], &[1., 2., 3.]), f64s([3], &[4., 5., 6.])], at(1))
                .expect(vec![f64s([3, 2], &[1., 4., 2., 5., 3., 6.])], "NumPy manual: np.stack((a, b), axis=-1)"),
        ]
    },
    ..Op::DEFAULT
};

/// The shape of one part with the new axis, and that axis.
fn out_shape(c: &Call) -> Result<(Shape, usize)> {
    let at = c.attrs.size("axis")?;
    let first = c.types.first().ok_or_else(|| Error::value("at least one tensor is needed"))?;
    if let Some(t) = c.types.iter().find(|t| t.shape != first.shape) {
        return Err(Error::shape(format!("shapes differ: {} and {}", first.shape, t.shape)));
    }
    let mut shape = first.shape.clone();
    if at > shape.rank() {
        return Err(Error::index(format!("a tensor of rank {} has no place {at} for a new axis", shape.rank())));
    }
    shape.insert(at, 1);
    Ok((shape, at))
}

impl Tensor {
    /// Tensors of one shape one after the other along a new axis, in their common type.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::stack(&[Tensor::from([1, 2]), Tensor::from([3, 4])], 0);
    /// assert_eq!(x.dims().unwrap(), [2, 2]);
    /// ```
    #[track_caller]
    pub fn stack(parts: &[Tensor], along: i64) -> Tensor {
        Tensor::joined(&OP, parts, |p| Ok(Attrs::new().with("axis", axis(along, p[0].rank()? + 1)?)))
    }
}
