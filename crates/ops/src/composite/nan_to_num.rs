//! `nan_to_num`: numbers in place of NaN and infinities.

use crate::Tensor;

super::activation! {
    /// x with NaN, inf and -inf replaced by numbers, elementwise.
    nan_to_num(nan, posinf, neginf);
    body: |x| {
        let y = Tensor::where_(&x.is_nan(), &x.full_like(nan), x);
        let y = Tensor::where_(&x.eq(f64::INFINITY), &x.full_like(posinf), &y);
        Tensor::where_(&x.eq(f64::NEG_INFINITY), &x.full_like(neginf), &y)
    };
    grad: |x, _y, g| Tensor::where_(&x.is_finite(), &g, 0.0);
    samples: (-4.0, 4.0) => [(0.0, 1.0, -1.0)];
    example: (7.0, 1.0, -1.0), [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2.0] => [7.0, 1.0, -1.0, 2.0], "by definition";
}
