//! Constant folding: evaluates nodes whose inputs are small constants.

use crate::Rewriter;
use ir::{Attrs, CONST, FlatNode, Graph, Literal, Meaning, Result};

/// Runs one primitive node on constants.
pub type Eval<'a> = &'a dyn Fn(&FlatNode, &[Literal]) -> Result<Vec<Literal>>;

/// Constants with more elements than this are left to the device: folding must not turn a
/// broadcast scalar into a large table.
const FOLD_MAX: usize = 64;

/// Puts constants in place of nodes that compute them.
pub fn fold(graph: &Graph, eval: Eval) -> Result<Graph> {
    let mut rw = Rewriter::new(graph);
    for n in &graph.nodes {
        let Some(consts) = constants(&rw, n) else {
            rw.keep(n);
            continue;
        };
        let values = eval(n, &consts).map_err(|e| e.in_op(n.op.name).at(n.site))?;
        let mut outs = Vec::with_capacity(values.len());
        for v in values {
            outs.push(rw.new.push(&CONST, &[], Attrs::new().with("value", v), n.site)?);
        }
        rw.replace(outs);
    }
    Ok(rw.finish())
}

/// The node's inputs, if all are small constants and so are its results.
fn constants(rw: &Rewriter, n: &FlatNode) -> Option<Vec<Literal>> {
    let is_foldable = matches!(n.op.meaning, Meaning::Scalar(_) | Meaning::View(_) | Meaning::Reduce(_))
        && !n.inputs.is_empty()
        && n.outs.iter().all(|t| t.shape.count() <= FOLD_MAX);
    if !is_foldable {
        return None;
    }
    n.inputs.iter().map(|&s| rw.new.constant(rw.at(s)).cloned()).collect()
}
