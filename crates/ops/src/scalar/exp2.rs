//! `exp2`: the power of two.

use crate::pairs;
use crate::rules::unary_grad;

crate::unary! {
    /// 2 to the power x, elementwise.
    exp2(x) -> Float;
    float: f64::exp2;
    code: "exp2({0})";
    autocast: Wide;
    complex: on_complex!(|u| pairs::unary(u, |z| pairs::exp(&pairs::scaled(z, std::f64::consts::LN_2))));
    grad: ir::Grad::Rule(|c| unary_grad(c, |_, y, g| g * y * std::f64::consts::LN_2));
    example: [0.0, 3.0, -1.0] => [1.0, 8.0, 0.5], "by hand";
}

impl crate::Tensor {
    /// x times 2 to the power `exponent`, elementwise.
    #[track_caller]
    pub fn ldexp(&self, exponent: &crate::Tensor) -> crate::Tensor {
        self * exponent.exp2()
    }
}
