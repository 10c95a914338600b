//! `exp`: the exponential.

use crate::rules::unary_grad;

crate::unary! {
    /// Exponential, elementwise.
    exp(x) -> Float;
    float: f64::exp;
    int: None;
    code: "exp({0})";
    domain: (-2.0, 2.0);
    grad: ir::Grad::Rule(|c| unary_grad(c, |_, y, g| g * y));
    example: [0.0, 1.0] => [1.0, std::f64::consts::E], "Abramowitz and Stegun, table 4.4";
}
