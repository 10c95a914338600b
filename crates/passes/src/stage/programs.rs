//! The programs of each rank: the nodes that it computes, as graphs of their own.

use super::assign::Assignment;
use super::early::early;
use super::{Gathered, Part, Pass, Passed, PassedOnce, RankPrograms, Request, Source, Staged};
use crate::partition::time::{Mark, When};
use ir::{Error, Graph, INPUT, Meaning, Result, Slot};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn build(
    graph: Graph,
    a: Assignment,
    stage_of: Vec<Option<usize>>,
    work: Vec<f64>,
    request: &Request,
) -> Result<Staged> {
    let rank_of = |stage: usize| stage % request.ranks;
    let (copied, passes) = (copied(&graph, &a), passes(&graph, &a, request));
    let new = |stage: usize, pass: Pass| {
        let is_recomputing = pass != Pass::Forward && stage < request.recomputed;
        Builder { is_recomputing, ..Builder::new(&graph, &a, &copied, stage) }
    };
    let mut parts: BTreeMap<(usize, Pass), Builder> = BTreeMap::new();
    for i in (0..graph.nodes.len()).filter(|&i| a.on[i] != 0) {
        for s in (0..request.stages()).filter(|s| a.on[i] >> s & 1 == 1) {
            parts.entry((s, passes[i])).or_insert_with(|| new(s, passes[i])).push(i);
        }
    }
    let gathered = gathered(&graph, &a)?;
    // Values that another part reads, with the stage that computes them; and the ranks that read them.
    let mut read: BTreeMap<(Slot, usize), BTreeSet<usize>> = BTreeMap::new();
    for ((stage, _), b) in &parts {
        for source in &b.part.inputs {
            if let Source::Held(s, from) = source {
                read.entry((*s, *from)).or_default().insert(rank_of(*stage));
            }
        }
    }
    let mut passed = Vec::new();
    for ((s, stage), readers) in &read {
        let to = readers.iter().filter(|r| **r != rank_of(*stage));
        passed.extend(to.map(|&to| Passed { value: *s, pass: passes[s.node as usize], stage: *stage, to }));
    }
    let mut wanted: BTreeSet<(Slot, usize)> = read.into_keys().collect();
    wanted.extend(gathered.iter().map(|g| (g.of, g.stage)));
    for (s, stage) in wanted {
        let part = parts.get_mut(&(stage, passes[s.node as usize]));
        part.ok_or_else(|| Error::bug("a value that no part computes"))?.output(s)?;
    }
    let mut ranks: Vec<RankPrograms> = vec![RankPrograms::default(); request.ranks];
    for ((stage, pass), b) in parts {
        ranks[rank_of(stage)].during.insert((stage, pass), b.part);
    }
    let passed_once = once(&graph, &a, &copied, &mut ranks)?;
    Ok(Staged { owners: a.owners, stage_of, ranks, passed, passed_once, gathered, work, graph })
}

/// What is combined over microbatches, and by which stage.
fn gathered(graph: &Graph, a: &Assignment) -> Result<Vec<Gathered>> {
    let mut all = Vec::new();
    for (i, n) in graph.nodes.iter().enumerate() {
        if let (Some(mark), When::After) = (Mark::of(n), a.when[i]) {
            let of = n.inputs[0];
            if a.on[of.node as usize] == 0 {
                return Err(Error::bug("what microbatches add up is computed by no stage").at(n.site));
            }
            all.push(Gathered { of, stage: a.home(of), into: Slot::new(i, 0), mark });
        }
    }
    Ok(all)
}

/// The pass of each node of a microbatch. Where weights have a pass of their own, the backward pass is what other stages
/// wait for, and reductions in the loops of that: they cost next to nothing there, and are computed as without the split.
fn passes(graph: &Graph, a: &Assignment, request: &Request) -> Vec<Pass> {
    let early = early(graph, a, request);
    let is_late = |i: usize| a.is_backward[i] && !early[i];
    let of = |i: usize| if is_late(i) { Pass::Backward } else { Pass::Forward };
    let mut all: Vec<Pass> = (0..graph.nodes.len()).map(of).collect();
    if !request.is_split {
        return all;
    }
    let (mut is_awaited, mut is_reduced) = (vec![false; graph.nodes.len()], vec![false; graph.nodes.len()]);
    let is_mine = |i: usize| a.on[i] != 0 && is_late(i);
    for (i, n) in graph.nodes.iter().enumerate().rev().filter(|(i, _)| is_mine(*i)) {
        let is_loop = matches!(n.op.meaning, Meaning::Scalar(_) | Meaning::Reduce(_) | Meaning::View(_));
        is_reduced[i] = is_loop && (is_reduced[i] || matches!(n.op.meaning, Meaning::Reduce(_)));
        for s in n.inputs.iter().filter(|s| is_late(s.node as usize)) {
            let j = s.node as usize;
            is_awaited[j] |= is_awaited[i] || a.on[i] & !a.on[j] != 0;
            is_reduced[j] |= is_reduced[i];
        }
    }
    for (i, n) in graph.nodes.iter().enumerate().filter(|(i, _)| is_mine(*i)) {
        let waits = n.inputs.iter().any(|s| all[s.node as usize] == Pass::Weights);
        if !is_awaited[i] && (waits || !is_reduced[i]) {
            all[i] = Pass::Weights;
        }
    }
    all
}

/// Nodes before all microbatches that parts compute themselves: views, and what depends on no input.
fn copied(graph: &Graph, a: &Assignment) -> Vec<bool> {
    let mut is_constant = vec![false; graph.nodes.len()];
    let mut all = vec![false; graph.nodes.len()];
    for (i, n) in graph.nodes.iter().enumerate() {
        let is_before = a.when[i] == When::Before && n.op != &INPUT;
        is_constant[i] = is_before && n.inputs.iter().all(|s| is_constant[s.node as usize]);
        all[i] = is_constant[i] || is_before && n.op.is_view();
    }
    all
}

/// Puts nodes into a part.
struct Builder<'a> {
    graph: &'a Graph,
    a: &'a Assignment,
    copied: &'a [bool],
    stage: usize,
    /// Whether forward values of its stage are computed again.
    is_recomputing: bool,
    part: Part,
    map: FxHashMap<Slot, Slot>,
}

impl<'a> Builder<'a> {
    fn new(graph: &'a Graph, a: &'a Assignment, copied: &'a [bool], stage: usize) -> Builder<'a> {
        let (part, map) = (Part::default(), FxHashMap::default());
        Builder { graph, a, copied, stage, is_recomputing: false, part, map }
    }
    /// Whether a node is computed again in this part.
    fn is_again(&self, i: usize) -> bool {
        self.is_recomputing
            && !self.a.is_backward[i]
            && self.a.on[i] >> self.stage & 1 == 1
            && !self.map.contains_key(&Slot::new(i, 0))
    }
    fn push(&mut self, i: usize) {
        // What the node needs of its stage's forward pass, in the order of the program.
        let mut again: BTreeSet<usize> = BTreeSet::new();
        let mut stack = vec![i];
        while let Some(j) = stack.pop() {
            let inputs = self.graph.nodes[j].inputs.iter().map(|s| s.node as usize);
            let new = inputs.filter(|&k| self.is_again(k) && !again.contains(&k)).collect::<Vec<_>>();
            stack.extend(&new);
            again.extend(new);
        }
        again.into_iter().chain([i]).for_each(|j| self.append(j));
    }
    fn append(&mut self, i: usize) {
        let n = &self.graph.nodes[i];
        let inputs = n.inputs.iter().map(|s| self.slot(*s)).collect();
        let at = self.part.graph.push_typed(n.op, inputs, n.attrs.clone(), n.outs.clone(), n.site);
        for out in 0..n.outs.len() {
            self.map.insert(Slot::new(i, out), Slot { node: at.node, out: out as u32 });
        }
    }
    /// Whether a node is a view of a value of the microbatch that is no larger: then that value is held and passed, once
    /// for all of its views.
    fn is_seen_here(&self, i: usize) -> bool {
        let n = &self.graph.nodes[i];
        let bytes = |s: Slot| self.graph.ty(s).bytes();
        let is_during = self.a.when[i] == When::During && Mark::of(n).is_none();
        is_during && n.op.is_view() && bytes(n.inputs[0]) <= bytes(Slot::new(i, 0))
    }
    /// The value in the part: it is computed there, or an input.
    fn slot(&mut self, s: Slot) -> Slot {
        if let Some(known) = self.map.get(&s) {
            return *known;
        }
        let i = s.node as usize;
        let n = &self.graph.nodes[i];
        if self.copied[i] || self.is_seen_here(i) {
            self.push(i);
            return self.map[&s];
        }
        let source = match (self.a.when[i], Mark::of(n)) {
            (_, Some(Mark::Take(dim))) => Source::Take(n.inputs[0], dim),
            (_, Some(Mark::First)) => Source::First(n.inputs[0]),
            (When::During, _) => Source::Held(s, self.a.source(s, self.stage)),
            _ => Source::Once(s),
        };
        let at = self.part.graph.input("", self.graph.ty(s), n.site);
        self.part.inputs.push(source);
        self.map.insert(s, at);
        at
    }
    fn output(&mut self, s: Slot) -> Result<()> {
        let at = *self.map.get(&s).ok_or_else(|| Error::bug("a value of another part"))?;
        self.part.graph.outputs.push(at);
        self.part.outputs.push(s);
        Ok(())
    }
}

/// What ranks compute once a step, and pass to each other.
fn once(graph: &Graph, a: &Assignment, copied: &[bool], ranks: &mut [RankPrograms]) -> Result<Vec<PassedOnce>> {
    let is_end = |i: usize| a.when[i] == When::After && Mark::of(&graph.nodes[i]).is_none();
    let levels = (0..graph.nodes.len()).filter(|&i| is_end(i)).map(|i| a.level[i] + 1).max().unwrap_or(0);
    let mut passed: BTreeSet<PassedOnce> = BTreeSet::new();
    // Values that a rank needs in the end, and what it must know before.
    let mut ends: Vec<BTreeSet<Slot>> = vec![BTreeSet::new(); ranks.len()];
    let mut before: Vec<BTreeSet<Slot>> = vec![BTreeSet::new(); ranks.len()];
    let owner: BTreeMap<u32, usize> =
        graph.updates.iter().filter_map(|&(k, o)| Some((o, a.owners[k as usize]?))).collect();
    for (o, s) in graph.outputs.iter().enumerate() {
        for r in 0..ranks.len() {
            if owner.get(&(o as u32)).is_none_or(|at| *at == r) {
                ends[r].insert(*s);
            }
        }
    }
    let mut parts: Vec<Vec<Builder>> = Vec::new();
    for (r, need) in ends.iter_mut().enumerate() {
        let mut own: Vec<Builder> = (0..levels).map(|_| Builder::new(graph, a, copied, 0)).collect();
        for i in (0..graph.nodes.len()).filter(|&i| is_end(i) && a.rank[i] == r) {
            own[a.level[i]].push(i);
        }
        need.extend(own.iter().flat_map(|b| &b.part.inputs).filter_map(|s| match s {
            Source::Once(s) => Some(*s),
            _ => None,
        }));
        parts.push(own);
    }
    for (r, need) in ends.iter().enumerate() {
        for &s in need {
            let i = s.node as usize;
            match a.when[i] {
                When::Before => drop(before[r].insert(s)),
                When::During => return Err(Error::bug("a result of one microbatch").at(graph.nodes[i].site)),
                When::After => {
                    let from = a.rank[i];
                    if from != r {
                        passed.insert(PassedOnce { level: a.level[i] + 1, value: s, from, to: r });
                    }
                }
            }
        }
    }
    // A part answers what any rank needs of it.
    let wanted: BTreeSet<Slot> = ends.iter().flatten().copied().filter(|s| is_end(s.node as usize)).collect();
    for s in wanted {
        let i = s.node as usize;
        parts[a.rank[i]][a.level[i]].output(s)?;
    }
    // Variables are updated where they are.
    for &(k, o) in &graph.updates {
        let (old, new) = (Source::Once(Slot::new(graph.inputs[k as usize] as usize, 0)), graph.outputs[o as usize]);
        for b in parts.iter_mut().flatten() {
            let place = |b: &Builder| {
                let input = b.part.inputs.iter().position(|s| *s == old)?;
                Some((input as u32, b.part.outputs.iter().position(|s| *s == new)? as u32))
            };
            b.part.graph.updates.extend(place(b));
            b.part.graph.updates.sort_unstable();
        }
    }
    let everything: Vec<bool> =
        (0..graph.nodes.len()).map(|i| a.when[i] == When::Before && graph.nodes[i].op != &INPUT).collect();
    let number: BTreeMap<u32, usize> = graph.inputs.iter().enumerate().map(|(k, &i)| (i, k)).collect();
    let mut needs: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); ranks.len()];
    for (r, own) in ranks.iter_mut().enumerate() {
        let sources = own.during.values().flat_map(|p| &p.inputs);
        before[r].extend(sources.filter_map(|s| match s {
            Source::Once(s) | Source::Take(s, _) | Source::First(s) => Some(*s),
            Source::Held(..) => None,
        }));
        let mut b = Builder::new(graph, a, &everything, 0);
        for &s in &before[r] {
            if let Some(&k) = number.get(&s.node) {
                needs[r].insert(k);
            } else {
                b.slot(s);
                b.output(s)?;
            }
        }
        needs[r].extend(b.part.inputs.iter().filter_map(|s| match s {
            Source::Once(s) => number.get(&s.node).copied(),
            _ => None,
        }));
        own.before = b.part;
    }
    for r in 0..ranks.len() {
        for k in needs[r].clone() {
            if let Some(from) = a.owners[k].filter(|from| *from != r) {
                passed.insert(PassedOnce { level: 0, value: Slot::new(graph.inputs[k] as usize, 0), from, to: r });
                needs[from].insert(k);
            }
        }
    }
    for ((own, parts), needs) in ranks.iter_mut().zip(parts).zip(&needs) {
        own.after = parts.into_iter().map(|b| b.part).collect();
        own.inputs = (0..graph.inputs.len()).map(|k| needs.contains(&k)).collect();
    }
    Ok(passed.into_iter().collect())
}
