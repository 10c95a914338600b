//! Results of attention with heads beside each other in memory, `[N, L, H, F]`: what follows looks
//! at all heads of a query at once, and so needs no copy.

use crate::channels::TURN;
use ir::{Attrs, Batch, Error, FlatNode, Grad, Graph, Meaning, Op, Result, Shape, Slot, Type, Types};
use passes::Rewriter;

/// Heads and queries the other way round, and back.
const TURNED: [i64; 4] = [0, 2, 1, 3];

macro_rules! turned {
    ($op:ident, $name:literal) => {
        static $op: Op = Op {
            name: $name,
            doc: "The op of that name, whose results have heads beside each other.",
            attrs: &[],
            infer: |_| Err(Error::bug("its types are given")),
            meaning: Meaning::Kernel(|_, _| Err(Error::bug("it is only made where the library computes it"))),
            grad: Grad::Missing("it is put in after differentiation"),
            batch: Batch::Auto,
            cases: Vec::new,
        };
    };
}
turned!(ATTENTION, "attention_turned");
turned!(ATTENTION_GRAD, "attention_grad_turned");

/// The op to put in place of a node's, and how many of its results are turned. A result of the graph
/// is wanted as it is.
fn turned(graph: &Graph, i: usize, n: &FlatNode) -> Option<(&'static Op, usize)> {
    match n.op.name {
        _ if n.outs[0].shape.rank() != 4 || graph.outputs.iter().any(|s| s.node as usize == i) => None,
        "attention" => Some((&ATTENTION, 1)),
        "attention_grad" => Some((&ATTENTION_GRAD, 3)),
        _ => None,
    }
}

/// The graph with attention's results turned in memory, and views that turn them back.
pub fn heads_last(graph: &Graph) -> Result<Graph> {
    let mut rw = Rewriter::new(graph);
    for (i, n) in graph.nodes.iter().enumerate() {
        let Some((op, count)) = turned(graph, i, n) else {
            rw.keep(n);
            continue;
        };
        let turn =
            |t: &Type| Type::new(t.dtype, TURNED.map(|a| t.shape[a as usize]).iter().copied().collect::<Shape>());
        let outs: Types = n.outs.iter().enumerate().map(|(i, t)| if i < count { turn(t) } else { t.clone() }).collect();
        let inputs = n.inputs.iter().map(|&s| rw.at(s)).collect();
        let at = rw.new.push_typed(op, inputs, n.attrs.clone(), outs, n.site);
        let mut results = Vec::with_capacity(n.outs.len());
        for i in 0..n.outs.len() {
            let made = Slot { node: at.node, out: i as u32 };
            let back = || Attrs::new().with("axes", TURNED.as_slice());
            results.push(if i < count { rw.new.push(&TURN, &[made], back(), n.site)? } else { made });
        }
        rw.replace(results);
    }
    Ok(rw.finish())
}
