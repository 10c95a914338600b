//! A value in a GPU's memory.

use crate::context::Context;
use ir::{Bytes, Literal, Result, Storage, Type};
use std::any::Any;
use std::sync::Arc;

/// Memory that goes back to its GPU when nobody holds it any more.
pub struct Block {
    context: Arc<Context>,
    /// Its first byte.
    pub address: u64,
    /// Its size.
    pub bytes: usize,
}

impl Block {
    /// Memory of any content.
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<Block> {
        Ok(Block { address: context.take(bytes)?, bytes, context: context.clone() })
    }
    /// Memory with these bytes.
    pub fn of(context: &Arc<Context>, bytes: &[u8]) -> Result<Block> {
        let block = Block::new(context, bytes.len())?;
        context.upload(block.address, bytes)?;
        Ok(block)
    }
    /// True if it is this GPU's.
    pub fn is_on(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }
}
impl Drop for Block {
    fn drop(&mut self) {
        self.context.give(self.address, self.bytes);
    }
}

/// A value: a block seen as a type.
pub struct Held {
    /// Its memory; results of one shape seen as another share it.
    pub block: Arc<Block>,
    /// Its type.
    pub ty: Type,
}

impl Storage for Held {
    fn device(&self) -> &str {
        &self.block.context.name
    }
    fn read(&self) -> Result<Literal> {
        let mut bytes = Bytes::any(self.ty.bytes());
        self.block.context.download(self.block.address, bytes.as_mut())?;
        Ok(Literal::from_buffer(self.ty.dtype, self.ty.shape.clone(), Arc::new(bytes)))
    }
    fn retyped(&self, ty: Type) -> Arc<dyn Storage> {
        Arc::new(Held { block: self.block.clone(), ty })
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
