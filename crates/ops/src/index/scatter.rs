//! `scatter`: values written at indices along an axis.

use super::{check_scatter, places};
use crate::Tensor;
use crate::kernel::BATCH_AXIS;
use crate::rules::{GradTensors, f64s, floats, i64s, maybe_grads, same};
use ir::{AttrKind, Attrs, Case, Grad, Literal, Meaning, Op};

/// The row of `scatter`.
pub static OP: Op = Op {
    name: "scatter",
    doc: "Values written at indices along `axis` given by an index of the values' shape: along axis 0 of a matrix, \
          x[index[i, j], j] = src[i, j]; of several values for one index the last wins.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| check_scatter(c).and_then(|_| same(c, 0)),
    meaning: Meaning::Kernel(|c, args| {
        let places = places(c.shape(0), &args[1], c.axis("axis")?)?;
        let size = c.dtype(0).size();
        let mut bytes = args[0].bytes().to_vec();
        for (&p, v) in places.iter().zip(args[2].bytes().chunks_exact(size)) {
            bytes[p * size..(p + 1) * size].copy_from_slice(v);
        }
        Ok(vec![Literal::from_bytes(c.dtype(0), c.shape(0).clone(), &bytes)?])
    }),
    grad: Grad::Rule(|c| {
        let (g, at, index) = (c.g(0), c.attrs.int("axis")?, c.x(1));
        let src = g.gather(at, &index);
        maybe_grads(vec![Some(g.scatter(at, &index, &src.zeros_like())), None, Some(src)])
    }),
    batch: BATCH_AXIS,
    linear: true,
    shard: ir::Shard::Lanes,
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        let many = || i64s([1100], &(0..1100).map(|i| i * i % 70).collect::<Vec<i64>>());
        let src = f64s([1, 5], &[1., 2., 3., 4., 5.]);
        vec![
            Case::new(vec![floats([80], 3), many(), floats([1100], 4)], along(0)).kinked(),
            Case::new(vec![floats([3, 3], 1), i64s([2, 2], &[2, 0, 1, 1]), floats([2, 2], 2)], along(0)),
            Case::new(vec![f64s([3, 5], &[0.0; 15]), i64s([1, 5], &[0, 1, 2, 0, 0]), src], along(0)).expect(
                vec![f64s([3, 5], &[1., 0., 0., 4., 5., 0., 2., 0., 0., 0., 0., 0., 3., 0., 0.])],
                "PyTorch manual: torch.zeros(3, 5).scatter_(0, index, src)",
            ),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Values written at indices along an axis: along axis 0 of a matrix,
    /// `x[index[i, j], j] = src[i, j]`. Of `src`, the part of the index's shape is used; of
    /// several values for one index the last wins.
    #[track_caller]
    pub fn scatter(&self, along: i64, index: &Tensor, src: &Tensor) -> Tensor {
        self.scatter_by(&OP, along, index, src, Attrs::new())
    }
}
