//! `selu`: scaled exponential linear unit.

use crate::Tensor;

const ALPHA: f64 = 1.6732632423543772;
const SCALE: f64 = 1.0507009873554805;

super::activation! {
    /// `elu` with the slope and scale of Klambauer and others (2017), which keep mean 0 and variance 1 from layer to layer.
    selu();
    body: |x| x.elu(ALPHA) * SCALE;
    grad: |x, _y, g| Tensor::where_(&x.gt(0.0), &(&g * SCALE), &g * (x.clamp_max(0.0).exp() * (ALPHA * SCALE)));
    samples: (-4.0, 4.0) => [()];
    example: (), [-1.0, 0.0, 1.0] => [-1.1113307378125625, 0.0, 1.0507009873554805], "Klambauer and others, equations 2 and 14";
}
