//! Sums of values that are padded with zeros to one side and the other become concatenations. Gradients of slices are
//! such sums: of the parts of complex numbers, and of chunks.

use crate::claims::op;
use crate::rewrite::rows::CONCAT;
use ir::{Attrs, FlatNode, Graph, Result, Slot};
use passes::{Rewriter, prune};
use smallvec::SmallVec;

/// A padded value: along which axis, and from where to where it lies.
struct Part {
    from: Slot,
    axis: usize,
    start: usize,
    end: usize,
}

/// The graph with concatenations.
pub fn join_pads(graph: &Graph) -> Result<Option<Graph>> {
    if graph.nodes.iter().filter(|n| n.op.name == op::PAD).count() < 2 {
        return Ok(None);
    }
    let uses = graph.uses();
    let mut is_inside = vec![false; graph.nodes.len()];
    let mut joins: Vec<Option<Vec<Part>>> = (0..graph.nodes.len()).map(|_| None).collect();
    for i in (0..graph.nodes.len()).rev().filter(|&i| graph.nodes[i].op.name == op::ADD) {
        if !is_inside[i] {
            joins[i] = parts(graph, &uses, i, &mut is_inside);
        }
    }
    if joins.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut rw = Rewriter::new(graph);
    for (n, join) in graph.nodes.iter().zip(&joins) {
        let Some(parts) = join else {
            rw.keep(n);
            continue;
        };
        let inputs: SmallVec<[Slot; 3]> = parts.iter().map(|p| rw.at(p.from)).collect();
        let attrs = Attrs::new().with("axis", parts[0].axis);
        let made = rw.new.push_typed(&CONCAT, inputs, attrs, n.outs.clone(), n.site);
        rw.replace([made]);
    }
    Ok(Some(prune(&rw.finish())))
}

/// The parts that a sum consists of, in their order, if they fill it.
fn parts(graph: &Graph, uses: &[u32], sum: usize, is_inside: &mut [bool]) -> Option<Vec<Part>> {
    let ty = &graph.nodes[sum].outs[0];
    let (mut found, mut inner, mut open) = (Vec::new(), Vec::new(), graph.nodes[sum].inputs.to_vec());
    while let Some(s) = open.pop() {
        let n = graph.node(s);
        if uses[s.node as usize] != 1 || n.outs[0] != *ty {
            return None;
        }
        inner.push(s.node as usize);
        match n.op.name {
            op::ADD => open.extend(&n.inputs),
            op::PAD => found.push(part(n, graph)?),
            _ => return None,
        }
    }
    found.sort_by_key(|p| p.start);
    let axis = found.first()?.axis;
    let mut at = 0;
    for p in &found {
        if p.axis != axis || p.start != at {
            return None;
        }
        at = p.end;
    }
    if at != ty.shape[axis] {
        return None;
    }
    inner.into_iter().for_each(|k| is_inside[k] = true);
    Some(found)
}

/// A node that pads with zeros along one axis.
fn part(n: &FlatNode, graph: &Graph) -> Option<Part> {
    let (lo, hi) = (n.attrs.ints("lo").ok()?, n.attrs.ints("hi").ok()?);
    let mut axes = (0..lo.len()).filter(|&d| lo[d] != 0 || hi[d] != 0);
    let axis = axes.next()?;
    let is_plain = axes.next().is_none() && lo[axis] >= 0 && hi[axis] >= 0 && n.attrs.float("value") == Ok(0.0);
    let (from, start) = (n.inputs[0], usize::try_from(lo[axis]).ok()?);
    is_plain.then(|| Part { from, axis, start, end: start + graph.ty(from).shape[axis] })
}
