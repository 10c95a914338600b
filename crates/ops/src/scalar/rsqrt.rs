//! `rsqrt`: the reciprocal of the square root.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// 1 / sqrt(x), elementwise.
    rsqrt(x) -> Float;
    float: |x| 1.0 / x.sqrt();
    code: "rsqrt({0})";
    domain: (0.2, 3.0);
    cost: Division;
    complex: on_complex!(|u| pairs::unary(u, |z| pairs::div(&pairs::one(z), &pairs::sqrt(z))));
    grad: ir::Grad::Rule(|c| unary_grad(c, |_, y, g| g * (&y * &y * y) * -0.5));
    example: [1.0, 4.0, 0.25] => [1.0, 0.5, 2.0], "by hand";
}
