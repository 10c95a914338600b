//! `std`: the standard deviation along axes.

use super::var::divisor;
use crate::rules::{GradTensors, expand1_wide, f64s, float, floats, grads};
use crate::{Axes, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Meaning, Op, Site};

/// The row of `std`.
pub static OP: Op = Op {
    name: "std",
    doc: "Standard deviation along axes, which keep size 1: the square root of var. Where it is 0 its gradient is \
          0.",
    attrs: &[("axes", AttrKind::Ints), ("correction", AttrKind::Float)],
    infer: |c| super::infer(c).and_then(|out| float(c, 0).map(|()| out)),
    meaning: Meaning::Composite(|c, x| {
        let (axes, correction) = (c.attrs.ints("axes")?, c.attrs.float("correction")?);
        expand1_wide(x, |x| x[0].var_keep(axes, correction).sqrt())
    }),
    grad: Grad::Rule(|c| {
        let (axes, ty) = (c.attrs.ints("axes")?, c.inputs[0].ty().clone());
        let divisor = divisor(&Call { types: &[ty], attrs: c.attrs })?;
        let (x, y, g) = (c.x(0).widened(), c.y(0).widened(), c.g(0).widened());
        let slope = Tensor::where_(&y.eq(0.0), &g.zeros_like(), g / &y);
        grads([((&x - x.mean_keep(axes)) * (slope * (1.0 / divisor))).cast_like(&c.x(0))])
    }),
    batch: super::BATCH,
    autocast: ir::Autocast::Wide,
    complex: ir::OnComplex::Refuse,
    cases: || {
        let over = |a: &[i64], k: f64| Attrs::new().with("axes", a).with("correction", k);
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], over(&[0, 2], 1.0)),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0])], over(&[0], 0.0))
                .expect(vec![f64s([1, 2], &[1.0, 1.0])], "NumPy manual: np.std([[1, 2], [3, 4]], axis=0)"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Standard deviation along axes (`..` for all), which are removed: the square root of `var`.
    #[track_caller]
    pub fn std(&self, axes: impl Into<Axes>, correction: f64) -> Tensor {
        let (site, axes) = (Site::here(), axes.into());
        site.scope(|| self.std_keep(axes.clone(), correction).squeezed_after(self, &axes))
    }
    /// Standard deviation along axes, which keep size 1.
    #[track_caller]
    pub fn std_keep(&self, axes: impl Into<Axes>, correction: f64) -> Tensor {
        let axes = axes.into();
        let more = Attrs::new().with("correction", correction);
        self.then(|t| Ok(self.cast(t.dtype.to_float()).reduce_with(&OP, &axes, more)))
    }
}
