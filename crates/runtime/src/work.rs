//! What the regions of a program do, for a model of what they cost.

use ir::{DType, Op, PeersHandle};
use passes::{MemoryUse, Plan, Region};

/// What one region of a program does.
#[derive(Clone, Debug)]
pub struct RegionWork {
    /// The names of its ops.
    pub name: String,
    /// Operations on numbers, where they are known.
    pub flops: usize,
    /// Bytes it reads and writes.
    pub bytes: usize,
    /// The type of its operands, if it is a product or a convolution: a kernel that uses each element many times.
    pub product: Option<DType>,
    /// What it exchanges with other ranks.
    pub exchange: Option<Exchanged>,
}

/// What a region exchanges with other ranks.
#[derive(Clone, Debug)]
pub struct Exchanged {
    /// The collective.
    pub op: &'static Op,
    /// The ranks.
    pub peers: PeersHandle,
    /// Bytes of what this rank brings.
    pub given: usize,
    /// Bytes of what it has afterwards.
    pub got: usize,
}

/// What a program does.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Its regions, in order.
    pub regions: Vec<RegionWork>,
    /// The memory of a run.
    pub memory: MemoryUse,
}

/// What the regions of a plan do.
pub fn work(plan: &Plan) -> Work {
    let regions = plan.fused.regions.iter().zip(&plan.flops).map(|(r, &flops)| region(plan, r, flops)).collect();
    Work { regions, memory: plan.memory_use() }
}

fn region(plan: &Plan, r: &Region, flops: usize) -> RegionWork {
    let graph = &plan.fused.graph;
    let kernel = match r {
        Region::Call { node, .. } => Some(*node),
        Region::Loop(l) => l.producer.as_ref().map(|p| p.node),
    };
    let kernel = kernel.map(|i| &graph.nodes[i]);
    let (read, written) = crate::explain::traffic(r, graph);
    let product = kernel.filter(|n| flops > 2 * n.outs[0].shape.count()).and_then(|n| n.inputs.first());
    let exchange = kernel.filter(|n| n.is_ordered()).and_then(|n| {
        let peers = n.attrs.peers("group").ok()?.clone();
        let given = n.inputs.iter().map(|&s| graph.ty(s).bytes()).sum();
        Some(Exchanged { op: n.op, peers, given, got: n.outs.iter().map(ir::Type::bytes).sum() })
    });
    RegionWork {
        name: crate::explain::names(r, graph),
        flops,
        bytes: read + written,
        product: product.map(|&s| graph.ty(s).dtype),
        exchange,
    }
}
