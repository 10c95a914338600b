//! From batches to tensors.

use crate::parallel;
use data::{Array, Batch};
use tensor::{Result, Tensor};

/// An array as a tensor of the same type, which shares its elements.
pub fn tensor_of(array: &Array) -> Result<Tensor> {
    Ok(Tensor::from(array.literal().clone()))
}

/// A named column of a batch as a tensor. Of a batch that workers share, the optimizer learns which
/// part of it is this worker's.
pub fn column(batch: &Batch, name: &str) -> Result<Tensor> {
    parallel::set_part(&batch.part)?;
    tensor_of(batch.array(name)?)
}
