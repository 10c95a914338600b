//! `count_nonzero`: how many elements along axes are not zero.

use crate::rules::{expand1, f64s, i64s};
use crate::{Axes, DType, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Op, Site};

/// The row of `count_nonzero`.
pub static OP: Op = Op {
    name: "count_nonzero",
    doc: "How many elements along axes are not zero, as i64; the axes stay as size 1.",
    attrs: &[("axes", AttrKind::Ints)],
    infer: |c| {
        let mut out = super::infer(c)?;
        out[0].dtype = DType::I64;
        Ok(out)
    },
    meaning: Meaning::Composite(|c, x| {
        let axes = c.attrs.ints("axes")?;
        expand1(x, |x| x[0].cast(DType::Bool).sum_keep(axes))
    }),
    grad: Grad::Zero,
    batch: super::BATCH,
    cases: || {
        let x = f64s([2, 4], &[0.0, 1.0, 7.0, 0.0, 3.0, 0.0, 2.0, 19.0]);
        vec![
            Case::new(vec![x], Attrs::new().with("axes", [0i64]))
                .expect(vec![i64s([1, 4], &[1, 1, 2, 1])], "NumPy manual: np.count_nonzero(a, axis=0)"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// How many elements are not zero along axes (`..` for all), which are removed.
    #[track_caller]
    pub fn count_nonzero(&self, axes: impl Into<Axes>) -> Tensor {
        let (site, axes) = (Site::here(), axes.into());
        site.scope(|| self.count_nonzero_keep(axes.clone()).squeezed_after(self, &axes))
    }
    /// How many elements are not zero along axes, which keep size 1.
    #[track_caller]
    pub fn count_nonzero_keep(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.reduce(&OP, &axes)
    }
}
