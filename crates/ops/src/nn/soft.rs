//! Softmax and softplus as losses and attention need them.

use crate::Tensor;

/// exp(x) / Σ exp(x) along an axis.
pub(crate) fn softmax(x: &Tensor, along: i64) -> Tensor {
    let e = (x - x.max_keep(along).stop_gradient()).exp();
    &e / e.sum_keep(along)
}
/// The logarithm of [`softmax`].
pub(crate) fn log_softmax(x: &Tensor, along: i64) -> Tensor {
    let z = x - x.max_keep(along).stop_gradient();
    &z - z.exp().sum_keep(along).log()
}
/// log(1 + exp(x)).
pub(crate) fn softplus(x: &Tensor) -> Tensor {
    x.relu() + (-x.abs()).exp().log1p()
}
