//! `is_finite`: whether it is finite.

crate::unary! {
    /// Whether it is neither infinite nor NaN, elementwise.
    is_finite(x) -> Bool;
    float: |x| x.is_finite() as u8 as f64;
    int: Some(|_| 1);
    code: "is_finite({0})";
    domain: (-2.0, 2.0);
    grad: ir::Grad::Zero;
    example: [1.0, f64::NAN, -f64::INFINITY] => [1.0, 0.0, 0.0], "by hand";
}
