//! Plans memory: lifetimes, one arena with reuse, results in buffers of their own, updates in place.
//!
//! A loop may write a value over one that dies in it if both have the same strides: each element is then read and
//! written at the same point of the loop. A kernel may where the device says so. The producer of an epilogue puts its
//! result where the epilogue stores one.

use crate::pack::{Block, pack};
use crate::{Fused, Loop, Producer, Region, Step, Store, Target};
use ir::{FlatNode, Graph, Meaning, Slot};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::ops::Range;

/// Offsets in the arena are multiples of this: a cache line, and the widest vector.
pub const ALIGN: usize = 64;

/// Where a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// It is not stored: inside a loop, a view, or empty.
    Nowhere,
    /// In the graph's input with this number.
    Input(usize),
    /// In the constant of this node.
    Const(usize),
    /// At this byte of the arena.
    Arena(usize),
    /// In the result buffer with this number.
    Result(usize),
}

/// A buffer that outlives the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// The value it holds.
    pub slot: Slot,
    /// Its size.
    pub bytes: usize,
    /// The graph's input whose buffer it may take over if it is not shared.
    pub donor: Option<usize>,
}

/// The locations of a graph's values.
#[derive(Clone, Debug, Default)]
pub struct MemoryPlan {
    locations: Vec<SmallVec<[Location; 1]>>,
    /// Result buffers.
    pub buffers: Vec<Buffer>,
    /// For each region, where its scratch space begins in the arena.
    pub scratch: Vec<usize>,
    /// Size of the arena.
    pub arena_bytes: usize,
    /// The most bytes of the arena in use at once: no plan can do with less.
    pub live_bytes: usize,
    /// Blocks of the arena that are not placed yet, and the wave of each region.
    blocks: Vec<Block>,
    wave: Vec<usize>,
}

impl MemoryPlan {
    /// A plan whose blocks are placed.
    pub(crate) fn placed(
        locations: Vec<SmallVec<[Location; 1]>>,
        buffers: Vec<Buffer>,
        scratch: Vec<usize>,
        arena_bytes: usize,
    ) -> MemoryPlan {
        MemoryPlan { locations, buffers, scratch, arena_bytes, ..MemoryPlan::default() }
    }
    /// Of each output of each node.
    pub(crate) fn locations(&self) -> &[SmallVec<[Location; 1]>] {
        &self.locations
    }
    /// Where a value is stored.
    pub fn location(&self, s: Slot) -> Location {
        self.locations[s.node as usize][s.out as usize]
    }
    /// The input, by number, whose memory a result may take over.
    pub fn donor(&self, s: Slot) -> Option<usize> {
        if let Location::Result(b) = self.location(s) { self.buffers[b].donor } else { None }
    }
    /// True if a result is stored, or may be stored, in the memory of an operand.
    pub fn shares(&self, result: Slot, operand: Slot) -> bool {
        match (self.location(result), self.location(operand)) {
            (Location::Arena(a), Location::Arena(b)) => a == b,
            (Location::Result(_), Location::Input(k)) => self.donor(result) == Some(k),
            _ => false,
        }
    }
    /// Places all blocks in the arena, with `scratch` bytes for each region.
    pub fn pack(&mut self, scratch: &[usize]) {
        let values = self.blocks.len();
        for (&bytes, &w) in scratch.iter().zip(&self.wave) {
            self.blocks.push(Block { bytes: bytes.next_multiple_of(ALIGN), from: w, to: w });
        }
        let (offsets, arena_bytes) = pack(&self.blocks);
        for location in self.locations.iter_mut().flatten() {
            if let Location::Arena(b) = location {
                *location = Location::Arena(offsets[*b]);
            }
        }
        self.scratch = offsets[values..].to_vec();
        self.arena_bytes = arena_bytes;
        self.live_bytes = live_bytes(&self.blocks, self.wave.last().map_or(0, |w| w + 1));
        self.blocks = Vec::new();
    }
    /// Arena and result buffers together, nothing donated.
    pub fn peak_bytes(&self) -> usize {
        self.arena_bytes + self.buffers.iter().map(|b| b.bytes).sum::<usize>()
    }
}

/// Decides which values share memory. Inputs are overwritten only by the region with the number `commit` and those
/// after it. [`MemoryPlan::pack`] then places everything; until then an arena location is the number of a block.
pub fn plan_memory(fused: &Fused, commit: usize, target: &dyn Target) -> MemoryPlan {
    let mut p = Planner::new(fused, commit, target);
    (0..fused.regions.len()).for_each(|r| p.region(r));
    p.plan
}

/// The last region that reads each value.
type LastUses = Vec<SmallVec<[Option<usize>; 1]>>;

struct Planner<'a> {
    fused: &'a Fused,
    commit: usize,
    target: &'a dyn Target,
    last: LastUses,
    /// For each wave, whether one of its regions reads what another writes.
    is_chain: Vec<bool>,
    results: FxHashSet<Slot>,
    /// The input that holds the old value of a variable, by its new one; and whether an input holds one.
    own: FxHashMap<Slot, usize>,
    is_old: Vec<bool>,
    /// Inputs whose memory is taken over.
    donated: Vec<bool>,
    plan: MemoryPlan,
}

impl<'a> Planner<'a> {
    fn new(fused: &'a Fused, commit: usize, target: &'a dyn Target) -> Planner<'a> {
        let graph = &fused.graph;
        let nowhere = |n: &FlatNode| SmallVec::from_elem(Location::Nowhere, n.outs.len());
        let mut plan = MemoryPlan { locations: graph.nodes.iter().map(nowhere).collect(), ..MemoryPlan::default() };
        for (k, &i) in graph.inputs.iter().enumerate() {
            plan.locations[i as usize][0] = Location::Input(k);
        }
        for (i, n) in graph.nodes.iter().enumerate() {
            if matches!(n.op.meaning, Meaning::Const) {
                plan.locations[i][0] = Location::Const(i);
            }
        }
        plan.wave = vec![0; fused.regions.len()];
        fused.waves.iter().enumerate().for_each(|(w, rs)| plan.wave[rs.clone()].fill(w));
        let (mut own, mut is_old) = (FxHashMap::default(), vec![false; graph.inputs.len()]);
        for (k, slot) in fused.updates() {
            own.entry(slot).or_insert(k);
            is_old[k] = true;
        }
        Planner {
            last: last_uses(fused),
            is_chain: fused.waves.iter().map(|w| is_chain(fused, w)).collect(),
            results: fused.results(),
            donated: vec![false; graph.inputs.len()],
            fused,
            commit,
            target,
            own,
            is_old,
            plan,
        }
    }

    /// Finds memory for what a region writes.
    fn region(&mut self, r: usize) {
        let region = &self.fused.regions[r];
        // Blocks that this region has taken over.
        let mut taken: Vec<usize> = Vec::new();
        let produced = producer_slot(region);
        // The producer's result comes last: it may share the memory of what the epilogue stores.
        let writes = region.writes().into_iter().filter(|&s| Some(s) != produced).chain(produced);
        for slot in writes {
            let bytes = self.fused.graph.ty(slot).bytes();
            if bytes == 0 {
                continue;
            }
            let location = if let Some(s) = self.host(region, slot, produced, &taken) {
                self.plan.location(s)
            } else if self.results.contains(&slot) {
                let donor = self.donor(r, slot);
                donor.into_iter().for_each(|k| self.donated[k] = true);
                self.plan.buffers.push(Buffer { slot, bytes, donor });
                Location::Result(self.plan.buffers.len() - 1)
            } else {
                Location::Arena(self.block(r, slot, bytes, &mut taken))
            };
            self.plan.locations[slot.node as usize][slot.out as usize] = location;
        }
    }

    /// The epilogue's result in whose memory the producer puts its own.
    fn host(&self, region: &Region, slot: Slot, produced: Option<Slot>, taken: &[usize]) -> Option<Slot> {
        let is_new = |s: Slot| match self.plan.location(s) {
            Location::Result(b) => self.plan.buffers[b].donor.is_none(),
            Location::Arena(b) => !taken.contains(&b),
            _ => false,
        };
        hosts(&self.fused.graph, region).find(|&s| Some(slot) == produced && is_new(s))
    }

    /// The block of a value: that of a value which dies in this region, or a new one.
    fn block(&mut self, r: usize, slot: Slot, bytes: usize, taken: &mut Vec<usize>) -> usize {
        let wave = &self.plan.wave;
        let to = wave[self.last[slot.node as usize][slot.out as usize].unwrap_or(r).max(r)];
        let dying = self.dying(r, slot).filter(|b| !taken.contains(b) && self.plan.blocks[*b].to == wave[r]);
        if let Some(b) = dying {
            self.plan.blocks[b].to = to;
            taken.push(b);
            return b;
        }
        let from = wave[r];
        self.plan.blocks.push(Block { bytes: bytes.next_multiple_of(ALIGN), from, to });
        self.plan.blocks.len() - 1
    }

    /// True if no other region reads a value while this one runs. Where one region of a wave reads what another
    /// writes, loops may be computed more than once.
    fn is_alone(&self, v: Slot, r: usize) -> bool {
        let wave = self.plan.wave[r];
        if self.is_chain[wave] && matches!(self.fused.regions[r], Region::Loop(_)) {
            return false;
        }
        let mut others = self.fused.waves[wave].clone().filter(|&o| o != r);
        !others.any(|o| self.fused.regions[o].reads().contains(&v))
    }

    /// The block of the first value that a result may replace, if only this region reads it.
    fn dying(&self, r: usize, slot: Slot) -> Option<usize> {
        let graph = &self.fused.graph;
        let is_computed = |v: &Slot| !matches!(graph.node(*v).op.meaning, Meaning::Input | Meaning::Const);
        let v = replaceable(graph, &self.fused.regions[r], slot, r, &self.last, self.target).find(is_computed)?;
        match self.plan.location(v) {
            Location::Arena(b) if self.is_alone(v, r) => Some(b),
            _ => None,
        }
    }

    /// The input whose memory a result may take over. A variable's new value takes that of its old one, and nothing
    /// else does: a failed run leaves the old value there. Of other inputs the last: the arguments of a function,
    /// which its caller holds, come before the variables it reads.
    fn donor(&self, r: usize, slot: Slot) -> Option<usize> {
        if r < self.commit {
            return None;
        }
        let graph = &self.fused.graph;
        let own = self.own.get(&slot).copied();
        let is_free = |k: usize| !self.donated[k] && (!self.is_old[k] || own == Some(k));
        replaceable(graph, &self.fused.regions[r], slot, r, &self.last, self.target)
            .filter(|v| graph.ty(*v).dtype == graph.ty(slot).dtype && !self.results.contains(v))
            .filter_map(|v| if let Location::Input(k) = self.plan.location(v) { Some(k) } else { None })
            .filter(|&k| is_free(k))
            .max_by_key(|&k| (own == Some(k), k))
            .filter(|&k| self.is_alone(Slot { node: graph.inputs[k], out: 0 }, r))
    }
}

/// True if a region of a wave reads what another one of it writes.
fn is_chain(fused: &Fused, wave: &Range<usize>) -> bool {
    let regions = &fused.regions[wave.clone()];
    let is_written = |s: &Slot| regions.iter().any(|r| r.writes().contains(s));
    regions.len() > 1 && regions.iter().any(|r| r.reads().iter().any(is_written))
}

/// The value that a kernel feeds a loop with.
pub(crate) fn producer_slot(region: &Region) -> Option<Slot> {
    let Region::Loop(l) = region else { return None };
    l.producer.as_ref().map(Producer::slot)
}

/// What a fed loop stores at the very elements that it is fed, and could be computed over them.
pub(crate) fn hosts<'a>(graph: &'a Graph, region: &'a Region) -> impl Iterator<Item = Slot> + 'a {
    let fed = producer_slot(region);
    let stores = match region {
        Region::Loop(Loop { stores, .. }) => stores.as_slice(),
        Region::Call { .. } => &[],
    };
    stores.iter().map(|s| s.slot).filter(move |&s| {
        let is_like = |f: Slot| {
            let (a, b) = (graph.ty(f), graph.ty(s));
            a.bytes() == b.bytes() && a.dtype.size() == b.dtype.size() && steps_alike(region, f, s)
        };
        fed.is_some_and(is_like)
    })
}

/// The last region that reads each value.
fn last_uses(fused: &Fused) -> LastUses {
    let mut last: LastUses = fused.graph.nodes.iter().map(|n| SmallVec::from_elem(None, n.outs.len())).collect();
    for (r, region) in fused.regions.iter().enumerate() {
        for s in region.reads() {
            last[s.node as usize][s.out as usize] = Some(r);
        }
    }
    last
}

/// Values of the same size that a loop reads exactly where it writes `slot`, and that are not
/// read later.
fn replaceable<'a>(
    graph: &'a Graph,
    region: &'a Region,
    slot: Slot,
    r: usize,
    last: &'a [SmallVec<[Option<usize>; 1]>],
    target: &dyn Target,
) -> impl Iterator<Item = Slot> + 'a {
    let whole = changed(graph, region, target).filter(move |v| last[v.node as usize][v.out as usize] == Some(r));
    let found = match region {
        Region::Loop(l) => only_store(l, slot).map(|s| (l, s)),
        Region::Call { .. } => None,
    };
    let looped = found.into_iter().flat_map(move |(l, store)| {
        let is_full =
            |s: &Store| !matches!(l.steps[s.step as usize], Step::Reduce { .. }) && s.strides.iter().all(|&k| k != 0);
        let is_alike = move |v: Slot| {
            l.steps.iter().all(|t| match t {
                Step::Load { root, strides, offset } if *root == v => *strides == store.strides && *offset == 0,
                _ => true,
            })
        };
        let reads: SmallVec<[Slot; 4]> = if is_full(store) { region.reads() } else { SmallVec::new() };
        // What a kernel beside the loop reads is needed to the end.
        let is_fed_on = move |v: Slot| l.producer.as_ref().is_some_and(|f| f.reads(v));
        reads.into_iter().filter(move |&v| {
            !is_fed_on(v)
                && last[v.node as usize][v.out as usize] == Some(r)
                && graph.ty(v).bytes() == graph.ty(slot).bytes()
                && graph.ty(v).dtype.size() == graph.ty(slot).dtype.size()
                && is_alike(v)
        })
    });
    looped.chain(whole)
}

/// The one store of all of a value.
fn only_store(l: &Loop, slot: Slot) -> Option<&Store> {
    let mut stores = l.stores.iter().filter(|s| s.slot == slot);
    stores.next().filter(|s| s.offset == 0 && stores.next().is_none())
}

/// The value that a kernel changes into its result: all of a stored value that it reads once.
pub(crate) fn changed(graph: &Graph, region: &Region, target: &dyn Target) -> Option<Slot> {
    let Region::Call { node, args, .. } = region else { return None };
    let n = &graph.nodes[*node];
    let view = &args[target.overwrites(n)?];
    let is_whole = view.layout.is_contiguous() && view.layout.offset == 0 && graph.ty(view.root) == &n.outs[0];
    (is_whole && args.iter().filter(|a| a.root == view.root).count() == 1).then_some(view.root)
}

fn live_bytes(blocks: &[Block], regions: usize) -> usize {
    let mut change = vec![0isize; regions + 1];
    for b in blocks {
        change[b.from] += b.bytes as isize;
        change[b.to + 1] -= b.bytes as isize;
    }
    let mut live = 0;
    change
        .iter()
        .map(|c| {
            live += c;
            live as usize
        })
        .max()
        .unwrap_or(0)
}

/// True if a loop reads `v` only at the element of `s` that the same point writes. Every size of a
/// space is greater than 1, so steps are alike only if strides are.
pub(crate) fn steps_alike(region: &Region, v: Slot, s: Slot) -> bool {
    let Region::Loop(l) = region else { return false };
    let Some(store) = only_store(l, s) else { return false };
    // A dimension of size 1 takes no steps.
    let steps = || (0..l.dims.len()).filter(|&k| l.dims[k] > 1);
    !matches!(l.steps[store.step as usize], Step::Reduce { .. })
        && steps().all(|k| store.strides[k] != 0)
        && !l.producer.as_ref().is_some_and(|f| f.reads(v))
        && l.steps.iter().all(|t| match t {
            Step::Load { root, strides, offset } if *root == v => {
                *offset == 0 && steps().all(|k| strides[k] == store.strides[k])
            }
            _ => true,
        })
}
