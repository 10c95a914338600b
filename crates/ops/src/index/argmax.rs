//! `argmax`: where the greatest element along an axis is.

use crate::rules::{f64s, floats, i64s};
use crate::{Axes, Tensor};
use ir::{Attrs, Case, Meaning, Op};

/// The row of `argmax`.
pub static OP: Op = Op {
    name: "argmax",
    doc: "The index of the largest element along `axis`, which keeps size 1; the first of equal ones, the first NaN \
          if there is one.",
    meaning: Meaning::Kernel(|c, args| super::extreme(c, args, true)),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        let x = f64s([2, 3], &[10.0, 11.0, 12.0, 13.0, 14.0, 15.0]);
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], along(1)),
            Case::new(vec![f64s([4], &[1.0, 5.0, f64::NAN, 0.0])], along(0))
                .expect(vec![i64s([1], &[2])], "NumPy manual, np.argmax on NaN"),
            Case::new(vec![x], along(1))
                .expect(vec![i64s([2, 1], &[2, 2])], "NumPy manual: np.argmax(np.arange(6).reshape(2,3) + 10, axis=1)"),
        ]
    },
    ..super::INDEX_OF_EXTREME
};

impl Tensor {
    /// The index of the largest element along an axis, which is removed, or in the flattened tensor
    /// for `..`; the first of equal ones.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[1, 5], [7, 4]]);
    /// assert_eq!(x.argmax(1).to_vec::<i64>().unwrap(), [1, 0]);
    /// assert_eq!(x.argmax(..).item::<i64>().unwrap(), 2);
    /// ```
    #[track_caller]
    pub fn argmax(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.place_of(&OP, &axes, false)
    }
    /// The index of the largest element along an axis, which keeps size 1.
    #[track_caller]
    pub fn argmax_keep(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.place_of(&OP, &axes, true)
    }
}
