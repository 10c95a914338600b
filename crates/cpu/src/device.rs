//! The CPU as a device.

use crate::program::Compiled;
use crate::{call, packed_weights, pool};
use ir::{Buffer, FlatNode, Graph, Literal, Result, Type};
use passes::Watch;
use runtime::{Device, DeviceShare, Program, Speed};
use std::sync::Arc;

/// The CPU: graphs become tile programs and kernel calls on [`crate::pool`]'s threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Cpu {
    /// The device. All of them share the pool.
    pub fn new() -> Cpu {
        runtime::trace::init();
        Cpu
    }
}

inventory::submit! {
    runtime::Backend { kind: "cpu", count: || 1, open: OPEN, offline: None }
}
/// A program made for one model has no device: its plan runs without one.
const OPEN: fn(usize) -> Result<Arc<dyn Device>> =
    if ir::IS_GENERAL { |_| Ok(Arc::new(Cpu::new())) } else { |_| ir::unlinked("the device") };

impl Device for Cpu {
    fn name(&self) -> &str {
        "cpu"
    }
    fn claims(&self, node: &FlatNode, types: &[Type]) -> bool {
        call::claims(node, types)
    }
    fn compile(&self, graph: Graph) -> Result<Arc<dyn Program>> {
        Ok(Arc::new(Compiled::new(graph)?))
    }
    fn computes_meanwhile(&self) -> bool {
        true
    }
    fn packs_weights(&self) -> bool {
        true
    }
    fn compile_fixed(&self, graph: Graph, fixed: &[Option<Literal>]) -> Result<Arc<dyn Program>> {
        Ok(Arc::new(Compiled::with_fixed(graph, fixed, &mut Watch::none())?))
    }
    fn packed_bytes(&self, value: &Buffer) -> usize {
        if let Buffer::Host(l) = value { packed_weights::bytes_of(l) } else { 0 }
    }
    fn speed(&self) -> Speed {
        let one = Speed::default();
        let threads = pool::threads() as f64;
        Speed { flops: one.flops * threads, bandwidth: one.bandwidth * threads.min(4.0), ..one }
    }
    fn shares(&self) -> usize {
        pool::threads()
    }
    fn within(&self, share: DeviceShare, f: &mut dyn FnMut()) {
        pool::within(share.number, share.threads, f);
    }
    fn compile_watched(&self, graph: Graph, watch: &mut Watch) -> Result<Arc<dyn Program>> {
        Ok(Arc::new(Compiled::watched(graph, watch)?))
    }
}
