//! `layer_norm_grad`: the gradient of `layer_norm`.

use super::layer_norm::normalized;
use super::norm::gradients;
use crate::Tensor;
use crate::rules::{expand, f64s, floats};
use ir::{AttrKind, Attrs, Case, Meaning, Op};

/// The row of `layer_norm_grad`.
pub static OP: Op = Op {
    name: "layer_norm_grad",
    doc: "The gradient of `layer_norm` with respect to its input x, from x and the gradient g of the result; if the weight \
          is given as well, also with respect to the weight and the bias.",
    attrs: &[("axes", AttrKind::Int), ("eps", AttrKind::Float)],
    infer: |c| gradients(c, 2),
    meaning: Meaning::Composite(|c, args| {
        let (n, eps, rank) = (c.attrs.size("axes")?, c.attrs.float("eps")?, c.shape(0).rank());
        let (last, first): (Vec<usize>, Vec<usize>) = (0..rank).partition(|&i| i >= rank - n);
        expand(args, |t| {
            let (x, g) = (t[0].widened(), t[1].widened());
            let (y, scale) = normalized(&x, n, eps);
            let weighted = t.get(2).map_or(g.clone(), |w| &g * w.widened());
            let along = (&weighted * &y).mean_keep(last.as_slice());
            let mean = weighted.mean_keep(last.as_slice());
            let dx = ((weighted - mean - &y * along) * scale).cast(c.dtype(0));
            if t.len() < 3 {
                return Ok(vec![dx]);
            }
            let onto = |t: Tensor| t.sum(first.as_slice()).cast(c.dtype(0));
            Ok(vec![dx, onto(&g * y), onto(g)])
        })
    }),
    cases: || {
        let over = |n: i64, eps: f64| Attrs::new().with("axes", n).with("eps", eps);
        vec![
            Case::new(vec![floats([2, 3], 1), floats([2, 3], 2)], over(1, 0.1)),
            Case::new(vec![floats([2, 2, 2], 3), floats([2, 2, 2], 4), floats([2, 2], 5)], over(2, 0.5)),
            Case::new(vec![f64s([2], &[1.0, 5.0]), f64s([2], &[4.0, 2.0]), f64s([2], &[1.0, 1.0])], over(1, 0.0))
                // y is [-1, 1], and two points are always one deviation from their mean.
                .expect(vec![f64s([2], &[0.0, 0.0]), f64s([2], &[-4.0, 2.0]), f64s([2], &[4.0, 2.0])], "by hand")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};
