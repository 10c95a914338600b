//! What a program consists of, for people.

use ir::{Graph, Slot};
use passes::{Arrangement, Fused, Region, Step};
use std::fmt::Write;

/// A line a region: its ops, the bytes it moves, the work it does, the user's lines; then the
/// memory.
pub fn explain(fused: &Fused, a: &Arrangement) -> String {
    let graph = &fused.graph;
    let mut s = String::new();
    for (i, r) in fused.regions.iter().enumerate() {
        let kind = match r {
            Region::Loop(l) => format!("loop {}x{}", l.rows(), l.columns()),
            Region::Call { .. } => "call".to_string(),
        };
        let (read, written) = traffic(r, graph);
        let _ = writeln!(
            s,
            "{i:4} {kind}: {} | reads {read} B, writes {written} B, {} flops | {}",
            names(r, graph),
            flops(r, graph),
            sites(r, graph)
        );
    }
    let results: usize = a.buffers.iter().map(|b| b.bytes).sum();
    let _ = writeln!(
        s,
        "arena {} B (live at once {} B), results {results} B, peak {} B",
        a.arena_bytes,
        a.live_bytes,
        a.peak_bytes()
    );
    s
}

/// The names of a region's ops, in order.
pub fn names(r: &Region, graph: &Graph) -> String {
    r.nodes().iter().map(|&n| graph.nodes[n as usize].op.name).collect::<Vec<_>>().join(" ")
}

/// The user's lines behind a region.
pub fn sites(r: &Region, graph: &Graph) -> String {
    let of = |n: &u32| graph.nodes[*n as usize].site;
    let mut sites: Vec<String> = r.nodes().iter().map(of).filter(|s| s.line > 0).map(|s| s.to_string()).collect();
    sites.sort();
    sites.dedup();
    sites.join(" ")
}

/// Bytes of the values a region reads and writes.
pub fn traffic(r: &Region, graph: &Graph) -> (usize, usize) {
    let bytes = |slots: &[Slot]| slots.iter().map(|&s| graph.ty(s).bytes()).sum::<usize>();
    let mut reads = r.reads();
    reads.sort_unstable();
    reads.dedup();
    (bytes(&reads), bytes(&r.writes(graph)))
}

/// Operations on numbers a region does, where that is known.
fn flops(r: &Region, graph: &Graph) -> usize {
    match r {
        Region::Loop(l) => {
            let points: usize = l.dims.iter().product();
            let steps = l.steps.iter().map(|s| match s {
                Step::Scalar { row: false, .. } | Step::Reduce { row: false, .. } => points,
                Step::Scalar { .. } | Step::Reduce { .. } => l.rows(),
                Step::Load { .. } | Step::Const(_) => 0,
            });
            steps.sum()
        }
        Region::Call { node, args } => {
            let n = &graph.nodes[*node];
            let out = n.outs[0].shape.count();
            match n.op.name {
                "matmul" => 2 * out * args[0].layout.shape.last().copied().unwrap_or(1),
                _ => out,
            }
        }
    }
}
