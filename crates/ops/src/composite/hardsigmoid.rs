//! `hardsigmoid`: the sigmoid in three pieces.

use crate::Tensor;

super::activation! {
    /// (x + 3) / 6 held in [0, 1], elementwise.
    hardsigmoid();
    body: |x| x.hardtanh(-3.0, 3.0) / 6.0 + 0.5;
    grad: |x, _y, g| Tensor::where_(&x.gt(-3.0).and(x.lt(3.0)), &(&g / 6.0), 0.0);
    samples: (-4.0, 4.0) => [()];
    example: (), [-4.0, 0.0, 1.5, 3.0] => [0.0, 0.5, 0.75, 1.0], "by hand";
}
