//! `hardswish`: silu in three pieces.

use crate::Tensor;

super::activation! {
    /// x times (x + 3) / 6 held in [0, 1], elementwise.
    hardswish();
    body: |x| x * x.hardsigmoid();
    grad: |x, _y, g| Tensor::where_(&x.le(-3.0), &g.zeros_like(), Tensor::where_(&x.lt(3.0), &(&g * (&x / 3.0 + 0.5)), &g));
    samples: (-4.0, 4.0) => [()];
    example: (), [-4.0, 0.0, 1.5, 6.0] => [0.0, 0.0, 1.125, 6.0], "by hand";
}
