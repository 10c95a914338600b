//! `log1p`: the logarithm of one more.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// log(1 + x) without cancellation near 0, elementwise.
    log1p(x) -> Float;
    float: f64::ln_1p;
    code: "log1p({0})";
    domain: (-0.5, 2.0);
    autocast: Wide;
    complex: on_complex!(|u| pairs::unary(u, pairs::log1p));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g / (x + 1.0)));
    example: [0.0, 1.0, 1e-10] => [0.0, std::f64::consts::LN_2, 9.9999999995e-11], "Abramowitz and Stegun, table 4.2";
}
