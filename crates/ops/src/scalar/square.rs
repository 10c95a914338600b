//! `square`: the square.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// x times x, elementwise.
    square(x) -> Same;
    float: |x| x * x;
    int: |x| x.wrapping_mul(x);
    code: "({0} * {0})";
    cost: Instruction;
    complex: on_complex!(|u| pairs::unary(u, |z| pairs::mul(z, z)));
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * (x * 2.0)));
    example: [-1.5, 2.0] => [2.25, 4.0], "by hand";
}
