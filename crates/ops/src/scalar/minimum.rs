//! `minimum`: the lesser of two.

use crate::rules::{binary_grad, halved};

crate::binary! {
    /// The smaller of two, elementwise; NaN if either is. At a tie each gets half of the gradient.
    minimum(a, b) -> Same;
    float: |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) };
    int: |a, b| a.min(b);
    code: "fmin_nan({0}, {1})";
    cost: Short;
    // Half where equal, as PyTorch does: both are then a subgradient of the same weight.
    grad: ir::Grad::Rule(|c| binary_grad(c, |a, b, _, g| halved(&a.lt(&b), &b.lt(&a), &g)));
    example: [1.0, 5.0], [2.0, 4.0] => [1.0, 4.0], "by hand";
}
