//! `asinh`: the inverse hyperbolic sine.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Inverse hyperbolic sine, elementwise.
    asinh(x) -> Float;
    float: libm::asinh;
    code: "asinh({0})";
    complex: on_complex!(|u| pairs::unary(u, |z| pairs::over_i(&pairs::asin(&pairs::times_i(z)))));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * (x.square() + 1.0).rsqrt()));
    example: [0.0, 1.0] => [0.0, 0.881373587019543], "Abramowitz and Stegun, table 4.17: log(1 + sqrt 2)";
}
