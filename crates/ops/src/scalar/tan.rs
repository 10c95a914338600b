//! `tan`: the tangent.

use crate::rules::unary_grad;

crate::unary! {
    /// Tangent of an angle in radians, elementwise.
    tan(x) -> Float;
    float: f64::tan;
    int: None;
    code: "tan({0})";
    domain: (-1.2, 1.2);
    grad: ir::Grad::Rule(|c| unary_grad(c, |_, y, g| g * (y.square() + 1.0)));
    example: [0.0, 1.0] => [0.0, 1.5574077246549023], "Abramowitz and Stegun, table 4.9";
}
