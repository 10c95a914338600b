//! `permute`: the dimensions in another order.

use crate::rules::{GradTensors, f64s, floats, grads, one};
use crate::{Error, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Batch, Case, Grad, Layout, Meaning, Op};

/// The row of `permute`.
pub static OP: Op = Op {
    name: "permute",
    doc: "Dimensions in another order: output dimension i is input dimension axes[i].",
    attrs: &[("axes", AttrKind::Ints)],
    infer: |c| {
        c.arity(1)?;
        let axes = c.attrs.sizes("axes")?;
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..c.shape(0).rank()) {
            return Err(Error::value(format!("axes {axes:?} are no order of the dimensions of {}", c.shape(0))));
        }
        one(c.dtype(0), axes.iter().map(|&a| c.shape(0)[a]).collect::<ir::Shape>())
    },
    meaning: Meaning::View(|c, l| {
        let axes = c.attrs.sizes("axes")?;
        Ok(Some(Layout {
            shape: axes.iter().map(|&a| l.shape[a]).collect(),
            strides: axes.iter().map(|&a| l.strides[a]).collect(),
            offset: l.offset,
        }))
    }),
    grad: Grad::Rule(|c| {
        let axes = c.attrs.sizes("axes")?;
        let mut back = vec![0i64; axes.len()];
        axes.iter().enumerate().for_each(|(i, &a)| back[a] = i as i64);
        grads([c.g(0).permute(&back)])
    }),
    batch: Batch::Rule(|c| {
        let axes: Vec<i64> = std::iter::once(0).chain(c.attrs.ints("axes")?.iter().map(|a| a + 1)).collect();
        Ok(vec![Tensor::from(c.inputs[0].clone()).permute(&axes).value()?.clone()])
    }),
    cases: || {
        vec![
            Case::new(vec![floats([2, 3, 4], 1)], Attrs::new().with("axes", [2i64, 0, 1])),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0])], Attrs::new().with("axes", [1i64, 0]))
                .expect(vec![f64s([2, 2], &[1.0, 3.0, 2.0, 4.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The dimensions in another order; negative axes count from the end.
    #[track_caller]
    pub fn permute(&self, axes: &[i64]) -> Tensor {
        self.then(|t| {
            let rank = t.shape.rank();
            let axes: Vec<usize> =
                axes.iter().map(|&a| axis(a, rank)).collect::<Result<_>>().map_err(|e| e.in_op("permute"))?;
            Ok(Tensor::apply1(&OP, &[self], Attrs::new().with("axes", &axes)))
        })
    }
    /// Two dimensions swapped. A scalar has the axes 0 and -1, as in PyTorch, and is unchanged.
    #[track_caller]
    pub fn transpose(&self, a: i64, b: i64) -> Tensor {
        self.then(|t| {
            let rank = t.shape.rank();
            let mut axes: Vec<i64> = (0..rank as i64).collect();
            let at = |a| axis(a, rank.max(1)).map_err(|e| e.in_op("transpose"));
            let (a, b) = (at(a)?, at(b)?);
            if rank == 0 {
                return Ok(self.clone());
            }
            axes.swap(a, b);
            Ok(self.permute(&axes))
        })
    }
    /// The last two dimensions swapped; a vector or scalar is unchanged.
    #[track_caller]
    pub fn t(&self) -> Tensor {
        self.then(|t| Ok(if t.shape.rank() < 2 { self.clone() } else { self.transpose(-2, -1) }))
    }
}
