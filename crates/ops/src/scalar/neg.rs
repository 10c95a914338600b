//! `neg`: the negative.

use crate::rules::unary_grad;

crate::unary! {
    /// Negative, elementwise.
    neg(x) -> Same;
    float: |x| -x;
    int: |x| x.wrapping_neg();
    code: "(-{0})";
    cost: Instruction;
    linear: true;
    grad: ir::Grad::Rule(|c| unary_grad(c, |_, _, g| -g));
    example: [1.5, -2.0] => [-1.5, 2.0], "by hand";
}
