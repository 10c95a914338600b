//! `copysign`: the size of one number, the sign of another.

use crate::Tensor;
use crate::rules::binary_grad;

crate::binary! {
    /// The absolute value of `a` with the sign of `b`, elementwise; -0 counts as negative.
    copysign(a, b) -> Float;
    float: f64::copysign;
    code: "copysign({0}, {1})";
    domain: (0.2, 2.0);
    cost: Short;
    grad: ir::Grad::Rule(|c| binary_grad(c, |a, b, y, g| {
        let zero = g.zeros_like();
        let slope = Tensor::where_(&a.eq(0.0), &zero, &(y / &a));
        (g * slope, zero * b.zeros_like())
    }));
    example: [1.5, 2.0, -3.0], [-1.0, -0.0, 2.0] => [-1.5, -2.0, 3.0], "by hand";
}
