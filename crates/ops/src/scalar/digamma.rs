//! `digamma`: the slope of the logarithm of the gamma function.

use crate::rules::unary_grad;

crate::unary! {
    /// Digamma function: the derivative of `lgamma`, elementwise.
    digamma(x) -> Float;
    float: super::special::digamma;
    code: "digamma({0})";
    domain: (0.4, 4.0);
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * x.polygamma(1)));
    example: [1.0, 0.5, 2.0, -0.5] => [-0.5772156649015329, -1.9635100260214235, 0.4227843350984671, 0.03648997397857652], "Abramowitz and Stegun, 6.3.2 to 6.3.5";
}
