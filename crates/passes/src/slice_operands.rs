//! Moves views that select elements before elementwise ops: `V(f(a, b))` becomes `f(V(a), V(b))` where nothing else reads
//! `f(a, b)`. Otherwise every element would be computed and stored, also those that nothing reads.

use crate::Rewriter;
use ir::{FlatNode, Graph, Meaning, Slot, Type};
use smallvec::SmallVec;

/// Slices operands instead of results; `None` if there is nothing to do.
pub fn slice_operands(graph: &Graph) -> Option<Graph> {
    let uses = graph.uses();
    let selects = |n: &FlatNode| {
        matches!(n.op.meaning, Meaning::View(_))
            && n.outs[0].shape.count() < graph.ty(n.inputs[0]).shape.count()
            && is_sliced(graph, &uses, n.inputs[0])
    };
    if !graph.nodes.iter().any(selects) {
        return None;
    }
    let mut rw = Rewriter::new(graph);
    for n in &graph.nodes {
        if selects(n) {
            let new = sliced(graph, &uses, &mut rw, n, n.inputs[0]);
            rw.replace([new]);
        } else {
            rw.keep(n);
        }
    }
    Some(rw.finish())
}

/// Whether a value is elementwise in operands that have its shape or one element, and is read once.
fn is_sliced(graph: &Graph, uses: &[u32], s: Slot) -> bool {
    let n = graph.node(s);
    let fits = |&i: &Slot| graph.ty(i).shape == n.outs[0].shape || graph.ty(i).shape.count() == 1;
    let is_elementwise = matches!(n.op.meaning, Meaning::Scalar(_)) && n.outs.len() == 1;
    is_elementwise && uses[s.node as usize] == 1 && n.inputs.iter().all(fits)
}

/// The elements of a value that view `by` selects.
fn sliced(graph: &Graph, uses: &[u32], rw: &mut Rewriter, by: &FlatNode, s: Slot) -> Slot {
    let n = graph.node(s);
    let out = |rw: &mut Rewriter, of: &FlatNode, inputs: SmallVec<[Slot; 4]>| {
        let outs = SmallVec::from_iter([Type::new(graph.ty(s).dtype, &by.outs[0].shape)]);
        rw.new.push_typed(of.op, inputs.into_iter().collect(), of.attrs.clone(), outs, of.site)
    };
    if !is_sliced(graph, uses, s) {
        let from = rw.at(s);
        return out(rw, by, SmallVec::from_iter([from]));
    }
    let inputs = n.inputs.iter().map(|&i| match graph.ty(i).shape == n.outs[0].shape {
        true => sliced(graph, uses, rw, by, i),
        false => rw.at(i),
    });
    let inputs = inputs.collect();
    out(rw, n, inputs)
}
