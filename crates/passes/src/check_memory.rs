//! Checks a memory plan independently of the planner.

use crate::plan_memory::{Location, MemoryPlan, changed, hosts, producer_slot, steps_alike};
use crate::{Fused, Region, Step, Target};
use ir::Slot;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// Walks the regions and says which value has no memory, or is overwritten while it is still needed.
pub fn check(fused: &Fused, a: &MemoryPlan, scratch: &[usize], target: &dyn Target) -> Result<(), String> {
    let graph = &fused.graph;
    let mut live = Live::default();
    let mut readers: FxHashMap<Slot, usize> = FxHashMap::default();
    fused.regions.iter().flat_map(|r| r.reads()).for_each(|s| *readers.entry(s).or_default() += 1);
    for (r, region) in fused.regions.iter().enumerate() {
        check_stores(region, r)?;
        let (reads, writes) = (region.reads(), region.writes());
        for s in &reads {
            readers.entry(*s).and_modify(|n| *n -= 1);
        }
        let needed_later = |s: Slot| readers.get(&s).is_some_and(|&n| n > 0);
        for s in reads.iter().chain(&writes) {
            if a.location(*s) == Location::Nowhere && graph.ty(*s).bytes() > 0 {
                return Err(format!("region {r} works on {s:?}, which has no memory"));
            }
        }
        for s in &reads {
            if matches!(a.location(*s), Location::Arena(_)) && !live.live_ranges.contains_key(s) {
                return Err(format!("region {r} reads {s:?}, which is not in the arena"));
            }
        }
        let is_replaced = |v: Slot, s: Slot| steps_alike(region, v, s) || changed(graph, region, target) == Some(v);
        let mut mine: Vec<(Option<Slot>, usize, usize)> = Vec::new();
        if scratch[r] > 0 {
            mine.push((None, a.scratch[r], a.scratch[r] + scratch[r]));
        }
        for &s in &writes {
            match a.location(s) {
                Location::Arena(at) => mine.push((Some(s), at, at + graph.ty(s).bytes())),
                Location::Result(b) => {
                    let given = a.buffers[b].donor.map(|k| Slot { node: graph.inputs[k], out: 0 });
                    if let Some(v) = given.filter(|&v| needed_later(v) || !is_replaced(v, s)) {
                        return Err(format!("region {r} writes {s:?} over the input {v:?}, which is still needed"));
                    }
                }
                Location::Nowhere => {}
                Location::Input(_) | Location::Const(_) => {
                    return Err(format!("region {r} writes {s:?}, which is given"));
                }
            }
        }
        for (k, &(s, lo, hi)) in mine.iter().enumerate() {
            if hi > a.arena_bytes {
                return Err(format!("region {r}: {s:?} lies beyond the arena"));
            }
            let is_hosted = |o: Option<Slot>| {
                let pair = [(o, s), (s, o)].into_iter().find(|(f, _)| f.is_some() && *f == producer_slot(region));
                pair.is_some_and(|(_, host)| hosts(graph, region).any(|h| Some(h) == host))
            };
            if mine[..k].iter().any(|&(o, l, h)| lo < h && l < hi && !((l, h) == (lo, hi) && is_hosted(o))) {
                return Err(format!("region {r}: {s:?} overlaps another of its values"));
            }
            for (v, l, h) in live.within(lo, hi) {
                let may_replace = !needed_later(v) && (l, h) == (lo, hi) && s.is_some_and(|s| is_replaced(v, s));
                if !may_replace {
                    return Err(format!("region {r} writes {s:?} over {v:?}, which is still needed"));
                }
            }
        }
        reads.iter().filter(|s| !needed_later(**s)).for_each(|s| live.remove(*s));
        for &(s, lo, hi) in &mine {
            s.into_iter().filter(|s| needed_later(*s)).for_each(|s| live.insert(s, lo, hi));
        }
    }
    fused.waves.iter().filter(|w| w.len() > 1).try_for_each(|w| check_wave(fused, a, scratch, w.clone()))
}

/// The values in the arena that are still needed; they lie apart.
#[derive(Default)]
struct Live {
    live_ranges: FxHashMap<Slot, (usize, usize)>,
    ends: BTreeMap<(usize, Slot), usize>,
}

impl Live {
    fn insert(&mut self, s: Slot, lo: usize, hi: usize) {
        self.live_ranges.insert(s, (lo, hi));
        self.ends.insert((lo, s), hi);
    }
    fn remove(&mut self, s: Slot) {
        if let Some((lo, _)) = self.live_ranges.remove(&s) {
            self.ends.remove(&(lo, s));
        }
    }
    /// Those that overlap a stretch.
    fn within(&self, lo: usize, hi: usize) -> impl Iterator<Item = (Slot, usize, usize)> + '_ {
        let before = self.ends.range(..(hi, Slot { node: 0, out: 0 })).rev();
        before.take_while(move |(_, end)| **end > lo).map(|(&(at, s), &end)| (s, at, end))
    }
}

/// Checks that a loop stores everything it writes: a reduction over the whole loop goes to the memory of
/// its node, whether it is read or not.
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
fn check_wave(fused: &Fused, a: &MemoryPlan, scratch: &[usize], wave: Range<usize>) -> Result<(), String> {
    let graph = &fused.graph;
    // Inputs and results have memory of their own unless a result takes over an input's.
    let view = |s: Slot| match a.location(s) {
        Location::Arena(at) => (usize::MAX, at, at + graph.ty(s).bytes()),
        Location::Input(k) => (k, 0, 1),
        Location::Result(b) => (a.buffers[b].donor.unwrap_or(graph.inputs.len() + b), 0, 1),
        Location::Nowhere | Location::Const(_) => (usize::MAX, 0, 0),
    };
    let writes = |r: usize| {
        let mut list: Vec<_> = fused.regions[r].writes().iter().map(|&s| view(s)).collect();
        list.push((usize::MAX, a.scratch[r], a.scratch[r] + scratch[r]));
        list
    };
    for r in wave.clone() {
        for o in wave.clone().filter(|&o| o != r) {
            let mut others = writes(o);
            // What a region takes from another one of its wave is there when it does.
            let made = fused.regions[r].writes();
            others.extend(fused.regions[o].reads().iter().filter(|s| !made.contains(s)).map(|&s| view(s)));
            let meets = |x: &(usize, usize, usize)| others.iter().any(|y| x.0 == y.0 && x.1 < y.2 && y.1 < x.2);
            if writes(r).iter().any(meets) {
                return Err(format!("regions {r} and {o} run side by side, but one writes where the other works"));
            }
        }
    }
    Ok(())
}
