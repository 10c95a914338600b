//! The memory layout of attention: results as `[N, L, H, F]`, so that the projection after it needs no copy, and the
//! gradients of queries, keys and values written into their concatenation.

use crate::claims::op;
use crate::dnn;
use crate::emit::kernels::Operand;
use crate::rewrite::rows::{ATTENTION, ATTENTION_GRAD, ATTENTION_GRAD_JOINED, PERMUTE, SWAP_HEADS};
use crate::rewrite::views_of;
use crate::target::Supports;
use ir::{Attrs, FlatNode, Graph, Layout, Meaning, Op, Result, Slot, Type};
use passes::{Rewriter, View, prune};

/// The op to put in place of a node's, and how many of its results are `[N, L, H, F]`. An output of the graph stays
/// as it is.
fn heads_inner(graph: &Graph, i: usize, n: &FlatNode) -> Option<(&'static Op, usize)> {
    match n.op.name {
        _ if n.outs[0].shape.rank() != 4 || graph.outputs.iter().any(|s| s.node as usize == i) => None,
        op::ATTENTION => Some((&ATTENTION, 1)),
        op::ATTENTION_GRAD => Some((&ATTENTION_GRAD, 3)),
        _ => None,
    }
}

/// The graph with attention's results in the order `[N, L, H, F]`, and views that swap them back.
pub fn heads_last(graph: &Graph) -> Result<Option<Graph>> {
    if !graph.nodes.iter().enumerate().any(|(i, n)| heads_inner(graph, i, n).is_some()) {
        return Ok(None);
    }
    let mut rw = Rewriter::new(graph);
    for (i, n) in graph.nodes.iter().enumerate() {
        let Some((op, count)) = heads_inner(graph, i, n) else {
            rw.keep(n);
            continue;
        };
        let inputs: Vec<Slot> = n.inputs.iter().map(|&s| rw.at(s)).collect();
        let at = rw.new.push(op, &inputs, n.attrs.clone(), n.site)?;
        let mut results = Vec::with_capacity(n.outs.len());
        for i in 0..n.outs.len() {
            let made = Slot { node: at.node, out: i as u32 };
            let back = || Attrs::new().with("axes", SWAP_HEADS.as_slice());
            results.push(if i < count { rw.new.push(&PERMUTE, &[made], back(), n.site)? } else { made });
        }
        rw.replace(results);
    }
    Ok(Some(rw.finish()))
}

/// The graph with the gradients of attention written into their concatenation.
pub fn join_gradients(graph: &Graph, supports: Supports) -> Result<Option<Graph>> {
    let joins = joins(graph, supports)?;
    if joins.is_empty() {
        return Ok(None);
    }
    let mut rw = Rewriter::new(graph);
    for (i, n) in graph.nodes.iter().enumerate() {
        if let Some(&join) = joins.iter().find_map(|(grad, join)| (*grad == i).then_some(join)) {
            let inputs: Vec<Slot> = n.inputs.iter().map(|&s| rw.at(s)).collect();
            let at = rw.new.push(&ATTENTION_GRAD_JOINED, &inputs, joined_attrs(n, &graph.nodes[join]), n.site)?;
            rw.replace(n.outs.iter().map(|_| at));
        } else if let Some(&(grad, _)) = joins.iter().find(|(_, join)| *join == i) {
            rw.replace([rw.at(Slot::new(grad, 0))]);
        } else {
            rw.keep(n);
        }
    }
    // The views between the two have no use left.
    Ok(Some(prune(&rw.finish())))
}

/// Gradients of attention that only go into a concatenation, with it.
fn joins(graph: &Graph, supports: Supports) -> Result<Vec<(usize, usize)>> {
    let views = views_of(graph)?;
    let mut found = Vec::new();
    for (join, n) in graph.nodes.iter().enumerate().filter(|(_, n)| n.op.name == op::CONCAT && n.inputs.len() == 3) {
        let roots: Option<Vec<&View>> = n.inputs.iter().map(|s| views[s.node as usize].as_ref()).collect();
        let Some(roots) = roots else { continue };
        let grad = roots[0].root.node as usize;
        let axis = n.attrs.size("axis")?;
        let m = &graph.nodes[grad];
        let is_part = |(k, p): (usize, &&View)| {
            let whole = p.root == Slot::new(grad, k) && p.layout.is_contiguous() && p.layout.offset == 0;
            // All heads of a token are contiguous in the result.
            let lead: usize = p.layout.shape[..axis].iter().product();
            whole && p.layout.shape.count() == graph.ty(p.root).shape.count() && lead == rows_of(m, k)
        };
        let is_all = m.op == &ATTENTION_GRAD && roots.iter().enumerate().all(is_part);
        if is_all && is_used_once(graph, &views, grad, join) && is_supported(graph, m, n, supports) {
            found.push((grad, join));
        }
    }
    Ok(found)
}

/// Queries (or keys) of all batches.
fn rows_of(grad: &FlatNode, out: usize) -> usize {
    grad.outs[out].shape[0] * grad.outs[out].shape[1]
}

/// True if the results of `grad` are seen by `join` alone.
fn is_used_once(graph: &Graph, views: &[Option<View>], grad: usize, join: usize) -> bool {
    let of = |s: &Slot| views[s.node as usize].as_ref().map_or(s.node as usize, |p| p.root.node as usize);
    let is_view = |n: &FlatNode| matches!(n.op.meaning, Meaning::View(_));
    let users = graph.nodes.iter().enumerate().filter(|(i, n)| *i != join && !is_view(n));
    !users.flat_map(|(_, n)| &n.inputs).chain(&graph.outputs).any(|s| of(s) == grad)
}

/// True if the library writes the gradients there.
fn is_supported(graph: &Graph, grad: &FlatNode, join: &FlatNode, supports: Supports) -> bool {
    let operand = |(k, ty): (usize, &Type)| Operand {
        slot: Slot::new(0, k),
        layout: Layout::contiguous(&ty.shape),
        ty: ty.clone(),
    };
    let args: Vec<Operand> = grad.inputs.iter().map(|&s| graph.ty(s)).enumerate().map(operand).collect();
    let outs: Vec<Operand> = join.outs.iter().enumerate().map(operand).collect();
    dnn::network(ATTENTION_GRAD_JOINED.name, &joined_attrs(grad, join), &args, &outs).is_some_and(|n| supports(&n))
}

/// The attributes of the gradient, and the heads of queries, keys and values with their widths.
fn joined_attrs(grad: &FlatNode, join: &FlatNode) -> Attrs {
    let sizes: Vec<i64> = grad.outs[..3].iter().flat_map(|t| t.shape.iter().map(|&d| d as i64)).collect();
    let shape: Vec<i64> = join.outs[0].shape.iter().map(|&d| d as i64).collect();
    grad.attrs.clone().with("parts", &sizes).with("shape", &shape)
}
