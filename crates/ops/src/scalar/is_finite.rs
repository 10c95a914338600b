//! `is_finite`: whether it is finite.

use crate::pairs;

crate::unary! {
    /// Whether it is neither infinite nor NaN, elementwise.
    is_finite(x) -> Bool;
    float: |x| x.is_finite() as u8 as f64;
    int: |_| 1;
    code: "is_finite({0})";
    cost: Short;
    complex: on_complex!(|u| pairs::real(u, |z| z.re.is_finite().and(z.im.is_finite())));
    grad: ir::Grad::Zero;
    example: [1.0, f64::NAN, -f64::INFINITY] => [1.0, 0.0, 0.0], "by hand";
}
