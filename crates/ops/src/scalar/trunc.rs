//! `trunc`: rounding toward zero.

crate::unary! {
    /// The whole part, elementwise: rounds toward zero.
    trunc(x) -> Same;
    float: f64::trunc;
    int: |x| x;
    code: "trunc({0})";
    domain: (-3.0, 3.0);
    cost: Short;
    grad: ir::Grad::Zero;
    example: [-1.7, 1.7] => [-1.0, 1.0], "by hand";
}
