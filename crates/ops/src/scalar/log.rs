//! `log`: the natural logarithm.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Natural logarithm, elementwise; NaN for negative numbers.
    log(x) -> Float;
    float: f64::ln;
    code: "log({0})";
    domain: (0.1, 3.0);
    autocast: Wide;
    complex: on_complex!(|u| pairs::unary(u, pairs::log));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g / x));
    example: [1.0, 2.0] => [0.0, std::f64::consts::LN_2], "Abramowitz and Stegun, table 4.2";
}
