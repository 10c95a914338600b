//! Chooses the order in which regions run: little memory alive at once, and small regions that do
//! not need each other side by side.

use crate::{Fused, Region};
use ir::{Graph, Slot};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ops::Range;

/// Regions that may run side by side at most.
const WAVE_MAX: usize = 8;
/// How far ahead in the order a region is looked for that could join a wave.
const LOOK_AHEAD: usize = 16;

/// How many of the regions that are ready are compared.
const READY_MAX: usize = 32;

/// Orders the regions of a fused graph. The order of the program is kept unless another needs less
/// memory. `light` says which regions one thread runs alone, and that are still worth another
/// thread; those that do not need each other become a wave. What `soon` says begins something that
/// goes on beside the rest, and runs as soon as what it needs is there. What may write over an input stays
/// behind what reads that input and behind what `fails` says can fail, as in the program: only
/// there it may do so. What talks to other processes does so in the order of the program.
pub fn schedule(fused: Fused, light: &[bool], fails: &[bool], soon: &[bool]) -> Fused {
    let flow = Flow::new(&fused, fails);
    let program: Vec<usize> = (0..fused.regions.len()).collect();
    let orders = [program, flow.frugal(), flow.depth_first()];
    // The first of equals.
    let order = orders.into_iter().min_by_key(|o| flow.peak(o)).unwrap_or_default();
    let (order, waves) = flow.waves(flow.hasten(order, soon), light);
    let Fused { graph, places, regions, .. } = fused;
    let mut regions: Vec<Option<Region>> = regions.into_iter().map(Some).collect();
    let regions = order.iter().filter_map(|&r| regions[r].take()).collect();
    Fused { graph, places, regions, waves }
}

/// What regions need of each other.
struct Flow {
    /// For each region: the regions it needs.
    needs: Vec<Vec<usize>>,
    /// For each region: those that need it.
    next: Vec<Vec<usize>>,
    /// For each region: bytes it writes that do not outlive the run, by value.
    writes: Vec<Vec<usize>>,
    /// For each region: the values it reads.
    reads: Vec<Vec<usize>>,
    /// For each value: its bytes, and how many regions read it.
    values: Vec<(usize, usize)>,
}

impl Flow {
    fn new(fused: &Fused, fails: &[bool]) -> Flow {
        let graph: &Graph = &fused.graph;
        let n = fused.regions.len();
        let mut number: FxHashMap<Slot, usize> = FxHashMap::default();
        let mut f = Flow {
            needs: vec![Vec::new(); n],
            next: vec![Vec::new(); n],
            writes: vec![Vec::new(); n],
            reads: vec![Vec::new(); n],
            values: Vec::new(),
        };
        let mut writer: Vec<usize> = Vec::new();
        for (r, region) in fused.regions.iter().enumerate() {
            for s in region.writes() {
                number.insert(s, f.values.len());
                f.writes[r].push(f.values.len());
                f.values.push((graph.ty(s).bytes(), 0));
                writer.push(r);
            }
        }
        for s in graph.outputs.iter().map(|&s| crate::place_of(graph, &fused.places, s).root) {
            // Results have memory of their own.
            if let Some(&v) = number.get(&s) {
                f.values[v].0 = 0;
            }
        }
        for (r, region) in fused.regions.iter().enumerate() {
            let mut reads: Vec<usize> = region.reads().iter().filter_map(|s| number.get(s).copied()).collect();
            reads.sort_unstable();
            reads.dedup();
            for &v in &reads {
                f.values[v].1 += 1;
                f.needs[r].push(writer[v]);
            }
            f.needs[r].sort_unstable();
            f.needs[r].dedup();
            f.reads[r] = reads;
        }
        f.keep_updates_late(fused, fails);
        f.keep_in_order(fused);
        for r in 0..n {
            for k in 0..f.needs[r].len() {
                let from = f.needs[r][k];
                f.next[from].push(r);
            }
        }
        f
    }

    /// Lets regions that may write a result over an input wait for what comes before them in the
    /// program and reads that input or can fail.
    fn keep_updates_late(&mut self, fused: &Fused, fails: &[bool]) {
        let graph = &fused.graph;
        let is_result = |s: &Slot| graph.outputs.iter().any(|&o| crate::place_of(graph, &fused.places, o).root == *s);
        let inputs =
            |r: &Region| -> Vec<Slot> { r.reads().into_iter().filter(|s| graph.inputs.contains(&s.node)).collect() };
        let mut readers: FxHashMap<Slot, Vec<usize>> = FxHashMap::default();
        let mut failing: Vec<usize> = Vec::new();
        for (r, region) in fused.regions.iter().enumerate() {
            let mine = inputs(region);
            let results: Vec<Slot> = region.writes().into_iter().filter(is_result).collect();
            let updated = |v: &&Slot| results.iter().any(|s| graph.ty(*s) == graph.ty(**v));
            let mut waits: Vec<usize> = Vec::new();
            for v in mine.iter().filter(updated) {
                waits.extend(readers.get(v).into_iter().flatten());
                waits.extend(&failing);
            }
            self.needs[r].extend(waits);
            self.needs[r].sort_unstable();
            self.needs[r].dedup();
            mine.into_iter().for_each(|v| readers.entry(v).or_default().push(r));
            if fails[r] {
                failing.push(r);
            }
        }
    }

    /// Lets what talks to other processes run one after the other, as in the program.
    fn keep_in_order(&mut self, fused: &Fused) {
        let mut last: Option<usize> = None;
        for (r, region) in fused.regions.iter().enumerate() {
            if !matches!(region, Region::Call { node, .. } if fused.graph.nodes[*node].is_ordered()) {
                continue;
            }
            if let Some(before) = last.replace(r) {
                self.needs[r].push(before);
                self.needs[r].sort_unstable();
                self.needs[r].dedup();
            }
        }
    }

    /// The most bytes alive at once in this order.
    fn peak(&self, order: &[usize]) -> usize {
        let mut left: Vec<usize> = self.values.iter().map(|v| v.1).collect();
        let (mut live, mut peak) = (0, 0);
        for &r in order {
            live += self.writes[r].iter().map(|&v| self.values[v].0).sum::<usize>();
            peak = peak.max(live);
            live -= self.freed(r, &mut left);
        }
        peak
    }

    /// Bytes that nobody needs once a region has run.
    fn freed(&self, r: usize, left: &mut [usize]) -> usize {
        let unread: usize = self.writes[r].iter().filter(|&&v| left[v] == 0).map(|&v| self.values[v].0).sum();
        let read = self.reads[r].iter().map(|&v| {
            left[v] -= 1;
            if left[v] == 0 { self.values[v].0 } else { 0 }
        });
        unread + read.sum::<usize>()
    }

    /// Of the regions that are ready, always the one after which the least is alive; the earliest
    /// of equals.
    fn frugal(&self) -> Vec<usize> {
        let mut left: Vec<usize> = self.values.iter().map(|v| v.1).collect();
        let mut waits: Vec<usize> = self.needs.iter().map(Vec::len).collect();
        let mut ready: BTreeSet<usize> = (0..waits.len()).filter(|&r| waits[r] == 0).collect();
        let mut order = Vec::with_capacity(waits.len());
        let growth = |r: usize, left: &[usize]| {
            let more: usize = self.writes[r].iter().map(|&v| self.values[v].0).sum();
            let less: usize = self.reads[r].iter().filter(|&&v| left[v] == 1).map(|&v| self.values[v].0).sum();
            more as isize - less as isize
        };
        while let Some(&r) = ready.iter().take(READY_MAX).min_by_key(|&&r| (growth(r, &left), r)) {
            ready.remove(&r);
            self.freed(r, &mut left);
            for &h in &self.next[r] {
                waits[h] -= 1;
                if waits[h] == 0 {
                    ready.insert(h);
                }
            }
            order.push(r);
        }
        order
    }

    /// What each last region needs, as late as possible.
    fn depth_first(&self) -> Vec<usize> {
        let n = self.needs.len();
        let mut order = Vec::with_capacity(n);
        let mut seen = vec![false; n];
        let mut stack: Vec<(usize, usize)> = Vec::new();
        for last in (0..n).filter(|&r| self.next[r].is_empty()) {
            stack.push((last, 0));
            seen[last] = true;
            while let Some((r, k)) = stack.pop() {
                let Some(&need) = self.needs[r].get(k) else {
                    order.push(r);
                    continue;
                };
                stack.push((r, k + 1));
                if !std::mem::replace(&mut seen[need], true) {
                    stack.push((need, 0));
                }
            }
        }
        order
    }

    /// Puts what is to run soon right behind what it needs.
    fn hasten(&self, order: Vec<usize>, soon: &[bool]) -> Vec<usize> {
        let mut waiting: Vec<usize> = order.iter().copied().filter(|&r| soon[r]).collect();
        if waiting.is_empty() {
            return order;
        }
        let mut done = vec![false; order.len()];
        let mut out = Vec::with_capacity(order.len());
        let mut run = |r: usize, waiting: &mut Vec<usize>| {
            out.push(r);
            done[r] = true;
            waiting.retain(|&w| {
                let is_ready = self.needs[w].iter().all(|&n| done[n]);
                if is_ready {
                    out.push(w);
                    done[w] = true;
                }
                !is_ready
            });
        };
        order.into_iter().filter(|&r| !soon[r]).for_each(|r| run(r, &mut waiting));
        out.extend(waiting);
        out
    }

    /// Puts light regions that are ready together next to each other.
    fn waves(&self, order: Vec<usize>, light: &[bool]) -> (Vec<usize>, Vec<Range<usize>>) {
        let mut done = vec![false; order.len()];
        let mut out: Vec<usize> = Vec::with_capacity(order.len());
        let mut waves = Vec::new();
        for (k, &r) in order.iter().enumerate() {
            if done[r] {
                continue;
            }
            let start = out.len();
            out.push(r);
            if light[r] {
                let is_ready = |h: usize| !done[h] && light[h] && self.needs[h].iter().all(|&n| done[n]);
                let more = order[k + 1..].iter().take(LOOK_AHEAD).filter(|&&h| is_ready(h)).take(WAVE_MAX - 1);
                out.extend(more);
            }
            out[start..].iter().for_each(|&h| done[h] = true);
            waves.push(start..out.len());
        }
        (out, waves)
    }
}
