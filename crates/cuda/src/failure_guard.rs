//! A failed run leaves variables unchanged. A kernel that finds a bad index sets a status word on the device. Kernels
//! that overwrite an input read it first and do nothing after a failure, until the host has reported the error.

use crate::emit::{Arg, Kernel};
use crate::lower::{Code, Lowered};
use ir::{DType, Slot, Type};
use passes::{Fused, Location, MemoryPlan, Region};
use std::collections::BTreeSet;

/// The first statement of a kernel that overwrites an input.
pub const GUARD: &str = "if (*status) return;\n";
const PARAM: &str = "const volatile long long* status";

/// The last region that may be the first to find a bad index. An index that was checked before, against the same
/// size, is valid.
fn last_check(fused: &Fused, reports: &[bool]) -> Option<usize> {
    let graph = &fused.graph;
    let mut known: BTreeSet<(Vec<Slot>, usize)> = BTreeSet::new();
    let mut last = None;
    for (r, region) in fused.regions.iter().enumerate().filter(|(r, _)| reports[*r]) {
        let Region::Call { node, args, .. } = region else { continue };
        let n = &graph.nodes[*node];
        let is_index = |t: &Type| !t.dtype.is_inexact() && t.dtype != DType::Bool;
        let indices = args.iter().map(|p| p.root).filter(|s| is_index(graph.ty(*s))).collect();
        let axis =
            n.attrs.size("axis").ok().and_then(|a| n.inputs.first().and_then(|s| graph.ty(*s).shape.get(a).copied()));
        let places = n.attrs.size("classes").ok().or(axis).unwrap_or(0);
        if known.insert((indices, places)) {
            last = Some(r);
        }
    }
    last
}

/// Takes the memory of inputs back from loops that run before the last check. Scatters stay in place: KV caches are
/// large, and are updated before other indices are known.
pub fn defer(fused: &Fused, reports: &[bool], memory: &mut MemoryPlan) {
    let Some(last) = last_check(fused, reports) else { return };
    let is_early = |s: Slot| {
        let early = &fused.regions[..last];
        early.iter().any(|r| matches!(r, Region::Loop(_)) && r.writes().contains(&s))
    };
    for b in &mut memory.buffers {
        if b.donor.is_some() && is_early(b.slot) {
            b.donor = None;
        }
    }
}

/// Guards every kernel that overwrites an input, if a kernel reports bad indices. A GEMM that updates KV caches is not
/// guarded: it prefetches its weights before the previous launch has ended, which reading the status would prevent.
pub fn guard(lowered: &mut Lowered) {
    if !lowered.reports() {
        return;
    }
    let plan = &lowered.plan;
    let memory = &plan.memory;
    let is_given = |s: &Slot| memory.donor(*s).is_some();
    // The launches of a wave stand with its first region.
    let Fused { regions, waves, .. } = &plan.fused;
    let of_wave = |r: usize| waves.iter().find(|w| w.contains(&r)).cloned().unwrap_or(r..r + 1);
    let written = |r: usize| of_wave(r).flat_map(|r| regions[r].writes()).filter(is_given).collect::<Vec<Slot>>();
    for (r, code) in lowered.code.iter_mut().enumerate() {
        let lists: [&mut [Kernel]; 2] = match code {
            Code::Kernels(list) => [list, &mut []],
            Code::Network { around: [before, behind], .. } => [before, behind],
            _ => continue,
        };
        let written = written(r);
        let writes = |k: &Kernel| {
            let is_put = waits(k) && (k.args.contains(&Arg::Report) || !k.maps.is_empty());
            !k.is_move && !is_put && k.args.iter().any(|a| matches!(a, Arg::Value(s) if written.contains(s)))
        };
        lists.into_iter().flatten().filter(|k| writes(k)).for_each(guarded);
    }
    // A new value of a variable in memory of its own gets the old value after a failure.
    let home = |(k, slot): (usize, Slot)| match plan.memory.location(slot) {
        Location::Result(b) => Some((Slot { node: plan.fused.graph.inputs[k], out: 0 }, slot, memory.buffers[b].bytes)),
        _ => None,
    };
    let kept: Vec<(Slot, Slot, usize)> = plan.fused.updates().into_iter().filter_map(home).collect();
    lowered.after = kept.chunks(KEPT_MAX).map(keep).collect();
}

/// Whether a kernel itself says when it waits for the previous launch.
fn waits(k: &Kernel) -> bool {
    k.source.contains("_others();")
}

/// Lets a kernel return at once after a failure.
fn guarded(k: &mut Kernel) {
    let name = k.source.find(" run(").expect("a kernel has an entry point");
    let open = name + k.source[name..].find(") {\n").expect("which has a body");
    let start = open + ") {\n".len();
    // What the launch before has found is known from then on.
    let wait = if waits(k) { "await_others();\n" } else { "" };
    if k.is_table {
        let n = k.args.len();
        let look = GUARD.replace("*status", &format!("*(const volatile long long*)t.at[{n}]"));
        k.source.insert_str(start, &format!("{wait}{look}"));
        k.source = k.source.replacen(&format!("void* at[{n}];"), &format!("void* at[{}];", n + 1), 1);
    } else {
        k.source.insert_str(start, &format!("{wait}{GUARD}"));
        k.source.insert_str(open, &format!(", {PARAM}"));
    }
    k.args.push(Arg::Status);
}

/// Variables that one launch restores: kernel parameters are limited.
const KEPT_MAX: usize = 128;

/// After a failure, copies old values over the new ones. Left out where both have the same memory.
fn keep(kept: &[(Slot, Slot, usize)]) -> Kernel {
    const BLOCK: usize = 256;
    const BLOCKS_EACH: usize = 8;
    let sizes: Vec<String> = kept.iter().map(|(_, _, bytes)| format!("{bytes}ll")).collect();
    let source = format!(
        "struct Table {{ void* at[{1}]; }};\n__constant__ const long long sizes[] = {{{sizes}}};\n\
         extern \"C\" __global__ void __launch_bounds__({BLOCK}) run(const __grid_constant__ Table t) {{\n\
         if (!*(const volatile long long*)t.at[{0}]) return;\n\
         const unsigned k = blockIdx.x / {BLOCKS_EACH}u;\n\
         const unsigned char* from = (const unsigned char*)t.at[2 * k];\n\
         unsigned char* to = (unsigned char*)t.at[2 * k + 1];\n\
         if (from == to) return;\n\
         for (long long i = blockIdx.x % {BLOCKS_EACH}u * {BLOCK}ll + threadIdx.x; i < sizes[k]; i += {step}ll) \
         to[i] = from[i];\n}}\n",
        2 * kept.len(),
        2 * kept.len() + 1,
        sizes = sizes.join(", "),
        step = BLOCKS_EACH * BLOCK,
    );
    let pairs = kept.iter().flat_map(|&(from, to, _)| [Arg::Value(from), Arg::Value(to)]);
    let args = pairs.chain([Arg::Status]).collect();
    Kernel { is_move: true, is_table: true, ..Kernel::new(source, kept.len() * BLOCKS_EACH, BLOCK, args) }
}
