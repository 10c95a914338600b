//! `nanmean`: the mean along axes with NaN left out.

use crate::rules::{expand1_wide, f64s, float, floats};
use crate::{Axes, Tensor};
use ir::{AttrKind, Attrs, Case, Meaning, Op, Site};

/// The row of `nanmean`.
pub static OP: Op = Op {
    name: "nanmean",
    doc: "Arithmetic mean along axes, which keep size 1, with NaN left out.",
    attrs: &[("axes", AttrKind::Ints)],
    infer: |c| super::infer(c).and_then(|out| float(c, 0).map(|()| out)),
    meaning: Meaning::Composite(|c, x| {
        let axes = c.attrs.ints("axes")?;
        expand1_wide(x, |x| {
            let count = x[0].is_nan().not().sum_keep(axes).cast_like(&x[0]);
            x[0].nan_to_zero().sum_keep(axes) / count
        })
    }),
    batch: super::BATCH,
    cases: || {
        let over = |a: &[i64]| Attrs::new().with("axes", a);
        vec![
            Case::new(vec![floats([2, 3], 1)], over(&[1])),
            Case::new(vec![f64s([2, 2], &[1.0, f64::NAN, 3.0, 4.0])], over(&[0]))
                .expect(vec![f64s([1, 2], &[2.0, 4.0])], "NumPy manual: np.nanmean([[1, np.nan], [3, 4]], axis=0)")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Arithmetic mean with NaN left out, along axes (`..` for all), which are removed.
    #[track_caller]
    pub fn nanmean(&self, axes: impl Into<Axes>) -> Tensor {
        let (site, axes) = (Site::here(), axes.into());
        site.scope(|| self.nanmean_keep(axes.clone()).squeezed_after(self, &axes))
    }
    /// Arithmetic mean with NaN left out, along axes, which keep size 1.
    #[track_caller]
    pub fn nanmean_keep(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.then(|t| Ok(self.cast(t.dtype.to_float()).reduce(&OP, &axes)))
    }
}
