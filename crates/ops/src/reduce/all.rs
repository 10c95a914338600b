//! `all`: whether every element is not zero along axes.

use crate::rules::{expand1, f64s};
use crate::{Axes, DType, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Literal, Meaning, Op, Site};

/// The row of `all`.
pub static OP: Op = Op {
    name: "all",
    doc: "Whether every element is not zero along axes, which stay as size 1. Of nothing, true.",
    attrs: &[("axes", AttrKind::Ints)],
    infer: |c| {
        let mut out = super::infer(c)?;
        out[0].dtype = DType::Bool;
        Ok(out)
    },
    meaning: Meaning::Composite(|c, x| {
        let axes = c.attrs.ints("axes")?;
        let is_empty = c.attrs.sizes("axes")?.iter().any(|&a| c.shape(0)[a] == 0);
        let shape = c.shape(0).reduce(&c.attrs.sizes("axes")?, true);
        expand1(x, |x| if is_empty { Tensor::full(shape, true) } else { x[0].cast(DType::Bool).min_keep(axes) })
    }),
    grad: Grad::Zero,
    batch: super::BATCH,
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
    ..Op::DEFAULT
};

impl Tensor {
    /// Whether every element is not zero along axes (`..` for all), which disappear.
    #[track_caller]
    pub fn all(&self, axes: impl Into<Axes>) -> Tensor {
        let (site, axes) = (Site::here(), axes.into());
        site.scope(|| self.all_keep(axes.clone()).squeezed_after(self, &axes))
    }
    /// Whether every element is not zero along axes, which stay as size 1.
    #[track_caller]
    pub fn all_keep(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.reduce(&OP, &axes)
    }
}
