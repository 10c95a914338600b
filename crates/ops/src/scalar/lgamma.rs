//! `lgamma`: the logarithm of the gamma function.

use crate::rules::unary_grad;

crate::unary! {
    /// Logarithm of the absolute value of the gamma function, elementwise.
    lgamma(x) -> Float;
    float: libm::lgamma;
    int: None;
    code: "lgamma({0})";
    domain: (0.3, 4.0);
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * x.digamma()));
    example: [1.0, 5.0, 0.5, -0.5] => [0.0, 3.1780538303479458, 0.5723649429247001, 1.2655121234846454], "log 4!, log sqrt(π), log(2 sqrt(π))";
}
