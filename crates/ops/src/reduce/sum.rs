//! `sum`: the sum along axes.

use crate::rules::{GradTensors, f64s, floats, grads};
use crate::{Axes, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Monoid, Op, Site};

/// The row of `sum`.
pub static OP: Op = Op {
    name: "sum",
    doc: "Sum along axes, which keep size 1. Integers and bool are summed in 64 bits.",
    attrs: &[("axes", AttrKind::Ints)],
    infer: super::infer,
    meaning: Meaning::Reduce(Monoid::Sum),
    grad: Grad::Rule(|c| grads([c.g(0).broadcast_to(&c.inputs[0].ty().shape)])),
    batch: super::BATCH,
    linear: true,
    cases: || {
        let over = |a: &[i64]| Attrs::new().with("axes", a);
        vec![
            Case::new(vec![floats([2, 3, 4], 1)], over(&[0, 2])),
            Case::new(vec![f64s([2, 2], &[0.0, 1.0, 0.0, 5.0])], over(&[0]))
                .expect(vec![f64s([1, 2], &[0.0, 6.0])], "NumPy manual: np.sum([[0, 1], [0, 5]], axis=0)"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Sum along axes (`..` for all), which are removed; integers and bool are summed in 64 bits.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(x.sum(0).to_vec::<i64>().unwrap(), [4, 6]);
    /// assert_eq!(x.sum(..).item::<i64>().unwrap(), 10);
    /// ```
    #[track_caller]
    pub fn sum(&self, axes: impl Into<Axes>) -> Tensor {
        let (site, axes) = (Site::here(), axes.into());
        site.scope(|| self.sum_keep(axes.clone()).squeezed_after(self, &axes))
    }
    /// Sum along axes, which keep size 1.
    #[track_caller]
    pub fn sum_keep(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.then(|t| Ok(self.cast(t.dtype.sum_type()).reduce(&OP, &axes)))
    }
}
