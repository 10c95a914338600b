//! From batches to tensors.

use crate::parallel;
use data::{Array, Batch};
use tensor::{Result, Tensor};

/// An array as a tensor of the same type, which shares its elements.
pub fn tensor_of(array: &Array) -> Result<Tensor> {
    Ok(Tensor::from(array.literal().clone()))
}

/// Columns of a batch as tensors.
pub trait Columns {
    /// The column of this name. Of a batch that workers share, the optimizer learns which part of it is this worker's.
    fn column(&self, name: &str) -> Result<Tensor>;
}
impl Columns for Batch {
    fn column(&self, name: &str) -> Result<Tensor> {
        parallel::set_part(&self.part)?;
        tensor_of(self.array(name)?)
    }
}
