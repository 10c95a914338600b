//! `gelu_grad`: the derivative of `gelu`.

use crate::Tensor;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// The normal density φ.
fn density(x: &Tensor) -> Tensor {
    (x.square() * -0.5).exp() * (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2)
}

super::activation! {
    /// The derivative of `gelu`, elementwise: Φ(x) + x φ(x).
    gelu_grad();
    body: |x| ((x * FRAC_1_SQRT_2).erf() + 1.0) * 0.5 + x * density(x);
    grad: |x, _y, g| g * (density(&x) * (2.0 - x.square()));
    samples: (-4.0, 4.0) => [()];
    example: (), [0.0, 1.0] => [0.5, 1.0833154705876864], "Abramowitz and Stegun, table 26.1: 0.84134 + 0.24197";
}
