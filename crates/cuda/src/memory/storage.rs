//! A value in a GPU's memory.

use crate::driver::context::Context;
use ir::{Bytes, DeviceMemory, Literal, Result, Storage, Type};
use std::any::Any;
use std::sync::Arc;

/// Device memory, returned to its owner when dropped.
pub struct Block {
    context: Arc<Context>,
    /// Its first byte.
    pub address: u64,
    /// Its size.
    pub bytes: usize,
    owner: Owner,
}

/// Whose memory a block is.
enum Owner {
    /// The pool's.
    Pool,
    /// Another library's: read, never written.
    Library(#[allow(dead_code)] DeviceMemory),
    /// A run's, which outlives the block: read, never written.
    Run,
}

/// Alignment that the kernels expect.
const ALIGNMENT: u64 = 256;

impl Block {
    /// Uninitialized memory.
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<Block> {
        Ok(Block { address: context.take(bytes)?, bytes, context: context.clone(), owner: Owner::Pool })
    }
    /// Memory of a run that is under way.
    pub fn borrowed(context: &Arc<Context>, address: u64, bytes: usize) -> Block {
        Block { address, bytes, context: context.clone(), owner: Owner::Run }
    }
    /// Another library's memory, if kernels can read it as it is.
    pub fn lent(context: &Arc<Context>, loan: DeviceMemory, bytes: usize) -> Result<Block, DeviceMemory> {
        if !loan.address.is_multiple_of(ALIGNMENT) {
            return Err(loan);
        }
        Ok(Block { address: loan.address, bytes, context: context.clone(), owner: Owner::Library(loan) })
    }
    /// A copy of memory of this GPU.
    pub fn copied(context: &Arc<Context>, from: u64, bytes: usize) -> Result<Block> {
        let block = Block::new(context, bytes)?;
        context.copy(block.address, from, bytes)?;
        Ok(block)
    }
    /// True if it may be overwritten once it is not shared.
    pub fn is_own(&self) -> bool {
        matches!(self.owner, Owner::Pool)
    }
    /// Memory with these bytes.
    pub fn of(context: &Arc<Context>, bytes: &[u8]) -> Result<Block> {
        let block = Block::new(context, bytes.len())?;
        context.upload(block.address, bytes)?;
        Ok(block)
    }
    /// True if it belongs to this GPU.
    pub fn is_on(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }
}
impl Drop for Block {
    fn drop(&mut self) {
        match &self.owner {
            Owner::Pool => self.context.give(self.address, self.bytes),
            Owner::Run => {}
            // The owner does not know of our stream. An error is reported when a result is read.
            Owner::Library(_) => self.context.wait(),
        }
    }
}

/// A block that another library reads.
struct Shared(Arc<Block>);
impl Drop for Shared {
    fn drop(&mut self) {
        // What other libraries have asked of the device may still read it.
        self.0.context.wait_for_all();
    }
}

/// A value: a block seen as a type.
pub struct DeviceValue {
    /// Its memory; results of one shape seen as another share it.
    pub block: Arc<Block>,
    /// Its type.
    pub ty: Type,
}

impl Storage for DeviceValue {
    fn device(&self) -> &str {
        &self.block.context.name
    }
    fn read(&self) -> Result<Literal> {
        let mut bytes = Bytes::any(self.ty.bytes());
        self.block.context.download(self.block.address, bytes.as_mut())?;
        Ok(Literal::from_buffer(self.ty.dtype, self.ty.shape.clone(), Arc::new(bytes)))
    }
    fn retyped(&self, ty: Type) -> Arc<dyn Storage> {
        Arc::new(DeviceValue { block: self.block.clone(), ty })
    }
    fn is_shared(&self) -> bool {
        Arc::strong_count(&self.block) > 1
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn lend(&self, is_copy: bool, is_unready: bool) -> Result<Option<DeviceMemory>> {
        let context = &self.block.context;
        let block = if is_copy {
            let _order = context.order.lock();
            context.enter()?;
            Arc::new(Block::copied(context, self.block.address, self.ty.bytes())?)
        } else {
            self.block.clone()
        };
        if !is_unready {
            context.synchronize()?;
        }
        Ok(Some(DeviceMemory { address: block.address, owner: Box::new(Shared(block)) }))
    }
}
