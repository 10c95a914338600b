//! Max pooling of images with their channels last, found among the ops it consists of: where the
//! greatest element of each window is, a gather from there, and a scatter back to there.

use crate::claims::op;
use ir::{DType, FlatNode, Graph, Meaning, Shape, Slot};
use rustc_hash::FxHashMap;

/// What a node is of a pooling, which is known by its node `max_pool_index`.
pub enum Part {
    /// It finds the places.
    Index,
    /// It is the result.
    Pooled(usize),
    /// It is the image's gradient, from this gradient of the result.
    Back(usize, Slot),
}

/// The parts of poolings among a graph's nodes.
pub fn parts(graph: &Graph) -> FxHashMap<usize, Part> {
    let mut found = FxHashMap::default();
    let users = users(graph);
    let reshaped = |node: usize| users[node].iter().copied().filter(|&r| graph.nodes[r].op.name == op::RESHAPE);
    for (i, n) in graph.nodes.iter().enumerate().filter(|(_, n)| is_index(graph, n)) {
        found.insert(i, Part::Index);
        let (x, out) = (n.inputs[0], &n.outs[0].shape);
        for flat in reshaped(i) {
            for &u in &users[flat] {
                let m = &graph.nodes[u];
                let is_by = m.inputs.len() > 1 && m.inputs[1].node as usize == flat && m.attrs.size("axis") == Ok(2);
                let (shape, part): (&Shape, Box<dyn Fn() -> Part>) = match m.op.name {
                    op::GATHER if is_by && behind(graph, m.inputs[0]) == Some(x) => (out, Box::new(|| Part::Pooled(i))),
                    op::SCATTER_ADD if is_by && is_zero(graph, m.inputs[0]) => match behind(graph, m.inputs[2]) {
                        Some(g) if graph.ty(g).shape == *out => {
                            (&graph.ty(x).shape, Box::new(move || Part::Back(i, g)))
                        }
                        _ => continue,
                    },
                    _ => continue,
                };
                for r in reshaped(u).filter(|&r| graph.nodes[r].outs[0].shape == *shape) {
                    found.insert(r, part());
                }
            }
        }
    }
    found
}

fn users(graph: &Graph) -> Vec<Vec<usize>> {
    let mut users = vec![Vec::new(); graph.nodes.len()];
    for (i, n) in graph.nodes.iter().enumerate() {
        n.inputs.iter().for_each(|s| users[s.node as usize].push(i));
    }
    users
}

/// True for places in windows that a byte can number, of whole vectors of channels.
fn is_index(graph: &Graph, n: &FlatNode) -> bool {
    let (true, 4) = (n.op.name == op::MAX_POOL_INDEX, n.outs[0].shape.rank()) else { return false };
    let list = |name: &str| n.attrs.sizes(name).map(|l| l.to_vec()).unwrap_or_default();
    let ty = graph.ty(n.inputs[0]);
    let is_short = matches!(ty.dtype, DType::BF16 | DType::F16);
    let is_small = list("window").iter().product::<usize>() < 256 && list("dilation").iter().all(|&d| d == 1);
    is_short && is_small && ty.shape[1].is_multiple_of(8) && n.outs[0].shape.count() > 0
}

/// The operand of a reshape.
fn behind(graph: &Graph, s: Slot) -> Option<Slot> {
    let n = graph.node(s);
    (n.op.name == op::RESHAPE).then(|| n.inputs[0])
}

fn is_zero(graph: &Graph, s: Slot) -> bool {
    match graph.node(s).op.meaning {
        Meaning::View(_) => is_zero(graph, graph.node(s).inputs[0]),
        _ => graph.constant(s).is_some_and(|c| c.bytes().iter().all(|&b| b == 0)),
    }
}
