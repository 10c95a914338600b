//! The skeleton of a pass: walk a graph in order, put something in place of each node.

use ir::{FlatNode, Graph, INPUT, Slot};
use smallvec::SmallVec;

/// A new graph under construction, and where each value of the old one has gone.
pub struct Rewriter<'a> {
    old: &'a Graph,
    /// The graph being built.
    pub new: Graph,
    map: Vec<SmallVec<[Slot; 1]>>,
}

impl<'a> Rewriter<'a> {
    /// An empty rewrite of `old`.
    pub fn new(old: &'a Graph) -> Rewriter<'a> {
        let new = Graph { updates: old.updates.clone(), ..Graph::new() };
        Rewriter { old, new, map: Vec::with_capacity(old.nodes.len()) }
    }
    /// Where an old value has gone.
    pub fn at(&self, s: Slot) -> Slot {
        self.map[s.node as usize][s.out as usize]
    }
    /// Copies the next node as it is.
    pub fn keep(&mut self, n: &FlatNode) {
        let inputs = n.inputs.iter().map(|&s| self.at(s)).collect();
        let at = self.new.push_typed(n.op, inputs, n.attrs.clone(), n.outs.clone(), n.site);
        if n.op == &INPUT {
            self.new.inputs.push(at.node);
        }
        self.map.push((0..n.outs.len()).map(|o| Slot { node: at.node, out: o as u32 }).collect());
    }
    /// Puts values of the new graph in place of the next node's outputs.
    pub fn replace(&mut self, outs: impl IntoIterator<Item = Slot>) {
        self.map.push(outs.into_iter().collect());
    }
    /// The finished graph.
    pub fn finish(mut self) -> Graph {
        self.new.outputs = self.old.outputs.iter().map(|&s| self.at(s)).collect();
        self.new
    }
}
