//! `sign`: the sign.

use crate::pairs;

crate::unary! {
    /// -1, 0 or 1 by the sign, elementwise; 0 of both zeros, and NaN stays NaN.
    sign(x) -> Same;
    float: |x| if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else if x == 0.0 { 0.0 } else { x };
    int: |x| x.signum();
    code: "({0} > 0 ? 1 : ({0} < 0 ? -1 : ({0} == 0 ? 0 : {0})))";
    cost: Instruction;
    complex: on_complex!(|u| pairs::unary(u, pairs::sign));
    grad: ir::Grad::Zero;
    example: [-1.5, 0.0, 2.0] => [-1.0, 0.0, 1.0], "by hand";
}
