//! `scatter_add`: values added at indices along an axis.

use super::{check_scatter, places};
use crate::kernel::BATCH_AXIS;
use crate::rules::{GradTensors, f64s, floats, i64s, maybe_grads, number, same};
use crate::{Tensor, axis};
use ir::{AttrKind, Attrs, Case, Grad, Literal, Meaning, Op};

/// The row of `scatter_add`.
pub static OP: Op = Op {
    name: "scatter_add",
    doc: "Values added at indices along `axis` given by an index of the values' shape: along axis 0 of a matrix, \
          x[index[i, j], j] += src[i, j].",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| number(c, 0).and_then(|()| check_scatter(c)).and_then(|_| same(c, 0)),
    meaning: Meaning::Kernel(|c, args| {
        let places = places(c.shape(0), &args[1], c.axis("axis")?)?;
        let shape = c.shape(0).clone();
        Ok(vec![if c.dtype(0).is_float() {
            let mut x = args[0].to_f64();
            places.iter().zip(args[2].to_f64()).for_each(|(&p, v)| x[p] += v);
            Literal::from_f64(c.dtype(0), shape, &x)
        } else {
            let mut x = args[0].to_i64();
            places.iter().zip(args[2].to_i64()).for_each(|(&p, v)| x[p] = x[p].wrapping_add(v));
            Literal::from_i64(c.dtype(0), shape, &x)
        }])
    }),
    grad: Grad::Rule(|c| {
        let g = c.g(0);
        let src = g.gather(c.attrs.int("axis")?, &c.x(1));
        maybe_grads(vec![Some(g), None, Some(src)])
    }),
    batch: BATCH_AXIS,
    linear: true,
    shard: ir::Shard::Lanes,
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        let many = || i64s([1100], &(0..1100).map(|i| i * i % 70).collect::<Vec<i64>>());
        vec![
            Case::new(vec![floats([80], 3), many(), floats([1100], 4)], along(0)).kinked(),
            Case::new(vec![floats([3, 3], 1), i64s([2, 2], &[2, 0, 2, 0]), floats([2, 2], 2)], along(0)),
            Case::new(vec![floats([2, 3], 3), i64s([2, 2], &[2, 0, 1, 1]), floats([2, 2], 4)], along(1)),
            Case::new(
                vec![f64s([3, 5], &[0.0; 15]), i64s([1, 5], &[0, 1, 2, 0, 0]), f64s([1, 5], &[1.0; 5])],
                along(0),
            )
            .expect(
                vec![f64s([3, 5], &[1., 0., 0., 1., 1., 0., 1., 0., 0., 0., 0., 0., 1., 0., 0.])],
                "PyTorch manual: torch.zeros(3, 5).scatter_add_(0, index, torch.ones((2, 5)))",
            ),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Values added at indices along an axis: along axis 0 of a matrix,
    /// `x[index[i, j], j] += src[i, j]`. Of `src`, the part of the index's shape is used.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([0, 0, 0]).scatter_add(0, &Tensor::from([2, 2, 0]), &Tensor::from([1, 2, 3]));
    /// assert_eq!(x.to_vec::<i32>().unwrap(), [3, 0, 3]);
    /// ```
    #[track_caller]
    pub fn scatter_add(&self, along: i64, index: &Tensor, src: &Tensor) -> Tensor {
        self.scatter_by(&OP, along, index, src, Attrs::new())
    }
    /// One of the scatters: `src` is cut to the index's shape, scalars count as vectors of one.
    #[track_caller]
    pub(crate) fn scatter_by(&self, op: &'static Op, along: i64, index: &Tensor, src: &Tensor, more: Attrs) -> Tensor {
        self.then(|t| {
            let rank = t.shape.rank();
            let at = axis(along, rank.max(1)).map_err(|e| e.in_op(op.name))?;
            let full = |x: &Tensor| -> crate::Result<Tensor> {
                Ok(if x.rank()? == 0 && rank <= 1 { x.reshape([1]) } else { x.clone() })
            };
            let (x, index) = (full(self)?, full(&index.as_index(op.name)?)?);
            let (mut src, dims) = (full(src)?.cast(t.dtype), index.shape()?);
            if src.shape()? != dims && src.rank()? == dims.rank() {
                for (d, &size) in dims.iter().enumerate() {
                    if src.shape()?[d] > size {
                        src = src.narrow(d as i64, 0, size);
                    }
                }
            }
            let attrs = more.iter().fold(Attrs::new().with("axis", at), |a, (n, v)| a.with(n, v.clone()));
            Ok(Tensor::apply1(op, &[&x, &index, &src], attrs).reshape(&t.shape))
        })
    }
}
