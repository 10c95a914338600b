//! `div`: the quotient.

use crate::pairs;
use crate::rules::binary_grad;

crate::binary! {
    /// True quotient, elementwise; integers are divided as `f32`.
    div(a, b) -> Float;
    float: |a, b| a / b;
    code: "({0} / {1})";
    neutral: Some((1.0, false));
    domain: (0.5, 2.0);
    cost: Division;
    linear_in: &[0];
    complex: on_complex!(|u| pairs::binary(u, pairs::div));
    grad: ir::Grad::Rule(|c| binary_grad(c, |_, b, y, g| {
        let ga = g / b;
        (ga.clone(), -(ga * y))
    }));
    example: [1.5, -2.0], [2.0, 0.5] => [0.75, -4.0], "by hand";
}
