//! Moves views that select elements before elementwise ops: `V(f(a, b))` becomes `f(V(a), V(b))` where nothing else reads
//! `f(a, b)`. Otherwise every element would be computed and stored, also those that nothing reads.

use crate::Rewriter;
use ir::{DType, FlatNode, Graph, Meaning, Slot, Type};
use rustc_hash::FxHashMap;
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

/// The elements of an elementwise value that view `by` selects. Chains may be long: they are no recursion.
fn sliced(graph: &Graph, uses: &[u32], rw: &mut Rewriter, by: &FlatNode, s: Slot) -> Slot {
    let has_shape = |i: &Slot| graph.ty(*i).shape == graph.ty(s).shape;
    // What only `s` needs, directly or through others.
    let mut chain = vec![s];
    for at in 0.. {
        let Some(&of) = chain.get(at) else { break };
        let inputs = graph.node(of).inputs.iter().copied();
        chain.extend(inputs.filter(|i| has_shape(i) && is_sliced(graph, uses, *i)));
    }
    chain.sort_unstable_by_key(|s| s.node);
    let mut new: FxHashMap<Slot, Slot> = FxHashMap::default();
    for of in chain {
        let push = |rw: &mut Rewriter, n: &FlatNode, dtype: DType, inputs: SmallVec<[Slot; 3]>| {
            let outs = SmallVec::from_iter([Type::new(dtype, &by.outs[0].shape)]);
            rw.new.push_typed(n.op, inputs, n.attrs.clone(), outs, n.site)
        };
        let n = graph.node(of);
        let mut inputs = SmallVec::new();
        for i in &n.inputs {
            let from = rw.at(*i);
            inputs.push(match new.get(i) {
                Some(&made) => made,
                None if has_shape(i) => push(rw, by, graph.ty(*i).dtype, SmallVec::from_iter([from])),
                None => from,
            });
        }
        let made = push(rw, n, n.outs[0].dtype, inputs);
        new.insert(of, made);
    }
    new[&s]
}
