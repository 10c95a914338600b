//! `Embedding`: a vector for each number.

use crate::Layer;
use nn_derive::Module;
use tensor::{Result, Tensor, Variable};

/// Row i of a table for each integer i.
#[derive(Module, Debug)]
pub struct Embedding {
    /// `[count, width]`.
    pub weight: Variable,
}
impl Embedding {
    /// `count` rows of `width` standard normal values.
    pub fn new(count: usize, width: usize) -> Result<Embedding> {
        Ok(Embedding { weight: Variable::new("weight", Tensor::randn([count, width]))? })
    }
}
impl Layer for Embedding {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.weight.tensor().embedding(x)
    }
}
