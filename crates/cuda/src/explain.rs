//! What a program consists of, for people and for traces.

use crate::plan::{Plan, Work};
use ir::Site;
use passes::Region;
use runtime::trace;
use std::fmt::Write;
use std::sync::Arc;

/// Every region: how it runs, and its ops.
pub fn explain(plan: &Plan) -> String {
    let mut s = String::new();
    for (i, (r, w)) in plan.fused.regions.iter().zip(&plan.work).enumerate() {
        let kind = match (r, w) {
            (Region::Loop(l), Work::Kernels(k)) => format!("loop {}x{}, {} launches", l.rows(), l.columns(), k.len()),
            (_, Work::Kernels(k)) => format!("{} launches", k.len()),
            (_, Work::Gemm(..)) => "cuBLASLt".to_string(),
            (_, Work::Network { around: [before, behind], .. }) if before.len() + behind.len() > 0 => {
                format!("cuDNN with {} launches around it", before.len() + behind.len())
            }
            (_, Work::Network { .. }) => "cuDNN".to_string(),
            (_, Work::Host { .. }) => "on the host".to_string(),
        };
        let _ = writeln!(s, "{i:4} {kind}: {}", names(plan, r));
    }
    let a = &plan.memory;
    let _ = writeln!(s, "arena {} B, peak {} B", a.arena_bytes, a.peak_bytes());
    s
}

fn names(plan: &Plan, r: &Region) -> String {
    let names: Vec<&str> = r.nodes().iter().map(|&n| plan.fused.graph.nodes[n as usize].op.name).collect();
    names.join(" ")
}

/// Each region with its lines and the bytes it moves.
pub fn described(plan: &Plan) -> Vec<Arc<trace::Region>> {
    let graph = &plan.fused.graph;
    let describe = |(i, r): (usize, &Region)| {
        let nodes = r.nodes();
        let mut lines: Vec<(Site, f64)> = Vec::new();
        for site in nodes.iter().map(|&n| graph.nodes[n as usize].site).filter(|s| s.line > 0) {
            match lines.iter_mut().find(|(s, _)| *s == site) {
                Some((_, part)) => *part += 1.0,
                None => lines.push((site, 1.0)),
            }
        }
        let all: f64 = lines.iter().map(|l| l.1).sum();
        lines.iter_mut().for_each(|l| l.1 /= all);
        let mut values = r.reads();
        values.extend(r.writes());
        values.sort_unstable();
        values.dedup();
        let bytes = values.iter().map(|&s| graph.ty(s).bytes()).sum();
        let flops = if let Work::Gemm(p, _) = &plan.work[i] { p.flops() } else { 0 };
        Arc::new(trace::Region { name: names(plan, r), lines, bytes, flops })
    };
    plan.fused.regions.iter().enumerate().map(describe).collect()
}
