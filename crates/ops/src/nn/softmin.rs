//! `softmin`: softmax of the negative.

use crate::Tensor;
use crate::rules::{expand1, f64s, floats};
use ir::{Attrs, Case, Meaning, Op};

/// The row of `softmin`.
pub static OP: Op = Op {
    name: "softmin",
    doc: "Softmax of the negative along an axis.",
    meaning: Meaning::Composite(|c, x| {
        let axis = c.axis("axis")? as i64;
        expand1(x, |x| (-&x[0]).softmax(axis))
    }),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([2, 3], 1)], along(1)),
            Case::new(vec![f64s([2], &[0.0, 1.0986122886681098])], along(0))
                .expect(vec![f64s([2], &[0.75, 0.25])], "by hand: 3 to 1"),
        ]
    },
    ..super::ALONG_AXIS
};

impl Tensor {
    /// Softmax of the negative along an axis.
    #[track_caller]
    pub fn softmin(&self, along: i64) -> Tensor {
        self.normalized_along(&OP, along)
    }
}
