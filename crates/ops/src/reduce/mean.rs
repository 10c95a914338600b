//! `mean`: the arithmetic mean along axes.

use crate::rules::{expand1_wide, f64s, float, floats};
use crate::{Axes, Tensor};
use ir::{AttrKind, Attrs, Case, Meaning, Op, Site};

/// The row of `mean`.
pub static OP: Op = Op {
    name: "mean",
    doc: "Arithmetic mean along axes, which keep size 1.",
    attrs: &[("axes", AttrKind::Ints)],
    infer: |c| super::infer(c).and_then(|out| float(c, 0).map(|()| out)),
    meaning: Meaning::Composite(|c, x| {
        let axes = c.attrs.ints("axes")?;
        let n: usize = c.attrs.sizes("axes")?.iter().map(|&a| c.shape(0)[a]).product();
        expand1_wide(x, |x| x[0].sum_keep(axes) / n as f64)
    }),
    batch: super::BATCH,
    cases: || {
        let over = |a: &[i64]| Attrs::new().with("axes", a);
        vec![
            Case::new(vec![floats([2, 3, 4], 1)], over(&[0, 2])),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0])], over(&[0]))
                .expect(vec![f64s([1, 2], &[2.0, 3.0])], "NumPy manual: np.mean([[1, 2], [3, 4]], axis=0)"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Arithmetic mean along axes (`..` for all), which are removed; integers are converted to f32.
    #[track_caller]
    pub fn mean(&self, axes: impl Into<Axes>) -> Tensor {
        let (site, axes) = (Site::here(), axes.into());
        site.scope(|| self.mean_keep(axes.clone()).squeezed_after(self, &axes))
    }
    /// Arithmetic mean along axes, which keep size 1.
    #[track_caller]
    pub fn mean_keep(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.then(|t| Ok(self.cast(t.dtype.to_float()).reduce(&OP, &axes)))
    }
}
