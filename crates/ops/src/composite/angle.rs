//! `angle`: the angle in the complex plane.

use crate::{Tensor, pairs};

super::activation! {
    /// 0 for numbers that are not negative, π for the others, elementwise; NaN stays NaN.
    angle();
    complex: on_complex!(|u| pairs::real(u, pairs::Pair::angle));
    body: |x| Tensor::where_(&x.is_nan(), x, Tensor::where_(&x.lt(0.0), &x.full_like(std::f64::consts::PI), x.zeros_like()));
    grad: |x, _y, g| g * x.zeros_like();
    samples: (-4.0, 4.0) => [()];
    example: (), [1.0, -1.0] => [0.0, std::f64::consts::PI], "by definition";
}
