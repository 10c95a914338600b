//! `all`: whether every element is not zero along axes.

use crate::rules::f64s;
use crate::{Axes, Tensor};
use ir::{Attrs, Case, Literal, Meaning, Op, Site};

/// The row of `all`.
pub static OP: Op = Op {
    name: "all",
    doc: "Whether every element is not zero along axes, which keep size 1. Of nothing, true.",
    meaning: Meaning::Composite(|c, x| super::truth(c, x, true, |x, axes| x.min_keep(axes))),
    cases: || {
        let over = |a: &[i64]| Attrs::new().with("axes", a);
        let truth = |b: &[bool]| Literal::generate([1, b.len()], |i| b[i]);
        vec![
            Case::new(vec![f64s([2, 2], &[1.0, 0.0, 1.0, 1.0])], over(&[0]))
                .expect(vec![truth(&[true, false])], "NumPy manual: np.all([[True, False], [True, True]], axis=0)"),
            Case::new(vec![f64s([0, 2], &[])], over(&[0]))
                .expect(vec![truth(&[true, true])], "NumPy manual, Notes of ufunc.reduce: the identity"),
        ]
    },
    ..super::TRUTH
};

impl Tensor {
    /// Whether every element is not zero along axes (`..` for all), which are removed.
    #[track_caller]
    pub fn all(&self, axes: impl Into<Axes>) -> Tensor {
        let (site, axes) = (Site::here(), axes.into());
        site.scope(|| self.all_keep(axes.clone()).squeezed_after(self, &axes))
    }
    /// Whether every element is not zero along axes, which keep size 1.
    #[track_caller]
    pub fn all_keep(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.reduce(&OP, &axes)
    }
}
