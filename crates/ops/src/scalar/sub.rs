//! `sub`: the difference.

use crate::rules::binary_grad;

crate::binary! {
    /// Difference, elementwise.
    sub(a, b) -> Same;
    float: |a, b| a - b;
    int: |a, b| a.wrapping_sub(b);
    code: "({0} - {1})";
    neutral: Some((0.0, false));
    cost: Instruction;
    linear: true;
    grad: ir::Grad::Rule(|c| binary_grad(c, |_, _, _, g| (g.clone(), -g)));
    example: [1.5, -2.0], [2.0, 0.5] => [-0.5, -2.5], "by hand";
}
