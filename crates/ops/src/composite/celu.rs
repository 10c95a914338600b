//! `celu`: continuously differentiable exponential linear unit.

use crate::Tensor;

super::activation! {
    /// x where it is positive, else alpha (exp(x / alpha) - 1), elementwise.
    celu(alpha);
    body: |x| Tensor::where_(&x.gt(0.0), x, (x.clamp_max(0.0) / alpha).expm1() * alpha);
    grad: |x, _y, g| Tensor::where_(&x.gt(0.0), &g, &g * (x.clamp_max(0.0) / alpha).exp());
    samples: (-4.0, 4.0) => [(1.0), (0.5)];
    example: (2.0), [-2.0, 0.0, 3.0] => [-1.2642411176571153, 0.0, 3.0], "by hand: 2 (1/e - 1)";
}
