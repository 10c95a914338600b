//! `mul`: the product.

use crate::pairs;
use crate::rules::binary_grad;

crate::binary! {
    /// Product, elementwise. For bool: logical and.
    mul(a, b) -> Same;
    float: |a, b| a * b;
    int: |a, b| a.wrapping_mul(b);
    code: "({0} * {1})";
    neutral: Some((1.0, true));
    cost: Instruction;
    linear_in: &[0, 1];
    complex: on_complex!(|u| pairs::binary(u, pairs::mul));
    grad: ir::Grad::Rule(|c| binary_grad(c, |a, b, _, g| (&g * b, g * a)));
    example: [1.5, -2.0], [2.0, 0.5] => [3.0, -1.0], "by hand";
}
