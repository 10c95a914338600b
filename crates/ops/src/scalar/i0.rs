//! `i0`: a Bessel function of order 0.

use crate::rules::unary_grad;

crate::unary! {
    /// Modified Bessel function of the first kind of order 0, elementwise.
    i0(x) -> Float;
    float: super::special::i0;
    code: "cyl_bessel_i0({0})";
    domain: (-3.0, 3.0);
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * x.i1()));
    example: [0.0, 1.0, -2.0] => [1.0, 1.2660658777520084, 2.2795853023360673], "Abramowitz and Stegun, table 9.8";
}
