//! `hypot`: the length of a hypotenuse.

use crate::rules::binary_grad;

crate::binary! {
    /// sqrt(a² + b²) without overflow, elementwise.
    hypot(a, b) -> Float;
    float: f64::hypot;
    code: "hypot({0}, {1})";
    domain: (0.5, 2.0);
    grad: ir::Grad::Rule(|c| binary_grad(c, |a, b, y, g| (&g * (a / &y), g * (b / y))));
    example: [3.0, 1e200], [4.0, 1e200] => [5.0, std::f64::consts::SQRT_2 * 1e200], "by hand";
}
