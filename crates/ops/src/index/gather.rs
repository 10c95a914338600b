//! `gather`: elements chosen along an axis by an index of the same rank.

use super::{check_gather, places};
use crate::kernel::BATCH_AXIS;
use crate::rules::{GradTensors, f64s, floats, i64s, maybe_grads, one};
use crate::{Tensor, axis};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Op};

/// The row of `gather`.
pub static OP: Op = Op {
    name: "gather",
    doc: "Elements chosen along `axis` by an index of the same rank: along axis 0 of a matrix, \
          y[i, j] = x[index[i, j], j].",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| {
        c.arity(2)?;
        check_gather(c)?;
        one(c.dtype(0), c.shape(1))
    },
    meaning: Meaning::Kernel(|c, args| {
        let places = places(c.shape(0), &args[1], c.axis("axis")?)?;
        Ok(vec![args[0].pick(c.shape(1), |i| Some(places[i]))])
    }),
    grad: Grad::Rule(|c| {
        let zeros = c.x(0).zeros_like();
        maybe_grads(vec![Some(zeros.scatter_add(c.attrs.int("axis")?, &c.x(1), &c.g(0))), None])
    }),
    batch: BATCH_AXIS,
    linear: true,
    shard: ir::Shard::Lanes,
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([3, 3], 1), i64s([2, 2], &[2, 0, 1, 0])], along(0)),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0]), i64s([2, 2], &[0, 0, 1, 0])], along(1)).expect(
                vec![f64s([2, 2], &[1.0, 1.0, 4.0, 3.0])],
                "PyTorch manual: torch.gather(t, 1, torch.tensor([[0, 0], [1, 0]]))",
            ),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Elements chosen along an axis by an index of the same rank: along axis 0 of a matrix,
    /// `y[i, j] = x[index[i, j], j]`.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[1, 2], [3, 4]]);
    /// let y = x.gather(1, &Tensor::from([[1], [0]]));
    /// assert_eq!(y.to_vec::<i32>().unwrap(), [2, 3]);
    /// ```
    #[track_caller]
    pub fn gather(&self, along: i64, index: &Tensor) -> Tensor {
        self.then(|t| {
            let index = index.as_index("gather")?;
            if index.count()? == 0 {
                // As in PyTorch, an empty index may have any shape.
                axis(along, t.shape.rank().max(1)).map_err(|e| e.in_op("gather"))?;
                // A slice of nothing, through which the gradient is zeros.
                return Ok(self.reshape([t.shape.count()]).narrow(0, 0, 0).reshape(index.shape()?));
            }
            if t.shape.rank() == 0 || index.rank()? == 0 {
                // As in PyTorch, a scalar counts as a vector of one element.
                axis(along, t.shape.rank().max(1)).map_err(|e| e.in_op("gather"))?;
                let x = if t.shape.rank() == 0 { self.reshape([1]) } else { self.clone() };
                let flat = if index.rank()? == 0 { index.reshape([1]) } else { index.clone() };
                return Ok(Tensor::apply1(&OP, &[&x, &flat], Attrs::new().with("axis", 0usize)).reshape(index.shape()?));
            }
            let at = axis(along, t.shape.rank()).map_err(|e| e.in_op("gather"))?;
            Ok(Tensor::apply1(&OP, &[self, &index], Attrs::new().with("axis", at)))
        })
    }
}
