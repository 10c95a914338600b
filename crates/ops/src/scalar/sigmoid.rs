//! `sigmoid`: the logistic function.

use crate::rules::unary_grad;

crate::unary! {
    /// 1 / (1 + exp(-x)), elementwise.
    sigmoid(x) -> Float;
    float: |x| if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { let e = x.exp(); e / (1.0 + e) };
    code: "(1 / (1 + exp(-{0})))";
    domain: (-3.0, 3.0);
    grad: ir::Grad::Rule(|c| unary_grad(c, |_, y, g| g * (&y * (1.0 - &y))));
    example: [0.0, 1.0986122886681098, -800.0] => [0.5, 0.75, 0.0], "by hand: the logit of 3/4 is log 3";
}
