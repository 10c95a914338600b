//! Cuts the graph of a train step into the stages of a pipeline.
//!
//! The graph is the program of one rank, partitioned with microbatches as an axis of time
//! ([`crate::partition::time`]). Each node of a microbatch is assigned to a stage and to its forward or backward part
//! ([`assign`]); parameters say where forward nodes are, and activations where backward nodes are. What is computed once
//! before or after all microbatches is assigned to ranks. The parts of each rank become graphs of their own
//! ([`programs`]), and each value that another rank needs is passed once.

mod assign;
mod balance;
mod early;
mod programs;

use crate::partition::time::{Mark, When, when};
use assign::Assignment;
use ir::{Error, Graph, Result, Slot};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// What an input of the graph is.
#[derive(Clone, Debug)]
pub enum Holding {
    /// Every rank has it.
    Shared,
    /// A variable that is trained.
    Parameter {
        /// Its name.
        name: Arc<str>,
        /// The stage that a plan gives it.
        stage: Option<usize>,
    },
    /// Another variable.
    State,
}

/// How a graph is cut.
pub struct Request {
    /// Ranks of the pipeline.
    pub ranks: usize,
    /// Stages of each rank: stage `s` is on rank `s % ranks`.
    pub chunks: usize,
    /// Whether the backward pass of weights is a part of its own.
    pub is_split: bool,
    /// So many stages keep their inputs only, and compute what the backward pass needs again.
    pub recomputed: usize,
    /// For each input.
    pub inputs: Vec<Holding>,
}

impl Request {
    /// How many stages there are.
    pub fn stages(&self) -> usize {
        self.ranks * self.chunks
    }
}

/// The parts of a stage's work on a microbatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pass {
    /// The forward pass.
    Forward,
    /// The backward pass; that of activations where weights have their own.
    Backward,
    /// The backward pass of weights.
    Weights,
}

/// Where an input of a part comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// It is computed once a step.
    Once(Slot),
    /// The microbatch's part of what is computed once, along a dimension.
    Take(Slot, usize),
    /// What is computed once in the first microbatch, zeros in the others.
    First(Slot),
    /// It is held since that stage computed it in this microbatch.
    Held(Slot, usize),
}

/// A program: a graph, where its inputs come from, and what its outputs are.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// The graph.
    pub graph: Graph,
    /// Its inputs.
    pub inputs: Vec<Source>,
    /// Its outputs, as values of the graph that was cut.
    pub outputs: Vec<Slot>,
}

/// A value that a stage passes to another rank in each microbatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The value.
    pub value: Slot,
    /// The part that computes it.
    pub pass: Pass,
    /// Its stage.
    pub stage: usize,
    /// The rank that needs it.
    pub to: usize,
}

/// A value that a rank passes to another one once a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PassedOnce {
    /// 0 before all microbatches, else after that many parts of the end.
    pub level: usize,
    /// The value.
    pub value: Slot,
    /// The rank that has it.
    pub from: usize,
    /// The rank that needs it.
    pub to: usize,
}

/// What becomes of a value of all microbatches.
#[derive(Clone, Copy, Debug)]
pub struct Gathered {
    /// The value of a microbatch.
    pub of: Slot,
    /// The stage that computes it.
    pub stage: usize,
    /// What it is afterwards.
    pub into: Slot,
    /// How.
    pub mark: Mark,
}

/// The programs of one rank.
#[derive(Clone, Debug, Default)]
pub struct RankPrograms {
    /// Once, before all microbatches.
    pub before: Part,
    /// In each microbatch, by stage and pass.
    pub during: FxHashMap<(usize, Pass), Part>,
    /// Once, after all microbatches; values are passed after each.
    pub after: Vec<Part>,
    /// Inputs that the rank needs.
    pub inputs: Vec<bool>,
}

/// A graph in stages.
pub struct Staged {
    /// The graph that was cut.
    pub graph: Graph,
    /// The rank that stores each input; `None`: all.
    pub owners: Vec<Option<usize>>,
    /// The stage of each parameter.
    pub stage_of: Vec<Option<usize>>,
    /// For each rank.
    pub ranks: Vec<RankPrograms>,
    /// What is passed in each microbatch, in one order for all ranks.
    pub passed: Vec<Passed>,
    /// What is passed once, in one order for all ranks.
    pub passed_once: Vec<PassedOnce>,
    /// What is combined over microbatches.
    pub gathered: Vec<Gathered>,
    /// Rough work of the forward pass of each stage.
    pub work: Vec<f64>,
}

/// Cuts a partitioned graph into stages.
pub fn stage(graph: Graph, request: &Request) -> Result<Staged> {
    let stages = request.stages();
    if stages == 0 || stages > 64 {
        return Err(Error::value(format!("a pipeline has 1 to 64 stages, not {stages}")).in_op("stage"));
    }
    let when = when(&graph).map_err(|_| Error::bug("a microbatch waits for the others"))?;
    let cones = cones(&graph, &when, request);
    let work = balance::work(&graph, &when)?;
    let is_backward = assign::backward(&graph, &when);
    let stage_of = balance::parameters(&graph, &when, &is_backward, &cones, &work, request)?;
    let a = assign::assign(&graph, when, is_backward, &cones, &stage_of, request)?;
    let sums = stage_work(&graph, &a, &work, stages);
    programs::build(graph, a, stage_of, sums, request)
}

/// For each node, the parameters that it or its inputs before all microbatches are computed from, by input.
type Cone = SmallVec<[u32; 2]>;

fn cones(graph: &Graph, when: &[When], request: &Request) -> Vec<Cone> {
    let mut all: Vec<Cone> = vec![Cone::new(); graph.nodes.len()];
    for (k, &i) in graph.inputs.iter().enumerate() {
        if matches!(request.inputs[k], Holding::Parameter { .. }) {
            all[i as usize].push(k as u32);
        }
    }
    for (i, n) in graph.nodes.iter().enumerate() {
        let mut cone = std::mem::take(&mut all[i]);
        for s in n.inputs.iter().filter(|s| when[s.node as usize] == When::Before) {
            cone.extend(all[s.node as usize].iter().copied());
        }
        // Microbatches' parts of parameters are theirs.
        let marked = n.inputs.iter().filter(|s| is_cut(graph, **s));
        for s in marked {
            cone.extend(all[s.node as usize].iter().copied());
        }
        cone.sort_unstable();
        cone.dedup();
        all[i] = cone;
    }
    all
}

/// Whether a value is a microbatch's part of one that is computed once.
fn is_cut(graph: &Graph, s: Slot) -> bool {
    matches!(Mark::of(graph.node(s)), Some(Mark::Take(_) | Mark::First))
}

fn stage_work(graph: &Graph, a: &Assignment, work: &[f64], stages: usize) -> Vec<f64> {
    let mut sums = vec![0.0; stages];
    for i in 0..graph.nodes.len() {
        if a.when[i] == When::During && !a.is_backward[i] {
            (0..stages).filter(|s| a.on[i] >> s & 1 == 1).for_each(|s| sums[s] += work[i]);
        }
    }
    sums
}
