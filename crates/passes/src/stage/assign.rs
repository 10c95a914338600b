//! Which stage computes which node of a microbatch, and which rank what is computed once afterwards.
//!
//! A forward node is computed by the last of the stages of its inputs and of its parameters. A backward node is computed
//! by the first stage, from that of the gradients it uses downward, that has the activations and parameters it uses. What
//! depends on arguments alone, and what a gradient needs besides gradients, is computed wherever it is used.

use super::{Cone, Holding, Request, is_cut};
use crate::partition::time::{Mark, When};
use ir::{Error, Graph, Result, Slot};

/// Where every node is computed.
pub(super) struct Assignment {
    pub when: Vec<When>,
    /// Nodes of a microbatch: whether they belong to the backward pass.
    pub is_backward: Vec<bool>,
    /// Nodes of a microbatch: a bit for each stage that computes them.
    pub on: Vec<u64>,
    /// Nodes after all microbatches: their rank.
    pub rank: Vec<usize>,
    /// And how many times values are passed before.
    pub level: Vec<usize>,
    /// The rank that stores each input; `None`: all.
    pub owners: Vec<Option<usize>>,
}

impl Assignment {
    /// The stage that passes a value on: the first that has it.
    pub fn home(&self, s: Slot) -> usize {
        let on = self.on[s.node as usize];
        if self.is_backward[s.node as usize] { highest(on) } else { on.trailing_zeros() as usize }
    }
    /// The stage whose value of a node another stage uses.
    pub fn source(&self, s: Slot, stage: usize) -> usize {
        if self.on[s.node as usize] >> stage & 1 == 1 { stage } else { self.home(s) }
    }
}

fn highest(mask: u64) -> usize {
    63 - mask.leading_zeros().min(63) as usize
}

/// Which nodes of a microbatch belong to the backward pass: what differentiation made, what follows from it, and what only
/// updates need. A node that passes made of both may have the line of the forward op.
pub(super) fn backward(graph: &Graph, when: &[When]) -> Vec<bool> {
    let answers = answers(graph);
    let mut all = vec![false; graph.nodes.len()];
    for (i, n) in graph.nodes.iter().enumerate() {
        let is_marked = Mark::of(n).is_some();
        let is_late = n.site.is_gradient || n.inputs.iter().any(|s| all[s.node as usize]);
        let is_for_updates = answers.as_ref().is_some_and(|needed| !needed[i]);
        all[i] = when[i] == When::During && !is_marked && (is_late || is_for_updates);
    }
    all
}

/// The nodes that results other than updated variables need; `None` if there are no such results.
fn answers(graph: &Graph) -> Option<Vec<bool>> {
    let is_update = |o: usize| graph.updates.iter().any(|(_, out)| *out as usize == o);
    let mut needed = vec![false; graph.nodes.len()];
    for (_, s) in graph.outputs.iter().enumerate().filter(|(o, _)| !is_update(*o)) {
        needed[s.node as usize] = true;
    }
    for (i, n) in graph.nodes.iter().enumerate().rev() {
        if needed[i] {
            n.inputs.iter().for_each(|s| needed[s.node as usize] = true);
        }
    }
    needed.contains(&true).then_some(needed)
}

/// A backward node while nodes are assigned.
#[derive(Clone, Copy)]
enum Place {
    Stage(usize),
    /// Any of these stages: it uses no gradient.
    Any(u64),
}

struct Walk<'a> {
    graph: &'a Graph,
    when: &'a [When],
    is_backward: &'a [bool],
    cones: &'a [Cone],
    stage_of: &'a [Option<usize>],
    all: u64,
    /// Forward nodes: their stage, unless they depend on arguments alone.
    forward: Vec<Option<usize>>,
    /// The stages that have a forward value, or a parameter, once the forward pass is over.
    has: Vec<u64>,
    has_parameter: Vec<u64>,
    backward: Vec<Option<Place>>,
}

pub(super) fn assign(
    graph: &Graph,
    when: Vec<When>,
    is_backward: Vec<bool>,
    cones: &[Cone],
    stage_of: &[Option<usize>],
    request: &Request,
) -> Result<Assignment> {
    let (n, stages) = (graph.nodes.len(), request.stages());
    let all = if stages == 64 { u64::MAX } else { (1 << stages) - 1 };
    let bit = |s: &Option<usize>| s.map_or(all, |s| 1 << s);
    let mut walk = Walk {
        graph,
        when: &when,
        is_backward: &is_backward,
        cones,
        stage_of,
        all,
        forward: vec![None; n],
        has: vec![0; n],
        has_parameter: stage_of.iter().map(bit).collect(),
        backward: vec![None; n],
    };
    walk.forward_nodes();
    for i in 0..n {
        if is_backward[i] {
            walk.backward_node(i);
        }
    }
    let on = walk.spread();
    let (rank, level) = ends(graph, &when, cones, stage_of, &on, &is_backward, request.ranks)?;
    let mut a = Assignment { when, is_backward, on, rank, level, owners: vec![None; graph.inputs.len()] };
    a.owners = owners(graph, &a, cones, stage_of, request);
    Ok(a)
}

impl Walk<'_> {
    fn is_during(&self, i: usize) -> bool {
        self.when[i] == When::During && Mark::of(&self.graph.nodes[i]).is_none()
    }

    fn forward_nodes(&mut self) {
        for (i, n) in self.graph.nodes.iter().enumerate() {
            if !self.is_during(i) || self.is_backward[i] {
                continue;
            }
            let inputs = n.inputs.iter().filter_map(|s| self.forward[s.node as usize]);
            let own = self.cones[i].iter().filter_map(|&k| self.stage_of[k as usize]);
            let stage = inputs.chain(own).max();
            self.forward[i] = stage;
            let Some(stage) = stage else { continue };
            self.has[i] |= 1 << stage;
            n.inputs.iter().for_each(|s| self.has[s.node as usize] |= 1 << stage);
            self.cones[i].iter().for_each(|&k| self.has_parameter[k as usize] |= 1 << stage);
        }
    }

    fn backward_node(&mut self, i: usize) {
        let n = &self.graph.nodes[i];
        // Stages that have what the forward pass computed, and the last one that did.
        let (mut wanted, mut made) = (self.all, None);
        for &k in &self.cones[i] {
            wanted &= self.has_parameter[k as usize];
            made = made.max(self.stage_of[k as usize]);
        }
        let (mut now, mut free, mut any) = (None::<usize>, Vec::new(), self.all);
        for s in n.inputs.iter().filter(|s| !is_cut(self.graph, **s)) {
            let j = s.node as usize;
            match self.backward[j] {
                _ if self.when[j] != When::During => {}
                Some(Place::Stage(stage)) => now = Some(now.map_or(stage, |n| n.min(stage))),
                Some(Place::Any(mask)) => {
                    free.push(j);
                    any &= mask;
                }
                None if self.forward[j].is_some() => {
                    wanted &= self.has[j];
                    made = made.max(self.forward[j]);
                }
                None => {}
            }
        }
        let up_to = |stage: usize| u64::MAX >> (63 - stage);
        if now.is_none() && wanted & any != 0 {
            self.backward[i] = Some(Place::Any(wanted & any));
            return;
        }
        let stage = match now {
            Some(stage) if wanted & any & up_to(stage) != 0 => highest(wanted & any & up_to(stage)),
            _ => {
                // Inputs that could be anywhere are computed by the first stage that can, and passed.
                for j in free {
                    if let Some(Place::Any(mask)) = self.backward[j] {
                        let home = highest(mask);
                        self.backward[j] = Some(Place::Stage(home));
                        now = Some(now.map_or(home, |n| n.min(home)));
                    }
                }
                let now = now.or(made).unwrap_or(0);
                let fits = wanted & up_to(now);
                if fits == 0 { now } else { highest(fits) }
            }
        };
        self.backward[i] = Some(Place::Stage(stage));
    }

    /// A bit for each stage that computes a node: what could be anywhere is where it is used.
    fn spread(&self) -> Vec<u64> {
        let mut on = vec![0u64; self.graph.nodes.len()];
        let mut free = vec![0u64; self.graph.nodes.len()];
        for i in (0..on.len()).filter(|&i| self.is_during(i)) {
            match (self.is_backward[i], self.forward[i], self.backward[i]) {
                (false, Some(s), _) | (true, _, Some(Place::Stage(s))) => on[i] = 1 << s,
                (true, _, Some(Place::Any(mask))) => free[i] = mask,
                _ => free[i] = self.all,
            }
        }
        for (i, n) in self.graph.nodes.iter().enumerate().rev() {
            let is_mark = Mark::of(n).is_some();
            for s in &n.inputs {
                let j = s.node as usize;
                if free[j] == 0 {
                    continue;
                }
                if !is_mark && self.when[i] == When::During {
                    on[j] |= on[i] & free[j];
                } else if on[j] == 0 {
                    on[j] = 1 << highest(free[j]);
                }
            }
        }
        on
    }
}

/// The rank and the level of what is computed after all microbatches: with the largest of its inputs.
fn ends(
    graph: &Graph,
    when: &[When],
    cones: &[Cone],
    stage_of: &[Option<usize>],
    on: &[u64],
    is_backward: &[bool],
    ranks: usize,
) -> Result<(Vec<usize>, Vec<usize>)> {
    let (mut rank, mut level) = (vec![0; graph.nodes.len()], vec![0; graph.nodes.len()]);
    for (i, n) in graph.nodes.iter().enumerate() {
        if when[i] != When::After {
            continue;
        }
        if Mark::of(n).is_some() {
            let j = n.inputs[0].node as usize;
            if on[j] == 0 {
                return Err(Error::bug("what microbatches add up is computed by no stage").at(n.site));
            }
            let home = if is_backward[j] { highest(on[j]) } else { on[j].trailing_zeros() as usize };
            rank[i] = home % ranks;
            continue;
        }
        let mut best = None;
        for s in &n.inputs {
            let j = s.node as usize;
            let at = match when[j] {
                When::After => Some((false, rank[j])),
                _ => cones[j].iter().filter_map(|&k| stage_of[k as usize]).next_back().map(|s| (true, s % ranks)),
            };
            best = best.max(at.map(|(is_parameter, r)| (graph.ty(*s).bytes(), is_parameter, r)));
        }
        rank[i] = best.map_or(0, |(_, _, r)| r);
        let passes = |s: &Slot| level[s.node as usize] + usize::from(rank[s.node as usize] != rank[i]);
        let late = n.inputs.iter().filter(|s| when[s.node as usize] == When::After).map(passes).max();
        level[i] = late.unwrap_or(0);
    }
    Ok((rank, level))
}

/// The rank that stores each variable that is updated; others are on all ranks.
fn owners(
    graph: &Graph,
    a: &Assignment,
    cones: &[Cone],
    stage_of: &[Option<usize>],
    request: &Request,
) -> Vec<Option<usize>> {
    let mut all = vec![None; graph.inputs.len()];
    for &(k, o) in &graph.updates {
        let node = graph.outputs[o as usize].node as usize;
        let of = |stage: usize| stage % request.ranks;
        all[k as usize] = match &request.inputs[k as usize] {
            Holding::Parameter { .. } => stage_of[k as usize].map(of),
            Holding::State if a.when[node] == When::After => Some(a.rank[node]),
            Holding::State => cones[node].iter().filter_map(|&k| stage_of[k as usize]).next_back().map(of),
            Holding::Shared => None,
        };
    }
    all
}
