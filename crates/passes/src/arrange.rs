//! Gives every stored value a home: lifetimes, one arena with reuse, results in buffers of their
//! own, updates in place.
//!
//! A loop may write a value over one that dies in it, where both are stepped through alike: each
//! element is then read and written by the same point of the loop. A kernel may where the device
//! says so, and one that feeds a loop puts its result where the loop stores one of its own.

use crate::{Feed, Fused, Loop, Region, Step, Store};
use ir::{FlatNode, Graph, Meaning, Slot};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Offsets in the arena are multiples of this: a cache line, and the widest vector.
pub const ALIGN: usize = 64;

/// Where a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
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

/// The homes of a graph's values.
#[derive(Clone, Debug, Default)]
pub struct Arrangement {
    homes: Vec<SmallVec<[Home; 1]>>,
    /// Result buffers.
    pub buffers: Vec<Buffer>,
    /// For each region, where its scratch space begins in the arena.
    pub scratch: Vec<usize>,
    /// Size of the arena.
    pub arena_bytes: usize,
    /// The most bytes of the arena in use at once: no arrangement can do with less.
    pub live_bytes: usize,
}

impl Arrangement {
    /// Where a value is stored.
    pub fn home(&self, s: Slot) -> Home {
        self.homes[s.node as usize][s.out as usize]
    }
    /// Arena and result buffers together, nothing donated.
    pub fn peak_bytes(&self) -> usize {
        self.arena_bytes + self.buffers.iter().map(|b| b.bytes).sum::<usize>()
    }
}

/// A stretch of the arena with its lifetime, in waves.
#[derive(Clone, Copy)]
struct Block {
    bytes: usize,
    from: usize,
    to: usize,
}

/// The operand, by number, that a kernel changes into its result where nobody else needs it.
pub type Overwrites<'a> = &'a dyn Fn(&FlatNode) -> Option<usize>;

/// Arranges the values of a fused graph; `scratch` is the bytes each region wants for itself.
/// Inputs are overwritten only by the region with the number `commit` and those after it.
pub fn arrange(fused: &Fused, scratch: &[usize], commit: usize, overwrites: Overwrites) -> Arrangement {
    let graph = &fused.graph;
    let mut a = Arrangement {
        homes: graph.nodes.iter().map(|n| SmallVec::from_elem(Home::Nowhere, n.outs.len())).collect(),
        ..Arrangement::default()
    };
    for (k, &i) in graph.inputs.iter().enumerate() {
        a.homes[i as usize][0] = Home::Input(k);
    }
    for (i, n) in graph.nodes.iter().enumerate() {
        if matches!(n.op.meaning, Meaning::Const) {
            a.homes[i][0] = Home::Const(i);
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
    let mut blocks: Vec<Block> = Vec::new();
    // The block of each value in the arena.
    let mut block_of: FxHashMap<Slot, usize> = FxHashMap::default();
    let mut donated = vec![false; graph.inputs.len()];
    for (r, region) in fused.regions.iter().enumerate() {
        let mut taken: Vec<usize> = Vec::new();
        let fed = fed_slot(region);
        // What feeds the loop comes last: it may share a place with what the loop stores.
        let writes = region.writes().into_iter().filter(|&s| Some(s) != fed).chain(fed);
        for slot in writes {
            let bytes = graph.ty(slot).bytes();
            if bytes == 0 {
                continue;
            }
            let is_new = |s: Slot| match a.home(s) {
                Home::Result(b) => a.buffers[b].donor.is_none(),
                _ => block_of.get(&s).is_some_and(|b| !taken.contains(b)),
            };
            if let Some(s) = hosts(graph, region).find(|&s| Some(slot) == fed && is_new(s)) {
                match block_of.get(&s) {
                    Some(&b) => drop(block_of.insert(slot, b)),
                    None => a.homes[slot.node as usize][slot.out as usize] = a.home(s),
                }
                continue;
            }
            if results.contains(&slot) {
                let donor = if r < commit {
                    None
                } else {
                    donor(fused, &a, region, slot, r, &last, &results, &donated, overwrites)
                };
                let donor = donor.filter(|&k| is_alone(Slot { node: graph.inputs[k], out: 0 }, r));
                donor.into_iter().for_each(|k| donated[k] = true);
                a.homes[slot.node as usize][slot.out as usize] = Home::Result(a.buffers.len());
                a.buffers.push(Buffer { slot, bytes, donor });
                continue;
            }
            let to = wave[last[slot.node as usize][slot.out as usize].unwrap_or(r).max(r)];
            let dying = dying(graph, region, slot, r, &last, overwrites)
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
    let values = blocks.len();
    for (r, &bytes) in scratch.iter().enumerate() {
        blocks.push(Block { bytes: bytes.next_multiple_of(ALIGN), from: wave[r], to: wave[r] });
    }
    let (offsets, arena_bytes) = pack(&blocks);
    for (slot, b) in block_of {
        a.homes[slot.node as usize][slot.out as usize] = Home::Arena(offsets[b]);
    }
    a.scratch = offsets[values..].to_vec();
    a.arena_bytes = arena_bytes;
    a.live_bytes = live_bytes(&blocks, fused.waves.len());
    a
}

/// True if a region of a wave reads what another one of it writes.
fn is_chain(fused: &Fused, wave: &Range<usize>) -> bool {
    let regions = &fused.regions[wave.clone()];
    let is_written = |s: &Slot| regions.iter().any(|r| r.writes().contains(s));
    regions.len() > 1 && regions.iter().any(|r| r.reads().iter().any(is_written))
}

/// The value that a kernel feeds a loop with.
fn fed_slot(region: &Region) -> Option<Slot> {
    let Region::Loop(l) = region else { return None };
    l.feed.as_ref().map(Feed::slot)
}

/// What a fed loop stores at the very elements that it is fed, and could be computed over them.
fn hosts<'a>(graph: &'a Graph, region: &'a Region) -> impl Iterator<Item = Slot> + 'a {
    let fed = fed_slot(region);
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
    overwrites: Overwrites,
) -> impl Iterator<Item = Slot> + 'a {
    let whole = changed(graph, region, overwrites).filter(move |v| last[v.node as usize][v.out as usize] == Some(r));
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
        let is_fed_on = move |v: Slot| l.feed.as_ref().is_some_and(|f| f.reads(v));
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
fn changed(graph: &Graph, region: &Region, overwrites: Overwrites) -> Option<Slot> {
    let Region::Call { node, args, .. } = region else { return None };
    let n = &graph.nodes[*node];
    let place = &args[overwrites(n)?];
    let is_whole = place.layout.is_contiguous() && place.layout.offset == 0 && graph.ty(place.root) == &n.outs[0];
    (is_whole && args.iter().filter(|a| a.root == place.root).count() == 1).then_some(place.root)
}

fn dying(
    graph: &Graph,
    region: &Region,
    slot: Slot,
    r: usize,
    last: &[SmallVec<[Option<usize>; 1]>],
    overwrites: Overwrites,
) -> Option<Slot> {
    replaceable(graph, region, slot, r, last, overwrites)
        .find(|v| !matches!(graph.node(*v).op.meaning, Meaning::Input | Meaning::Const))
}

/// The input whose buffer a result may take over. Of several the last: what a function is given
/// comes before the variables it reads, and whoever gave it holds it.
fn donor(
    fused: &Fused,
    a: &Arrangement,
    region: &Region,
    slot: Slot,
    r: usize,
    last: &[SmallVec<[Option<usize>; 1]>],
    results: &FxHashSet<Slot>,
    donated: &[bool],
    overwrites: Overwrites,
) -> Option<usize> {
    let graph = &fused.graph;
    replaceable(graph, region, slot, r, last, overwrites)
        .filter(|v| graph.ty(*v).dtype == graph.ty(slot).dtype && !results.contains(v))
        .filter_map(|v| if let Home::Input(k) = a.home(v) { Some(k) } else { None })
        .filter(|&k| !donated[k])
        .max()
}

/// Blocks from here on are placed in the order of time alone.
const PACK_MAX: usize = 4096;

/// Offsets for blocks such that those alive together lie apart. The best of a few orders to place
/// them in: the largest first, those that take the most room for the longest, the earliest. The first two
/// compare all blocks with each other, so many blocks are placed in the last alone.
fn pack(blocks: &[Block]) -> (Vec<usize>, usize) {
    let filled: Vec<usize> = (0..blocks.len()).filter(|&b| blocks[b].bytes > 0).collect();
    let keys: [fn(&Block) -> (usize, usize); 2] =
        [|b| (usize::MAX - b.bytes, b.from), |b| (usize::MAX - b.bytes.saturating_mul(b.to - b.from + 1), b.from)];
    let keys = if filled.len() < PACK_MAX { &keys[..] } else { &[] };
    let packed = keys.iter().map(|key| {
        let mut order = filled.clone();
        order.sort_by_key(|&b| (key(&blocks[b]), b));
        pack_in(blocks, &order)
    });
    packed.chain([pack_in_time(blocks, &filled)]).min_by_key(|(_, end)| *end).unwrap_or_default()
}

/// Places blocks one by one, each in the smallest gap that holds it.
fn pack_in(blocks: &[Block], order: &[usize]) -> (Vec<usize>, usize) {
    let mut offsets = vec![0; blocks.len()];
    // Those placed, in the order in which they lie.
    let mut placed: Vec<(usize, usize, Block)> = Vec::with_capacity(order.len());
    let mut end = 0;
    for &b in order {
        let x = blocks[b];
        let mut best: Option<(usize, usize)> = None;
        let mut at = 0;
        for &(lo, hi, _) in placed.iter().filter(|(_, _, p)| p.from <= x.to && x.from <= p.to) {
            if lo >= at + x.bytes && best.is_none_or(|(gap, _)| lo - at < gap) {
                best = Some((lo - at, at));
            }
            at = at.max(hi);
        }
        let lo = best.map_or(at, |(_, at)| at);
        offsets[b] = lo;
        let hi = lo + x.bytes;
        end = end.max(hi);
        placed.insert(placed.partition_point(|&(l, h, _)| (l, h) <= (lo, hi)), (lo, hi, x));
    }
    (offsets, end)
}

/// The same in the order in which blocks come alive, the largest of equals first: what is alive then and
/// the gaps between are all there is to look at.
fn pack_in_time(blocks: &[Block], filled: &[usize]) -> (Vec<usize>, usize) {
    let mut order = filled.to_vec();
    order.sort_by_key(|&b| (blocks[b].from, usize::MAX - blocks[b].bytes, b));
    let mut dying = filled.to_vec();
    dying.sort_by_key(|&b| (blocks[b].to, b));
    let mut dying = dying.into_iter().peekable();
    let mut offsets = vec![0; blocks.len()];
    let mut gaps = Gaps::default();
    let mut end = 0;
    for b in order {
        while let Some(dead) = dying.next_if(|&d| blocks[d].to < blocks[b].from) {
            gaps.give(offsets[dead], blocks[dead].bytes);
        }
        offsets[b] = gaps.take(blocks[b].bytes);
        end = end.max(offsets[b] + blocks[b].bytes);
    }
    (offsets, end)
}

/// The free stretches below the end of what is in use.
#[derive(Default)]
struct Gaps {
    /// Where each begins, and its size.
    sizes: BTreeMap<usize, usize>,
    /// Size and beginning of each.
    by_size: BTreeSet<(usize, usize)>,
    /// Nothing beyond is in use.
    end: usize,
}

impl Gaps {
    fn add(&mut self, at: usize, bytes: usize) {
        if bytes > 0 {
            self.sizes.insert(at, bytes);
            self.by_size.insert((bytes, at));
        }
    }
    fn remove(&mut self, at: usize, bytes: usize) {
        self.sizes.remove(&at);
        self.by_size.remove(&(bytes, at));
    }
    /// The smallest that holds so many bytes, the first of equals; else what comes after the last in use.
    fn take(&mut self, bytes: usize) -> usize {
        let found = self.by_size.range((bytes, 0)..).next().copied();
        let Some((size, at)) = found else {
            self.end += bytes;
            return self.end - bytes;
        };
        self.remove(at, size);
        self.add(at + bytes, size - bytes);
        at
    }
    fn give(&mut self, mut at: usize, mut bytes: usize) {
        if let Some((&before, &size)) = self.sizes.range(..at).next_back()
            && before + size == at
        {
            self.remove(before, size);
            (at, bytes) = (before, bytes + size);
        }
        if let Some(&size) = self.sizes.get(&(at + bytes)) {
            self.remove(at + bytes, size);
            bytes += size;
        }
        if at + bytes == self.end {
            self.end = at;
        } else {
            self.add(at, bytes);
        }
    }
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

/// Checks an arrangement against the regions, without the means it was made by: walks the regions
/// and says which value has no memory, or is overwritten while it is still needed.
pub fn check(fused: &Fused, a: &Arrangement, scratch: &[usize], overwrites: Overwrites) -> Result<(), String> {
    let graph = &fused.graph;
    let mut live: Vec<(Slot, usize, usize)> = Vec::new();
    let mut readers: FxHashMap<Slot, usize> = FxHashMap::default();
    fused.regions.iter().flat_map(|r| r.reads()).for_each(|s| *readers.entry(s).or_default() += 1);
    for (r, region) in fused.regions.iter().enumerate() {
        check_stores(region, r)?;
        for s in region.reads() {
            readers.entry(s).and_modify(|n| *n -= 1);
        }
        let needed_later = |s: Slot| readers.get(&s).is_some_and(|&n| n > 0);
        let reads = region.reads();
        for s in reads.iter().chain(&region.writes()) {
            if a.home(*s) == Home::Nowhere && graph.ty(*s).bytes() > 0 {
                return Err(format!("region {r} works on {s:?}, which has no memory"));
            }
        }
        for s in &reads {
            let is_there = !matches!(a.home(*s), Home::Arena(_)) || live.iter().any(|(v, ..)| v == s);
            if !is_there {
                return Err(format!("region {r} reads {s:?}, which is not in the arena"));
            }
        }
        live.retain(|(s, ..)| needed_later(*s) || reads.contains(s));
        let is_replaced = |v: Slot, s: Slot| steps_alike(region, v, s) || changed(graph, region, overwrites) == Some(v);
        let mut mine: Vec<(Option<Slot>, usize, usize)> = Vec::new();
        if scratch[r] > 0 {
            mine.push((None, a.scratch[r], a.scratch[r] + scratch[r]));
        }
        for s in region.writes() {
            match a.home(s) {
                Home::Arena(at) => mine.push((Some(s), at, at + graph.ty(s).bytes())),
                Home::Result(b) => {
                    let given = a.buffers[b].donor.map(|k| Slot { node: graph.inputs[k], out: 0 });
                    if let Some(v) = given.filter(|&v| needed_later(v) || !is_replaced(v, s)) {
                        return Err(format!("region {r} writes {s:?} over the input {v:?}, which is still needed"));
                    }
                }
                Home::Nowhere => {}
                Home::Input(_) | Home::Const(_) => return Err(format!("region {r} writes {s:?}, which is given")),
            }
        }
        for (k, &(s, lo, hi)) in mine.iter().enumerate() {
            if hi > a.arena_bytes {
                return Err(format!("region {r}: {s:?} lies beyond the arena"));
            }
            let is_hosted = |o: Option<Slot>| {
                let pair = [(o, s), (s, o)].into_iter().find(|(f, _)| f.is_some() && *f == fed_slot(region));
                pair.is_some_and(|(_, host)| hosts(graph, region).any(|h| Some(h) == host))
            };
            if mine[..k].iter().any(|&(o, l, h)| lo < h && l < hi && !((l, h) == (lo, hi) && is_hosted(o))) {
                return Err(format!("region {r}: {s:?} overlaps another of its values"));
            }
            for &(v, l, h) in live.iter().filter(|&&(_, l, h)| lo < h && l < hi) {
                let may_replace = !needed_later(v) && (l, h) == (lo, hi) && s.is_some_and(|s| is_replaced(v, s));
                if !may_replace {
                    return Err(format!("region {r} writes {s:?} over {v:?}, which is still needed"));
                }
            }
        }
        live.retain(|(s, ..)| needed_later(*s));
        live.extend(mine.iter().filter_map(|&(s, lo, hi)| s.map(|s| (s, lo, hi))));
    }
    fused.waves.iter().filter(|w| w.len() > 1).try_for_each(|w| check_wave(fused, a, scratch, w.clone()))
}

/// Checks that a loop stores everything it writes: a reduction over the whole loop goes to the memory of
/// its node, whether somebody reads it or not.
fn check_stores(region: &Region, r: usize) -> Result<(), String> {
    let Region::Loop(l) = region else { return Ok(()) };
    let unstored = l.steps.iter().enumerate().find_map(|(i, s)| match s {
        Step::Reduce { node, after: true, .. } => {
            let slot = Slot::new(*node as usize, 0);
            (!l.stores.iter().any(|s| s.step as usize == i && s.slot == slot)).then_some(slot)
        }
        _ => None,
    });
    match unstored {
        Some(s) => Err(format!("region {r} computes {s:?} without a store")),
        None if l.stores.is_empty() => Err(format!("region {r} stores nothing")),
        None => Ok(()),
    }
}

/// Checks that no region of a wave writes what another one reads or writes.
fn check_wave(fused: &Fused, a: &Arrangement, scratch: &[usize], wave: Range<usize>) -> Result<(), String> {
    let graph = &fused.graph;
    // Inputs and results have memory of their own unless a result takes over an input's.
    let place = |s: Slot| match a.home(s) {
        Home::Arena(at) => (usize::MAX, at, at + graph.ty(s).bytes()),
        Home::Input(k) => (k, 0, 1),
        Home::Result(b) => (a.buffers[b].donor.unwrap_or(graph.inputs.len() + b), 0, 1),
        Home::Nowhere | Home::Const(_) => (usize::MAX, 0, 0),
    };
    let writes = |r: usize| {
        let mut list: Vec<_> = fused.regions[r].writes().iter().map(|&s| place(s)).collect();
        list.push((usize::MAX, a.scratch[r], a.scratch[r] + scratch[r]));
        list
    };
    for r in wave.clone() {
        for o in wave.clone().filter(|&o| o != r) {
            let mut others = writes(o);
            // What a region takes from another one of its wave is there when it does.
            let made = fused.regions[r].writes();
            others.extend(fused.regions[o].reads().iter().filter(|s| !made.contains(s)).map(|&s| place(s)));
            let meets = |x: &(usize, usize, usize)| others.iter().any(|y| x.0 == y.0 && x.1 < y.2 && y.1 < x.2);
            if writes(r).iter().any(meets) {
                return Err(format!("regions {r} and {o} run side by side, but one writes where the other works"));
            }
        }
    }
    Ok(())
}

/// True if a loop reads `v` only at the element of `s` that the same point writes. Every size of a
/// space is greater than 1, so steps are alike only if strides are.
fn steps_alike(region: &Region, v: Slot, s: Slot) -> bool {
    let Region::Loop(l) = region else { return false };
    let Some(store) = only_store(l, s) else { return false };
    !matches!(l.steps[store.step as usize], Step::Reduce { .. })
        && l.dims.iter().all(|&d| d > 1)
        && !l.feed.as_ref().is_some_and(|f| f.reads(v))
        && l.steps.iter().all(|t| match t {
            Step::Load { root, strides, offset } if *root == v => *offset == 0 && *strides == store.strides,
            _ => true,
        })
}
