//! A GPU as a device.

use crate::driver::context::Context;
use crate::memory::storage::{Block, DeviceValue};
use crate::offline::Offline;
use crate::program::Compiled;
use ir::{Buffer, DeviceMemory, FlatNode, Graph, Result, Type};
use passes::Watch;
use runtime::{Device, Memory, Program, Speed};
use std::sync::Arc;

/// An NVIDIA GPU: loops become generated kernels, products go to cuBLASLt, whole programs are
/// replayed as CUDA graphs.
pub struct Cuda {
    context: Arc<Context>,
}

impl Cuda {
    /// Opens the GPU with this number, or says which part of NVIDIA's software is missing.
    pub fn open(ordinal: usize) -> Result<Cuda> {
        runtime::trace::init();
        Ok(Cuda { context: Context::open(ordinal)? })
    }
}

/// What the driver says about a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// The product's name.
    pub name: String,
    /// The first number of its compute capability.
    pub major: u32,
    /// And the second.
    pub minor: u32,
    /// Bytes of its memory.
    pub total_memory: usize,
    /// Multiprocessors.
    pub multi_processor_count: u32,
    /// Threads of a warp.
    pub warp_size: u32,
    /// Threads that a multiprocessor holds at most.
    pub max_threads_per_multi_processor: u32,
    /// Bytes of shared memory of a multiprocessor.
    pub shared_memory_per_multiprocessor: usize,
    /// Bytes of the L2 cache.
    pub l2_cache_size: usize,
}

/// The properties of the GPU with this number.
pub fn properties(ordinal: usize) -> Result<Properties> {
    crate::driver::context::properties(ordinal)
}

inventory::submit! {
    runtime::Backend {
        kind: "cuda",
        count: crate::driver::context::count,
        open: |number| Ok(Arc::new(Cuda::open(number)?)),
        offline: Some(|| Arc::new(Offline)),
    }
}

impl Device for Cuda {
    fn name(&self) -> &str {
        &self.context.name
    }
    fn claims(&self, n: &FlatNode, types: &[Type]) -> bool {
        self.context.claims(n, types)
    }
    fn speed(&self) -> Speed {
        Speed { flops: 2e13, bandwidth: 1e12, launch: 5e-6, latency: 3e-5, rate: 1.2e10, is_host: false }
    }
    fn compile(&self, graph: Graph) -> Result<Arc<dyn Program>> {
        self.compile_watched(graph, &mut Watch::none())
    }
    fn compile_watched(&self, graph: Graph, watch: &mut Watch) -> Result<Arc<dyn Program>> {
        Ok(Arc::new(Compiled::new(&self.context, graph, watch)?))
    }
    fn flags(&self) -> u64 {
        crate::flags::all()
    }
    fn place(&self, value: &Buffer) -> Result<Buffer> {
        if let Buffer::Device(s) = value
            && s.as_any().downcast_ref::<DeviceValue>().is_some_and(|h| h.block.is_on(&self.context))
        {
            return Ok(value.clone());
        }
        let l = value.read()?;
        let ty = Type::new(l.dtype(), l.shape().clone());
        let _order = self.context.order.lock();
        self.context.enter()?;
        let block = Arc::new(Block::of(&self.context, l.bytes())?);
        Ok(Buffer::Device(Arc::new(DeviceValue { block, ty, run: None })))
    }
    fn adopt(&self, loan: DeviceMemory, ty: Type, is_copy: bool) -> Result<(Buffer, bool)> {
        let hold = |block| Buffer::Device(Arc::new(DeviceValue { block: Arc::new(block), ty: ty.clone(), run: None }));
        let loan = match if is_copy { Err(loan) } else { Block::lent(&self.context, loan, ty.bytes()) } {
            Ok(block) => return Ok((hold(block), false)),
            Err(loan) => loan,
        };
        let block = {
            let _order = self.context.order.lock();
            self.context.enter()?;
            Block::copied(&self.context, loan.address, ty.bytes())?
        };
        // The owner, who may have locks of its own, takes the memory back at once.
        self.context.wait();
        drop(loan);
        Ok((hold(block), true))
    }
    fn adopt_in_order(&self, loan: DeviceMemory, ty: Type) -> Result<(Buffer, bool)> {
        let (block, was_copied) = match Block::lent_in_order(&self.context, loan, ty.bytes()) {
            Ok(block) => (block, false),
            Err(loan) => {
                let _order = self.context.order.lock();
                self.context.enter()?;
                (Block::copied_in_order(&self.context, loan, ty.bytes())?, true)
            }
        };
        Ok((Buffer::Device(Arc::new(DeviceValue { block: Arc::new(block), ty, run: None })), was_copied))
    }
    fn follow(&self, stream: u64) -> Result<()> {
        self.context.follow(stream)
    }
    fn lead(&self, stream: u64) -> Result<()> {
        self.context.lead(stream)
    }
    fn stream(&self) -> Option<u64> {
        Some(self.context.stream as u64)
    }
    fn synchronize(&self) -> Result<()> {
        self.context.synchronize()
    }
    fn memory(&self) -> Option<Memory> {
        Some(self.context.memory())
    }
    fn reset_peak(&self) {
        self.context.reset_peak();
    }
    fn release_kept(&self) -> Result<()> {
        self.context.release_kept()
    }
    fn free_and_total(&self) -> Result<Option<(usize, usize)>> {
        self.context.free_and_total().map(Some)
    }
    fn time(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
        self.context.elapsed(f).map(f64::from)
    }
}
