//! A WebGPU adapter as a device.

use crate::context::{self, Context};
use crate::program::Compiled;
use crate::storage::{Block, DeviceValue};
use ir::{Buffer, FlatNode, Graph, Result, Type};
use passes::Watch;
use runtime::{Device, Memory, Program, Speed};
use std::sync::Arc;
use wgsl::lower;

/// An adapter of Vulkan, Metal or Direct3D 12.
pub struct Wgpu {
    context: Arc<Context>,
}

impl Wgpu {
    /// Opens the adapter with this number, or says that there is none.
    pub fn open(number: usize) -> Result<Wgpu> {
        runtime::trace::init();
        Ok(Wgpu { context: Arc::new(Context::open(number)?) })
    }
    /// The adapter's own name.
    pub fn adapter(&self) -> &str {
        &self.context.adapter
    }
}

inventory::submit! {
    runtime::Backend {
        kind: "wgpu",
        count: context::count,
        open: |number| Ok(Arc::new(Wgpu::open(number)?)),
        offline: Some(|| Arc::new(Offline)),
    }
}

impl Device for Wgpu {
    fn name(&self) -> &str {
        &self.context.name
    }
    fn claims(&self, n: &FlatNode, types: &[Type]) -> bool {
        lower::claims(n, types)
    }
    fn speed(&self) -> Speed {
        Speed { flops: 2e12, bandwidth: 1e11, launch: 2e-5, latency: 1e-4, rate: 8e9, is_host: false }
    }
    fn compile(&self, graph: Graph) -> Result<Arc<dyn Program>> {
        self.compile_watched(graph, &mut Watch::none())
    }
    fn compile_watched(&self, graph: Graph, watch: &mut Watch) -> Result<Arc<dyn Program>> {
        Ok(Arc::new(Compiled::new(&self.context, graph, watch)?))
    }
    fn place(&self, value: &Buffer) -> Result<Buffer> {
        if let Buffer::Device(s) = value
            && s.as_any().downcast_ref::<DeviceValue>().is_some_and(|h| h.block.is_on(&self.context))
        {
            return Ok(value.clone());
        }
        let l = value.read()?;
        let block = Arc::new(Block::of(&self.context, l.bytes())?);
        let ty = Type::new(l.dtype(), l.shape().clone());
        Ok(Buffer::Device(Arc::new(DeviceValue { block, ty, reports: Vec::new() })))
    }
    fn synchronize(&self) -> Result<()> {
        self.context.wait()?;
        self.context.check()
    }
    fn memory(&self) -> Option<Memory> {
        Some(self.context.memory())
    }
    fn reset_peak(&self) {
        self.context.reset_peak();
    }
    fn release_kept(&self) -> Result<()> {
        self.context.release_kept();
        Ok(())
    }
}

/// An adapter that is not there: plans, lowers and explains programs, and cannot run them.
struct Offline;
struct Planned(lower::Lowered);

impl Device for Offline {
    fn name(&self) -> &str {
        "wgpu, without an adapter"
    }
    fn claims(&self, n: &FlatNode, types: &[Type]) -> bool {
        lower::claims(n, types)
    }
    fn compile(&self, graph: Graph) -> Result<Arc<dyn Program>> {
        self.compile_watched(graph, &mut Watch::none())
    }
    fn compile_watched(&self, graph: Graph, watch: &mut Watch) -> Result<Arc<dyn Program>> {
        Ok(Arc::new(Planned(lower::Lowered::new(graph, watch)?)))
    }
}
impl Program for Planned {
    fn run(&self, _: &mut [Buffer]) -> Result<Vec<Buffer>> {
        Err(ir::Error::new(ir::ErrorKind::Device, "the program was planned without an adapter and cannot run"))
    }
    fn explain(&self) -> String {
        self.0.explain()
    }
    fn sources(&self) -> String {
        self.0.sources()
    }
}
