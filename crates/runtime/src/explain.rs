//! What a plan consists of, for people and for traces: each region's ops, bytes, operations and source lines, and the
//! memory.

use crate::trace;
use ir::{Graph, Site, Slot};
use passes::{Plan, Region};
use std::fmt::Write;
use std::sync::Arc;

/// A line for each region: how it runs (`how`, by region), its ops, the bytes it moves, its operations, the user's
/// lines; then the memory.
pub fn explain(plan: &Plan, how: &dyn Fn(usize) -> String) -> String {
    let (fused, memory) = (&plan.fused, plan.memory_use());
    let graph = &fused.graph;
    let mut s = String::new();
    let waves = fused.waves.iter().flat_map(|w| w.clone().map(|r| (r > w.start, w.end - w.start > 1)));
    for ((i, r), (is_further, is_wave)) in fused.regions.iter().enumerate().zip(waves) {
        // A brace joins the regions of a wave.
        let brace = match (is_wave, is_further) {
            (false, _) => ' ',
            (true, false) => '{',
            (true, true) => '|',
        };
        let (read, written) = traffic(r, graph);
        let _ = writeln!(
            s,
            "{i:4} {brace}{}: {} | reads {read} B, writes {written} B, {} flops | {}",
            how(i),
            names(r, graph),
            plan.flops[i],
            sites(r, graph)
        );
    }
    let _ = writeln!(
        s,
        "given {} B (inputs and constants), arena {} B (live at once {} B), results {} B (in place of \
         unshared inputs: {} B), peak {} B",
        memory.given,
        memory.arena,
        plan.memory.live_bytes,
        memory.results,
        memory.in_place,
        memory.peak()
    );
    s
}

/// Each region for a trace: its ops, lines and work.
pub fn describe(plan: &Plan) -> Vec<Arc<trace::Region>> {
    let describe = |(r, &flops)| Arc::new(describe_region(r, &plan.fused.graph, flops));
    plan.fused.regions.iter().zip(&plan.flops).map(describe).collect()
}

fn describe_region(r: &Region, graph: &Graph, flops: usize) -> trace::Region {
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
    trace::Region { name: names(r, graph), lines, bytes: read + written, flops }
}

/// The names of a region's ops, in order.
pub(crate) fn names(r: &Region, graph: &Graph) -> String {
    r.nodes().iter().map(|&n| graph.nodes[n as usize].op.name).collect::<Vec<_>>().join(" ")
}

/// The user's lines of a region.
fn sites(r: &Region, graph: &Graph) -> String {
    let of = |n: &u32| graph.nodes[*n as usize].site;
    let mut sites: Vec<String> = r.nodes().iter().map(of).filter(|s| s.line > 0).map(|s| s.to_string()).collect();
    sites.sort();
    sites.dedup();
    sites.join(" ")
}

/// Bytes of the values a region reads and writes.
pub(crate) fn traffic(r: &Region, graph: &Graph) -> (usize, usize) {
    let bytes = |slots: &[Slot]| slots.iter().map(|&s| graph.ty(s).bytes()).sum::<usize>();
    let mut reads = r.reads();
    reads.sort_unstable();
    reads.dedup();
    (bytes(&reads), bytes(&r.writes()))
}
