//! `atan2`: the angle of a point.

use crate::Tensor;
use crate::rules::binary_grad;

crate::binary! {
    /// The angle of the point (b, a) in (-π, π], elementwise: the inverse tangent of a / b in the right quadrant.
    atan2(a, b) -> Float;
    float: f64::atan2;
    code: "atan2({0}, {1})";
    domain: (0.3, 2.0);
    grad: ir::Grad::Rule(|c| binary_grad(c, |a, b, _, g| {
        // 0 at the origin, as in PyTorch.
        let length = a.square() + b.square();
        let k = g / Tensor::where_(&length.eq(0.0), &length.ones_like(), &length);
        (&k * b, -(k * a))
    }));
    example: [1.0, 1.0, -1.0], [1.0, -1.0, 0.0] => [std::f64::consts::FRAC_PI_4, 3.0 * std::f64::consts::FRAC_PI_4, -std::f64::consts::FRAC_PI_2], "exact angles";
}
