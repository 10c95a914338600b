//! `fmax`: the greater of two that is a number.

use crate::rules::binary_grad;

crate::binary! {
    /// The larger of two, elementwise; a NaN is ignored where the other is a number. At a tie each gets half of the gradient.
    fmax(a, b) -> Same;
    float: f64::max;
    int: |a, b| a.max(b);
    code: "fmax({0}, {1})";
    cost: Short;
    grad: ir::Grad::Rule(|c| binary_grad(c, |a, b, _, g| {
        let (first, second) = (a.gt(&b).or(b.is_nan()), b.gt(&a).or(a.is_nan()));
        let share = (first.cast_like(&g) + 1.0 - second.cast_like(&g)) * 0.5;
        (&g * &share, &g * (1.0 - share))
    }));
    example: [1.0, f64::NAN, 3.0], [2.0, 2.0, f64::NAN] => [2.0, 2.0, 3.0], "by hand";
}
