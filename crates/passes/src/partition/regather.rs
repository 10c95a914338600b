//! What ZeRO stores in parts is gathered twice: for the forward pass, after which it is not kept, and for the backward
//! pass.

use ir::{FlatNode, Graph};

/// A walk over a graph that sees where the backward pass begins.
pub(super) struct Again<'a> {
    graph: &'a Graph,
    is_used: bool,
    /// Whether a node of the backward pass was taken.
    has_begun: bool,
    /// Nodes so far: inputs that are stored in parts, and views of them.
    pub stored: Vec<bool>,
    /// Nodes so far: those of the backward pass, and views that were computed again for it.
    is_backward: Vec<bool>,
}

impl<'a> Again<'a> {
    pub fn new(graph: &'a Graph, is_used: bool) -> Again<'a> {
        Again { graph, is_used, has_begun: false, stored: Vec::new(), is_backward: vec![false; graph.nodes.len()] }
    }
    /// Takes the next node; true at the first of the backward pass.
    pub fn is_due(&mut self, n: &FlatNode) -> bool {
        let i = self.stored.len();
        self.stored.push(n.op.is_view() && n.inputs.iter().any(|s| self.stored[s.node as usize]));
        self.is_backward[i] = n.site.is_gradient || n.inputs.iter().any(|s| self.is_backward[s.node as usize]);
        let is_first = self.is_backward[i] && !self.has_begun;
        self.has_begun |= is_first;
        self.is_used && is_first
    }
    /// The views of what is stored in parts that the node just taken, one of the backward pass, uses from the forward
    /// pass, in order.
    pub fn views(&mut self, n: &FlatNode) -> Vec<usize> {
        let (mut found, mut stack) = (Vec::new(), Vec::new());
        if self.is_used && self.is_backward[self.stored.len() - 1] {
            stack.extend(n.inputs.iter().map(|s| s.node as usize));
        }
        while let Some(j) = stack.pop() {
            let is_view = self.graph.nodes[j].op.is_view();
            if is_view && self.stored[j] && !std::mem::replace(&mut self.is_backward[j], true) {
                found.push(j);
                stack.extend(self.graph.nodes[j].inputs.iter().map(|s| s.node as usize));
            }
        }
        found.sort_unstable();
        found
    }
}
