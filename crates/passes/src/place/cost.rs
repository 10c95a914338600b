//! What nodes do, by the kinds of op and the factors that rows state.

use super::{Work, is_given};
use crate::partition;
use ir::{Attrs, Graph, Meaning, Op, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

type Key = (usize, Attrs, SmallVec<[Type; 3]>);

/// The work of every node; views, inputs and constants have none.
pub(super) fn work(graph: &Graph) -> Vec<Work> {
    let mut known: FxHashMap<Key, f64> = FxHashMap::default();
    let mut all = Vec::with_capacity(graph.nodes.len());
    for n in &graph.nodes {
        if is_given(n) || n.op.is_view() {
            all.push(Work::default());
            continue;
        }
        let read: usize = n.inputs.iter().map(|&s| graph.ty(s).bytes()).sum();
        let bytes = (read + n.outs.iter().map(Type::bytes).sum::<usize>()) as f64;
        let elements = n.inputs.iter().map(|&s| graph.ty(s)).chain(&n.outs).map(|t| t.shape.count()).max().unwrap_or(0);
        let flops = match &n.op.meaning {
            Meaning::Scalar(s) => (elements * s.cost.work()) as f64,
            Meaning::Reduce(_) | Meaning::Recast => elements as f64,
            _ => {
                let types = graph.input_types(n);
                let key = (n.op as *const Op as usize, n.attrs.clone(), types.clone());
                let products = || match partition::factors(n, &types) {
                    Ok(f) => (0..f.kinds.len() as u8).map(|k| f.size(k, &types, &n.outs).0 as f64).product::<f64>(),
                    Err(_) => 0.0,
                };
                2.0 * known.entry(key).or_insert_with(products).max(elements as f64)
            }
        };
        all.push(Work { flops, bytes });
    }
    all
}
