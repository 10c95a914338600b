//! The plan of a graph for a device: regions in order, their memory, and what comes in and goes out.

use crate::recipe::{Snapshot, State, Watch, run, target_stages};
use crate::{Fused, Location, MemoryPlan, Region, Step, Target, check_memory_plan, plan_memory, view_of};
use ir::{Buffer, Error, Graph, Literal, Meaning, Result, Slot, Type};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

/// A byte of one of a run's buffers, which are the inputs, the results, the constants and the arena, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Which buffer.
    pub base: u32,
    /// Bytes from its start.
    pub offset: usize,
}

/// Where a result of the graph comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The input with this number.
    Input(usize),
    /// The constant with this number.
    Constant(usize),
    /// The result buffer with this number.
    Buffer(usize),
    /// Nowhere: it has no elements.
    Empty,
}

/// The memory of a run in bytes, as planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// What is there before: inputs and constants.
    pub given: usize,
    /// Values inside.
    pub arena: usize,
    /// Results.
    pub results: usize,
    /// Results that take over the memory of inputs without other owners.
    pub in_place: usize,
}
impl MemoryUse {
    /// Everything that is there at once.
    pub fn peak(&self) -> usize {
        self.given + self.arena + self.results - self.in_place
    }
}

/// A planned graph.
pub struct Plan {
    /// The graph cut into regions, in the order they run.
    pub fused: Fused,
    /// Where values are stored.
    pub memory: MemoryPlan,
    /// Types of the inputs.
    pub inputs: Vec<Type>,
    /// Constants, by node.
    pub constants: Vec<(usize, Literal)>,
    /// The results.
    pub results: Vec<(Source, Type)>,
    /// The first wave that may overwrite an input. Nothing can fail from there on, and no run is interrupted.
    pub commit: usize,
    /// Floating-point operations of each region, where they are known.
    pub flops: Vec<usize>,
}

/// Plans a graph of primitive ops and claimed composites: runs the target's stages, has it lower each region once,
/// and plans memory.
pub fn plan(graph: Graph, target: &mut dyn Target, watch: &mut Watch) -> Result<Plan> {
    let start = State::Graph(Cow::Owned(graph));
    let fused = run(&target_stages(target), start, watch)?.into_regions()?;
    watch.step("select", || target.select(&fused), |()| Snapshot::Code)?;
    let commit = commit_region(&fused, target);
    let decide = || {
        let mut memory = plan_memory(&fused, commit, target);
        target.restrict_donors(&fused, &mut memory);
        Ok(memory)
    };
    let mut memory = watch.step("plan_memory", decide, |_| Snapshot::Code)?;
    let scratch = watch.step("lower", || target.lower(&fused, &memory), |_| Snapshot::Code)?;
    let pack = || {
        memory.pack(&scratch);
        Ok(memory)
    };
    let memory = watch.step("pack_arena", pack, |m| Snapshot::Memory(m))?;
    if watch.verifies() {
        check_memory_plan(&fused, &memory, &scratch, target).map_err(|e| Error::bug(format!("pack_arena: {e}")))?;
    }
    let flops = fused.regions.iter().map(|r| flops(r, &fused.graph, target)).collect();
    Ok(Plan::new(fused, memory, flops))
}

/// Results may overwrite inputs from this region on: none after it can fail.
pub(crate) fn commit_region(fused: &Fused, target: &dyn Target) -> usize {
    (0..fused.regions.len()).rev().find(|&r| target.may_fail(fused, r)).map_or(0, |r| r + 1)
}

fn flops(r: &Region, graph: &Graph, target: &dyn Target) -> usize {
    match r {
        Region::Loop(l) => {
            let points: usize = l.dims.iter().product();
            let steps = l.steps.iter().map(|s| match s {
                Step::Scalar { row: false, .. } | Step::Reduce { row: false, .. } => points,
                Step::Scalar { .. } | Step::Reduce { .. } => l.rows(),
                Step::Load { .. } | Step::Const(_) => 0,
            });
            steps.sum::<usize>() + l.producer.as_ref().map_or(0, |p| target.flops(&graph.nodes[p.node], &p.args))
        }
        Region::Call { node, args, .. } => target.flops(&graph.nodes[*node], args),
    }
}

impl Plan {
    fn new(fused: Fused, memory: MemoryPlan, flops: Vec<usize>) -> Plan {
        let graph = &fused.graph;
        let nodes = graph.nodes.iter().enumerate().filter(|(_, n)| matches!(n.op.meaning, Meaning::Const));
        let constants: Vec<(usize, Literal)> =
            nodes.filter_map(|(i, n)| n.attrs.literal("value").ok().map(|c| (i, c.clone()))).collect();
        let inputs = graph.inputs.iter().map(|&i| graph.nodes[i as usize].outs[0].clone()).collect();
        let source = |s: Slot| match memory.location(view_of(&fused.views, s).root) {
            Location::Input(k) => Source::Input(k),
            Location::Result(b) => Source::Buffer(b),
            Location::Const(i) => constants.iter().position(|c| c.0 == i).map_or(Source::Empty, Source::Constant),
            // Only empty values are stored nowhere.
            Location::Nowhere | Location::Arena(_) => Source::Empty,
        };
        let results = graph.outputs.iter().map(|&s| (source(s), graph.ty(s).clone())).collect();
        let is_donated = |s: &Slot| memory.donor(*s).is_some();
        let overwrites = |w: &Range<usize>| fused.regions[w.clone()].iter().any(|r| r.writes().iter().any(is_donated));
        let commit = fused.waves.iter().position(overwrites).unwrap_or(fused.waves.len());
        Plan { inputs, constants, results, commit, flops, fused, memory }
    }

    /// The arena's number among a run's buffers.
    pub fn arena(&self) -> u32 {
        (self.inputs.len() + self.memory.buffers.len() + self.constants.len()) as u32
    }
    /// Where a stored value begins.
    pub fn address(&self, s: Slot) -> Address {
        let before = self.inputs.len() + self.memory.buffers.len();
        let (base, offset) = match self.memory.location(s) {
            Location::Input(k) => (k as u32, 0),
            Location::Result(b) => ((self.inputs.len() + b) as u32, 0),
            Location::Const(i) => {
                let at = self.constants.binary_search_by_key(&i, |c| c.0).expect("every constant is listed, in order");
                ((before + at) as u32, 0)
            }
            Location::Arena(at) => (self.arena(), at),
            // Empty values: nothing is read or written.
            Location::Nowhere => (self.arena(), 0),
        };
        Address { base, offset }
    }
    /// A byte of a region's scratch space.
    pub fn scratch(&self, region: usize, at: usize) -> Address {
        Address { base: self.arena(), offset: self.memory.scratch[region] + at }
    }
    /// The input whose memory a result may take over.
    pub fn donor(&self, s: Slot) -> Option<Slot> {
        self.memory.donor(s).map(|k| Slot { node: self.fused.graph.inputs[k], out: 0 })
    }
    /// Values that a region reads, or that are results.
    pub fn read(&self) -> BTreeSet<Slot> {
        self.fused.regions.iter().flat_map(Region::reads).chain(self.fused.results()).collect()
    }
    /// The memory of a run.
    pub fn memory_use(&self) -> MemoryUse {
        let buffers = &self.memory.buffers;
        MemoryUse {
            given: self.inputs.iter().map(Type::bytes).sum::<usize>()
                + self.constants.iter().map(|(_, c)| c.bytes().len()).sum::<usize>(),
            arena: self.memory.arena_bytes,
            results: buffers.iter().map(|b| b.bytes).sum(),
            in_place: buffers.iter().filter(|b| b.donor.is_some()).map(|b| b.bytes).sum(),
        }
    }
    /// An error unless there are as many inputs as the graph takes, and those on the host have its types.
    pub fn check_inputs(&self, inputs: &[Buffer]) -> Result<()> {
        if inputs.len() != self.inputs.len() {
            let (want, got) = (self.inputs.len(), inputs.len());
            return Err(Error::value(format!("the graph takes {want} inputs, but {got} were given")));
        }
        for (k, b) in inputs.iter().enumerate() {
            if let Buffer::Host(l) = b {
                self.check_input(k, l.dtype(), l.shape())?;
            }
        }
        Ok(())
    }
    /// An error unless an input has this type.
    pub fn check_input(&self, k: usize, dtype: ir::DType, shape: &ir::Shape) -> Result<()> {
        let ty = &self.inputs[k];
        if dtype == ty.dtype && *shape == ty.shape {
            return Ok(());
        }
        Err(Error::shape(format!("input {k} of the graph is {ty}, but {dtype}{shape} was given")))
    }
    /// An error with the op and the line of a region.
    pub fn blame(&self, region: usize, e: Error) -> Error {
        let n = &self.fused.graph.nodes[self.fused.regions[region].nodes()[0] as usize];
        e.in_op(n.op.name).at(n.site)
    }
}
