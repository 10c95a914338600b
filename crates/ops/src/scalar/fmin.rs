//! `fmin`: the lesser of two that is a number.

use crate::Tensor;
use crate::rules::binary_grad;

crate::binary! {
    /// The lesser of two, elementwise; a NaN is ignored where the other is a number. At a tie the first gets the gradient.
    fmin(a, b) -> Same;
    float: f64::min;
    int: Some(|a, b| a.min(b));
    code: "fmin({0}, {1})";
    neutral: None;
    domain: (-2.0, 2.0);
    grad: ir::Grad::Rule(|c| binary_grad(c, |a, b, _, g| {
        let first = a.le(&b).or(b.is_nan());
        let zero = g.zeros_like();
        (Tensor::where_(&first, &g, &zero), Tensor::where_(&first, &zero, &g))
    }));
    example: [1.0, f64::NAN, 3.0], [2.0, 2.0, f64::NAN] => [1.0, 2.0, 3.0], "by hand";
}
