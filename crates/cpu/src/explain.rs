//! What a program consists of, for people.

use crate::call;
use ir::{Graph, Site, Slot};
use passes::{Fused, MemoryPlan, Region, Step};
use runtime::trace;
use std::fmt::Write;

/// A line a region: its ops, the bytes it moves, the work it does, the user's lines; then the
/// memory.
pub fn explain(fused: &Fused, a: &MemoryPlan, m: &trace::Memory) -> String {
    let graph = &fused.graph;
    let mut s = String::new();
    let waves = fused.waves.iter().flat_map(|w| w.clone().map(|r| (r > w.start, w.end - w.start > 1)));
    for ((i, r), (is_further, is_wave)) in fused.regions.iter().enumerate().zip(waves) {
        // Regions that run side by side are joined by a brace.
        let brace = match (is_wave, is_further) {
            (false, _) => ' ',
            (true, false) => '{',
            (true, true) => '|',
        };
        let kind = match r {
            Region::Loop(l) if l.producer.is_some() => format!("call into loop {}x{}", l.rows(), l.columns()),
            Region::Loop(l) => format!("loop {}x{}", l.rows(), l.columns()),
            Region::Call { .. } => "call".to_string(),
        };
        let (read, written) = traffic(r, graph);
        let _ = writeln!(
            s,
            "{i:4} {brace}{kind}: {} | reads {read} B, writes {written} B, {} flops | {}",
            names(r, graph),
            flops(r, graph),
            sites(r, graph)
        );
    }
    let _ = writeln!(
        s,
        "given {} B (inputs and constants), arena {} B (live at once {} B), results {} B (in place of inputs where \
         nobody else holds them: {} B), peak {} B",
        m.given,
        m.arena,
        a.live_bytes,
        m.results,
        m.in_place,
        m.peak()
    );
    s
}

/// A region for a trace: its ops, lines and work.
pub fn describe(r: &Region, graph: &Graph) -> trace::Region {
    let mut lines: Vec<(Site, f64)> = Vec::new();
    let nodes = r.nodes();
    for site in nodes.iter().map(|&n| graph.nodes[n as usize].site).filter(|s| s.line > 0) {
        match lines.iter_mut().find(|(s, _)| *s == site) {
            Some((_, part)) => *part += 1.0,
            None => lines.push((site, 1.0)),
        }
    }
    let all: f64 = lines.iter().map(|l| l.1).sum();
    lines.iter_mut().for_each(|l| l.1 /= all);
    let (read, written) = traffic(r, graph);
    trace::Region { name: names(r, graph), lines, bytes: read + written, flops: flops(r, graph) }
}

/// The names of a region's ops, in order.
fn names(r: &Region, graph: &Graph) -> String {
    r.nodes().iter().map(|&n| graph.nodes[n as usize].op.name).collect::<Vec<_>>().join(" ")
}

/// The user's lines behind a region.
fn sites(r: &Region, graph: &Graph) -> String {
    let of = |n: &u32| graph.nodes[*n as usize].site;
    let mut sites: Vec<String> = r.nodes().iter().map(of).filter(|s| s.line > 0).map(|s| s.to_string()).collect();
    sites.sort();
    sites.dedup();
    sites.join(" ")
}

/// Bytes of the values a region reads and writes.
fn traffic(r: &Region, graph: &Graph) -> (usize, usize) {
    let bytes = |slots: &[Slot]| slots.iter().map(|&s| graph.ty(s).bytes()).sum::<usize>();
    let mut reads = r.reads();
    reads.sort_unstable();
    reads.dedup();
    (bytes(&reads), bytes(&r.writes()))
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
            steps.sum::<usize>() + l.producer.as_ref().map_or(0, |f| call::flops(&graph.nodes[f.node], &f.args))
        }
        Region::Call { node, args, .. } => call::flops(&graph.nodes[*node], args),
    }
}
