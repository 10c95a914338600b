//! `asin`: the inverse sine.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// The angle in [-π/2, π/2] with this sine, elementwise; NaN outside [-1, 1].
    asin(x) -> Float;
    float: f64::asin;
    code: "asin({0})";
    domain: (-0.9, 0.9);
    complex: on_complex!(|u| pairs::unary(u, pairs::asin));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * (1.0f64 - x.square()).rsqrt()));
    example: [0.0, 0.5, 1.0] => [0.0, std::f64::consts::FRAC_PI_6, std::f64::consts::FRAC_PI_2], "exact angles";
}
