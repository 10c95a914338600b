//! A lowered graph as a file that JavaScript runs by WebGPU: kernels as text, launches, and constants.
//!
//! | part | content |
//! |---|---|
//! | 4 bytes | the length of the head, little-endian |
//! | head | JSON, filled up with spaces to a multiple of 4 bytes |
//! | body | parameters of all launches, then constants, each at a multiple of 4 bytes |
//!
//! Buffers are numbered as in [`launch`](crate::launch). A page reads asynchronously and has no CPU device beside it, so
//! a graph with regions for the host has no such file; [`refusal`] lists them.

use crate::launch::{BUFFERS_MAX, Blame, Launches, bytes_of};
use crate::lower::{Code, Lowered};
use ir::Result;
use passes::Source;
use serde_json::{Value, json};

/// Why a graph cannot run in a page alone: the ops of its regions that WebGPU does not compute. `None`: it can.
pub fn refusal(lowered: &Lowered) -> Option<String> {
    let fused = &lowered.plan.fused;
    let is_away = |r: &usize| !matches!(lowered.code[*r], Code::Kernels(_));
    let name = |r: usize| Some(fused.graph.nodes[*fused.regions[r].nodes().last()? as usize].op.name);
    let mut names: Vec<&str> = (0..lowered.code.len()).filter(is_away).filter_map(name).collect();
    names.sort();
    names.dedup();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The file of a graph that runs on the device alone.
pub fn file(lowered: &Lowered) -> Result<Vec<u8>> {
    let plan = &lowered.plan;
    let all = Launches::new(lowered, BUFFERS_MAX)?;
    let mut sources: Vec<&str> = Vec::new();
    let mut launches = Vec::new();
    for l in &all.list {
        let source = sources.iter().position(|s| *s == l.source).unwrap_or_else(|| {
            sources.push(&l.source);
            sources.len() - 1
        });
        let staged: Vec<Value> = l
            .staged
            .iter()
            .map(|s| json!([s.base, s.at, s.bytes.min(room(bytes_of(plan, s.base))), s.is_written]))
            .collect();
        launches.push(json!({
            "source": source,
            "bindings": l.bindings,
            "reports": l.reports,
            "params": l.params,
            "grid": l.grid,
            "staged": staged,
        }));
    }
    let mut body: Vec<u8> = all.words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let params = body.len();
    let mut constants = Vec::new();
    for (_, c) in &plan.constants {
        constants.push(json!([body.len(), c.bytes().len()]));
        body.extend(c.bytes());
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let head = json!({
        "sizes": (0..=plan.arena()).map(|b| room(bytes_of(plan, b))).chain([room(all.stage_bytes)]).collect::<Vec<_>>(),
        "params": params,
        "constants": constants,
        "firstConstant": plan.inputs.len() + plan.memory.buffers.len(),
        "results": plan.results.iter().map(|(s, _)| buffer_of(plan, *s)).collect::<Vec<_>>(),
        "sources": sources,
        "launches": launches,
        "blames": all.blames.iter().map(text).collect::<Vec<_>>(),
    });
    let mut head = head.to_string().into_bytes();
    head.resize(head.len().next_multiple_of(4), b' ');
    let length = u32::try_from(head.len()).map_err(|_| ir::Error::value("the program is larger than 4 GiB"))?;
    Ok([&length.to_le_bytes()[..], &head, &body].concat())
}

/// Bytes of a buffer that holds so many.
fn room(bytes: usize) -> usize {
    bytes.next_multiple_of(4).max(4)
}

/// The buffer of a result; none for empty ones.
fn buffer_of(plan: &passes::Plan, source: Source) -> Option<usize> {
    match source {
        Source::Input(k) => Some(k),
        Source::Buffer(b) => Some(plan.inputs.len() + b),
        Source::Constant(k) => Some(plan.inputs.len() + plan.memory.buffers.len() + k),
        Source::Empty => None,
    }
}

fn text(b: &Blame) -> Value {
    json!([format!("{}: {}", b.op, b.before), b.after])
}
