//! `acosh`: the inverse hyperbolic cosine.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Inverse hyperbolic cosine, elementwise; NaN below 1.
    acosh(x) -> Float;
    // libm gives numbers for arguments far below 1.
    float: |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) };
    code: "acosh({0})";
    domain: (1.2, 3.0);
    complex: on_complex!(|u| pairs::unary(u, pairs::acosh));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * (x.square() - 1.0).rsqrt()));
    example: [1.0, 2.0] => [0.0, 1.3169578969248166], "log(2 + sqrt 3)";
}
