//! `log2`: the logarithm to base 2.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Logarithm to base 2, elementwise; NaN for negative numbers.
    log2(x) -> Float;
    float: f64::log2;
    code: "log2({0})";
    domain: (0.1, 3.0);
    autocast: Wide;
    complex: on_complex!(|u| pairs::unary(u, |z| pairs::scaled(&pairs::log(z), 1.0 / std::f64::consts::LN_2)));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g / (x * std::f64::consts::LN_2)));
    example: [1.0, 8.0, 0.5] => [0.0, 3.0, -1.0], "by hand";
}
