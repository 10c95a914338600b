//! What becomes of a graph on its way to the device, as text.

use passes::place::Holding;
use passes::{Report, Snapshot, Watch};
use runtime::{Engine, Origins, Placed, Program};
use std::fmt::Write;
use tensor::{Result, engine};

/// A graph as it is compiled for the current device: a line a region with the ops in it, the bytes it moves, the
/// operations it does and the user's lines, then the memory. With `stages`, before that the graph as written and what
/// each stage left, the device's own stages included, with the time it took.
///
/// ```
/// use talweg::prelude::*;
///
/// let f = jit(|a: &[Tensor]| Ok(vec![(&a[0] + 1.0) * (&a[0] + 2.0)]));
/// let text = talweg::explain(&f.graph(&[&Tensor::ones([3])])?, true)?;
/// assert!(text.contains("== as written") && text.contains("== after fuse") && text.contains("== compiled for cpu"));
/// # Ok::<(), talweg::Error>(())
/// ```
pub fn explain(graph: &ir::Graph, stages: bool) -> Result<String> {
    explain_on(engine(), graph, stages)
}

/// The same for an engine.
pub(crate) fn explain_on(engine: &Engine, graph: &ir::Graph, stages: bool) -> Result<String> {
    let mut out = String::new();
    // Writing to a string does not fail.
    if stages {
        let _ = writeln!(out, "== as written: {} nodes\n{graph}", graph.nodes.len());
    }
    let mut see = |r: &Report| {
        if stages {
            out += &stage(r);
        }
    };
    if let Some((names, program)) = on_several(engine, graph, &mut Watch::new(&mut see))? {
        let _ = writeln!(out, "== compiled for {}\n{}", names.join(", "), program.explain());
        return Ok(out);
    }
    let program = engine.compile_watched(graph, &mut Watch::new(&mut see))?;
    let _ = writeln!(out, "== compiled for {}\n{}", engine.device().name(), program.explain());
    Ok(out)
}

/// A graph on logical devices, or on those of the scopes it was made in: their names, and what was compiled.
fn on_several(engine: &Engine, graph: &ir::Graph, watch: &mut Watch) -> Result<Option<(Vec<String>, Placed)>> {
    let homes = vec![None; graph.inputs.len()];
    let Some(found) = runtime::placing(&Origins::default(), graph, engine, &homes)? else { return Ok(None) };
    // What is updated is a variable.
    let is_variable = |k: usize| graph.updates.iter().any(|&(i, _)| i as usize == k);
    let held = |k: usize| Holding { home: None, is_variable: is_variable(k) };
    let held: Vec<Holding> = (0..graph.inputs.len()).map(held).collect();
    let placed = runtime::compile_placed(found, &held, watch)?;
    Ok(Some((placed.devices(), placed)))
}

/// What a stage left.
fn stage(r: &Report) -> String {
    let (name, time) = (r.stage, format!("{:.1} ms", r.seconds * 1e3));
    match r.left {
        Snapshot::Graph(_, false) => format!("== after {name}: unchanged ({time})\n\n"),
        Snapshot::Graph(g, true) => format!("== after {name}: {} nodes ({time})\n{g}\n", g.nodes.len()),
        Snapshot::Regions(f) => {
            let (regions, waves) = (f.regions.len(), f.waves.len());
            format!("== after {name}: {regions} regions in {waves} waves ({time})\n{}\n", f.text())
        }
        Snapshot::Memory(m) => format!("== after {name}: arena {} B ({time})\n\n", m.arena_bytes),
        Snapshot::Text(t) => format!("== after {name} ({time})\n{t}\n"),
        Snapshot::Code => format!("== after {name} ({time})\n\n"),
    }
}
