//! `acos`: the inverse cosine.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// The angle in [0, π] with this cosine, elementwise; NaN outside [-1, 1].
    acos(x) -> Float;
    float: f64::acos;
    code: "acos({0})";
    domain: (-0.9, 0.9);
    complex: on_complex!(|u| pairs::unary(u, pairs::acos));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| -(g * (1.0f64 - x.square()).rsqrt())));
    example: [1.0, 0.5, 0.0] => [0.0, std::f64::consts::FRAC_PI_3, std::f64::consts::FRAC_PI_2], "exact angles";
}
