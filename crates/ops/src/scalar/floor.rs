//! `floor`: rounding down.

crate::unary! {
    /// The largest integer not greater than x, elementwise.
    floor(x) -> Same;
    float: f64::floor;
    int: |x| x;
    code: "floor({0})";
    domain: (-3.0, 3.0);
    cost: Short;
    grad: ir::Grad::Zero;
    example: [-1.5, 1.5] => [-2.0, 1.0], "by hand";
}
