//! `is_inf`: whether it is infinite.

crate::unary! {
    /// Whether it is infinite, of either sign, elementwise.
    is_inf(x) -> Bool;
    float: |x| x.is_infinite() as u8 as f64;
    int: Some(|_| 0);
    code: "is_inf({0})";
    domain: (-2.0, 2.0);
    grad: ir::Grad::Zero;
    example: [1.0, f64::NAN, -f64::INFINITY] => [0.0, 0.0, 1.0], "by hand";
}
