//! Max pooling, found among the ops it consists of: where the greatest element of each window is, a gather from there,
//! and a scatter back to there. Images with their channels last have kernels of their own; of others, the scatter
//! becomes a gather.

use crate::claims::op;
use crate::rewrite::rows::POOL_GRAD_FIRST;
use ir::{DType, FlatNode, Graph, Meaning, Result, Shape, Slot};
use passes::{Rewriter, prune};
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

/// The graph with gradients of pooling as kernels in which each element looks at the windows it is in: a scatter adds to
/// zeros that are written before, by atomic operations.
pub fn pool_gradients(graph: &Graph) -> Result<Option<Graph>> {
    let is_index = |n: &FlatNode| n.op.name == op::MAX_POOL_INDEX && n.outs[0].shape.count() > 0;
    let parts = parts_of(graph, is_index);
    if !parts.values().any(|p| matches!(p, Part::Back(..))) {
        return Ok(None);
    }
    let mut rw = Rewriter::new(graph);
    for (i, n) in graph.nodes.iter().enumerate() {
        let Some(&Part::Back(index, g)) = parts.get(&i) else {
            rw.keep(n);
            continue;
        };
        let attrs = graph.nodes[index].attrs.clone().with("shape", &n.outs[0].shape);
        let inputs = [rw.at(Slot::new(index, 0)), rw.at(g)];
        let made = rw.new.push(&POOL_GRAD_FIRST, &inputs, attrs, n.site)?;
        rw.replace([made]);
    }
    Ok(Some(prune(&rw.finish())))
}

/// The parts of poolings with channels last among a graph's nodes.
pub fn parts(graph: &Graph) -> FxHashMap<usize, Part> {
    parts_of(graph, |n| is_index(graph, n))
}

/// The parts of poolings by the nodes that find their places.
fn parts_of(graph: &Graph, is_index: impl Fn(&FlatNode) -> bool) -> FxHashMap<usize, Part> {
    let mut found = FxHashMap::default();
    let users = users(graph);
    let reshaped = |node: usize| users[node].iter().copied().filter(|&r| graph.nodes[r].op.name == op::RESHAPE);
    for (i, n) in graph.nodes.iter().enumerate().filter(|(_, n)| is_index(n)) {
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
