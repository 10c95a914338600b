//! `cos`: the cosine.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Cosine of an angle in radians, elementwise.
    cos(x) -> Float;
    float: f64::cos;
    code: "cos({0})";
    domain: (-4.0, 4.0);
    complex: on_complex!(|u| pairs::unary(u, |z| pairs::cosh(&pairs::times_i(z))));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| -(g * x.sin())));
    example: [0.0, 1.0] => [1.0, 0.5403023058681398], "Abramowitz and Stegun, table 4.6";
}
