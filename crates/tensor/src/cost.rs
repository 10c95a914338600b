//! What a partitioned train step costs on a cluster: seconds, bytes held and bytes sent, read off its programs.

use crate::mesh::Absent;
use crate::pipeline::Pipeline;
use crate::plan::Pipe;
use crate::rehearse;
use ir::{Error, Graph, Result};
use ops::collective;
use passes::stage::{Part, Pass, RankPrograms, Staged};
use runtime::{Engine, MemoryUse, Program, RegionWork};
use rustc_hash::FxHashMap;
use sim::{Action, Bits, Cluster, Exchange, Part as Phase, Region};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// What a step costs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Estimate {
    pub step_s: f64,
    /// Bytes on the fullest rank, and those of them that are parameters and the optimizer's state.
    pub bytes: f64,
    pub state_bytes: f64,
    /// The share of the pipeline's time that ranks wait.
    pub bubble: f64,
    /// Bytes that a rank sends.
    pub sent_bytes: f64,
    /// Of a step, failures and checkpoints included.
    pub price: f64,
    /// Rank, what it does, of which kind, when and how long.
    pub spans: Vec<(usize, String, &'static str, f64, f64)>,
}

impl Estimate {
    /// A trace in Chrome's format, a row for each rank.
    pub fn timeline(&self) -> String {
        let mut text = String::from("{\"traceEvents\":[");
        for (i, (rank, name, kind, start, long)) in self.spans.iter().enumerate() {
            let comma = if i == 0 { "" } else { ",\n" };
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "{comma}{{\"name\":\"{name}\",\"cat\":\"{kind}\",\"ph\":\"X\",\"ts\":{:.3},\"dur\":{:.3},\"pid\":0,\
                 \"tid\":{rank}}}",
                start * 1e6,
                long * 1e6
            );
        }
        text + "]}"
    }
}

/// What one program costs.
#[derive(Clone, Debug, Default)]
struct Cost {
    /// What it does, of which kind, when and how long.
    spans: Vec<(String, &'static str, f64, f64)>,
    seconds: f64,
    sent: f64,
    memory: MemoryUse,
}

/// Prices programs.
pub(crate) struct Costs<'a> {
    pub cluster: &'a Cluster,
    pub engine: &'a Engine,
    /// The ranks of the mesh.
    ranks: usize,
    /// Regions that were measured.
    kernels: &'a RefCell<Kernels>,
    /// Programs that were measured, and the seconds of their regions.
    measured: RefCell<Vec<(Arc<dyn Program>, Arc<Vec<f64>>)>>,
}

/// Seconds of regions, by what they compute ([`rehearse::kernel`]).
pub(crate) type Kernels = BTreeMap<String, f64>;

impl<'a> Costs<'a> {
    pub fn new(cluster: &'a Cluster, engine: &'a Engine, ranks: usize, kernels: &'a RefCell<Kernels>) -> Costs<'a> {
        Costs { cluster, engine, ranks, kernels, measured: RefCell::default() }
    }
    /// Seconds of the regions of a program without its exchanges, as measured here.
    fn measured(&self, graph: &Graph, program: &Arc<dyn Program>, list: &[RegionWork]) -> Result<Arc<Vec<f64>>> {
        let known = self.measured.borrow().iter().find(|(p, _)| Arc::ptr_eq(p, program)).map(|(_, s)| s.clone());
        if let Some(seconds) = known {
            return Ok(seconds);
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        // Copies have the threads of this process: with several, they would take turns.
        let is_alone = !self.cluster.is_shared || self.engine.device().shares() > 1;
        let copies = if is_alone { 1 } else { self.ranks.min(processors) };
        let seconds = Arc::new(rehearse::regions(self.engine, program, graph, list, copies)?);
        let mut kernels = self.kernels.borrow_mut();
        for (r, s) in list.iter().zip(seconds.iter()).filter(|(_, s)| **s > 0.0) {
            kernels.insert(rehearse::kernel(&r.name, r.flops, r.bytes), *s);
        }
        self.measured.borrow_mut().push((program.clone(), seconds.clone()));
        Ok(seconds)
    }
    /// Seconds of a region: as it was measured on the cluster, or by its work.
    fn region_s(&self, r: &RegionWork) -> f64 {
        let known = self.cluster.kernels.get(&rehearse::kernel(&r.name, r.flops, r.bytes));
        known.copied().unwrap_or_else(|| self.cluster.region_s(&region(r)))
    }
    fn of(&self, graph: &Graph) -> Result<Cost> {
        let name = self.engine.device().name();
        let silent = || Error::value(format!("device {name} does not say what its programs do: plan on one that does"));
        let program = self.engine.compile(graph)?;
        let work = program.work().ok_or_else(silent)?;
        let mut cost = Cost { memory: work.memory, ..Cost::default() };
        let is_run = self.cluster.is_measured && !work.regions.is_empty();
        let measured = is_run.then(|| self.measured(graph, &program, &work.regions)).transpose()?;
        // When the link is free, and when what goes on meanwhile ends.
        let (mut free, mut ends) = (0.0f64, vec![0.0f64; work.regions.len()]);
        for (i, r) in work.regions.into_iter().enumerate() {
            let now = cost.seconds;
            let (kind, start, end) = match exchange(&r)? {
                Some(e) => {
                    cost.sent += e.sent();
                    let goes_on = r.exchange.as_ref().is_some_and(|e| e.goes_on);
                    let (start, long) = (now.max(free), self.cluster.exchange_s(&e));
                    (free, ends[i]) = (start + long, start + long);
                    // Ranks that share a processor move the bytes themselves.
                    cost.seconds = if goes_on && !self.cluster.is_shared { now } else { start + long };
                    ("exchange", start, start + long)
                }
                None if r.ends.is_some() => {
                    cost.seconds = now.max(r.ends.map_or(0.0, |b| ends[b]));
                    ("wait", now, cost.seconds)
                }
                None => {
                    cost.seconds = now + measured.as_ref().map_or_else(|| self.region_s(&r), |all| all[i]);
                    ("compute", now, cost.seconds)
                }
            };
            cost.spans.push((r.name, kind, start, end - start));
        }
        Ok(cost)
    }

    /// A step that is one program.
    pub fn program(&self, graph: &Graph, ranks: usize, state_bytes: f64) -> Result<Estimate> {
        let cost = self.of(graph)?;
        let spans = cost.spans.iter().map(|(name, kind, at, long)| (0, name.clone(), *kind, *at, *long)).collect();
        let m = &cost.memory;
        let bytes = m.given + m.arena + m.results - m.in_place;
        let estimate =
            Estimate { bytes: bytes as f64, state_bytes, sent_bytes: cost.sent, spans, ..Estimate::default() };
        Ok(self.priced(estimate, cost.seconds, ranks))
    }

    fn priced(&self, e: Estimate, seconds: f64, ranks: usize) -> Estimate {
        let step_s = seconds * (1.0 + self.cluster.jitter);
        let hours = step_s / 3600.0 / self.cluster.efficiency(ranks).max(1e-3);
        Estimate { step_s, price: hours * self.cluster.price * ranks as f64, ..e }
    }

    /// A step in the stages of a pipeline. The stages are `stride` ranks apart; `state` is what a rank stores.
    pub fn pipeline(
        &self,
        staged: Arc<Staged>,
        pipe: Pipe,
        (stride, ranks): (usize, usize),
        (exchange, is_meanwhile): (&dyn passes::partition::Exchange, bool),
        state: &dyn Fn(&[Option<usize>], usize) -> f64,
    ) -> Result<Estimate> {
        let own = |r| Pipeline::new(staged.clone(), pipe, r, vec![None; pipe.ranks], is_meanwhile);
        let pipelines: Vec<Pipeline> = (0..pipe.ranks).map(own).collect::<Result<_>>()?;
        let mut parts: FxHashMap<(usize, Pass), Cost> = FxHashMap::default();
        for (r, (key, part)) in
            staged.ranks.iter().enumerate().flat_map(|(r, own)| own.during.iter().map(move |p| (r, p)))
        {
            let mut cost = self.of(&part.graph)?;
            if let Some(adding) = pipelines[r].adding_graph(*key, exchange)? {
                let arena = cost.memory.arena;
                cost = self.of(&adding)?;
                cost.memory.arena = cost.memory.arena.max(arena);
            }
            let passed = staged.passed.iter().filter(|p| (p.stage, p.pass) == *key);
            for p in passed {
                let bytes = staged.graph.ty(p.value).bytes() as f64;
                cost.seconds += self.cluster.send_s(bytes, stride < self.cluster.node());
                cost.sent += bytes;
            }
            parts.insert(*key, cost);
        }
        let bad = |e: sim::Error| Error::value(e.0).in_op("schedule");
        let schedule = sim::generate(pipe.kind, pipe.ranks, pipe.micros).map_err(bad)?;
        sim::verify(&schedule, None).map_err(bad)?;
        let stage = |r: usize, a: Action| a.chunk * pipe.ranks + r;
        let seconds = |r: usize, a: Action| parts.get(&(stage(r, a), pass(a.part))).map_or(0.0, |c| c.seconds);
        let clock = sim::run(&schedule, seconds, |_, _| 0.0).map_err(bad)?;
        let before = self.once(&staged, 0, stride, &|r| Some(&staged.ranks[r].before))?;
        let mut e = Estimate { bubble: clock.idle(), ..Estimate::default() };
        for (r, list) in clock.ranks.iter().enumerate() {
            for s in list {
                let kind = format!("{:?}", s.action.part).to_lowercase();
                let name = format!("{kind} {}.{}", s.action.micro, s.action.chunk);
                e.spans.push((r, name, "stage", before + s.start, s.end - s.start));
            }
        }
        let mut end = before + clock.end();
        let levels = staged.ranks.iter().map(|r| r.after.len()).max().unwrap_or(0);
        for level in 0..levels {
            let long = self.once(&staged, level + 1, stride, &|r| staged.ranks[r].after.get(level))?;
            (0..pipe.ranks).for_each(|r| e.spans.push((r, format!("update {level}"), "update", end, long)));
            end += long;
        }
        for rank in 0..pipe.ranks {
            let own = staged.ranks[rank].during.keys().map(|k| parts[k].sent).sum::<f64>() * pipe.micros as f64;
            let once = std::iter::once(&staged.ranks[rank].before).chain(&staged.ranks[rank].after);
            let once = once.map(|p| self.of(&p.graph).map(|c| c.sent)).sum::<Result<f64>>()?;
            e.sent_bytes = e.sent_bytes.max(own + once);
            let bytes = self.bytes(&pipelines[rank], &staged.ranks[rank], &parts)?;
            if bytes > e.bytes {
                (e.bytes, e.state_bytes) = (bytes, state(&staged.owners, rank));
            }
        }
        Ok(self.priced(e, end, ranks))
    }

    /// Seconds of a part that every rank computes once, and of what is passed at that level.
    fn once<'s>(
        &self,
        staged: &'s Staged,
        level: usize,
        stride: usize,
        part: &dyn Fn(usize) -> Option<&'s Part>,
    ) -> Result<f64> {
        let mut most = 0.0f64;
        for r in 0..staged.ranks.len() {
            let own = part(r).filter(|p| !p.outputs.is_empty());
            let seconds = own.map_or(Ok(0.0), |p| self.of(&p.graph).map(|c| c.seconds))?;
            let sends = staged.passed_once.iter().filter(|p| p.level == level && p.from == r);
            let bytes: usize = sends.map(|p| staged.graph.ty(p.value).bytes()).sum();
            let send = if bytes > 0 { self.cluster.send_s(bytes as f64, stride < self.cluster.node()) } else { 0.0 };
            most = most.max(seconds + send);
        }
        Ok(most)
    }

    /// The most bytes that a rank of a pipeline has at once.
    fn bytes(&self, pipeline: &Pipeline, own: &RankPrograms, parts: &FxHashMap<(usize, Pass), Cost>) -> Result<f64> {
        let arena = |key: (usize, Pass)| parts.get(&key).map_or(0, |c| c.memory.arena);
        let mut after = (0, 0);
        for part in &own.after {
            let m = self.of(&part.graph)?.memory;
            after = (after.0 + m.results - m.in_place, after.1.max(m.arena));
        }
        let before = self.of(&own.before.graph)?.memory;
        Ok(pipeline.planned_bytes(before.results, &arena, after) as f64)
    }
}

fn pass(p: Phase) -> Pass {
    match p {
        Phase::Forward => Pass::Forward,
        Phase::Backward => Pass::Backward,
        Phase::Weights => Pass::Weights,
    }
}

fn region(r: &RegionWork) -> Region {
    let product = r.product.map(|t| if t.size() <= 2 { Bits::Half } else { Bits::Full });
    Region { flops: r.flops as f64, bytes: r.bytes as f64, product }
}

/// The exchange that a region is, if it is one of a mesh that is not there.
fn exchange(r: &RegionWork) -> Result<Option<Exchange>> {
    let Some(e) = &r.exchange else { return Ok(None) };
    let at = e.peers.downcast::<Absent>()?;
    let pattern = match collective::pattern(e.op) {
        Some(collective::Pattern::AllReduce) => sim::Pattern::AllReduce,
        Some(collective::Pattern::AllGather) => sim::Pattern::AllGather,
        Some(collective::Pattern::ReduceScatter) => sim::Pattern::ReduceScatter,
        Some(collective::Pattern::AllToAll) => sim::Pattern::AllToAll,
        None => return Err(Error::value(format!("{}: its cost is not known to the planner", e.op.name))),
    };
    Ok(Some(Exchange { pattern, bytes: e.given.max(e.got) as f64, ranks: at.size, stride: at.stride }))
}
