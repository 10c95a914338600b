//! Gives every stored value a home: lifetimes, one arena with reuse, results in buffers of their
//! own, updates in place.
//!
//! A loop may write a value over one that dies in it, where both are stepped through alike: each
//! element is then read and written by the same point of the loop. A kernel may where the device
//! says so, and one that feeds a loop puts its result where the loop stores one of its own.

use crate::pack::{Block, pack};
use crate::{Fused, Loop, Producer, Region, Step, Store, Target};
use ir::{Graph, Meaning, Slot};
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
    /// The graph's input whose buffer it may take over if nobody else holds it.
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
    let graph = &fused.graph;
    let mut a = MemoryPlan {
        locations: graph.nodes.iter().map(|n| SmallVec::from_elem(Location::Nowhere, n.outs.len())).collect(),
        ..MemoryPlan::default()
    };
    for (k, &i) in graph.inputs.iter().enumerate() {
        a.locations[i as usize][0] = Location::Input(k);
    }
    for (i, n) in graph.nodes.iter().enumerate() {
        if matches!(n.op.meaning, Meaning::Const) {
            a.locations[i][0] = Location::Const(i);
        }
    }
    let last = last_uses(fused);
    let mut wave = vec![0; fused.regions.len()];
    fused.waves.iter().enumerate().for_each(|(w, rs)| wave[rs.clone()].fill(w));
    // True if no other region reads a value while this one runs. Where one region of a wave takes what
    // another makes, loops may be computed more than once.
    let is_chain: Vec<bool> = fused.waves.iter().map(|w| is_chain(fused, w)).collect();
    let is_alone = |v: Slot, r: usize| {
        if is_chain[wave[r]] && matches!(fused.regions[r], Region::Loop(_)) {
            return false;
        }
        let mut others = fused.waves[wave[r]].clone().filter(|&o| o != r);
        !others.any(|o| fused.regions[o].reads().contains(&v))
    };
    let results = fused.results();
    let (mut own, mut is_old) = (FxHashMap::default(), vec![false; graph.inputs.len()]);
    for (k, slot) in fused.updates() {
        own.entry(slot).or_insert(k);
        is_old[k] = true;
    }
    let mut blocks: Vec<Block> = Vec::new();
    // The block of each value in the arena.
    let mut block_of: FxHashMap<Slot, usize> = FxHashMap::default();
    let mut donated = vec![false; graph.inputs.len()];
    for (r, region) in fused.regions.iter().enumerate() {
        let mut taken: Vec<usize> = Vec::new();
        let fed = producer_slot(region);
        // What feeds the loop comes last: it may share a view with what the loop stores.
        let writes = region.writes().into_iter().filter(|&s| Some(s) != fed).chain(fed);
        for slot in writes {
            let bytes = graph.ty(slot).bytes();
            if bytes == 0 {
                continue;
            }
            let is_new = |s: Slot| match a.location(s) {
                Location::Result(b) => a.buffers[b].donor.is_none(),
                _ => block_of.get(&s).is_some_and(|b| !taken.contains(b)),
            };
            if let Some(s) = hosts(graph, region).find(|&s| Some(slot) == fed && is_new(s)) {
                match block_of.get(&s) {
                    Some(&b) => drop(block_of.insert(slot, b)),
                    None => a.locations[slot.node as usize][slot.out as usize] = a.location(s),
                }
                continue;
            }
            if results.contains(&slot) {
                let own = own.get(&slot).copied();
                let is_free = |k: usize| !donated[k] && (!is_old[k] || own == Some(k));
                let donor = if r < commit {
                    None
                } else {
                    donor(fused, &a, region, slot, r, &last, &results, (own, &is_free), target)
                };
                let donor = donor.filter(|&k| is_alone(Slot { node: graph.inputs[k], out: 0 }, r));
                donor.into_iter().for_each(|k| donated[k] = true);
                a.locations[slot.node as usize][slot.out as usize] = Location::Result(a.buffers.len());
                a.buffers.push(Buffer { slot, bytes, donor });
                continue;
            }
            let to = wave[last[slot.node as usize][slot.out as usize].unwrap_or(r).max(r)];
            let dying = dying(graph, region, slot, r, &last, target)
                .filter(|&v| is_alone(v, r))
                .and_then(|v| block_of.get(&v).copied())
                .filter(|b| !taken.contains(b) && blocks[*b].to == wave[r]);
            let b = match dying {
                Some(b) => {
                    blocks[b].to = to;
                    taken.push(b);
                    b
                }
                None => {
                    blocks.push(Block { bytes: bytes.next_multiple_of(ALIGN), from: wave[r], to });
                    blocks.len() - 1
                }
            };
            block_of.insert(slot, b);
        }
    }
    for (slot, b) in block_of {
        a.locations[slot.node as usize][slot.out as usize] = Location::Arena(b);
    }
    a.blocks = blocks;
    a.wave = wave;
    a
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
fn last_uses(fused: &Fused) -> Vec<SmallVec<[Option<usize>; 1]>> {
    let mut last: Vec<SmallVec<[Option<usize>; 1]>> =
        fused.graph.nodes.iter().map(|n| SmallVec::from_elem(None, n.outs.len())).collect();
    for (r, region) in fused.regions.iter().enumerate() {
        for s in region.reads() {
            last[s.node as usize][s.out as usize] = Some(r);
        }
    }
    last
}

/// Values of the same size that a loop reads exactly where it writes `slot`, and that nobody
/// reads later.
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

fn dying(
    graph: &Graph,
    region: &Region,
    slot: Slot,
    r: usize,
    last: &[SmallVec<[Option<usize>; 1]>],
    target: &dyn Target,
) -> Option<Slot> {
    replaceable(graph, region, slot, r, last, target)
        .find(|v| !matches!(graph.node(*v).op.meaning, Meaning::Input | Meaning::Const))
}

/// The input whose buffer a result may take over. A variable's new value takes the memory of its
/// old one, and nobody else does: a run that fails leaves it there. Of other inputs the last: what a
/// function is given comes before the variables it reads, and whoever gave it holds it.
fn donor(
    fused: &Fused,
    a: &MemoryPlan,
    region: &Region,
    slot: Slot,
    r: usize,
    last: &[SmallVec<[Option<usize>; 1]>],
    results: &FxHashSet<Slot>,
    (own, is_free): (Option<usize>, &dyn Fn(usize) -> bool),
    target: &dyn Target,
) -> Option<usize> {
    let graph = &fused.graph;
    replaceable(graph, region, slot, r, last, target)
        .filter(|v| graph.ty(*v).dtype == graph.ty(slot).dtype && !results.contains(v))
        .filter_map(|v| if let Location::Input(k) = a.location(v) { Some(k) } else { None })
        .filter(|&k| is_free(k))
        .max_by_key(|&k| (own == Some(k), k))
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
