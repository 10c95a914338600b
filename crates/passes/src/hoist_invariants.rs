//! Loop-invariant code motion: splits a loop's body into what is computed once and what is computed in each iteration.

use crate::prune;
use ir::{FlatNode, Graph, INPUT, Meaning, Slot};
use smallvec::SmallVec;

/// A loop's body in two parts.
pub struct Hoisted {
    /// What is computed once: takes all inputs of the body, of which it uses only those that are
    /// the same at every turn.
    pub once: Graph,
    /// What is computed at each turn: takes the inputs of the body, then the results of `once`.
    pub each: Graph,
}

/// Splits a body; `same` says which inputs are the same at every turn. Elementwise nodes,
/// reductions and kernels of such inputs are taken out, and so are views that only move the
/// elements a kernel reads: the kernel then finds them in order at every turn.
pub fn hoist_invariants(graph: &Graph, same: &[bool]) -> Hoisted {
    let mut fixed = vec![false; graph.nodes.len()];
    let mut given = same.iter();
    for (i, n) in graph.nodes.iter().enumerate() {
        fixed[i] = match n.op.meaning {
            Meaning::Input => *given.next().unwrap_or(&false),
            Meaning::Const => true,
            _ => !n.is_ordered() && n.inputs.iter().all(|s| fixed[s.node as usize]),
        };
    }
    let mut taken: Vec<Slot> = Vec::new();
    // What the turns compute: varying nodes, and views that are not worth taking out.
    let mut stays = vec![false; graph.nodes.len()];
    graph.outputs.iter().for_each(|&s| use_of(graph, &fixed, s, false, &mut taken, &mut stays));
    for (i, n) in graph.nodes.iter().enumerate().filter(|(i, _)| !fixed[*i]) {
        stays[i] = true;
        let is_kernel = matches!(n.op.meaning, Meaning::Kernel(_) | Meaning::Composite(_) | Meaning::Control(_));
        n.inputs.iter().for_each(|&s| use_of(graph, &fixed, s, is_kernel, &mut taken, &mut stays));
    }
    taken.sort_unstable();
    let once = prune(&Graph { outputs: taken.clone(), updates: Vec::new(), ..graph.clone() });
    Hoisted { once, each: turns(graph, &taken, &stays) }
}

/// Notes how the turns come by a fixed value: taken out, or left where it is.
fn use_of(graph: &Graph, fixed: &[bool], s: Slot, by_kernel: bool, taken: &mut Vec<Slot>, stays: &mut [bool]) {
    let n = graph.node(s);
    if !fixed[s.node as usize] || taken.contains(&s) {
        return;
    }
    match n.op.meaning {
        Meaning::Input | Meaning::Const => stays[s.node as usize] = true,
        Meaning::View(_) if !(by_kernel && moves_elements(graph, n)) => {
            stays[s.node as usize] = true;
            use_of(graph, fixed, n.inputs[0], by_kernel, taken, stays);
        }
        _ => taken.push(s),
    }
}

/// True if a view (of views) has as many elements as what it looks at, in another order.
fn moves_elements(graph: &Graph, n: &FlatNode) -> bool {
    let types = graph.input_types(n);
    let Meaning::View(f) = n.op.meaning else { return false };
    if types[0].shape.count() != n.outs[0].shape.count() {
        return false;
    }
    let layout = ir::Layout::contiguous(&types[0].shape);
    let is_moved =
        f(&ir::Call { types: &types, attrs: &n.attrs }, &layout).is_ok_and(|l| l.is_some_and(|l| !l.is_contiguous()));
    is_moved || moves_elements(graph, graph.node(n.inputs[0]))
}

/// The part of a body that is left, with `taken` as further inputs.
fn turns(graph: &Graph, taken: &[Slot], stays: &[bool]) -> Graph {
    let mut out = Graph::new();
    let mut map: Vec<SmallVec<[Slot; 1]>> = vec![SmallVec::new(); graph.nodes.len()];
    for &i in &graph.inputs {
        let n = &graph.nodes[i as usize];
        let at = out.push_typed(n.op, SmallVec::new(), n.attrs.clone(), n.outs.clone(), n.site);
        out.inputs.push(at.node);
        map[i as usize] = SmallVec::from_iter([at]);
    }
    let given: Vec<Slot> = taken.iter().map(|&s| out.input("", graph.ty(s), graph.node(s).site)).collect();
    let at = |map: &[SmallVec<[Slot; 1]>], s: Slot| match taken.iter().position(|&t| t == s) {
        Some(k) => given[k],
        None => map[s.node as usize][s.out as usize],
    };
    for (i, n) in graph.nodes.iter().enumerate().filter(|(i, n)| stays[*i] && n.op != &INPUT) {
        let inputs = n.inputs.iter().map(|&s| at(&map, s)).collect();
        let first = out.push_typed(n.op, inputs, n.attrs.clone(), n.outs.clone(), n.site);
        map[i] = (0..n.outs.len()).map(|o| Slot { node: first.node, out: o as u32 }).collect();
    }
    out.outputs = graph.outputs.iter().map(|&s| at(&map, s)).collect();
    out
}
