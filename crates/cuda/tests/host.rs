//! Which ops leave the GPU: a row of the table that would compute on the host is named here, or the test fails.

use ir::{Case, DType, Literal, Meaning};
use passes::Watch;
use runtime::reference;
use std::collections::BTreeSet;
use talweg_cuda::lower::{Code, Lowered};
use talweg_cuda::target::{Gpu, claims};

/// Ops that compute on the host. Collectives may: NCCL takes them over where it is asked for.
const ON_HOST: &[&str] = &[
    // Weights as CPUs read them, and caches of 8 bits.
    "expert_matmul",
    "quantized_matmul",
    "paged_attention",
    // Between processes.
    "all_gather",
    "all_reduce",
    "all_to_all",
    "begin_all_gather",
    "begin_all_reduce",
    "begin_mean_over_workers",
    "begin_reduce_scatter",
    "broadcast_from",
    "end_exchange",
    "end_mean_over_workers",
    "mean_over_workers",
    "recv",
    "reduce",
    "reduce_scatter",
    "send",
    "step_in_store",
];

#[test]
fn no_other_op_leaves_the_device() {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let is_whole = |n: &ir::FlatNode, t: &[ir::Type]| claims(n, t, (9, 0), &|_| true);
    for op in ops::table() {
        for (case, dtype) in (op.cases)().iter().flat_map(|c| DType::ALL.map(|d| (c.clone(), d))) {
            let convert = |l: &Literal| if l.dtype() == DType::F64 { l.cast(dtype) } else { l.clone() };
            let case = Case { inputs: case.inputs.iter().map(convert).collect(), ..case };
            // An op may refuse a type.
            let Ok(g) = reference::graph_of(op, &case) else { continue };
            let Ok(g) = passes::optimize(&g, &is_whole, &reference::run_node) else { continue };
            let gpu = Gpu { capability: (9, 0), supports: &|_| true, is_faster: &|_| true, has_fft: true };
            let lowered = Lowered::new(g, gpu, &mut Watch::none()).unwrap();
            let nodes = &lowered.plan.fused.graph.nodes;
            let host =
                lowered.code.iter().filter_map(|c| if let Code::Host { node, .. } = c { Some(*node) } else { None });
            found.extend(host.filter(|&n| matches!(nodes[n].op.meaning, Meaning::Kernel(_))).map(|n| nodes[n].op.name));
        }
    }
    let expected: BTreeSet<&str> = ON_HOST.iter().copied().collect();
    assert_eq!(found, expected);
}
