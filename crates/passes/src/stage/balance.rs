//! Which stage each parameter belongs to: as the plan says, or so that stages have nearly the same work.

use super::{Cone, Holding, Request, is_cut};
use crate::partition::factors;
use crate::partition::time::{Mark, When};
use ir::{Attrs, CONST, Error, Graph, INPUT, Op, Result, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Products of a matrix product for the time of one element of another op.
const PRODUCTS_PER_ELEMENT: f64 = 16.0;
/// How much more work than in the best balance a stage may have, if fewer bytes are passed then.
const SLACK: f64 = 1.05;

/// Rough work of each node of a microbatch: its elements, and the products behind them.
pub(super) fn work(graph: &Graph, when: &[When]) -> Result<Vec<f64>> {
    type Key = (usize, Attrs, SmallVec<[Type; 3]>);
    let mut known: FxHashMap<Key, f64> = FxHashMap::default();
    let mut all = vec![0.0; graph.nodes.len()];
    for (i, n) in graph.nodes.iter().enumerate() {
        if when[i] != When::During || n.op == &INPUT || n.op == &CONST || n.op.is_view() || Mark::of(n).is_some() {
            continue;
        }
        let types = graph.input_types(n);
        let key = (n.op as *const Op as usize, n.attrs.clone(), types.clone());
        all[i] = match known.get(&key) {
            Some(w) => *w,
            None => {
                let f = factors(n, &types)?;
                let loops: f64 = (0..f.kinds.len() as u8).map(|k| f.size(k, &types, &n.outs).0 as f64).product();
                let elements: usize = types.iter().chain(&n.outs).map(|t| t.shape.count()).max().unwrap_or(0);
                let w = elements as f64 + (loops / PRODUCTS_PER_ELEMENT);
                known.insert(key, w);
                w
            }
        };
    }
    Ok(all)
}

/// The stage of each input that is a parameter.
pub(super) fn parameters(
    graph: &Graph,
    when: &[When],
    is_backward: &[bool],
    cones: &[Cone],
    work: &[f64],
    request: &Request,
) -> Result<Vec<Option<usize>>> {
    let is_forward = |i: usize| when[i] == When::During && !is_backward[i] && Mark::of(&graph.nodes[i]).is_none();
    // Parameters in the order of their first use.
    let mut order: Vec<(usize, u32)> = Vec::new();
    for i in (0..graph.nodes.len()).filter(|&i| is_forward(i)) {
        for &k in &cones[i] {
            if !order.iter().any(|(_, known)| *known == k) {
                order.push((i, k));
            }
        }
    }
    let planned = |k: u32| match &request.inputs[k as usize] {
        Holding::Parameter { stage, .. } => *stage,
        _ => None,
    };
    let name = |k: u32| match &request.inputs[k as usize] {
        Holding::Parameter { name, .. } => name.to_string(),
        _ => String::new(),
    };
    let stages = request.stages();
    let mut all: Vec<Option<usize>> = vec![None; graph.inputs.len()];
    if order.iter().any(|(_, k)| planned(*k).is_some()) {
        let mut last = 0;
        for &(_, k) in &order {
            let stage = planned(k).unwrap_or(last);
            if stage >= stages {
                let e = format!("the plan puts {} into stage {stage}, but there are {stages}", name(k));
                return Err(Error::value(e).in_op("stage"));
            }
            last = last.max(stage);
            all[k as usize] = Some(stage);
        }
    } else {
        for (group, stage) in units(graph, &is_forward, &order, work).cut(stages)?.into_iter().enumerate() {
            let of = |(_, k): &(usize, u32)| all[*k as usize] = Some(stage);
            let starts = starts(&order);
            let from = starts[group];
            let to = starts.get(group + 1).copied().unwrap_or(usize::MAX);
            order.iter().filter(|(i, _)| (from..to).contains(i)).for_each(of);
        }
    }
    for s in 0..stages {
        if !all.contains(&Some(s)) {
            let e = format!(
                "stage {s} of {stages} has no parameter: give fewer stages, or name its parameters in the plan"
            );
            return Err(Error::value(e).in_op("stage"));
        }
    }
    // What the forward pass does not use is stored by the first stage.
    for (k, h) in request.inputs.iter().enumerate() {
        if matches!(h, Holding::Parameter { .. }) && all[k].is_none() {
            all[k] = Some(0);
        }
    }
    Ok(all)
}

/// The nodes before which the pipeline may be cut: those that are the first to use a parameter.
fn starts(order: &[(usize, u32)]) -> Vec<usize> {
    let mut list: Vec<usize> = order.iter().map(|(i, _)| *i).collect();
    list.dedup();
    list
}

/// A chain of units that are not cut: the work of each, and the bytes that are passed if the chain is cut before it.
struct Chain {
    work: Vec<f64>,
    bytes: Vec<f64>,
}

fn units(graph: &Graph, is_forward: &dyn Fn(usize) -> bool, order: &[(usize, u32)], work: &[f64]) -> Chain {
    let starts = starts(order);
    let unit = |i: usize| starts.partition_point(|&s| s <= i).saturating_sub(1);
    let mut chain = Chain { work: vec![0.0; starts.len()], bytes: vec![0.0; starts.len() + 1] };
    // Only what depends on a parameter is passed; the rest each stage computes itself.
    let mut depends = vec![false; graph.nodes.len()];
    let first = starts.first().copied().unwrap_or(0);
    let mut last = vec![0usize; graph.nodes.len()];
    for (i, n) in graph.nodes.iter().enumerate() {
        if !is_forward(i) || starts.is_empty() {
            continue;
        }
        depends[i] = starts.binary_search(&i).is_ok()
            || i >= first && n.inputs.iter().any(|s| depends[s.node as usize] && !is_cut(graph, *s));
        chain.work[unit(i)] += work[i];
        n.inputs.iter().for_each(|s| last[s.node as usize] = i);
    }
    for (i, n) in graph.nodes.iter().enumerate() {
        if depends[i] && last[i] > i {
            let bytes: usize = n.outs.iter().map(Type::bytes).sum();
            for cut in unit(i) + 1..=unit(last[i]) {
                chain.bytes[cut] += bytes as f64;
            }
        }
    }
    chain
}

impl Chain {
    /// The stage of each unit. No stage has much more work than the best cut leaves, and few bytes are passed.
    fn cut(&self, stages: usize) -> Result<Vec<usize>> {
        let n = self.work.len();
        if n < stages {
            let e = format!("the forward pass uses parameters at {n} places, too few for {stages} stages");
            return Err(Error::value(e).in_op("stage"));
        }
        let mut sums = vec![0.0];
        self.work.iter().for_each(|w| sums.push(sums[sums.len() - 1] + w));
        let between = |i: usize, j: usize| sums[j] - sums[i];
        let least = table(n, stages, |i, j, before: f64| before.max(between(i, j)));
        let limit = least[stages][n].0 * SLACK;
        let cheapest = table(n, stages, |i, j, before: f64| {
            if between(i, j) > limit { f64::INFINITY } else { before + if i == 0 { 0.0 } else { self.bytes[i] } }
        });
        let (mut all, mut end) = (vec![0; n], n);
        for s in (0..stages).rev() {
            let start = cheapest[s + 1][end].1;
            all[start..end].fill(s);
            end = start;
        }
        Ok(all)
    }
}

/// For each number of stages and of units: the least cost, and where the last stage begins then.
fn table(n: usize, stages: usize, cost: impl Fn(usize, usize, f64) -> f64) -> Vec<Vec<(f64, usize)>> {
    let mut all = vec![vec![(f64::INFINITY, 0); n + 1]; stages + 1];
    all[0][0] = (0.0, 0);
    for s in 1..=stages {
        for j in s..=n {
            for i in s - 1..j {
                let before = all[s - 1][i].0;
                if before.is_finite() {
                    let c = cost(i, j, before);
                    if c < all[s][j].0 {
                        all[s][j] = (c, i);
                    }
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_cut_where_little_is_passed() {
        let chain = Chain { work: vec![1.0; 6], bytes: vec![0.0, 9.0, 9.0, 1.0, 9.0, 9.0, 0.0] };
        assert_eq!(chain.cut(2).unwrap(), [0, 0, 0, 1, 1, 1]);
        assert_eq!(chain.cut(6).unwrap(), [0, 1, 2, 3, 4, 5]);
        let uneven = Chain { work: vec![1.0, 1.0, 1.0, 1.0, 1.0, 5.0], bytes: vec![0.0, 1.0, 1.0, 0.1, 1.0, 0.5, 0.0] };
        // A cut that passes less, but leaves too much work to one stage, is not taken.
        assert_eq!(uneven.cut(2).unwrap(), [0, 0, 0, 0, 0, 1]);
        assert!(chain.cut(7).unwrap_err().to_string().contains("too few for 7 stages"));
    }
}
