//! `argmin`: where the least element along an axis is.

use crate::rules::{f64s, floats, i64s};
use crate::{Axes, Tensor};
use ir::{Attrs, Case, Meaning, Op};

/// The row of `argmin`.
pub static OP: Op = Op {
    name: "argmin",
    doc: "The index of the smallest element along `axis`, which keeps size 1; the first of equal ones, the first \
          NaN if there is one.",
    meaning: Meaning::Kernel(|c, args| super::extreme(c, args, false)),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        let x = f64s([2, 3], &[10.0, 11.0, 12.0, 13.0, 14.0, 15.0]);
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], along(1)),
            Case::new(vec![f64s([4], &[1.0, 5.0, f64::NAN, 0.0])], along(0))
                .expect(vec![i64s([1], &[2])], "NumPy manual, np.argmin on NaN"),
            Case::new(vec![x], along(1))
                .expect(vec![i64s([2, 1], &[0, 0])], "NumPy manual: np.argmin(np.arange(6).reshape(2,3) + 10, axis=1)"),
        ]
    },
    ..super::INDEX_OF_EXTREME
};

impl Tensor {
    /// The index of the smallest element along an axis, which is removed, or in the flattened tensor
    /// for `..`; the first of equal ones.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[1, 5], [7, 4]]);
    /// assert_eq!(x.argmin(1).to_vec::<i64>().unwrap(), [0, 1]);
    /// assert_eq!(x.argmin(..).item::<i64>().unwrap(), 0);
    /// ```
    #[track_caller]
    pub fn argmin(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.place_of(&OP, &axes, false)
    }
    /// The index of the smallest element along an axis, which keeps size 1.
    #[track_caller]
    pub fn argmin_keep(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.place_of(&OP, &axes, true)
    }
}
