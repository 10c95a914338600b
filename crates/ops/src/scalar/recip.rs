//! `recip`: the reciprocal.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// 1 / x, elementwise; integers are converted to `f32`.
    recip(x) -> Float;
    float: |x| 1.0 / x;
    code: "(1 / {0})";
    domain: (0.5, 2.0);
    cost: Division;
    complex: on_complex!(|u| pairs::unary(u, |z| pairs::div(&pairs::one(z), z)));
    grad: ir::Grad::Rule(|c| unary_grad(c, |_, y, g| -(g * (&y * &y))));
    example: [4.0, -0.5] => [0.25, -2.0], "by hand";
}
