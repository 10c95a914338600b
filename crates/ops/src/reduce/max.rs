//! `max`: the greatest element along axes.

use crate::rules::{f64s, floats};
use crate::{Axes, Tensor};
use ir::{Attrs, Case, Meaning, Monoid, Op, Site};

/// The row of `max`.
pub static OP: Op = Op {
    name: "max",
    doc: "The largest element along axes, which keep size 1; NaN if there is one. Equal elements share the gradient \
          evenly.",
    meaning: Meaning::Reduce(Monoid::Max),
    cases: || {
        let over = |a: &[i64]| Attrs::new().with("axes", a);
        vec![
            Case::new(vec![floats([2, 3, 4], 1)], over(&[0, 2])),
            Case::new(vec![floats([3], 2)], over(&[0])),
            Case::new(vec![f64s([2, 2], &[0.0, 1.0, 2.0, 3.0])], over(&[1]))
                .expect(vec![f64s([2, 1], &[1.0, 3.0])], "NumPy manual: np.amax(np.arange(4).reshape((2, 2)), axis=1)"),
        ]
    },
    ..super::EXTREME
};

impl Tensor {
    /// The largest element along axes (`..` for all), which are removed; NaN if there is one. Equal
    /// elements share the gradient evenly; see `max_index` for the index.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[1, 5], [3, 4]]);
    /// assert_eq!(x.max(1).to_vec::<i32>().unwrap(), [5, 4]);
    /// ```
    #[track_caller]
    pub fn max(&self, axes: impl Into<Axes>) -> Tensor {
        let (site, axes) = (Site::here(), axes.into());
        site.scope(|| self.max_keep(axes.clone()).squeezed_after(self, &axes))
    }
    /// The largest element along axes, which keep size 1.
    #[track_caller]
    pub fn max_keep(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.reduce(&OP, &axes)
    }
    /// The largest element along one axis, which is removed, and its index: the first of equal ones,
    /// which alone gets the gradient.
    #[track_caller]
    pub fn max_index(&self, along: i64) -> [Tensor; 2] {
        self.with_place(&OP, along, |x, at| x.argmax_keep(at))
    }
    /// The smallest and the largest element along axes (`..` for all), which are removed.
    #[track_caller]
    pub fn aminmax(&self, axes: impl Into<Axes>) -> [Tensor; 2] {
        let axes = axes.into();
        [self.min(axes.clone()), self.max(axes)]
    }
}
