//! `Dropout`: elements set to zero at random, in training only.

use crate::parallel::next_key;
use crate::{Layer, Mode};
use nn_derive::Module;
use tensor::Tensor;

/// Sets each element to zero with probability `p` and scales the others by 1 / (1 - p), in
/// training; does nothing in inference.
#[derive(Module, Debug)]
pub struct Dropout {
    /// Probability of zero.
    pub p: f64,
    mode: Mode,
}
impl Dropout {
    /// With probability `p`.
    pub fn new(p: f64) -> Dropout {
        Dropout { p, mode: Mode::default() }
    }
}
impl Layer for Dropout {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        if self.mode.is_training() && self.p > 0.0 { x.dropout(self.p, &next_key(x)) } else { x.clone() }
    }
}
