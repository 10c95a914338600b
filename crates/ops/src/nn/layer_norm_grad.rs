//! `layer_norm_grad`: the gradient of `layer_norm`.

use super::layer_norm::normalized;
use crate::rules::{expand, f64s, float, floats, one_dtype};
use crate::{Error, Tensor};
use ir::{AttrKind, Attrs, Batch, Case, Grad, Meaning, Op, Shape};

/// The row of `layer_norm_grad`.
pub static OP: Op = Op {
    name: "layer_norm_grad",
    doc: "The gradient of `layer_norm` with respect to its input x, from x and the gradient g of the result; if the weight \
          is given as well, also with respect to the weight and the bias.",
    attrs: &[("axes", AttrKind::Int), ("eps", AttrKind::Float)],
    infer: |c| {
        if c.types.len() < 2 || c.types.len() > 3 {
            return Err(Error::value(format!("takes 2 or 3 inputs, but {} were given", c.types.len())));
        }
        float(c, 0)?;
        one_dtype(c)?;
        let (n, rank) = (c.attrs.size("axes")?, c.shape(0).rank());
        if n == 0 || n > rank || c.shape(0) != c.shape(1) {
            let e = format!("no gradient {} of the last {n} dimensions of {}", c.shape(1), c.shape(0));
            return Err(Error::shape(e));
        }
        let inner = Shape::new(&c.shape(0).dims()[rank - n..]);
        match c.types.get(2) {
            None => Ok([c.types[0].clone()].into_iter().collect()),
            Some(w) if w.shape == inner => {
                Ok(std::iter::once(c.types[0].clone()).chain(std::iter::repeat_n(w.clone(), 2)).collect())
            }
            Some(w) => {
                Err(Error::shape(format!("the weight is {}, but the normalized dimensions are {inner}", w.shape)))
            }
        }
    },
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
    grad: Grad::Expand,
    batch: Batch::Auto,
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
};
