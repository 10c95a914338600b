//! Complex numbers become pairs of real ones: a new last dimension of size 2.
//!
//! After this pass, no device and no other pass sees a complex type. The program around the graph passes complex
//! values in and out as pairs, which is what they are in memory.

use crate::Rewriter;
use crate::decompose::{expansion, splice};
use ir::{Attr, Attrs, CONST, FlatNode, Graph, Meaning, Result, Slot, Type};
use smallvec::SmallVec;
use std::sync::Arc;

/// True if a value of the graph, or of one inside it, is complex.
pub fn has_complex(graph: &Graph) -> bool {
    let inside = |n: &FlatNode| n.attrs.iter().any(|(_, a)| matches!(a, Attr::Graph(g) if has_complex(g)));
    graph.nodes.iter().any(|n| n.outs.iter().any(|t| t.dtype.is_complex()) || inside(n))
}

/// The graph without complex types.
pub fn split_complex(graph: &Graph) -> Result<Graph> {
    let mut rw = Rewriter::new(graph);
    for n in &graph.nodes {
        let types = graph.input_types(n);
        let is_complex = types.iter().chain(&n.outs).any(|t| t.dtype.is_complex());
        match n.op.meaning {
            // Both sides are the same pairs.
            Meaning::Recast => {
                let same = rw.at(n.inputs[0]);
                rw.replace([same]);
            }
            Meaning::Input if is_complex => {
                let at = rw.new.input(n.attrs.str("name")?, &n.outs[0].paired(), n.site);
                rw.replace([at]);
            }
            Meaning::Const if is_complex => {
                let value = Attrs::new().with("value", n.attrs.literal("value")?.paired());
                let at = rw.new.push(&CONST, &[], value, n.site)?;
                rw.replace([at]);
            }
            Meaning::Composite(expand) if is_complex => {
                let body = split_complex(&expansion(n, &types, expand)?)?;
                let args: SmallVec<[Slot; 3]> = n.inputs.iter().map(|&s| rw.at(s)).collect();
                let outs = splice(&mut rw.new, &body, &args);
                rw.replace(outs);
            }
            _ => rw.keep(&inside(n)?),
        }
    }
    Ok(rw.finish())
}

/// A node whose types and sub-graphs have no complex types.
fn inside(n: &FlatNode) -> Result<FlatNode> {
    let mut attrs = n.attrs.clone();
    for (name, a) in n.attrs.iter() {
        if let Attr::Graph(g) = a
            && has_complex(g)
        {
            attrs = attrs.set(name, Arc::new(split_complex(g)?));
        }
    }
    Ok(FlatNode { attrs, outs: n.outs.iter().map(Type::paired).collect(), ..n.clone() })
}
