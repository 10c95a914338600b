//! `entr`: the terms of an entropy.

use crate::Tensor;

super::activation! {
    /// -x log(x), elementwise; 0 at 0, -inf below.
    entr();
    body: |x| {
        let positive = x.gt(0.0);
        let inner = -(Tensor::where_(&positive, x, 1.0).log() * x);
        Tensor::where_(&x.lt(0.0), &x.full_like(f64::NEG_INFINITY), inner)
    };
    grad: |x, _y, g| g * (-x.log() - 1.0);
    samples: (0.2, 2.0) => [()];
    example: (), [0.0, 1.0, 0.5, -1.0] => [0.0, 0.0, std::f64::consts::LN_2 / 2.0, f64::NEG_INFINITY], "by definition";
}
