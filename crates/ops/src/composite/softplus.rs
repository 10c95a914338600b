//! `softplus`: a smooth ReLU.

use crate::Tensor;

super::activation! {
    /// log(1 + exp(beta x)) / beta, elementwise; x itself where beta x is above `threshold`.
    softplus(beta, threshold);
    autocast: Wide;
    body: |x| {
        let z = x * beta;
        Tensor::where_(&z.gt(threshold), x, z.clamp_max(threshold).exp().log1p() / beta)
    };
    grad: |x, _y, g| {
        let z = x * beta;
        Tensor::where_(&z.gt(threshold), &g, &g * z.sigmoid())
    };
    samples: (-4.0, 4.0) => [(1.0, 20.0), (3.0, 0.2)];
    example: (2.0, 20.0), [0.0, 30.0] => [std::f64::consts::LN_2 / 2.0, 30.0], "by hand: log(2) / 2";
}
