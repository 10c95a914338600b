//! `i1`: a Bessel function of order 1.

use crate::Tensor;
use crate::rules::unary_grad;

crate::unary! {
    /// Modified Bessel function of the first kind of order 1, elementwise.
    i1(x) -> Float;
    float: super::special::i1;
    code: "cyl_bessel_i1({0})";
    domain: (0.3, 3.0);
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, y, g| {
        // The quotient tends to 1/2 at 0.
        let at_zero = x.eq(0.0);
        let quotient = Tensor::where_(&at_zero, &x.full_like(0.5), y / Tensor::where_(&at_zero, &x.ones_like(), &x));
        g * (x.i0() - quotient)
    }));
    example: [0.0, 1.0, -2.0] => [0.0, 0.5651591039924851, -1.590636854637329], "Abramowitz and Stegun, table 9.8";
}
