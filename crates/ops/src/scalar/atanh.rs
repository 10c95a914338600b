//! `atanh`: the inverse hyperbolic tangent.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Inverse hyperbolic tangent, elementwise; NaN outside [-1, 1].
    atanh(x) -> Float;
    float: libm::atanh;
    code: "atanh({0})";
    domain: (-0.9, 0.9);
    complex: on_complex!(|u| pairs::unary(u, pairs::atanh));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g / (1.0 - x.square())));
    example: [0.0, 0.5] => [0.0, 0.5493061443340549], "log(3) / 2";
}
