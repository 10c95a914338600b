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
    /// Another library's, whose stream waits for ours: read, never written.
    Ordered(#[allow(dead_code)] DeviceMemory),
    /// The pool's, with what another library's memory was copied from, in the order of the stream.
    Copied(#[allow(dead_code)] DeviceMemory),
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
    /// The same memory, of a library whose stream waits for ours before the block is dropped.
    pub fn lent_in_order(context: &Arc<Context>, loan: DeviceMemory, bytes: usize) -> Result<Block, DeviceMemory> {
        let mut block = Block::lent(context, loan, bytes)?;
        if let Owner::Library(loan) = std::mem::replace(&mut block.owner, Owner::Run) {
            block.owner = Owner::Ordered(loan);
        }
        Ok(block)
    }
    /// A copy of such memory, which is kept as long.
    pub fn copied_in_order(context: &Arc<Context>, loan: DeviceMemory, bytes: usize) -> Result<Block> {
        let mut block = Block::copied(context, loan.address, bytes)?;
        block.owner = Owner::Copied(loan);
        Ok(block)
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
            Owner::Pool | Owner::Copied(_) => self.context.give(self.address, self.bytes),
            Owner::Run | Owner::Ordered(_) => {}
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

/// A block that another library reads in the order of its stream.
struct Led(Arc<Block>, u64);
impl Drop for Led {
    fn drop(&mut self) {
        self.0.context.wait_for_stream(self.1);
    }
}

/// A value: a block seen as a type.
pub struct DeviceValue {
    /// Its memory; results of one shape seen as another share it.
    pub block: Arc<Block>,
    /// Its type.
    pub ty: Type,
    /// The run that computed it, if one did: it is there when that has ended.
    pub run: Option<u64>,
}

impl DeviceValue {
    /// Its memory, or a copy of it.
    fn readable(&self, is_copy: bool) -> Result<Arc<Block>> {
        if !is_copy {
            return Ok(self.block.clone());
        }
        let context = &self.block.context;
        let _order = context.order.lock();
        context.enter()?;
        Ok(Arc::new(Block::copied(context, self.block.address, self.ty.bytes())?))
    }
}

impl Storage for DeviceValue {
    fn device(&self) -> &str {
        &self.block.context.name
    }
    fn read(&self) -> Result<Literal> {
        let mut bytes = Bytes::any(self.ty.bytes());
        match self.run {
            Some(run) => self.block.context.download_after(run, self.block.address, bytes.as_mut())?,
            None => self.block.context.download(self.block.address, bytes.as_mut())?,
        }
        Ok(Literal::from_buffer(self.ty.dtype, self.ty.shape.clone(), Arc::new(bytes)))
    }
    fn retyped(&self, ty: Type) -> Arc<dyn Storage> {
        Arc::new(DeviceValue { block: self.block.clone(), ty, run: self.run })
    }
    fn is_shared(&self) -> bool {
        Arc::strong_count(&self.block) > 1
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn lend(&self, is_copy: bool, is_unready: bool) -> Result<Option<DeviceMemory>> {
        let block = self.readable(is_copy)?;
        if !is_unready {
            self.block.context.synchronize()?;
        }
        Ok(Some(DeviceMemory { address: block.address, owner: Box::new(Shared(block)) }))
    }
    fn lend_in_order(&self, is_copy: bool, stream: u64) -> Result<Option<DeviceMemory>> {
        let block = self.readable(is_copy)?;
        Ok(Some(DeviceMemory { address: block.address, owner: Box::new(Led(block, stream)) }))
    }
}
