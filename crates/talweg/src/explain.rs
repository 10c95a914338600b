//! What becomes of a graph on its way to the device, as text.

use std::fmt::Write;
use tensor::{Result, engine};

/// A graph as it is compiled for the current device: a line a region with the ops in it, the bytes it moves, the
/// operations it does and the user's lines, then the memory. With `stages`, before that the graph as written and after
/// each pass.
///
/// ```
/// use talweg::prelude::*;
///
/// let f = jit(|a: &[Tensor]| Ok(vec![(&a[0] + 1.0) * (&a[0] + 2.0)]));
/// let text = talweg::explain(&f.graph(&[&Tensor::ones([3])])?, true)?;
/// assert!(text.contains("== as written") && text.contains("== compiled for cpu"));
/// # Ok::<(), talweg::Error>(())
/// ```
pub fn explain(graph: &ir::Graph, stages: bool) -> Result<String> {
    let device = engine().device();
    let mut out = String::new();
    // Writing to a string does not fail.
    if stages {
        let _ = writeln!(out, "== as written: {} nodes\n{graph}", graph.nodes.len());
    }
    let all = engine().stages(graph)?;
    for s in all.iter().filter(|_| stages) {
        let _ = writeln!(out, "== after {}: {} nodes\n{}", s.name, s.graph.nodes.len(), s.graph);
    }
    let last = all.last().map_or(graph, |s| &s.graph);
    let _ = writeln!(out, "== compiled for {}\n{}", device.name(), device.compile(last.clone())?.explain());
    Ok(out)
}
