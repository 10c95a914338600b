//! Results of attention with heads beside each other in memory, `[N, L, H, F]`: what follows looks
//! at all heads of a query at once, and so needs no copy. Gradients of queries, keys and values that
//! are put side by side, as those of one projection are, are written so at once.

use crate::dnn;
use crate::emit::kernels::Operand;
use crate::plan::Supports;
use crate::rewrite::nhwc::PERMUTE;
use ir::{Attrs, Call, Error, FlatNode, Grad, Graph, Layout, Meaning, Op, Result, Shape, Slot, Type, Types};
use passes::{Rewriter, View, prune};

/// Heads and queries the other way round, and back.
const SWAP_HEADS: [i64; 4] = [0, 2, 1, 3];

/// An op that a library computes: it is put into a graph that is differentiated and typed.
pub const fn library_op(name: &'static str, doc: &'static str) -> Op {
    Op {
        name,
        doc,
        infer: |_| Err(Error::bug("its types are given")),
        meaning: Meaning::Kernel(|_, _| Err(Error::bug("it is only made where the library computes it"))),
        grad: Grad::Missing("it is put in after differentiation"),
        ..Op::DEFAULT
    }
}

const DOC: &str = "The op of that name, whose results have heads beside each other.";
static ATTENTION: Op = library_op("attention_turned", DOC);
static ATTENTION_GRAD: Op = library_op("attention_grad_turned", DOC);
static ATTENTION_GRAD_JOINED: Op = library_op("attention_grad_joined", DOC);

/// The op to put in place of a node's, and how many of its results are heads_inner. A result of the graph
/// is wanted as it is.
fn heads_inner(graph: &Graph, i: usize, n: &FlatNode) -> Option<(&'static Op, usize)> {
    match n.op.name {
        _ if n.outs[0].shape.rank() != 4 || graph.outputs.iter().any(|s| s.node as usize == i) => None,
        "attention" => Some((&ATTENTION, 1)),
        "attention_grad" => Some((&ATTENTION_GRAD, 3)),
        _ => None,
    }
}

/// The graph with attention's results heads_inner in memory, and views that swap them back.
pub fn heads_last(graph: &Graph) -> Result<Graph> {
    let mut rw = Rewriter::new(graph);
    for (i, n) in graph.nodes.iter().enumerate() {
        let Some((op, count)) = heads_inner(graph, i, n) else {
            rw.keep(n);
            continue;
        };
        let swap =
            |t: &Type| Type::new(t.dtype, SWAP_HEADS.map(|a| t.shape[a as usize]).iter().copied().collect::<Shape>());
        let outs: Types = n.outs.iter().enumerate().map(|(i, t)| if i < count { swap(t) } else { t.clone() }).collect();
        let inputs = n.inputs.iter().map(|&s| rw.at(s)).collect();
        let at = rw.new.push_typed(op, inputs, n.attrs.clone(), outs, n.site);
        let mut results = Vec::with_capacity(n.outs.len());
        for i in 0..n.outs.len() {
            let made = Slot { node: at.node, out: i as u32 };
            let back = || Attrs::new().with("axes", SWAP_HEADS.as_slice());
            results.push(if i < count { rw.new.push(&PERMUTE, &[made], back(), n.site)? } else { made });
        }
        rw.replace(results);
    }
    Ok(rw.finish())
}

/// The graph with gradients of attention written where they are put side by side.
pub fn join_gradients(graph: &Graph, has: Supports) -> Result<Graph> {
    let joins = joins(graph, has)?;
    if joins.is_empty() {
        return Ok(graph.clone());
    }
    let mut rw = Rewriter::new(graph);
    for (i, n) in graph.nodes.iter().enumerate() {
        if let Some(&join) = joins.iter().find_map(|(grad, join)| (*grad == i).then_some(join)) {
            let inputs = n.inputs.iter().map(|&s| rw.at(s)).collect();
            let outs = graph.nodes[join].outs.clone();
            let at = rw.new.push_typed(&ATTENTION_GRAD_JOINED, inputs, joined_attrs(n), outs, n.site);
            rw.replace(n.outs.iter().map(|_| at));
        } else if let Some(&(grad, _)) = joins.iter().find(|(_, join)| *join == i) {
            rw.replace([rw.at(Slot::new(grad, 0))]);
        } else {
            rw.keep(n);
        }
    }
    // Views that led from the one to the other.
    Ok(prune(&rw.finish()))
}

/// Gradients of attention (with results heads_inner) that only go into a concatenation, with it.
fn joins(graph: &Graph, has: Supports) -> Result<Vec<(usize, usize)>> {
    let places = places_so_far(graph)?;
    let mut found = Vec::new();
    for (join, n) in graph.nodes.iter().enumerate().filter(|(_, n)| n.op.name == "concat" && n.inputs.len() == 3) {
        let roots: Option<Vec<&View>> = n.inputs.iter().map(|s| places[s.node as usize].as_ref()).collect();
        let Some(roots) = roots else { continue };
        let grad = roots[0].root.node as usize;
        let axis = n.attrs.size("axis")?;
        let m = &graph.nodes[grad];
        let is_part = |(k, p): (usize, &&View)| {
            let whole = p.root == Slot::new(grad, k) && p.layout.is_contiguous() && p.layout.offset == 0;
            // Everything of a query and a picture is in one piece of the result.
            let lead: usize = p.layout.shape[..axis].iter().product();
            whole && p.layout.shape.count() == graph.ty(p.root).shape.count() && lead == rows_of(m, k)
        };
        let is_all = m.op == &ATTENTION_GRAD && roots.iter().enumerate().all(is_part);
        if is_all && is_used_once(graph, &places, grad, join) && can(graph, m, n, has) {
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
fn is_used_once(graph: &Graph, places: &[Option<View>], grad: usize, join: usize) -> bool {
    let of = |s: &Slot| places[s.node as usize].as_ref().map_or(s.node as usize, |p| p.root.node as usize);
    let is_view = |n: &FlatNode| matches!(n.op.meaning, Meaning::View(_));
    let users = graph.nodes.iter().enumerate().filter(|(i, n)| *i != join && !is_view(n));
    !users.flat_map(|(_, n)| &n.inputs).chain(&graph.outputs).any(|s| of(s) == grad)
}

/// True if the library writes the gradients there.
fn can(graph: &Graph, grad: &FlatNode, join: &FlatNode, has: Supports) -> bool {
    let operand = |(k, ty): (usize, &Type)| Operand {
        slot: Slot::new(0, k),
        layout: Layout::contiguous(&ty.shape),
        ty: ty.clone(),
    };
    let args: Vec<Operand> = grad.inputs.iter().map(|&s| graph.ty(s)).enumerate().map(operand).collect();
    let outs: Vec<Operand> = join.outs.iter().enumerate().map(operand).collect();
    dnn::network(ATTENTION_GRAD_JOINED.name, &joined_attrs(grad), &args, &outs).is_some_and(|n| has(&n))
}

/// The attributes of the gradient, and the heads of queries, keys and values with their widths.
fn joined_attrs(grad: &FlatNode) -> Attrs {
    let sizes: Vec<i64> = grad.outs[..3].iter().flat_map(|t| t.shape.iter().map(|&d| d as i64)).collect();
    grad.attrs.clone().with("parts", &sizes)
}

/// Where each node's first output lies, as far as views can be said with strides.
pub(crate) fn places_so_far(graph: &Graph) -> Result<Vec<Option<View>>> {
    let mut places: Vec<Option<View>> = Vec::with_capacity(graph.nodes.len());
    for (i, n) in graph.nodes.iter().enumerate() {
        let place = match n.op.meaning {
            Meaning::View(f) => {
                let s = n.inputs[0];
                let from = match s.out {
                    0 => places[s.node as usize].clone(),
                    _ => Some(View { root: s, layout: Layout::contiguous(&graph.ty(s).shape) }),
                };
                let types = graph.input_types(n);
                match from {
                    Some(p) => f(&Call { types: &types, attrs: &n.attrs }, &p.layout)?
                        .map(|layout| View { root: p.root, layout }),
                    None => None,
                }
            }
            _ => Some(View { root: Slot::new(i, 0), layout: Layout::contiguous(&n.outs[0].shape) }),
        };
        places.push(place);
    }
    Ok(places)
}
