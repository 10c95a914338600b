//! `var`: the variance along axes.

use crate::rules::{GradTensors, expand1_wide, f64s, float, floats, grads};
use crate::{Axes, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Meaning, Op, Site};

/// The row of `var`.
pub static OP: Op = Op {
    name: "var",
    doc: "Variance along axes, which keep size 1: squared distances from the mean, added and divided by their \
          number less `correction`.",
    attrs: &[("axes", AttrKind::Ints), ("correction", AttrKind::Float)],
    infer: |c| super::infer(c).and_then(|out| float(c, 0).map(|()| out)),
    meaning: Meaning::Composite(|c, x| {
        let (axes, divisor) = (c.attrs.ints("axes")?, divisor(c)?);
        expand1_wide(x, |x| (&x[0] - x[0].mean_keep(axes)).square().sum_keep(axes) / divisor.max(0.0))
    }),
    grad: Grad::Rule(|c| {
        let (axes, ty) = (c.attrs.ints("axes")?, c.inputs[0].ty().clone());
        let divisor = divisor(&Call { types: &[ty], attrs: c.attrs })?;
        let x = c.x(0).widened();
        let slope = (&x - x.mean_keep(axes)) * (c.g(0).widened() * (2.0 / divisor));
        grads([slope.cast_like(&c.x(0))])
    }),
    batch: super::BATCH,
    autocast: ir::Autocast::Wide,
    complex: ir::OnComplex::Refuse,
    cases: || {
        let over = |a: &[i64], k: f64| Attrs::new().with("axes", a).with("correction", k);
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], over(&[0, 2], 1.0)),
            Case::new(vec![floats([3], 2)], over(&[0], 0.5)),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0])], over(&[0, 1], 0.0))
                .expect(vec![f64s([1, 1], &[1.25])], "NumPy manual: np.var([[1, 2], [3, 4]])"),
        ]
    },
    ..Op::DEFAULT
};

/// The number of elements less the correction.
pub(super) fn divisor(c: &Call) -> Result<f64> {
    let n: usize = c.attrs.sizes("axes")?.iter().map(|&a| c.shape(0)[a]).product();
    Ok(n as f64 - c.attrs.float("correction")?)
}

impl Tensor {
    /// Variance along axes (`..` for all), which are removed: squared distances from the mean, added
    /// and divided by their number less `correction`. 0 gives NumPy's default, the variance of the
    /// elements; 1 gives PyTorch's, the estimate from a sample.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::from([1.0f32, 3.0]).var(.., 1.0).item::<f32>().unwrap(), 2.0);
    /// ```
    #[track_caller]
    pub fn var(&self, axes: impl Into<Axes>, correction: f64) -> Tensor {
        let (site, axes) = (Site::here(), axes.into());
        site.scope(|| self.var_keep(axes.clone(), correction).squeezed_after(self, &axes))
    }
    /// Variance along axes, which keep size 1.
    #[track_caller]
    pub fn var_keep(&self, axes: impl Into<Axes>, correction: f64) -> Tensor {
        let axes = axes.into();
        let more = Attrs::new().with("correction", correction);
        self.then(|t| Ok(self.cast(t.dtype.to_float()).reduce_with(&OP, &axes, more)))
    }
    /// Variance and mean along axes, which are removed.
    #[track_caller]
    pub fn var_mean(&self, axes: impl Into<Axes>, correction: f64) -> [Tensor; 2] {
        let axes = axes.into();
        [self.var(axes.clone(), correction), self.mean(axes)]
    }
}
