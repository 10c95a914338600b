//! `is_nan`: whether it is NaN.

crate::unary! {
    /// Whether it is not a number, elementwise.
    is_nan(x) -> Bool;
    float: |x| x.is_nan() as u8 as f64;
    int: Some(|_| 0);
    code: "({0} != {0})";
    domain: (-2.0, 2.0);
    grad: ir::Grad::Zero;
    example: [1.0, f64::NAN, f64::INFINITY] => [0.0, 1.0, 0.0], "by hand";
}
