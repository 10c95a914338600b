//! Regions that run on the host: the region as a graph of its own, compiled by the CPU device.

use ir::{Graph, Meaning, Result, Slot};
use passes::{Fused, Region, View, view_of};
use rustc_hash::FxHashMap;

/// A region as a graph: its inputs are the stored values it reads, its outputs those it writes.
pub struct HostGraph {
    /// The graph.
    pub graph: Graph,
    /// The stored values it takes, by input.
    pub reads: Vec<Slot>,
    /// The stored values it computes, by output. Each is whole and contiguous.
    pub writes: Vec<Slot>,
}

/// The graph of a region; `None` for control flow, and for one that writes parts of values.
pub fn graph_of(fused: &Fused, region: &Region) -> Result<Option<HostGraph>> {
    let mut b = Builder {
        fused,
        is_inside: vec![false; fused.graph.nodes.len()],
        out: HostGraph { graph: Graph::new(), reads: Vec::new(), writes: Vec::new() },
        at: FxHashMap::default(),
    };
    region.nodes().iter().for_each(|&n| b.is_inside[n as usize] = true);
    let is_whole = |v: &View, s: Slot| v.root == s && v.layout.is_contiguous() && v.layout.offset == 0;
    let writes: Vec<Slot> = match region {
        Region::Loop(l) => {
            if l.stores.iter().any(|s| s.offset > 0 || !b.is_inside[s.slot.node as usize]) {
                return Ok(None);
            }
            l.stores.iter().map(|s| s.slot).collect()
        }
        Region::Call { node, outs, .. } => {
            let is_control = matches!(fused.graph.nodes[*node].op.meaning, Meaning::Control(_));
            if is_control || !outs.iter().enumerate().all(|(o, v)| is_whole(v, Slot::new(*node, o))) {
                return Ok(None);
            }
            (0..outs.len()).map(|o| Slot::new(*node, o)).collect()
        }
    };
    for &s in &writes {
        let slot = b.value(s)?;
        b.out.graph.outputs.push(slot);
    }
    b.out.writes = writes;
    Ok(Some(b.out))
}

struct Builder<'a> {
    fused: &'a Fused,
    is_inside: Vec<bool>,
    out: HostGraph,
    at: FxHashMap<Slot, Slot>,
}

impl Builder<'_> {
    /// A value of the whole graph in the region's: computed, a constant, or read.
    fn value(&mut self, s: Slot) -> Result<Slot> {
        if let Some(&at) = self.at.get(&s) {
            return Ok(at);
        }
        let graph = &self.fused.graph;
        let n = graph.node(s);
        let is_view = matches!(n.op.meaning, Meaning::View(_) | Meaning::Recast);
        let is_stored = view_of(&self.fused.views, s).root == s && !is_view;
        if matches!(n.op.meaning, Meaning::Const) && n.outs[0].shape.count() == 1 {
            let at = self.out.graph.push_typed(n.op, Default::default(), n.attrs.clone(), n.outs.clone(), n.site);
            self.at.insert(s, at);
            return Ok(at);
        }
        if is_stored && !self.is_inside[s.node as usize] {
            let at = self.out.graph.input("", graph.ty(s), n.site);
            self.out.reads.push(s);
            self.at.insert(s, at);
            return Ok(at);
        }
        let inputs = n.inputs.iter().map(|&i| self.value(i)).collect::<Result<Vec<Slot>>>()?;
        let at = self.out.graph.push_typed(n.op, inputs.into_iter().collect(), n.attrs.clone(), n.outs.clone(), n.site);
        for o in 0..n.outs.len() {
            self.at.insert(Slot { node: s.node, out: o as u32 }, Slot { node: at.node, out: o as u32 });
        }
        Ok(self.at[&s])
    }
}
