//! `exp`: the exponential.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Exponential, elementwise.
    exp(x) -> Float;
    float: f64::exp;
    code: "exp({0})";
    autocast: Wide;
    complex: on_complex!(|u| pairs::unary(u, pairs::exp));
    grad: ir::Grad::Rule(|c| unary_grad(c, |_, y, g| g * y));
    example: [0.0, 1.0] => [1.0, std::f64::consts::E], "Abramowitz and Stegun, table 4.4";
}
