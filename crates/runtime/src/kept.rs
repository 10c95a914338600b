//! Values inside of an evaluated graph that are materialized, as they would be computed again otherwise.

use ir::{Collected, Meaning, Node, Op, Slot, Value, Var};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// What is materialized besides what was asked for, given the variables that the graph updates.
pub(crate) fn inside<'a>(c: &Collected, updated: impl Iterator<Item = &'a Arc<Var>>) -> Vec<Slot> {
    let asked: FxHashSet<Slot> = c.graph.outputs.iter().copied().collect();
    let mut kept = for_gradients(c);
    kept.extend(for_handles(c, updated));
    kept.sort_unstable_by_key(|s| (s.node, s.out));
    kept.dedup();
    kept.retain(|s| !asked.contains(s));
    kept
}

fn is_view(live: &Node) -> bool {
    live.op().is_some_and(|op| matches!(op.meaning, Meaning::View(_) | Meaning::Recast))
}
/// Whether a node alone is cheap to compute again.
fn is_cheap(live: &Node) -> bool {
    let is_scalar = |op: &Op| matches!(op.meaning, Meaning::Scalar(_) | Meaning::Const);
    is_view(live) || live.op().is_none_or(is_scalar)
}

/// Inner values that a later `backward` would otherwise compute again: results of the costly ops
/// below trainable values, unless a gradient has been taken already.
fn for_gradients(c: &Collected) -> Vec<Slot> {
    let mut kept = Vec::new();
    for (i, live) in c.nodes.iter().enumerate() {
        let Some(live) = live else { continue };
        if is_cheap(live) || !live.needs_grad() || live.is_differentiated() {
            continue;
        }
        kept.extend((0..live.outs().len()).map(|o| Slot::new(i, o)));
    }
    kept
}

/// Inner values to which the program has handles, if they are costly: it may read them again, as the logits of which it
/// takes the loss and then the accuracy. The gradient of a variable that is updated by the same graph has been used.
fn for_handles<'a>(c: &Collected, updated: impl Iterator<Item = &'a Arc<Var>>) -> Vec<Slot> {
    let is_view_at = |i: usize| c.nodes[i].as_deref().is_some_and(is_view);
    // Whether computing it again is costly.
    let mut is_costly = vec![false; c.nodes.len()];
    for (i, (live, n)) in c.nodes.iter().zip(&c.graph.nodes).enumerate() {
        let is_below = n.inputs.iter().any(|s| is_costly[s.node as usize]);
        is_costly[i] = is_below || live.as_deref().is_some_and(|live| !is_cheap(live));
    }
    if !is_costly.contains(&true) {
        return Vec::new();
    }
    // References from inside: of the list of nodes, of other nodes, and of gradients that were used. Nodes that reach
    // another through one pending read hold it together; each counts, which at most computes it again.
    let mut inside: Vec<usize> = vec![1; c.nodes.len()];
    c.graph.nodes.iter().flat_map(|n| &n.inputs).for_each(|s| inside[s.node as usize] += 1);
    let grads: Vec<Value> = updated.filter_map(|var| var.grad()).collect();
    if !grads.is_empty() {
        let place = |(i, live): (usize, &Option<Arc<Node>>)| Some((live.as_ref()?.id(), i));
        let places: FxHashMap<u64, usize> = c.nodes.iter().enumerate().filter_map(place).collect();
        // One of the variable, one of this list.
        grads.iter().filter_map(|g| places.get(&g.node().id())).for_each(|&i| inside[i] += 2);
    }
    // The evaluation itself has handles to what was asked for.
    for s in &c.graph.outputs {
        is_costly[s.node as usize] = false;
    }
    let mut kept = Vec::new();
    for (i, live) in c.nodes.iter().enumerate().filter(|(i, _)| is_costly[*i]) {
        let Some(live) = live.as_ref().filter(|live| Arc::strong_count(live) > inside[i]) else { continue };
        if !is_view_at(i) {
            kept.extend((0..live.outs().len()).map(|o| Slot::new(i, o)));
            continue;
        }
        // Of a view, what it is a view of: there may be less of it.
        let mut base = c.graph.nodes[i].inputs[0];
        while is_view_at(base.node as usize) {
            base = c.graph.nodes[base.node as usize].inputs[0];
        }
        kept.push(base);
    }
    kept
}
