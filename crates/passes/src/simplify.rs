//! Removes what changes nothing (`x + 0`, `x * 1`, views onto the same elements) and computes
//! what is already known.

use crate::Rewriter;
use ir::{Attrs, CONST, Call, FlatNode, Graph, Layout, Literal, Meaning, Result, Slot};

/// Runs one primitive node on constants.
pub type Eval<'a> = &'a dyn Fn(&FlatNode, &[Literal]) -> Result<Vec<Literal>>;

/// Constants with more elements than this are left to the device: folding must not turn a
/// broadcast scalar into a large table.
const FOLD_MAX: usize = 64;

/// Folds constants and drops identities.
pub fn simplify(graph: &Graph, eval: Eval) -> Result<Graph> {
    let mut rw = Rewriter::new(graph);
    for n in &graph.nodes {
        if let Some(same) = identity(graph, n)? {
            let at = rw.at(same);
            rw.replace([at]);
        } else if let Some(consts) = constants(&rw, n) {
            let values = eval(n, &consts).map_err(|e| e.in_op(n.op.name).at(n.site))?;
            let mut outs = Vec::with_capacity(values.len());
            for v in values {
                outs.push(rw.new.push(&CONST, &[], Attrs::new().with("value", v), n.site)?);
            }
            rw.replace(outs);
        } else {
            rw.keep(n);
        }
    }
    Ok(rw.finish())
}

/// The input that a node merely repeats.
fn identity(graph: &Graph, n: &FlatNode) -> Result<Option<Slot>> {
    let out = &n.outs[0];
    match n.op.meaning {
        Meaning::View(f) => {
            let types = graph.input_types(n);
            let layout = Layout::contiguous(&types[0].shape);
            let same = f(&Call { types: &types, attrs: &n.attrs }, &layout)? == Some(layout);
            Ok(same.then_some(n.inputs[0]))
        }
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
            let is_neutral = |s: Slot| graph.constant(s).is_some_and(|c| is_single(c, neutral));
            let (a, b) = (n.inputs[0], n.inputs[1]);
            if is_neutral(b) && graph.ty(a) == out {
                return Ok(Some(a));
            }
            Ok((commutes && is_neutral(a) && graph.ty(b) == out).then_some(b))
        }
        _ => Ok(None),
    }
}

/// True for one element that is `x`: for floats to the bit, as the zeros are not alike, else by value.
fn is_single(c: &Literal, x: f64) -> bool {
    c.count() == 1
        && if c.dtype().is_float() { c.to_f64()[0].to_bits() == x.to_bits() } else { c.to_i64()[0] == x as i64 }
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
