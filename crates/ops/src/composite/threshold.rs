//! `threshold`: values above a threshold.

use crate::Tensor;

super::activation! {
    /// x where it is above `limit`, else `value`, elementwise.
    threshold(limit, value);
    body: |x| Tensor::where_(&x.gt(limit), x, value);
    grad: |x, _y, g| Tensor::where_(&x.gt(limit), &g, 0.0);
    samples: (-4.0, 4.0) => [(0.1, 20.0), (-1.0, 0.0)];
    example: (0.5, 9.0), [0.25, 0.5, 2.0] => [9.0, 9.0, 2.0], "by hand";
}
