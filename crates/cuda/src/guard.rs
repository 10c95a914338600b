//! A run that fails leaves variables as they were. A kernel that finds a bad index says so in a
//! status word on the device; kernels that write over an input look at it first, and do nothing
//! from then on, until the host has reported the error.

use crate::emit::{Arg, Kernel};
use crate::plan::{Plan, Work};
use ir::{DType, Slot, Type};
use passes::{Arrangement, Fused, Home, Region};
use std::collections::BTreeSet;

/// What a kernel does first that writes over an input.
pub const GUARD: &str = "if (*status) return;\n";
const PARAM: &str = "const volatile long long* status";

/// The last region that may be the first to see a bad index, among those that report them. An
/// index that was checked before, for as many places, is not bad any more.
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

/// Takes the memory of inputs back from loops that run before everything is checked. What a kernel
/// puts into its operand where an index says stays in place: caches are large, and written to
/// before other indices are known.
pub fn defer(fused: &Fused, reports: &[bool], arrangement: &mut Arrangement) {
    let Some(last) = last_check(fused, reports) else { return };
    let is_early = |s: Slot| {
        let early = &fused.regions[..last];
        early.iter().any(|r| matches!(r, Region::Loop(_)) && r.writes().contains(&s))
    };
    for b in &mut arrangement.buffers {
        if b.donor.is_some() && is_early(b.slot) {
            b.donor = None;
        }
    }
}

/// Guards every kernel that writes over an input, where a kernel reports bad indices. A product that
/// puts elements into caches stays as it is: it loads its weights before the launch before it has
/// ended, and looking at the status would keep it from that.
pub fn guard(plan: &mut Plan) {
    if !plan.kernels().any(|(_, k)| k.args.contains(&Arg::Report)) {
        return;
    }
    let arrangement = &plan.arrangement;
    let is_given = |s: &Slot| match arrangement.home(*s) {
        Home::Result(b) => arrangement.buffers[b].donor.is_some(),
        _ => false,
    };
    // The launches of a wave stand with its first region.
    let Fused { regions, waves, .. } = &plan.fused;
    let of_wave = |r: usize| waves.iter().find(|w| w.contains(&r)).cloned().unwrap_or(r..r + 1);
    let written = |r: usize| of_wave(r).flat_map(|r| regions[r].writes()).filter(is_given).collect::<Vec<Slot>>();
    for (r, work) in plan.work.iter_mut().enumerate() {
        let lists: [&mut [Kernel]; 2] = match work {
            Work::Kernels(list) => [list, &mut []],
            Work::Network { around: [before, behind], .. } => [before, behind],
            _ => continue,
        };
        let written = written(r);
        let writes = |k: &Kernel| {
            let is_put = k.args.contains(&Arg::Report) && waits(k);
            !k.is_move && !is_put && k.args.iter().any(|a| matches!(a, Arg::Value(s) if written.contains(s)))
        };
        lists.into_iter().flatten().filter(|k| writes(k)).for_each(guarded);
    }
    // Where the memory could not be taken over, the result begins as new memory: after a failure it
    // gets the old value.
    let graph = &plan.fused.graph;
    let kept: Vec<Kernel> = plan
        .arrangement
        .buffers
        .iter()
        .filter_map(|b| Some((Slot { node: graph.inputs[b.donor?], out: 0 }, b.slot, b.bytes)))
        .map(|(from, to, bytes)| keep(from, to, bytes))
        .collect();
    plan.after = kept;
}

/// Whether a kernel waits for the launch before it in its own time.
fn waits(k: &Kernel) -> bool {
    k.source.contains("_others();")
}

/// Lets a kernel end at once if something has failed.
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

/// Copies the old value to where the new one would be, if something has failed; left out where both
/// are the same memory.
fn keep(from: Slot, to: Slot, bytes: usize) -> Kernel {
    const BLOCK: usize = 256;
    const GRID_MAX: usize = 1024;
    let grid = bytes.div_ceil(4 * BLOCK).clamp(1, GRID_MAX);
    let source = format!(
        "typedef long long idx;\nextern \"C\" __global__ void __launch_bounds__({BLOCK}) run(const unsigned char* \
         __restrict__ from, unsigned char* __restrict__ to, {PARAM}) {{\nif (!*status) return;\nfor (idx i = \
         (idx)blockIdx.x * {BLOCK} + threadIdx.x; i < {bytes}ll; i += {}ll) to[i] = from[i];\n}}\n",
        grid * BLOCK
    );
    let args = vec![Arg::Value(from), Arg::Value(to), Arg::Status];
    Kernel { is_move: true, ..Kernel::new(source, grid, BLOCK, args) }
}
