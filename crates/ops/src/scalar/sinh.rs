//! `sinh`: the hyperbolic sine.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Hyperbolic sine, elementwise.
    sinh(x) -> Float;
    float: f64::sinh;
    code: "sinh({0})";
    complex: on_complex!(|u| pairs::unary(u, pairs::sinh));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * x.cosh()));
    example: [0.0, 1.0] => [0.0, 1.1752011936438014], "Abramowitz and Stegun, table 4.15";
}
