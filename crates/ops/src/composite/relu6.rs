//! `relu6`: min(max(x, 0), 6).

use crate::Tensor;

super::activation! {
    /// x held in [0, 6], elementwise; the derivative at the ends is 0.
    relu6();
    body: |x| x.hardtanh(0.0, 6.0);
    grad: |x, _y, g| Tensor::where_(&x.gt(0.0).and(x.lt(6.0)), &g, 0.0);
    samples: (-4.0, 4.0) => [()];
    example: (), [-2.0, 0.5, 7.0] => [0.0, 0.5, 6.0], "by hand";
}
