//! `log10`: the logarithm to base 10.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Logarithm to base 10, elementwise; NaN for negative numbers.
    log10(x) -> Float;
    float: f64::log10;
    code: "log10({0})";
    domain: (0.1, 3.0);
    autocast: Wide;
    complex: on_complex!(|u| pairs::unary(u, |z| pairs::scaled(&pairs::log(z), 1.0 / std::f64::consts::LN_10)));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g / (x * std::f64::consts::LN_10)));
    example: [1.0, 1000.0, 2.0] => [0.0, 3.0, std::f64::consts::LOG10_2], "Abramowitz and Stegun, table 4.1";
}
