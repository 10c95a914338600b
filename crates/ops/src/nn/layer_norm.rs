//! `layer_norm`: the last dimensions moved to mean 0 and scaled to variance 1.

use super::norm::{BATCH_LAST, affine, inputs, last_dimensions};
use crate::Tensor;
use crate::rules::{GradTensors, expand1, f64s, floats, maybe_grads, same};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Op};

/// The row of `layer_norm`.
pub static OP: Op = Op {
    name: "layer_norm",
    doc: "x moved to mean 0 and scaled to variance 1 over the last `axes` dimensions, with eps under the root; then times a weight and plus a bias, if given.",
    attrs: &[("axes", AttrKind::Int), ("eps", AttrKind::Float)],
    infer: |c| {
        last_dimensions(c, 3)?;
        same(c, 0)
    },
    meaning: Meaning::Composite(|c, args| {
        let (eps, shape) = (c.attrs.float("eps")?, last_dimensions(c, 3)?);
        expand1(args, |t| {
            let x = t[0].widened();
            let (y, _) = normalized(&x, shape.rank(), eps);
            affine(y, t.get(1), t.get(2), &shape).cast(c.dtype(0))
        })
    }),
    grad: Grad::Rule(|c| {
        // A device may do all of it in one pass.
        let mut inputs = vec![c.x(0), c.g(0)];
        inputs.extend((c.inputs.len() > 1).then(|| c.x(1)));
        let outs = Tensor::apply(&super::layer_norm_grad::OP, &inputs.iter().collect::<Vec<_>>(), c.attrs.clone());
        maybe_grads(outs.into_iter().take(c.inputs.len()).map(Some).collect())
    }),
    batch: BATCH_LAST,
    cases: || {
        let over = |n: i64, eps: f64| Attrs::new().with("axes", n).with("eps", eps);
        vec![
            Case::new(vec![floats([2, 3], 1)], over(1, 1e-5)),
            Case::new(vec![floats([2, 3], 2), floats([3], 3), floats([3], 4)], over(1, 0.1)),
            Case::new(vec![floats([2, 2, 2], 5), floats([2, 2], 6)], over(2, 0.5)),
            Case::new(vec![f64s([2, 2], &[1.0, 5.0, 3.0, 9.0])], over(1, 0.0))
                .expect(vec![f64s([2, 2], &[-1.0, 1.0, -1.0, 1.0])], "by hand: one deviation below and above the mean")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

/// The last `n` dimensions at mean 0 and variance 1, and the factor that brought them there.
pub(super) fn normalized(x: &Tensor, n: usize, eps: f64) -> (Tensor, Tensor) {
    let last: Vec<i64> = (1..=n as i64).map(|i| -i).collect();
    let centered = x - x.mean_keep(&last);
    let scale = (centered.square().mean_keep(&last) + eps).rsqrt();
    (centered * &scale, scale)
}

impl Tensor {
    /// x moved to mean 0 and scaled to variance 1 over the last `axes` dimensions; then times a
    /// weight and plus a bias of their shape, if given.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[1.0f64, 5.0]]);
    /// assert_eq!(x.layer_norm(1, None, None, 0.0).to_vec::<f64>().unwrap(), [-1.0, 1.0]);
    /// ```
    #[track_caller]
    pub fn layer_norm(&self, axes: usize, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
        self.then(|_| {
            let inputs = inputs(self, weight, bias)?;
            let attrs = Attrs::new().with("axes", axes).with("eps", eps);
            Ok(Tensor::apply1(&OP, &inputs.iter().collect::<Vec<_>>(), attrs))
        })
    }
}
