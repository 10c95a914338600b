//! The order of launches: the program's order, with independent pointwise loops in one wave, scatters by the same
//! index (or writes to KV caches at the same slots) in one wave, and updates of variables in one wave at the end.

use crate::claims::op;
use crate::emit::horizontal;
use ir::{DType, Slot};
use passes::{Fused, Region};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// How far ahead a loop is sought for a wave.
const LOOK_AHEAD: usize = 32;
/// The most pointers of one launch.
const POINTERS_MAX: usize = 440;

/// Orders the regions of a fused graph into waves, each of which becomes one launch.
pub fn launch_order(fused: Fused) -> Fused {
    let o = Order::new(&fused);
    let (order, waves) = o.waves();
    let mut regions: Vec<Option<Region>> = fused.regions.into_iter().map(Some).collect();
    let regions = order.iter().filter_map(|&r| regions[r].take()).collect();
    Fused { regions, waves, ..fused }
}

struct Order {
    /// For each region: the regions it needs.
    needs: Vec<Vec<usize>>,
    /// For each region: its number of pointers, if it may share a launch.
    plain: Vec<Option<usize>>,
    /// It only writes results, perhaps over inputs that earlier regions read.
    is_update: Vec<bool>,
    /// It writes results.
    is_result: Vec<bool>,
    /// The index of a scatter, or the slots of a KV cache.
    puts: Vec<Option<Slot>>,
}

impl Order {
    fn new(fused: &Fused) -> Order {
        let graph = &fused.graph;
        let results = fused.results();
        let mut writer: FxHashMap<Slot, usize> = FxHashMap::default();
        for (r, region) in fused.regions.iter().enumerate() {
            writer.extend(region.writes().into_iter().map(|s| (s, r)));
        }
        let mut is_read = vec![false; fused.regions.len()];
        let mut needs = Vec::with_capacity(fused.regions.len());
        for region in &fused.regions {
            let mut list: Vec<usize> = region.reads().iter().filter_map(|s| writer.get(s).copied()).collect();
            list.sort_unstable();
            list.dedup();
            list.iter().for_each(|&n| is_read[n] = true);
            needs.push(list);
        }
        let plain: Vec<Option<usize>> = fused
            .regions
            .iter()
            .map(|r| match r {
                Region::Loop(l) if horizontal::is_plain(l) => Some(l.steps.len().min(r.reads().len()) + l.stores.len()),
                _ => None,
            })
            .collect();
        let is_result: Vec<bool> =
            fused.regions.iter().map(|r| r.writes().iter().any(|s| results.contains(s))).collect();
        let is_update = (0..needs.len()).map(|r| plain[r].is_some() && is_result[r] && !is_read[r]).collect();
        let puts = |r: &Region| match r {
            Region::Call { node, args, .. } if graph.nodes[*node].op.name == op::SCATTER => Some(args[1].root),
            // Rows of 8 bits have a warp each.
            Region::Call { node, args, .. }
                if graph.nodes[*node].op.name == op::PAGED_WRITE && graph.ty(args[0].root).dtype != DType::I8 =>
            {
                Some(args[2].root)
            }
            _ => None,
        };
        let puts = fused.regions.iter().map(puts).collect();
        Order { needs, plain, is_update, is_result, puts }
    }

    /// The order, and which stretches of it are one launch.
    fn waves(&self) -> (Vec<usize>, Vec<Range<usize>>) {
        let n = self.needs.len();
        let mut done = vec![false; n];
        let (mut out, mut waves) = (Vec::with_capacity(n), Vec::new());
        for r in (0..n).filter(|&r| !self.is_update[r]) {
            if done[r] {
                continue;
            }
            let mut wave = vec![r];
            if let Some(own) = self.plain[r].filter(|_| !self.is_result[r]) {
                let mut pointers = own;
                for h in (r + 1..n).take(LOOK_AHEAD) {
                    let may = !done[h] && !self.is_result[h] && self.needs[h].iter().all(|&m| done[m]);
                    if let Some(more) = self.plain[h].filter(|m| may && pointers + m <= POINTERS_MAX) {
                        pointers += more;
                        wave.push(h);
                    }
                }
            }
            if self.puts[r].is_some() {
                let is_ready =
                    |h: &usize| !done[*h] && self.puts[*h] == self.puts[r] && self.needs[*h].iter().all(|&m| done[m]);
                wave.extend((r + 1..n).take(LOOK_AHEAD).filter(is_ready));
            }
            wave.iter().for_each(|&h| done[h] = true);
            waves.push(out.len()..out.len() + wave.len());
            out.extend(wave);
        }
        let (mut start, mut pointers) = (out.len(), 0);
        for r in (0..n).filter(|&r| self.is_update[r]) {
            let more = self.plain[r].unwrap_or(0);
            if out.len() > start && pointers + more > POINTERS_MAX {
                waves.push(start..out.len());
                (start, pointers) = (out.len(), 0);
            }
            pointers += more;
            out.push(r);
        }
        if out.len() > start {
            waves.push(start..out.len());
        }
        (out, waves)
    }
}
