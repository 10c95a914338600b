//! `cosh`: the hyperbolic cosine.

use crate::rules::unary_grad;

crate::unary! {
    /// Hyperbolic cosine, elementwise.
    cosh(x) -> Float;
    float: f64::cosh;
    int: None;
    code: "cosh({0})";
    domain: (-2.0, 2.0);
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * x.sinh()));
    example: [0.0, 1.0] => [1.0, 1.5430806348152437], "Abramowitz and Stegun, table 4.15";
}
