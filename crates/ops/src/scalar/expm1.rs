//! `expm1`: the exponential less one.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// exp(x) - 1 without cancellation near 0, elementwise.
    expm1(x) -> Float;
    float: f64::exp_m1;
    code: "expm1({0})";
    autocast: Wide;
    complex: on_complex!(|u| pairs::unary(u, pairs::expm1));
    grad: ir::Grad::Rule(|c| unary_grad(c, |_, y, g| g * (y + 1.0)));
    example: [0.0, 1.0, 1e-10] => [0.0, 1.718281828459045, 1.00000000005e-10], "series e - 1 = 1 + 1/2 + 1/6 + …";
}
