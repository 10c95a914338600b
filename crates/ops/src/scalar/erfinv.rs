//! `erfinv`: the inverse of the error function.

use crate::rules::unary_grad;

crate::unary! {
    /// The number with this error function, elementwise; NaN outside [-1, 1].
    erfinv(x) -> Float;
    float: super::special::erfinv;
    code: "erfinv({0})";
    domain: (-0.9, 0.9);
    grad: ir::Grad::Rule(|c| unary_grad(c, |_, y, g| g * y.square().exp() / std::f64::consts::FRAC_2_SQRT_PI));
    example: [0.0, 0.5, 1.0] => [0.0, 0.4769362762044699, f64::INFINITY], "OEIS A069286";
}
