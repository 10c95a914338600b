//! `sin`: the sine.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Sine of an angle in radians, elementwise.
    sin(x) -> Float;
    float: f64::sin;
    code: "sin({0})";
    domain: (-4.0, 4.0);
    complex: on_complex!(|u| pairs::unary(u, |z| pairs::over_i(&pairs::sinh(&pairs::times_i(z)))));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * x.cos()));
    example: [0.0, 1.0] => [0.0, 0.8414709848078965], "Abramowitz and Stegun, table 4.6";
}
