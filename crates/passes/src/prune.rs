//! Removes dead nodes.

use crate::Rewriter;
use ir::{Graph, INPUT};

/// Keeps the inputs and whatever the outputs need.
pub fn prune(graph: &Graph) -> Graph {
    let mut live = vec![false; graph.nodes.len()];
    for s in &graph.outputs {
        live[s.node as usize] = true;
    }
    for (i, n) in graph.nodes.iter().enumerate().rev() {
        if live[i] {
            n.inputs.iter().for_each(|s| live[s.node as usize] = true);
        }
    }
    let mut rw = Rewriter::new(graph);
    for (n, live) in graph.nodes.iter().zip(live) {
        if live || n.op == &INPUT {
            rw.keep(n);
        } else {
            rw.replace([]);
        }
    }
    rw.finish()
}
