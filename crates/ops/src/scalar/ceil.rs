//! `ceil`: rounding up.

crate::unary! {
    /// The smallest integer not less than x, elementwise.
    ceil(x) -> Same;
    float: f64::ceil;
    int: |x| x;
    code: "ceil({0})";
    domain: (-3.0, 3.0);
    cost: Short;
    grad: ir::Grad::Zero;
    example: [-1.5, 1.5] => [-1.0, 2.0], "by hand";
}
