//! `gelu_tanh_grad`: the derivative of `gelu_tanh`.

use super::gelu_tanh::{CUBE, ROOT, inner};
use crate::Tensor;

/// The slope of what the hyperbolic tangent is taken of.
fn slope(x: &Tensor) -> Tensor {
    x.square() * (3.0 * CUBE * ROOT) + ROOT
}

super::activation! {
    /// The derivative of `gelu_tanh`, elementwise.
    gelu_tanh_grad();
    body: |x| {
        let s = (inner(x) * 2.0).sigmoid();
        &s + x * (&s * (1.0 - &s)) * slope(x) * 2.0
    };
    grad: |x, _y, g| {
        let t = inner(&x).tanh();
        let (sech, u) = (1.0 - t.square(), slope(&x));
        let bend = &x * (6.0 * CUBE * ROOT) - t * u.square() * 2.0;
        g * sech * (u + x * bend * 0.5)
    };
    samples: (-4.0, 4.0) => [()];
    example: (), [0.0] => [0.5], "by symmetry";
}
