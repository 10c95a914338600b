//! `logsumexp`: the sum of numbers given by their logarithms.

use crate::reduce;
use crate::rules::{GradTensors, expand1, f64s, float, floats, grads};
use crate::{Axes, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Op, Site};

/// The row of `logsumexp`.
pub static OP: Op = Op {
    name: "logsumexp",
    doc: "log of the sum of exp(x) along axes, which keep size 1, without overflow.",
    attrs: &[("axes", AttrKind::Ints)],
    infer: |c| reduce::infer(c).and_then(|out| float(c, 0).map(|()| out)),
    meaning: Meaning::Composite(|c, x| {
        let axes = c.attrs.ints("axes")?;
        if c.attrs.sizes("axes")?.iter().any(|&a| c.shape(0)[a] == 0) {
            return expand1(x, |x| x[0].exp().sum_keep(axes).log());
        }
        expand1(x, |x| {
            let x = x[0].widened();
            let top = x.max_keep(axes).stop_gradient();
            // Infinite maxima would leave inf - inf behind.
            let top = Tensor::where_(&top.is_finite(), &top, 0.0);
            ((&x - &top).exp().sum_keep(axes).log() + top).cast(c.dtype(0))
        })
    }),
    grad: Grad::Rule(|c| {
        let (x, y, g) = (c.x(0).widened(), c.y(0).widened(), c.g(0).widened());
        let y = Tensor::where_(&y.eq(f64::NEG_INFINITY), &y.zeros_like(), &y);
        grads([(g * (x - y).exp()).cast_like(&c.x(0))])
    }),
    batch: reduce::BATCH,
    autocast: ir::Autocast::Wide,
    cases: || {
        let over = |a: &[i64]| Attrs::new().with("axes", a);
        let none = f64::NEG_INFINITY;
        vec![
            Case::new(vec![floats([2, 3], 1)], over(&[1])),
            Case::new(vec![floats([2, 2, 2], 2)], over(&[0, 2])),
            Case::new(vec![f64s([3, 2], &[0.0, 1.0986122886681098, 1000.0, 0.0, none, none])], over(&[1]))
                .expect(vec![f64s([3, 1], &[1.3862943611198906, 1000.0, none])], "by hand: log 4, and limits")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// log of the sum of exp(x) along axes (`..` for all), which are removed, without overflow.
    #[track_caller]
    pub fn logsumexp(&self, axes: impl Into<Axes>) -> Tensor {
        let (site, axes) = (Site::here(), axes.into());
        site.scope(|| self.logsumexp_keep(axes.clone()).squeezed_after(self, &axes))
    }
    /// log of the sum of exp(x) along axes, which keep size 1.
    #[track_caller]
    pub fn logsumexp_keep(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.then(|t| Ok(self.cast(t.dtype.to_float()).reduce(&OP, &axes)))
    }
}
