//! `nansum`: the sum along axes with NaN left out.

use crate::rules::{expand1, f64s, floats};
use crate::{Axes, Tensor};
use ir::{AttrKind, Attrs, Case, Meaning, Op, Site};

/// The row of `nansum`.
pub static OP: Op = Op {
    name: "nansum",
    doc: "Sum along axes, which keep size 1, with NaN left out.",
    attrs: &[("axes", AttrKind::Ints)],
    infer: super::infer,
    meaning: Meaning::Composite(|c, x| {
        let axes = c.attrs.ints("axes")?;
        expand1(x, |x| x[0].nan_to_zero().sum_keep(axes).cast_like(&x[0]))
    }),
    batch: super::BATCH,
    cases: || {
        let over = |a: &[i64]| Attrs::new().with("axes", a);
        vec![
            Case::new(vec![floats([2, 3], 1)], over(&[1])),
            Case::new(vec![f64s([2, 2], &[1.0, 1.0, 1.0, f64::NAN])], over(&[0]))
                .expect(vec![f64s([1, 2], &[2.0, 1.0])], "NumPy manual: np.nansum([[1, 1], [1, np.nan]], axis=0)")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Sum with NaN left out, along axes (`..` for all), which are removed; integers and
    /// bool are summed in 64 bits.
    #[track_caller]
    pub fn nansum(&self, axes: impl Into<Axes>) -> Tensor {
        let (site, axes) = (Site::here(), axes.into());
        site.scope(|| self.nansum_keep(axes.clone()).squeezed_after(self, &axes))
    }
    /// Sum with NaN left out, along axes, which keep size 1.
    #[track_caller]
    pub fn nansum_keep(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.then(|t| Ok(self.cast(t.dtype.sum_type()).reduce(&OP, &axes)))
    }
}

impl Tensor {
    /// Zeros in place of NaN.
    pub(super) fn nan_to_zero(&self) -> Tensor {
        self.then(|t| {
            Ok(if t.dtype.is_inexact() {
                Tensor::where_(&self.is_nan(), &self.zeros_like(), self)
            } else {
                self.clone()
            })
        })
    }
}
