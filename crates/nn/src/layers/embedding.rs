//! `Embedding`: a vector for each number.

use super::rows::{Parameter, Start, layer};
use crate::Layer;
use nn_derive::Module;
use tensor::{Result, Tensor, Variable};

/// Row i of a table for each integer i.
#[derive(Module, Debug)]
pub struct Embedding {
    /// `[count, width]`.
    pub weight: Variable,
}
layer! {
    EmbeddingSettings {
        /// Rows of the table.
        num_embeddings: usize;
        /// Size of a row.
        embedding_dim: usize;
        ..
    }
}
impl EmbeddingSettings {
    fn parameters(&self) -> Result<[Parameter; 1]> {
        Ok([Parameter::new("weight", [self.num_embeddings, self.embedding_dim], Start::Normal)])
    }
}
impl Embedding {
    /// `count` rows of `width` standard normal values.
    pub fn new(count: usize, width: usize) -> Result<Embedding> {
        let [weight] = EmbeddingSettings::new(count, width).parameters()?;
        Ok(Embedding { weight: weight.variable()? })
    }
}
impl Layer for Embedding {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.weight.tensor().embedding(x)
    }
}
