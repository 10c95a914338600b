//! Removes what changes nothing: `x + 0`, `x * 1`, a cast to the same type, views that together
//! lead back to the same elements.

use crate::Rewriter;
use ir::{Call, FlatNode, Graph, Layout, Literal, Meaning, Result, Slot};

/// Views looked through at most.
const CHAIN_MAX: usize = 8;

/// Drops identities.
pub fn simplify(graph: &Graph) -> Result<Graph> {
    let mut rw = Rewriter::new(graph);
    for n in &graph.nodes {
        match identity(&rw, graph, n)? {
            Some(same) => rw.replace([same]),
            None => rw.keep(n),
        }
    }
    Ok(rw.finish())
}

/// The value of the new graph that a node merely repeats.
fn identity(rw: &Rewriter, graph: &Graph, n: &FlatNode) -> Result<Option<Slot>> {
    if let Meaning::View(f) = n.op.meaning {
        return same_view(&rw.new, rw.at(n.inputs[0]), f, n);
    }
    Ok(repeated(graph, n)?.map(|s| rw.at(s)))
}

type View = fn(&Call, &Layout) -> Result<Option<Layout>>;

/// The value that a view, after the views it looks through, shows as it is.
fn same_view(new: &Graph, input: Slot, f: View, n: &FlatNode) -> Result<Option<Slot>> {
    // The views from the last one on, until one cannot be said as strides of what it looks at.
    let mut chain: Vec<(View, &FlatNode)> = vec![(f, n)];
    let mut root = input;
    loop {
        let ty = new.ty(root);
        if ty == &n.outs[0] {
            let whole = Layout::contiguous(&ty.shape);
            let mut layout = Some(whole.clone());
            for (f, n) in chain.iter().rev() {
                let Some(l) = layout else { break };
                let types = [ir::Type::new(ty.dtype, l.shape.clone())];
                layout = f(&Call { types: &types, attrs: &n.attrs }, &l)?;
            }
            if layout == Some(whole) {
                return Ok(Some(root));
            }
        }
        let next = new.node(root);
        let Meaning::View(f) = next.op.meaning else { return Ok(None) };
        if chain.len() == CHAIN_MAX {
            return Ok(None);
        }
        chain.push((f, next));
        root = next.inputs[0];
    }
}

/// The input that a node which is not a view merely repeats.
fn repeated(graph: &Graph, n: &FlatNode) -> Result<Option<Slot>> {
    let out = &n.outs[0];
    match n.op.meaning {
        Meaning::Reduce(_) => {
            let x = graph.ty(n.inputs[0]);
            let axes = n.attrs.sizes("axes")?;
            Ok((x == out && axes.iter().all(|&a| x.shape[a] == 1)).then_some(n.inputs[0]))
        }
        Meaning::Scalar(s) if s.arity == 1 && s.out == ir::Out::Cast => {
            Ok((graph.ty(n.inputs[0]) == out).then_some(n.inputs[0]))
        }
        Meaning::Scalar(s) if s.arity == 2 => {
            let Some((neutral, commutes)) = s.neutral else { return Ok(None) };
            let is_neutral = |s: Slot| graph.constant(viewed(graph, s)).is_some_and(|c| is_single(c, neutral));
            let (a, b) = (n.inputs[0], n.inputs[1]);
            if is_neutral(b) && graph.ty(a) == out {
                return Ok(Some(a));
            }
            Ok((commutes && is_neutral(a) && graph.ty(b) == out).then_some(b))
        }
        _ => Ok(None),
    }
}

/// What a chain of views looks at: of one element they show nothing else.
fn viewed(graph: &Graph, mut s: Slot) -> Slot {
    while let Meaning::View(_) = graph.node(s).op.meaning {
        s = graph.node(s).inputs[0];
    }
    s
}

/// True for one element that is `x`: for floats to the bit, as the zeros are not alike, else by value.
fn is_single(c: &Literal, x: f64) -> bool {
    c.count() == 1
        && if c.dtype().is_float() { c.to_f64()[0].to_bits() == x.to_bits() } else { c.to_ints()[0] == x as i128 }
}
