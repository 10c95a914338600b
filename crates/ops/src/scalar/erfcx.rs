//! `erfcx`: the scaled complement of the error function.

use crate::rules::unary_grad;

crate::unary! {
    /// exp(x²) erfc(x) without overflow, elementwise.
    erfcx(x) -> Float;
    float: super::special::erfcx;
    code: "erfcx({0})";
    domain: (-1.0, 2.0);
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, y, g| g * (x * y * 2.0 - std::f64::consts::FRAC_2_SQRT_PI)));
    example: [0.0, 1.0, 100.0] => [1.0, 0.427583576155807, 0.005641613782989433], "Abramowitz and Stegun, table 7.2 and 7.1.23";
}
