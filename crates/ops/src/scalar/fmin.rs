//! `fmin`: the lesser of two that is a number.

use crate::rules::{binary_grad, halved};

crate::binary! {
    /// The smaller of two, elementwise; a NaN is ignored where the other is a number. At a tie each gets half of the gradient.
    fmin(a, b) -> Same;
    float: f64::min;
    int: |a, b| a.min(b);
    code: "fmin({0}, {1})";
    cost: Short;
    grad: ir::Grad::Rule(|c| binary_grad(c, |a, b, _, g| {
        halved(&a.lt(&b).or(b.is_nan()), &b.lt(&a).or(a.is_nan()), &g)
    }));
    example: [1.0, f64::NAN, 3.0], [2.0, 2.0, f64::NAN] => [1.0, 2.0, 3.0], "by hand";
}
