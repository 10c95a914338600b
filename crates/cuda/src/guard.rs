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

/// Guards every kernel that writes over an input, where a kernel reports bad indices.
pub fn guard(plan: &mut Plan) {
    if !plan.kernels().any(|(_, k)| k.args.contains(&Arg::Report)) {
        return;
    }
    let arrangement = &plan.arrangement;
    let given: BTreeSet<Slot> = arrangement.buffers.iter().filter(|b| b.donor.is_some()).map(|b| b.slot).collect();
    if given.is_empty() {
        return;
    }
    let is_given = |s: Slot| match arrangement.home(s) {
        Home::Result(b) => arrangement.buffers[b].donor.is_some(),
        _ => false,
    };
    let writes = |k: &Kernel| !k.is_move && k.args.iter().any(|a| matches!(a, Arg::Value(s) if is_given(*s)));
    for work in &mut plan.work {
        let lists: [&mut [Kernel]; 2] = match work {
            Work::Kernels(list) => [list, &mut []],
            Work::Network { around: [before, behind], .. } => [before, behind],
            _ => continue,
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

/// Lets a kernel end at once if something has failed.
fn guarded(k: &mut Kernel) {
    let name = k.source.find(" run(").expect("a kernel has an entry point");
    let open = name + k.source[name..].find(") {\n").expect("which has a body");
    let start = open + ") {\n".len();
    // A kernel that waits for the launch before it in its own time waits here instead.
    let waits = k.source[start..].contains("_others();");
    let wait = if waits { "await_others();\n" } else { "" };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Chip;

    fn planned(text: &str) -> Plan {
        let graph = ir::Graph::parse(&format!("talweg graph 1\n{text}"), &ops::find).unwrap();
        Plan::new(&graph, Chip { major: 9, has: &|_| false, wins: &|_| false }).unwrap()
    }
    /// Kernels that write over an input.
    fn writers(plan: &Plan) -> Vec<&Kernel> {
        let buffers = plan.arrangement.buffers.iter().filter(|b| b.donor.is_some());
        let slots: Vec<Slot> = buffers.map(|b| b.slot).collect();
        let writes = |k: &&Kernel| k.args.iter().any(|a| matches!(a, Arg::Value(s) if slots.contains(s)));
        plan.kernels().map(|(_, k)| k).filter(|k| !k.is_move).filter(writes).collect()
    }

    const STEP: &str = "%0 = input \"table\" : f32[10, 4]
%1 = input \"i\" : i64[3]
%2 = input \"w\" : f32[3, 4]
%3 = input \"v\" : f32[7, 5]
%4 = take %0, %1 {axis: 0} : f32[3, 4]
%5 = sub %2, %4 : f32[3, 4]
%6 = sum %5 {axes: [0, 1], keep: false} : f32[]
%7 = mul %3, %6 : f32[7, 5]
return %5, %7
";

    #[test]
    fn what_writes_over_an_input_looks_at_the_status_first() {
        let plan = planned(STEP);
        let writers = writers(&plan);
        assert!(!writers.is_empty());
        for k in writers {
            assert!(k.args.last() == Some(&Arg::Status), "{}", k.source);
            let body = &k.source[k.source.find(" run(").unwrap()..];
            let first = body.split_once(") {\n").unwrap().1;
            assert!(first.starts_with("if (*") && first[..60].contains("return;"), "{}", k.source);
        }
        let kept: Vec<&Kernel> = plan.after.iter().collect();
        assert_eq!(kept.len(), plan.arrangement.buffers.iter().filter(|b| b.donor.is_some()).count());
        assert!(kept.iter().all(|k| k.is_move && k.args.len() == 3 && k.source.contains("if (!*status) return;")));
    }

    #[test]
    fn tables_of_pointers_have_a_place_for_the_status() {
        // Two updates that do not need each other are one launch.
        let text =
            STEP.replace("return %5, %7", "%8 = mul %3, %6 : f32[7, 5]\n%9 = sub %2, %6 : f32[3, 4]\nreturn %8, %9");
        let plan = planned(&text);
        let tables: Vec<&Kernel> = writers(&plan).into_iter().filter(|k| k.is_table).collect();
        assert!(!tables.is_empty(), "{:?}", plan.kernels().map(|(_, k)| &k.source).collect::<Vec<_>>());
        for k in tables {
            assert!(k.source.contains(&format!("void* at[{}];", k.args.len())), "{}", k.source);
            assert!(k.source.contains(&format!("t.at[{}]) return;", k.args.len() - 1)), "{}", k.source);
        }
    }

    #[test]
    fn nothing_is_overwritten_before_the_last_check() {
        // A running average is known before the index that may be bad is looked at.
        let text = "%0 = input \"mean\" : f32[512]
%1 = input \"i\" : i64[3]
%2 = input \"w\" : f32[512]
%3 = exp %0 : f32[512]
%4 = cumsum %3 {axis: 0} : f32[512]
%5 = take %4, %1 {axis: 0} : f32[3]
%6 = sum %5 {axes: [0], keep: false} : f32[]
%7 = mul %2, %6 : f32[512]
return %3, %7
";
        let plan = planned(text);
        let donor = |slot: Slot| plan.arrangement.buffers.iter().find(|b| b.slot == slot).and_then(|b| b.donor);
        let [mean, weight] = [plan.fused.graph.outputs[0], plan.fused.graph.outputs[1]];
        assert_eq!(donor(mean), None, "it is written before the check");
        assert!(donor(weight).is_some(), "updates come after it");
    }

    #[test]
    fn an_index_is_checked_once() {
        // The gradient of a lookup adds at the same index: it finds nothing new.
        let text = "%0 = input \"table\" : f32[10, 4]
%1 = input \"i\" : i64[3]
%2 = input \"w\" : f32[3, 4]
%3 = take %0, %1 {axis: 0} : f32[3, 4]
%4 = mul %2, %3 : f32[3, 4]
%5 = index_add %0, %1, %4 {axis: 0} : f32[10, 4]
return %4, %5
";
        let plan = planned(text);
        let reports: Vec<bool> = (0..plan.fused.regions.len())
            .map(|r| matches!(&plan.fused.regions[r], Region::Call { node, .. } if ["take", "index_add"].contains(&plan.fused.graph.nodes[*node].op.name)))
            .collect();
        assert_eq!(reports.iter().filter(|r| **r).count(), 2);
        assert_eq!(last_check(&plan.fused, &reports), reports.iter().position(|r| *r));
    }

    #[test]
    fn plans_that_cannot_fail_are_as_they_were() {
        let plan = planned("%0 = input \"w\" : f32[3, 4]\n%1 = exp %0 : f32[3, 4]\nreturn %1\n");
        assert!(plan.after.is_empty());
        assert!(plan.kernels().all(|(_, k)| !k.args.contains(&Arg::Status)));
    }
}
