//! `maximum`: the greater of two.

use crate::rules::{binary_grad, halved};

crate::binary! {
    /// The larger of two, elementwise; NaN if either is. At a tie each gets half of the gradient.
    maximum(a, b) -> Same;
    float: |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
    int: |a, b| a.max(b);
    code: "fmax_nan({0}, {1})";
    cost: Short;
    // Half where equal, as PyTorch does: both are then a subgradient of the same weight.
    grad: ir::Grad::Rule(|c| binary_grad(c, |a, b, _, g| halved(&a.gt(&b), &b.gt(&a), &g)));
    example: [1.0, 5.0], [2.0, 4.0] => [2.0, 5.0], "by hand";
}
