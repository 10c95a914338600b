//! Constants that change become inputs.
//!
//! A host number in imperative code is baked into the graph as a constant, which lets passes fold
//! it. A number that differs from step to step (a decaying rate) would then compile a new plan at
//! each step. So the engine remembers the constants of each structure, and those that were seen
//! to change are handed in at run time from then on.

use crate::Program;
use ir::{Buffer, CONST, FlatNode, Graph, Literal, Op, Result, Type};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Structures remembered at most.
const SKELETONS_MAX: usize = 4096;

/// What is known of the constants of one structure.
struct Seen {
    values: Vec<Literal>,
    varies: Vec<bool>,
}

/// The constants seen, by structure.
#[derive(Default)]
pub(crate) struct Constants(FxHashMap<u64, Seen>);

fn scalar(n: &FlatNode) -> Option<&Literal> {
    if n.op != &CONST {
        return None;
    }
    n.attrs.literal("value").ok().filter(|l| l.count() == 1)
}

/// The hash of a graph without the values of its scalar constants.
fn skeleton(graph: &Graph) -> u64 {
    let mut h = FxHasher::default();
    for n in &graph.nodes {
        (n.op as *const Op as usize).hash(&mut h);
        n.inputs.hash(&mut h);
        n.outs.hash(&mut h);
        if scalar(n).is_none() {
            n.attrs.hash(&mut h);
        }
    }
    graph.inputs.hash(&mut h);
    graph.outputs.hash(&mut h);
    h.finish()
}

impl Constants {
    /// The graph with its varying constants as further inputs, and their values; `None` while all
    /// constants of this structure have been the same each time.
    pub fn lift(&mut self, graph: &Graph) -> Option<(Graph, Vec<Literal>)> {
        let values: Vec<Literal> = graph.nodes.iter().filter_map(scalar).cloned().collect();
        if values.is_empty() {
            return None;
        }
        if self.0.len() >= SKELETONS_MAX {
            self.0.clear();
        }
        let seen = self
            .0
            .entry(skeleton(graph))
            .or_insert_with(|| Seen { varies: vec![false; values.len()], values: values.clone() });
        if seen.values.len() != values.len() {
            return None; // two structures with one hash: leave them as they are
        }
        for (i, v) in values.iter().enumerate() {
            seen.varies[i] |= seen.values[i] != *v;
        }
        if !seen.varies.contains(&true) {
            return None;
        }
        let mut out = graph.clone();
        let (mut extra, mut at) = (Vec::new(), 0);
        for (i, n) in graph.nodes.iter().enumerate() {
            let Some(l) = scalar(n) else { continue };
            if seen.varies[at] {
                out.nodes[i] = input_node(l, n);
                out.inputs.push(i as u32);
                extra.push(l.clone());
            }
            at += 1;
        }
        Some((reordered(out), extra))
    }
}

/// An input node in place of a constant.
fn input_node(l: &Literal, n: &FlatNode) -> FlatNode {
    let mut g = Graph::new();
    g.input("", &Type::new(l.dtype(), l.shape().clone()), n.site);
    g.nodes.swap_remove(0)
}

/// Inputs are listed in the order of their nodes everywhere else; here the new ones come last, so
/// all inputs are moved to the front of the graph in the order of the list.
fn reordered(graph: Graph) -> Graph {
    let mut order: Vec<usize> = graph.inputs.iter().map(|&i| i as usize).collect();
    order.extend((0..graph.nodes.len()).filter(|&i| graph.nodes[i].op != &ir::INPUT));
    let mut place = vec![0u32; graph.nodes.len()];
    order.iter().enumerate().for_each(|(new, &old)| place[old] = new as u32);
    let moved = |s: &ir::Slot| ir::Slot { node: place[s.node as usize], out: s.out };
    let nodes = order
        .iter()
        .map(|&i| {
            let n = &graph.nodes[i];
            FlatNode { inputs: n.inputs.iter().map(moved).collect(), ..n.clone() }
        })
        .collect();
    Graph {
        nodes,
        inputs: graph.inputs.iter().map(|&i| place[i as usize]).collect(),
        outputs: graph.outputs.iter().map(moved).collect(),
        updates: graph.updates,
    }
}

/// A program that is given its varying constants along with its inputs.
pub(crate) struct Lifted {
    pub program: Arc<dyn Program>,
    pub extra: Vec<Literal>,
}
/// Inputs in a longer list; they go back to where they came from, whatever happens.
struct Lent<'a> {
    inputs: &'a mut [Buffer],
    all: Vec<Buffer>,
}
impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.inputs.iter_mut().zip(self.all.drain(..)).for_each(|(to, b)| *to = b);
    }
}
impl Program for Lifted {
    fn run(&self, inputs: &mut [Buffer]) -> Result<Vec<Buffer>> {
        let nothing = || Buffer::Host(Literal::nothing());
        let mut all: Vec<Buffer> = inputs.iter_mut().map(|b| std::mem::replace(b, nothing())).collect();
        all.extend(self.extra.iter().cloned().map(Buffer::Host));
        let mut lent = Lent { inputs, all };
        self.program.run(&mut lent.all)
    }
    fn run_over(&self, inputs: &[&[u8]], outs: &mut [&mut [u8]]) -> Result<bool> {
        let extra = self.extra.iter().map(Literal::bytes);
        let all: SmallVec<[&[u8]; 8]> = inputs.iter().copied().chain(extra).collect();
        self.program.run_over(&all, outs)
    }
    fn explain(&self) -> String {
        self.program.explain()
    }
    fn may_fail(&self) -> bool {
        self.program.may_fail()
    }
    fn work(&self) -> Option<crate::Work> {
        self.program.work()
    }
}
