//! `sqrt`: the square root.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Square root, elementwise; NaN for negative numbers.
    sqrt(x) -> Float;
    float: f64::sqrt;
    code: "sqrt({0})";
    domain: (0.1, 3.0);
    cost: Division;
    complex: on_complex!(|u| pairs::unary(u, pairs::sqrt));
    grad: ir::Grad::Rule(|c| unary_grad(c, |_, y, g| g / (y * 2.0)));
    example: [0.0, 2.0, 9.0] => [0.0, std::f64::consts::SQRT_2, 3.0], "Abramowitz and Stegun, table 1.1";
}
