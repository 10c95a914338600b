//! `hardshrink`: small values removed.

use crate::Tensor;

super::activation! {
    /// x, but 0 where its size is not above `lambda`, elementwise.
    hardshrink(lambda);
    body: |x| Tensor::where_(&x.abs().le(lambda), &x.zeros_like(), x);
    grad: |x, _y, g| Tensor::where_(&x.abs().le(lambda), &g.zeros_like(), &g);
    samples: (-4.0, 4.0) => [(0.5), (1.0)];
    example: (0.5), [-1.0, 0.25, 0.5, 2.0] => [-1.0, 0.0, 0.0, 2.0], "by hand";
}
