//! `sign`: the sign.

crate::unary! {
    /// -1, 0 or 1 by the sign, elementwise; 0 of both zeros, and NaN stays NaN.
    sign(x) -> Same;
    float: |x| if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else if x == 0.0 { 0.0 } else { x };
    int: Some(|x| x.signum());
    code: "({0} > 0 ? 1 : ({0} < 0 ? -1 : ({0} == 0 ? 0 : {0})))";
    domain: (-2.0, 2.0);
    grad: ir::Grad::Zero;
    example: [-1.5, 0.0, 2.0] => [-1.0, 0.0, 1.0], "by hand";
}
