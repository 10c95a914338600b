//! From the data crate's arrays to tensors.

use crate::parallel;
use data::{Array, Batch, Values};
use tensor::{Literal, Result, Tensor};

/// An array as a tensor of the same type (16-bit integers become `i32`).
pub fn tensor_of(array: &Array) -> Result<Tensor> {
    let shape = array.shape();
    let literal = match array.data() {
        Values::Bool(v) => Literal::new(shape, v),
        Values::U8(v) => Literal::new(shape, v),
        Values::I8(v) => Literal::new(shape, v),
        Values::I16(v) => Literal::new(shape, v),
        Values::I32(v) => Literal::new(shape, v),
        Values::I64(v) => Literal::new(shape, v),
        Values::F32(v) => Literal::new(shape, v),
        Values::F64(v) => Literal::new(shape, v),
    };
    literal.map(Tensor::from)
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
