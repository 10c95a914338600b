//! `rem`: the remainder.

use crate::rules::binary_grad;

crate::binary! {
    /// Remainder with the sign of the divisor, as Python's `%`, elementwise; integer division by 0 returns 0.
    rem(a, b) -> Same;
    float: |a, b| { let r = a % b; if r == 0.0 { r.copysign(b) } else if (r < 0.0) != (b < 0.0) { r + b } else { r } };
    int: |a, b| if b == 0 { 0 } else { let r = a.wrapping_rem(b); if r != 0 && (r < 0) != (b < 0) { r + b } else { r } };
    code: "py_rem({0}, {1})";
    domain: (0.6, 2.0);
    grad: ir::Grad::Rule(|c| binary_grad(c, |a, b, _, g| (g.clone(), -(g * a.floor_divide(b)))));
    example: [5.0, -5.0, 5.0], [3.0, 3.0, -3.0] => [2.0, 1.0, -1.0], "Python manual: % has the sign of the second operand";
}
