//! `cosh`: the hyperbolic cosine.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Hyperbolic cosine, elementwise.
    cosh(x) -> Float;
    float: f64::cosh;
    code: "cosh({0})";
    complex: on_complex!(|u| pairs::unary(u, pairs::cosh));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * x.sinh()));
    example: [0.0, 1.0] => [1.0, 1.5430806348152437], "Abramowitz and Stegun, table 4.15";
}
