//! `erfc`: the complement of the error function.

use crate::rules::unary_grad;

crate::unary! {
    /// 1 - erf(x) without cancellation for large x, elementwise.
    erfc(x) -> Float;
    float: libm::erfc;
    code: "erfc({0})";
    cost: Special;
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| -(g * (-x.square()).exp() * std::f64::consts::FRAC_2_SQRT_PI)));
    example: [0.0, 0.5, 1.0] => [1.0, 0.4795001221869535, 0.1572992070502851], "Abramowitz and Stegun, table 7.1";
}
