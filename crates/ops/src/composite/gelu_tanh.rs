//! `gelu_tanh`: Gaussian error linear unit by tanh.

use crate::Tensor;

/// Weight of the cube.
const CUBE: f64 = 0.044715;
/// sqrt(2 / π).
const ROOT: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;

/// What the hyperbolic tangent is taken of.
fn inner(x: &Tensor) -> Tensor {
    (x.square() * (CUBE * ROOT) + ROOT) * x
}

super::activation! {
    /// x Φ(x) with Φ approximated by tanh, elementwise: 0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³))).
    gelu_tanh();
    body: |x| x * (inner(x).tanh() + 1.0) * 0.5;
    grad: |x, _y, g| {
        let t = inner(&x).tanh();
        let slope = (x.square() * (3.0 * CUBE) + 1.0) * ROOT;
        g * ((&t + 1.0) * 0.5 + &x * (1.0 - t.square()) * slope * 0.5)
    };
    samples: (-4.0, 4.0) => [()];
    example: (), [0.0, 1.0, -1.0] => [0.0, 0.8411919906082768, -0.15880800939172324], "hand arithmetic of the formula";
}
