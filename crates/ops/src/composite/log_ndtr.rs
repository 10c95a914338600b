//! `log_ndtr`: the logarithm of the normal distribution function.

use crate::Tensor;

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2};

super::activation! {
    /// The logarithm of `ndtr` without underflow, elementwise.
    log_ndtr();
    body: |x| {
        let low = (x.clamp_max(0.0) * -FRAC_1_SQRT_2).erfcx().log() - x.square() * 0.5 - LN_2;
        let high = ((x.clamp_min(-1.0) * FRAC_1_SQRT_2).erfc() * -0.5).log1p();
        Tensor::where_(&x.lt(-1.0), &low, high)
    };
    grad: |x, y, g| g * (x.square() * -0.5 - y).exp() * (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2);
    samples: (-4.0, 4.0) => [()];
    example: (), [0.0, -1.0, -40.0] => [-LN_2, -1.8410216450092636, -804.6084420137538], "logarithms of Abramowitz and Stegun, tables 26.1 and 26.2";
}
