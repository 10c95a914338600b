//! `tanh`: the hyperbolic tangent.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Hyperbolic tangent, elementwise.
    tanh(x) -> Float;
    float: f64::tanh;
    code: "tanh({0})";
    complex: on_complex!(|u| pairs::unary(u, pairs::tanh));
    grad: ir::Grad::Rule(|c| unary_grad(c, |_, y, g| g * (1.0 - y.square())));
    example: [0.0, 1.0] => [0.0, 0.7615941559557649], "Abramowitz and Stegun, table 4.15";
}
