//! `index_copy`: slices written at indices along an axis.

use super::index_add::check_slices;
use crate::rules::{expand1, f64s, floats, i64s, same};
use crate::{DType, Result, Tensor};
use ir::{AttrKind, Attrs, Case, Meaning, Op, Shape};

/// The row of `index_copy`.
pub static OP: Op = Op {
    name: "index_copy",
    doc: "Slices written at indices along `axis`: along axis 0, x[index[i], ...] = src[i, ...].",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| check_slices(c).and_then(|_| same(c, 0)),
    meaning: Meaning::Composite(|c, x| {
        let (at, dims) = (c.axis("axis")?, c.shape(2).clone());
        expand1(x, |x| x[0].scatter(at as i64, &index_like(&x[1], at, &dims), &x[2]))
    }),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        let src: Vec<f64> = (1..10).map(f64::from).collect();
        let copied = [1., 2., 3., 0., 0., 0., 7., 8., 9., 0., 0., 0., 4., 5., 6.];
        vec![
            Case::new(vec![floats([2, 3], 1), i64s([2], &[2, 0]), floats([2, 2], 2)], along(1)),
            Case::new(vec![f64s([5, 3], &[0.0; 15]), i64s([3], &[0, 4, 2]), f64s([3, 3], &src)], along(0))
                .expect(vec![f64s([5, 3], &copied)], "PyTorch manual: torch.zeros(5, 3).index_copy_(0, index, t)"),
        ]
    },
    ..Op::DEFAULT
};

/// An index of slices as an index of each of their elements.
pub(super) fn index_like(index: &Tensor, at: usize, dims: &Shape) -> Tensor {
    let mut thin = Shape::new(&vec![1; dims.rank()]);
    thin.dims_mut()[at] = dims[at];
    index.reshape(thin).broadcast_to(dims)
}

impl Tensor {
    /// Slices written at indices along an axis: along axis 0, `x[index[i], ...] = src[i, ...]`.
    #[track_caller]
    pub fn index_copy(&self, along: i64, index: &Tensor, src: &Tensor) -> Tensor {
        self.put_slices(&OP, along, index, src)
    }
    /// One value written to the slices at indices along an axis.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([1, 2, 3]).index_fill(0, &Tensor::from([0, 2]), 9);
    /// assert_eq!(x.to_vec::<i32>().unwrap(), [9, 2, 9]);
    /// ```
    #[track_caller]
    pub fn index_fill(&self, along: i64, index: &Tensor, value: impl crate::Operand) -> Tensor {
        self.then(|t| {
            let (x, at) = self.at_axis("index_fill", along)?;
            let dims = x.shape()?;
            // A mask and not a scatter: a place named twice is filled, and counts, once.
            let index = index.as_index("index_fill")?.ravel();
            let none = Tensor::full_of(dims[at], 0.0, DType::I64);
            let named = none.scatter(0, &index, &index.ones_like()).gt(0i64);
            let mut thin = Shape::new(&vec![1; dims.rank()]);
            thin.dims_mut()[at] = dims[at];
            let value = one_value(&value.operand(t.dtype), "index_fill")?;
            Ok(x.masked_fill(&named.reshape(thin), value).reshape(&t.shape))
        })
    }
}

/// Fails unless the tensor is a scalar.
pub(super) fn one_value(value: &Tensor, op: &str) -> Result<Tensor> {
    match value.rank()? {
        0 => Ok(value.clone()),
        _ => Err(crate::Error::shape(format!("the value must be a scalar, not {}", value.shape()?)).in_op(op)),
    }
}
