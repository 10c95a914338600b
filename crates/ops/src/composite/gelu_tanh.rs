//! `gelu_tanh`: Gaussian error linear unit by tanh.

use crate::Tensor;

/// Weight of the cube.
pub(super) const CUBE: f64 = 0.044715;
/// sqrt(2 / π).
pub(super) const ROOT: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;

/// What the hyperbolic tangent is taken of.
pub(super) fn inner(x: &Tensor) -> Tensor {
    (x.square() * (CUBE * ROOT) + ROOT) * x
}

super::activation! {
    /// x Φ(x) with Φ approximated by tanh, elementwise: 0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³))).
    gelu_tanh();
    // (1 + tanh(u)) / 2 is sigmoid(2 u), which is quicker and loses nothing where both are small.
    body: |x| x * (inner(x) * 2.0).sigmoid();
    grad: |x, _y, g| g * x.gelu_tanh_grad();
    samples: (-4.0, 4.0) => [()];
    example: (), [0.0, 1.0, -1.0] => [0.0, 0.8411919906082768, -0.15880800939172324], "hand arithmetic of the formula";
}
