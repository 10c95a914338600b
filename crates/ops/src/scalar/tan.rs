//! `tan`: the tangent.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Tangent of an angle in radians, elementwise.
    tan(x) -> Float;
    float: f64::tan;
    code: "tan({0})";
    domain: (-1.2, 1.2);
    cost: Special;
    complex: on_complex!(|u| pairs::unary(u, |z| pairs::over_i(&pairs::tanh(&pairs::times_i(z)))));
    grad: ir::Grad::Rule(|c| unary_grad(c, |_, y, g| g * (y.square() + 1.0)));
    example: [0.0, 1.0] => [0.0, 1.5574077246549023], "Abramowitz and Stegun, table 4.9";
}
