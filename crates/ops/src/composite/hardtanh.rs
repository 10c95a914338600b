//! `hardtanh`: the value held in an interval.

use crate::Tensor;

super::activation! {
    /// x held in [lo, hi], elementwise; the derivative at the ends is 0.
    hardtanh(lo, hi);
    body: |x| x.maximum(lo).minimum(hi);
    grad: |x, _y, g| Tensor::where_(&x.gt(lo).and(x.lt(hi)), &g, 0.0);
    samples: (-4.0, 4.0) => [(-1.0, 1.0), (-0.5, 2.5)];
    example: (-1.0, 1.0), [-2.0, 0.5, 3.0] => [-1.0, 0.5, 1.0], "by hand";
}
