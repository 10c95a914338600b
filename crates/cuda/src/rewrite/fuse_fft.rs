//! Fourier transforms along neighboring axes become one transform of several dimensions.

use crate::claims::op;
use crate::rewrite::rows::FFT_AXES;
use ir::{Attrs, DType, Graph, Result, Slot};
use passes::Rewriter;

/// Axes that the library transforms at once.
const AXES_MAX: usize = 3;

/// A chain of transforms: the value it begins with, and its first axis with their number.
struct Chain {
    from: Slot,
    axis: usize,
    count: usize,
}

/// Fuses transforms of which the later is the only user of the earlier. Their axes are the last ones.
pub fn fuse_fft(graph: &Graph) -> Result<Option<Graph>> {
    if graph.nodes.iter().filter(|n| n.op.name == op::FFT).count() < 2 {
        return Ok(None);
    }
    let uses = graph.uses();
    let mut is_inside = vec![false; graph.nodes.len()];
    let mut chains: Vec<Option<Chain>> = (0..graph.nodes.len()).map(|_| None).collect();
    for i in (0..graph.nodes.len()).rev().filter(|&i| graph.nodes[i].op.name == op::FFT) {
        if !is_inside[i] {
            chains[i] = chain(graph, &uses, i, &mut is_inside)?;
        }
    }
    if chains.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut rw = Rewriter::new(graph);
    for (i, n) in graph.nodes.iter().enumerate() {
        match &chains[i] {
            // Only the chain uses it.
            None if is_inside[i] => rw.replace([Slot::new(0, 0)]),
            None => rw.keep(n),
            Some(c) => {
                let attrs = Attrs::new().with("axis", c.axis).with("count", c.count);
                let attrs = attrs.with("inverse", n.attrs.bool("inverse")?);
                let made = rw.new.push(&FFT_AXES, &[rw.at(c.from)], attrs, n.site)?;
                rw.replace([made]);
            }
        }
    }
    Ok(Some(rw.finish()))
}

/// The chain that ends with a node; marks the nodes before the last.
fn chain(graph: &Graph, uses: &[u32], last: usize, is_inside: &mut [bool]) -> Result<Option<Chain>> {
    let n = &graph.nodes[last];
    let ty = &n.outs[0];
    let axes = ty.shape.rank() - 1;
    if !matches!(ty.dtype, DType::F32 | DType::F64) {
        return Ok(None);
    }
    let is_inverse = n.attrs.bool("inverse")?;
    let mut found = vec![n.attrs.size("axis")?];
    let mut nodes = vec![last];
    loop {
        let before = graph.nodes[nodes[nodes.len() - 1]].inputs[0];
        let m = graph.node(before);
        let is_next = m.op.name == op::FFT && uses[before.node as usize] == 1 && m.attrs.bool("inverse")? == is_inverse;
        if !is_next || found.len() == AXES_MAX || found.contains(&m.attrs.size("axis")?) {
            break;
        }
        found.push(m.attrs.size("axis")?);
        nodes.push(before.node as usize);
    }
    // The longest part of it whose axes are neighbors up to the last.
    while found.len() > 1 {
        let first = axes - found.len().min(axes);
        if found.iter().all(|&a| a >= first) {
            nodes[1..].iter().for_each(|&k| is_inside[k] = true);
            let from = graph.nodes[nodes[nodes.len() - 1]].inputs[0];
            return Ok(Some(Chain { from, axis: first, count: found.len() }));
        }
        found.pop();
        nodes.pop();
    }
    Ok(None)
}
