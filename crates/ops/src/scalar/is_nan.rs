//! `is_nan`: whether it is NaN.

use crate::pairs;

crate::unary! {
    /// Whether it is not a number, elementwise.
    is_nan(x) -> Bool;
    float: |x| x.is_nan() as u8 as f64;
    int: |_| 0;
    code: "({0} != {0})";
    cost: Instruction;
    complex: on_complex!(|u| pairs::real(u, |z| z.re.is_nan().or(z.im.is_nan())));
    grad: ir::Grad::Zero;
    example: [1.0, f64::NAN, f64::INFINITY] => [0.0, 1.0, 0.0], "by hand";
}
