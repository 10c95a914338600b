//! `softshrink`: values pulled to zero.

use crate::Tensor;

super::activation! {
    /// x moved toward 0 by `lambda`, but not beyond 0, elementwise.
    softshrink(lambda);
    body: |x| x - x.hardtanh(-lambda, lambda);
    grad: |x, _y, g| Tensor::where_(&x.abs().le(lambda), &g.zeros_like(), &g);
    samples: (-4.0, 4.0) => [(0.5), (1.0)];
    example: (0.5), [-1.0, 0.25, 2.0] => [-0.5, 0.0, 1.5], "by hand";
}
