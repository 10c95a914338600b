//! `fmax`: the greater of two that is a number.

use crate::rules::{binary_grad, halved};

crate::binary! {
    /// The larger of two, elementwise; a NaN is ignored where the other is a number. At a tie each gets half of the gradient.
    fmax(a, b) -> Same;
    float: f64::max;
    int: |a, b| a.max(b);
    code: "fmax({0}, {1})";
    cost: Short;
    grad: ir::Grad::Rule(|c| binary_grad(c, |a, b, _, g| {
        halved(&a.gt(&b).or(b.is_nan()), &b.gt(&a).or(a.is_nan()), &g)
    }));
    example: [1.0, f64::NAN, 3.0], [2.0, 2.0, f64::NAN] => [2.0, 2.0, 3.0], "by hand";
}
