//! `erf`: the error function.

use crate::rules::unary_grad;

crate::unary! {
    /// Error function 2/sqrt(π) ∫₀ˣ exp(-t²) dt, elementwise.
    erf(x) -> Float;
    float: libm::erf;
    code: "erf({0})";
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * (-x.square()).exp() * std::f64::consts::FRAC_2_SQRT_PI));
    example: [0.0, 0.5, 1.0] => [0.0, 0.5204998778130465, 0.8427007929497149], "Abramowitz and Stegun, table 7.1";
}
