//! `sinh`: the hyperbolic sine.

use crate::rules::unary_grad;

crate::unary! {
    /// Hyperbolic sine, elementwise.
    sinh(x) -> Float;
    float: f64::sinh;
    int: None;
    code: "sinh({0})";
    domain: (-2.0, 2.0);
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * x.cosh()));
    example: [0.0, 1.0] => [0.0, 1.1752011936438014], "Abramowitz and Stegun, table 4.15";
}
