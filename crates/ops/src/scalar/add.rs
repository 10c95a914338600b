//! `add`: the sum.

use crate::rules::binary_grad;

crate::binary! {
    /// Sum, elementwise. For bool: logical or.
    add(a, b) -> Same;
    float: |a, b| a + b;
    int: |a, b| a.wrapping_add(b);
    code: "({0} + {1})";
    neutral: Some((-0.0, true));
    cost: Instruction;
    linear: true;
    grad: ir::Grad::Rule(|c| binary_grad(c, |_, _, _, g| (g.clone(), g)));
    example: [1.5, -2.0], [2.0, 0.5] => [3.5, -1.5], "by hand";
}
