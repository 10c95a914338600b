//! `normalize`: vectors brought to length one.

use crate::rules::{expand1, f64s, float, floats, same};
use crate::{Axes, Tensor};
use ir::{AttrKind, Attrs, Case, Meaning, Op};

/// The row of `normalize`.
pub static OP: Op = Op {
    name: "normalize",
    doc: "x divided by the norm of order `ord` of its vectors along axes, or by eps where that is greater.",
    attrs: &[("axes", AttrKind::Ints), ("ord", AttrKind::Float), ("eps", AttrKind::Float)],
    infer: |c| {
        float(c, 0)?;
        crate::reduce::infer(c)?;
        same(c, 0)
    },
    meaning: Meaning::Composite(|c, args| {
        let (axes, ord, eps) = (c.attrs.ints("axes")?, c.attrs.float("ord")?, c.attrs.float("eps")?);
        expand1(args, |t| {
            let x = t[0].widened();
            (&x / x.vector_norm_keep(ord, axes).clamp_min(eps)).cast(c.dtype(0))
        })
    }),
    autocast: ir::Autocast::Wide,
    cases: || {
        let by = |axes: &[i64], ord: f64| Attrs::new().with("axes", axes).with("ord", ord).with("eps", 1e-12);
        vec![
            Case::new(vec![floats([2, 3], 1)], by(&[1], 2.0)),
            Case::new(vec![floats([3, 2], 2)], by(&[0], 1.5)),
            Case::new(vec![f64s([2, 2], &[3.0, 4.0, 0.0, 0.0])], by(&[1], 2.0))
                .expect(vec![f64s([2, 2], &[0.6, 0.8, 0.0, 0.0])], "by hand")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// x divided by the norm of order `ord` (2 for Euclid's) of its vectors along axes, or by eps
    /// where that is greater.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[3.0f64, 4.0]]).normalize(2.0, 1, 1e-12);
    /// assert_eq!(x.to_vec::<f64>().unwrap(), [0.6, 0.8]);
    /// ```
    #[track_caller]
    pub fn normalize(&self, ord: f64, axes: impl Into<Axes>, eps: f64) -> Tensor {
        let axes = axes.into();
        self.then(|t| {
            let axes = axes.resolve(t.shape.rank()).map_err(|e| e.in_op("normalize"))?;
            let attrs = Attrs::new().with("axes", &axes).with("ord", ord).with("eps", eps);
            Ok(Tensor::apply1(&OP, &[&self.cast(t.dtype.to_float())], attrs))
        })
    }
}
