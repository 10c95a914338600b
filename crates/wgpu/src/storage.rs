//! A value in a device's memory, and what kernels report about bad indices.

use crate::context::Context;
use ir::{Error, Literal, Result, Storage, Type};
use std::any::Any;
use std::sync::{Arc, OnceLock};
use wgsl::launch::Blame;

/// Device memory, returned to the pool when dropped.
pub struct Block {
    context: Arc<Context>,
    buffer: Option<wgpu::Buffer>,
}

impl Block {
    /// Memory with any contents.
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<Block> {
        Ok(Block { buffer: Some(context.take(bytes)?), context: context.clone() })
    }
    /// Memory with these bytes.
    pub fn of(context: &Arc<Context>, bytes: &[u8]) -> Result<Block> {
        let block = Block::new(context, bytes.len())?;
        if !bytes.is_empty() {
            context.upload(block.buffer(), 0, bytes);
        }
        Ok(block)
    }
    /// Its buffer.
    pub fn buffer(&self) -> &wgpu::Buffer {
        self.buffer.as_ref().expect("it is there until the block is dropped")
    }
    /// True if it belongs to this device.
    pub fn is_on(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }
}
impl Drop for Block {
    fn drop(&mut self) {
        if let Some(b) = self.buffer.take() {
            self.context.give(b);
        }
    }
}

/// What the kernels of a run report: a flag, the launch, the number.
pub struct Report {
    /// Where they do.
    pub block: Block,
    /// By launch.
    blames: Arc<Vec<Blame>>,
    /// What was found, once it was looked at.
    outcome: OnceLock<Option<Error>>,
}

/// Words of a report.
const WORDS: usize = 4;

impl Report {
    /// An empty one.
    pub fn new(context: &Arc<Context>, blames: Arc<Vec<Blame>>) -> Result<Report> {
        Ok(Report { block: Block::of(context, &[0; 4 * WORDS])?, blames, outcome: OnceLock::new() })
    }
    /// True if it was looked at and nothing is wrong.
    pub fn is_clean(&self) -> bool {
        matches!(self.outcome.get(), Some(None))
    }
    fn note(&self, bytes: &[u8]) {
        let word = |k: usize| u32::from_le_bytes(bytes[4 * k..4 * k + 4].try_into().expect("four bytes"));
        let error = (word(0) != 0).then(|| {
            let number = (u64::from(word(3)) << 32 | u64::from(word(2))) as i64;
            match self.blames.get(word(1) as usize) {
                Some(b) => Error::index(format!("{} {number} {}", b.before, b.after)).in_op(&b.op).at(b.site),
                None => Error::bug("a report of no launch"),
            }
        });
        let _ = self.outcome.set(error);
    }
}

/// Reads stretches of buffers, and an error where a report they depend on has one.
pub fn read_checked(
    context: &Context,
    parts: &[(&wgpu::Buffer, usize, usize)],
    reports: &[Arc<Report>],
) -> Result<Vec<ir::Bytes>> {
    let open: Vec<&Arc<Report>> = reports.iter().filter(|r| r.outcome.get().is_none()).collect();
    let mut all = parts.to_vec();
    all.extend(open.iter().map(|r| (r.block.buffer(), 0, 4 * WORDS)));
    let mut bytes = context.download(&all)?;
    for (r, b) in open.iter().zip(bytes.drain(parts.len()..)) {
        r.note(b.as_slice());
    }
    match reports.iter().find_map(|r| r.outcome.get().cloned().flatten()) {
        Some(e) => Err(e),
        None => Ok(bytes),
    }
}

/// A value: a block seen as a type.
pub struct DeviceValue {
    /// Its memory.
    pub block: Arc<Block>,
    /// Its type.
    pub ty: Type,
    /// Reports of the runs it was computed by.
    pub reports: Vec<Arc<Report>>,
}

impl Storage for DeviceValue {
    fn device(&self) -> &str {
        &self.block.context.name
    }
    fn read(&self) -> Result<Literal> {
        let parts = [(self.block.buffer(), 0, self.ty.bytes())];
        let bytes = read_checked(&self.block.context, &parts, &self.reports)?;
        let bytes = bytes.into_iter().next().ok_or_else(|| Error::bug("nothing was read"))?;
        Ok(Literal::from_buffer(self.ty.dtype, self.ty.shape.clone(), Arc::new(bytes)))
    }
    fn retyped(&self, ty: Type) -> Arc<dyn Storage> {
        Arc::new(DeviceValue { block: self.block.clone(), ty, reports: self.reports.clone() })
    }
    fn is_shared(&self) -> bool {
        Arc::strong_count(&self.block) > 1
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
