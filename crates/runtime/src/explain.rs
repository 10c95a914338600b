//! What a plan consists of, for people and for traces: each region's ops, bytes, operations and source lines, and the
//! memory.

use crate::trace;
use ir::{FlatNode, Graph, Shape, Site, Slot};
use passes::{Plan, Region, Step, View};
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
            flops(r, graph),
            sites(r, graph)
        );
    }
    let _ = writeln!(
        s,
        "given {} B (inputs and constants), arena {} B (live at once {} B), results {} B (in place of inputs where \
         nobody else holds them: {} B), peak {} B",
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
    plan.fused.regions.iter().map(|r| Arc::new(describe_region(r, &plan.fused.graph))).collect()
}

fn describe_region(r: &Region, graph: &Graph) -> trace::Region {
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

/// The user's lines of a region.
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

/// Floating-point operations of a region, where they are known.
fn flops(r: &Region, graph: &Graph) -> usize {
    match r {
        Region::Loop(l) => {
            let points: usize = l.dims.iter().product();
            let steps = l.steps.iter().map(|s| match s {
                Step::Scalar { row: false, .. } | Step::Reduce { row: false, .. } => points,
                Step::Scalar { .. } | Step::Reduce { .. } => l.rows(),
                Step::Load { .. } | Step::Const(_) => 0,
            });
            steps.sum::<usize>() + l.producer.as_ref().map_or(0, |p| call_flops(p.node, &p.args, graph))
        }
        Region::Call { node, args, .. } => call_flops(*node, args, graph),
    }
}

/// Floating-point operations of a kernel. A device's variant of an op has the op's name with an ending.
fn call_flops(node: usize, args: &[View], graph: &Graph) -> usize {
    let n = &graph.nodes[node];
    let out = n.outs[0].shape.count();
    let is = |name: &str| n.op.name == name || n.op.name.strip_prefix(name).is_some_and(|end| end.starts_with('_'));
    match n.op.name {
        "int_matmul" | "scaled_product" => gemm_flops(out, args),
        _ if is("matmul") => gemm_flops(out, args),
        _ if is("conv_input_grad") => 2 * args[0].layout.shape.count() * per_channel(&args[1].layout.shape),
        _ if is("conv_weight_grad") => 2 * args[1].layout.shape.count() * per_channel(&n.outs[0].shape),
        // Each output element takes every weight of its channel.
        "conv" | "conv_last" => 2 * out * per_channel(&args[1].layout.shape),
        // Scores, and the gradients of weights, values, keys and queries: five GEMM for two.
        _ if is("attention_grad") => attention_flops(n, args) * 5 / 2,
        _ if is("attention") => attention_flops(n, args),
        _ => out,
    }
}

fn gemm_flops(out: usize, args: &[View]) -> usize {
    2 * out * args[0].layout.shape.last().copied().unwrap_or(1)
}

/// Two GEMM over every query and key that meet.
fn attention_flops(n: &FlatNode, args: &[View]) -> usize {
    let [q, k, v] = [0, 1, 2].map(|i| &args[i].layout.shape);
    let [width, keys, outs] = [q.last(), k.iter().nth_back(1), v.last()].map(|d| d.copied().unwrap_or(1));
    let all = 2 * q.count() / width.max(1) * keys * (width + outs);
    if n.attrs.bool("causal").unwrap_or(false) { all / 2 } else { all }
}

/// Weights of one output channel.
fn per_channel(weights: &Shape) -> usize {
    weights.iter().skip(1).product()
}
