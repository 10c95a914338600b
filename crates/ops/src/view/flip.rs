//! `flip`: the order reversed along axes.

use crate::rules::{GradTensors, f64s, floats, grads, same};
use crate::{Axes, Error, Tensor};
use ir::{AttrKind, Attrs, Batch, Case, Grad, Meaning, Op};

/// The row of `flip`.
pub static OP: Op = Op {
    name: "flip",
    doc: "The order of elements reversed along axes.",
    attrs: &[("axes", AttrKind::Ints)],
    infer: |c| {
        c.arity(1)?;
        let rank = c.shape(0).rank();
        if let Some(a) = c.attrs.sizes("axes")?.iter().find(|&&a| a >= rank) {
            return Err(Error::index(format!("axis {a} is out of range for a tensor of rank {rank}")));
        }
        same(c, 0)
    },
    meaning: Meaning::View(|c, l| {
        let mut l = l.clone();
        for a in c.attrs.sizes("axes")? {
            let back = (l.shape[a] as isize - 1).max(0) * l.strides[a];
            l.offset = (l.offset as isize + back) as usize;
            l.strides[a] = -l.strides[a];
        }
        Ok(Some(l))
    }),
    grad: Grad::Rule(|c| grads([c.g(0).flip(c.attrs.ints("axes")?)])),
    batch: Batch::Rule(|c| {
        let axes: Vec<i64> = c.attrs.ints("axes")?.iter().map(|a| a + 1).collect();
        Ok(vec![Tensor::from(c.inputs[0].clone()).flip(axes).value()?.clone()])
    }),
    cases: || {
        let over = |a: &[i64]| Attrs::new().with("axes", a);
        vec![
            Case::new(vec![floats([2, 3, 4], 1)], over(&[0, 2])),
            Case::new(vec![f64s([2, 2], &[0.0, 1.0, 2.0, 3.0])], over(&[0]))
                .expect(vec![f64s([2, 2], &[2.0, 3.0, 0.0, 1.0])], "NumPy manual: np.flip(A, 0)"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The order reversed along axes.
    #[track_caller]
    pub fn flip(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.then(|t| {
            let axes = axes.resolve(t.shape.rank()).map_err(|e| e.in_op("flip"))?;
            Ok(Tensor::apply1(&OP, &[self], Attrs::new().with("axes", &axes)))
        })
    }
}
