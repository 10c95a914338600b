//! `pow`: a power.

use crate::pairs;
use crate::rules::binary_grad;

crate::binary! {
    /// `a` to the power `b`, elementwise; for integers a negative exponent gives 0 (1 for base ±1).
    pow(a, b) -> Same;
    float: f64::powf;
    int: |a, b| if b >= 0 { a.wrapping_pow(b.min(u32::MAX as i128) as u32) } else if a == 1 { 1 } else if a == -1 { if b % 2 == 0 { 1 } else { -1 } } else { 0 };
    code: "pow({0}, {1})";
    neutral: Some((1.0, false));
    domain: (0.5, 2.0);
    cost: Special;
    autocast: Wide;
    complex: on_complex!(|u| pairs::binary(u, pairs::pow));
    grad: ir::Grad::Rule(|c| binary_grad(c, |a, b, y, g| {
        // Zero exponents have zero slope even where a is 0; log(0) must not reach the product. A negative
        // base has a power at single exponents only: NaN.
        let zero = a.zeros_like();
        let slope = Tensor::where_(&b.eq(0.0), &zero, &(&b * a.pow(&b - 1.0)));
        let is_flat = a.eq(0.0).and(b.ge(0.0));
        let safe = Tensor::where_(&is_flat, &a.ones_like(), &a);
        (&g * slope, g * Tensor::where_(&is_flat, &zero, &(y * safe.log())))
    }));
    example: [2.0, 9.0], [3.0, 0.5] => [8.0, 3.0], "by hand";
}

use crate::Tensor;

impl Tensor {
    /// `self` to the power `exponent`, elementwise, computed in f64.
    #[track_caller]
    pub fn float_power(&self, exponent: impl crate::Operand) -> Tensor {
        self.cast(ir::DType::F64).pow(exponent)
    }
}
