//! Backward nodes that are computed in the forward pass: elementwise functions of what the forward pass computes, such as
//! the derivative of an activation. There the operands are at hand, so they cost less, and no more bytes are held.

use super::Request;
use super::assign::Assignment;
use crate::partition::time::{Mark, When};
use ir::{Cost, Graph, Slot};
use rustc_hash::{FxHashMap, FxHashSet};

/// For each node, whether it belongs to the backward pass and is computed in the forward pass.
pub(super) fn early(graph: &Graph, a: &Assignment, request: &Request) -> Vec<bool> {
    let chains = Chains::new(graph, a, request);
    let mut all = vec![false; graph.nodes.len()];
    for i in chains.worth_it().into_iter().flatten() {
        all[i] = true;
        for s in &graph.nodes[i].inputs {
            // What shows it a value of the forward pass.
            let mut at = *s;
            while graph.node(at).op.is_view() && chains.is_late(at) {
                all[at.node as usize] = true;
                at = graph.node(at).inputs[0];
            }
        }
    }
    all
}

/// Elementwise backward nodes that depend on no gradient, in chains that use each other's results.
struct Chains<'a> {
    graph: &'a Graph,
    a: &'a Assignment,
    /// A node of the same chain, closer to the one that stands for it, which is its own.
    next: Vec<Option<usize>>,
}

impl<'a> Chains<'a> {
    fn new(graph: &'a Graph, a: &'a Assignment, request: &Request) -> Chains<'a> {
        let mut chains = Chains { graph, a, next: vec![None; graph.nodes.len()] };
        for (i, n) in graph.nodes.iter().enumerate() {
            let on = a.on[i];
            let is_here = on.count_ones() == 1 && on.trailing_zeros() as usize >= request.recomputed;
            if n.op.scalar().is_none() || !is_here || !chains.is_late(Slot::new(i, 0)) {
                continue;
            }
            let roots: Vec<Slot> = n.inputs.iter().map(|s| chains.root(*s)).collect();
            let same: Vec<usize> = roots.iter().filter_map(|r| chains.of(*r)).collect();
            let is_known = |r: &Slot| !chains.is_late(*r) || chains.of(*r).is_some_and(|c| a.on[c] == on);
            if roots.iter().all(is_known) {
                chains.next[i] = Some(i);
                same.into_iter().for_each(|c| chains.next[c] = Some(i));
            }
        }
        chains
    }
    /// The node that stands for the chain of a value.
    fn of(&self, s: Slot) -> Option<usize> {
        let mut at = s.node as usize;
        loop {
            match self.next[at]? {
                next if next == at => return Some(at),
                next => at = next,
            }
        }
    }
    /// Whether a value belongs to the backward pass of a microbatch.
    fn is_late(&self, s: Slot) -> bool {
        self.is_during(s) && self.a.is_backward[s.node as usize]
    }
    fn is_during(&self, s: Slot) -> bool {
        let i = s.node as usize;
        self.a.when[i] == When::During && Mark::of(&self.graph.nodes[i]).is_none()
    }
    /// The value that a view shows.
    fn root(&self, mut s: Slot) -> Slot {
        while self.graph.node(s).op.is_view() && self.is_during(s) {
            s = self.graph.node(s).inputs[0];
        }
        s
    }
    /// The chains with a function in them after which no more bytes are held than without.
    fn worth_it(&self) -> Vec<Vec<usize>> {
        let graph = self.graph;
        let mut members: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        // What the backward pass uses of the forward pass, and where: in a chain, or elsewhere.
        let mut used: FxHashMap<Slot, FxHashSet<Option<usize>>> = FxHashMap::default();
        // What is used of chains elsewhere.
        let mut results: FxHashMap<usize, FxHashSet<Slot>> = FxHashMap::default();
        for (i, n) in graph.nodes.iter().enumerate() {
            let slot = Slot::new(i, 0);
            if !self.is_late(slot) || n.op.is_view() {
                continue;
            }
            let own = self.of(slot);
            members.entry(own.unwrap_or(i)).or_default().push(i);
            for root in n.inputs.iter().map(|s| self.root(*s)) {
                match self.of(root) {
                    Some(chain) if own != Some(chain) => drop(results.entry(chain).or_default().insert(root)),
                    None if self.is_during(root) && !self.is_late(root) => {
                        used.entry(root).or_default().insert(own);
                    }
                    _ => {}
                }
            }
        }
        let bytes = |s: &Slot| graph.ty(*s).bytes();
        let mut freed: FxHashMap<usize, usize> = FxHashMap::default();
        for (s, by) in &used {
            if let (1, Some(Some(chain))) = (by.len(), by.iter().next()) {
                *freed.entry(*chain).or_default() += bytes(s);
            }
        }
        let is_function = |i: &usize| graph.nodes[*i].op.scalar().is_some_and(|s| s.cost >= Cost::Function);
        let is_worth_it = |(chain, list): &(usize, Vec<usize>)| {
            let held: usize = results.get(chain).map_or(0, |all| all.iter().map(bytes).sum());
            list.iter().any(is_function) && (1..=freed.get(chain).copied().unwrap_or(0)).contains(&held)
        };
        members.into_iter().filter(|(chain, _)| self.next[*chain].is_some()).filter(is_worth_it).map(|m| m.1).collect()
    }
}
