//! `is_inf`: whether it is infinite.

use crate::pairs;

crate::unary! {
    /// Whether it is infinite, of either sign, elementwise.
    is_inf(x) -> Bool;
    float: |x| x.is_infinite() as u8 as f64;
    int: |_| 0;
    code: "is_inf({0})";
    cost: Short;
    complex: on_complex!(|u| pairs::real(u, |z| z.re.is_inf().or(z.im.is_inf())));
    grad: ir::Grad::Zero;
    example: [1.0, f64::NAN, -f64::INFINITY] => [0.0, 0.0, 1.0], "by hand";
}
