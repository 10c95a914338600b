//! The CPU as a device.

use crate::call;
use crate::program::Compiled;
use ir::{FlatNode, Graph, Result, Type};
use passes::Watch;
use runtime::{Device, Program};
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
    runtime::Backend { kind: "cpu", count: || 1, open: |_| Ok(Arc::new(Cpu::new())), offline: None }
}

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
    fn compile_watched(&self, graph: Graph, watch: &mut Watch) -> Result<Arc<dyn Program>> {
        Ok(Arc::new(Compiled::watched(graph, watch)?))
    }
}
