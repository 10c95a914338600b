//! `atan`: the inverse tangent.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// The angle in (-π/2, π/2) with this tangent, elementwise.
    atan(x) -> Float;
    float: f64::atan;
    code: "atan({0})";
    complex: on_complex!(|u| pairs::unary(u, |z| pairs::over_i(&pairs::atanh(&pairs::times_i(z)))));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g / (x.square() + 1.0)));
    example: [0.0, 1.0] => [0.0, std::f64::consts::FRAC_PI_4], "exact angles";
}
