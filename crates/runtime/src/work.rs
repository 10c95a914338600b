//! What the regions of a program do, for a model of what they cost.

use ir::{DType, Effect, Op, PeersHandle};
use passes::{MemoryUse, Plan, Region};
use rustc_hash::FxHashMap;

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
    /// The region whose exchange it waits for.
    pub ends: Option<usize>,
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
    /// Whether it goes on while the rest is computed.
    pub goes_on: bool,
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
    let mut regions: Vec<RegionWork> =
        plan.fused.regions.iter().zip(&plan.flops).map(|(r, &flops)| region(plan, r, flops)).collect();
    // What is begun has one user that ends it.
    let starts = |node: usize| plan.fused.graph.nodes[node].op.effect == Effect::StartsInOrder;
    let call = |r: &Region| if let Region::Call { node, .. } = r { Some(*node) } else { None };
    let begun = plan.fused.regions.iter().enumerate().filter_map(|(r, region)| Some((call(region)?, r)));
    let begun: FxHashMap<usize, usize> = begun.filter(|(node, _)| starts(*node)).collect();
    for (work, region) in regions.iter_mut().zip(&plan.fused.regions) {
        let first = call(region).and_then(|node| plan.fused.graph.nodes[node].inputs.first());
        work.ends = first.and_then(|s| begun.get(&(s.node as usize))).copied();
    }
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
        // Others are only waited for.
        let given = n.inputs.first().map_or(0, |&s| graph.ty(s).bytes());
        let goes_on = n.op.effect == Effect::StartsInOrder;
        Some(Exchanged { op: n.op, peers, given, got: n.outs.iter().map(ir::Type::bytes).sum(), goes_on })
    });
    RegionWork {
        name: crate::explain::names(r, graph),
        flops,
        bytes: read + written,
        product: product.map(|&s| graph.ty(s).dtype),
        exchange,
        ends: None,
    }
}
