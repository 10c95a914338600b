//! `ndtr`: the normal distribution function.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

super::activation! {
    /// The probability that a normal variable is not above x, elementwise.
    ndtr();
    body: |x| (x * -FRAC_1_SQRT_2).erfc() * 0.5;
    grad: |x, _y, g| g * (x.square() * -0.5).exp() * (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2);
    samples: (-4.0, 4.0) => [()];
    example: (), [0.0, 1.0, -1.0] => [0.5, 0.8413447460685429, 0.15865525393145707], "Abramowitz and Stegun, table 26.1";
}
