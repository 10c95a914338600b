//! `gelu`: Gaussian error linear unit.

use std::f64::consts::FRAC_1_SQRT_2;

super::activation! {
    /// x Φ(x) with the normal distribution function Φ, elementwise; exact, by the error function.
    gelu();
    body: |x| x * ((x * FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
    grad: |x, _y, g| g * x.gelu_grad();
    samples: (-4.0, 4.0) => [()];
    example: (), [0.0, 1.0, -1.0] => [0.0, 0.8413447460685429, -0.15865525393145707], "Abramowitz and Stegun, table 26.1";
}
