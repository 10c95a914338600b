//! `fmod`: the remainder with the sign of the dividend.

use crate::rules::binary_grad;

crate::binary! {
    /// Remainder with the sign of `a`, as C's `fmod`, elementwise; integer division by 0 returns 0.
    fmod(a, b) -> Same;
    float: |a, b| a % b;
    int: |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) };
    code: "fmod({0}, {1})";
    domain: (0.6, 2.0);
    grad: ir::Grad::Rule(|c| binary_grad(c, |a, b, _, g| (g.clone(), -(g * (a / b).trunc()))));
    example: [5.0, -5.0, 5.0], [3.0, 3.0, -3.0] => [2.0, -2.0, 2.0], "C standard: fmod has the sign of the first operand";
}
