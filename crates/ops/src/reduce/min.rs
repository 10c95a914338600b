//! `min`: the least element along axes.

use crate::rules::{f64s, floats};
use crate::{Axes, Tensor};
use ir::{Attrs, Case, Meaning, Monoid, Op, Site};

/// The row of `min`.
pub static OP: Op = Op {
    name: "min",
    doc: "The smallest element along axes, which keep size 1; NaN if there is one. Equal elements share the \
          gradient evenly.",
    meaning: Meaning::Reduce(Monoid::Min),
    cases: || {
        let over = |a: &[i64]| Attrs::new().with("axes", a);
        vec![
            Case::new(vec![floats([2, 3, 4], 1)], over(&[0, 2])),
            Case::new(vec![floats([3], 2)], over(&[0])),
            Case::new(vec![f64s([2, 2], &[0.0, 1.0, 2.0, 3.0])], over(&[0]))
                .expect(vec![f64s([1, 2], &[0.0, 1.0])], "NumPy manual: np.amin(np.arange(4).reshape((2, 2)), axis=0)"),
        ]
    },
    ..super::EXTREME
};

impl Tensor {
    /// The smallest element along axes (`..` for all), which are removed; NaN if there is one. Equal
    /// elements share the gradient evenly; see `min_index` for the index.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[1, 5], [3, 4]]);
    /// assert_eq!(x.min(1).to_vec::<i32>().unwrap(), [1, 3]);
    /// ```
    #[track_caller]
    pub fn min(&self, axes: impl Into<Axes>) -> Tensor {
        let (site, axes) = (Site::here(), axes.into());
        site.scope(|| self.min_keep(axes.clone()).squeezed_after(self, &axes))
    }
    /// The smallest element along axes, which keep size 1.
    #[track_caller]
    pub fn min_keep(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.reduce(&OP, &axes)
    }
    /// The smallest element along one axis, which is removed, and its index: the first of equal ones,
    /// which alone gets the gradient.
    #[track_caller]
    pub fn min_index(&self, along: i64) -> [Tensor; 2] {
        self.with_place(&OP, along, |x, at| x.argmin_keep(at))
    }
}
