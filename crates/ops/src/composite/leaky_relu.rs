//! `leaky_relu`: ReLU with a small slope below 0.

use crate::Tensor;

super::activation! {
    /// x where it is positive, else `slope` times x, elementwise.
    leaky_relu(slope);
    body: |x| if slope > 0.0 && slope <= 1.0 {
        // The greater of both, for infinity too.
        (x * slope).maximum(x)
    } else {
        Tensor::where_(&x.gt(0.0), x, x * slope)
    };
    grad: |x, _y, g| Tensor::where_(&x.gt(0.0), &g, &g * slope);
    samples: (-4.0, 4.0) => [(0.01), (0.3)];
    example: (0.25), [-2.0, 0.0, 3.0] => [-0.5, 0.0, 3.0], "by hand";
}
