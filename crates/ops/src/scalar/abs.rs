//! `abs`: the absolute value.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// Absolute value, elementwise; the derivative at 0 is 0.
    abs(x) -> Same;
    float: f64::abs;
    int: |x| x.wrapping_abs();
    code: "abs({0})";
    cost: Short;
    complex: on_complex!(|u| pairs::real(u, pairs::Pair::abs));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * x.sign()));
    example: [-1.5, 0.0, 2.0] => [1.5, 0.0, 2.0], "by hand";
}
