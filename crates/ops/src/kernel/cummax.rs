//! `cummax`: the greatest element so far along an axis, and its place.

use crate::Tensor;
use crate::rules::{f64s, floats, i64s};
use ir::{Attrs, Case, Meaning, Op};

/// The row of `cummax`.
pub static OP: Op = Op {
    name: "cummax",
    doc: "The largest element so far along `axis` and its index; the last of equal ones, NaN from the first NaN on.",
    meaning: Meaning::Kernel(|c, args| super::running_extreme(c, args, true)),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([2, 4], 1)], along(1)),
            Case::new(vec![floats([3, 2], 2)], along(0)),
            Case::new(vec![floats([8300], 3)], along(0)).kinked(),
            Case::new(vec![floats([2, 2100], 4)], along(1)).kinked(),
            Case::new(vec![f64s([4], &[2.0, 1.0, 2.0, 5.0])], along(0))
                .expect(
                    vec![f64s([4], &[2.0, 2.0, 2.0, 5.0]), i64s([4], &[0, 0, 2, 3])],
                    "by hand, with the last of equal ones as in PyTorch",
                )
                .kinked(),
        ]
    },
    ..super::RUNNING
};

impl Tensor {
    /// The largest element so far along an axis and its index: the last of equal ones, NaN from the
    /// first NaN on.
    #[track_caller]
    pub fn cummax(&self, along: i64) -> [Tensor; 2] {
        self.running(&OP, along)
    }
}
