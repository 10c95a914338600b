//! Chooses the order of regions: little memory live at once, and small independent regions in parallel.

use crate::{Fused, Region, Target, view_of};
use ir::{Graph, Meaning, Slot};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::ops::Range;

/// Regions that may run side by side at most.
const WAVE_MAX: usize = 8;
/// How far ahead in the order a region is looked for that could join a wave.
const LOOK_AHEAD: usize = 16;

/// How many of the regions that are ready are compared.
const READY_MAX: usize = 32;

/// Orders the regions of a fused graph. The program's order is kept unless another needs less memory.
///
/// - Light regions that do not depend on each other become a wave.
/// - A region that starts asynchronous work runs as soon as its operands are computed.
/// - A region that may overwrite an input stays after those that read the input and those that can fail.
/// - Regions that talk to other processes keep the program's order.
pub fn schedule(fused: Fused, target: &dyn Target) -> Fused {
    let ask = |f: &dyn Fn(usize) -> bool| (0..fused.regions.len()).map(f).collect::<Vec<bool>>();
    let light = ask(&|r| target.is_light(&fused, r));
    let fails = ask(&|r| target.may_fail(&fused, r));
    let soon = ask(&|r| target.starts_async(&fused, r));
    let flow = Flow::new(&fused, &fails);
    let count = fused.regions.len();
    let orders = [flow.program(count), flow.frugal(), flow.depth_first()];
    // The first of equals.
    let order = orders.into_iter().min_by_key(|o| flow.peak(o)).unwrap_or_default();
    let (order, waves) = flow.waves(flow.hasten(order, &soon), &light);
    // Gates have done their part.
    let order: Vec<usize> = order.into_iter().filter(|&r| r < count).collect();
    let mut regions: Vec<Option<Region>> = fused.regions.into_iter().map(Some).collect();
    let regions = order.iter().filter_map(|&r| regions[r].take()).collect();
    Fused { regions, waves, ..fused }
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
    /// Numbers beyond those of regions, for which others only wait, and the region before which each is
    /// put in the order of the program.
    gates: Vec<(usize, usize)>,
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
            gates: Vec::new(),
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
        let results = fused.results();
        for &s in &graph.outputs {
            // Results have memory of their own.
            if let Some(&v) = number.get(&view_of(&fused.views, s).root) {
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
            f.reads[r] = reads;
        }
        f.wait_for_barriers(fused);
        f.keep_updates_late(fused, fails, &results);
        f.keep_in_order(fused);
        f.needs.iter_mut().for_each(|needs| {
            needs.sort_unstable();
            needs.dedup();
        });
        for r in 0..f.needs.len() {
            for k in 0..f.needs[r].len() {
                let from = f.needs[r][k];
                f.next[from].push(r);
            }
        }
        f
    }

    /// Users of a value that a barrier returns wait for the barrier.
    fn wait_for_barriers(&mut self, fused: &Fused) {
        if fused.barrier.iter().all(Option::is_none) {
            return;
        }
        let mut region_of: FxHashMap<u32, usize> = FxHashMap::default();
        for (r, region) in fused.regions.iter().enumerate() {
            if let Region::Call { node, .. } = region {
                region_of.insert(*node as u32, r);
            }
        }
        for (r, region) in fused.regions.iter().enumerate() {
            let inputs = region.nodes().into_iter().flat_map(|n| fused.graph.nodes[n as usize].inputs.iter());
            let barriers = inputs.filter_map(|s| fused.barrier[s.node as usize]);
            self.needs[r].extend(barriers.filter_map(|f| region_of.get(&f)));
        }
    }

    /// Lets regions that may write a result over an input wait for what comes before them in the
    /// program and reads that input or can fail. Many wait for the same that can fail: they wait for a
    /// gate, which waits for all of it.
    fn keep_updates_late(&mut self, fused: &Fused, fails: &[bool], results: &FxHashSet<Slot>) {
        let graph = &fused.graph;
        let mut readers: FxHashMap<Slot, Vec<usize>> = FxHashMap::default();
        // What can fail and no gate waits for yet.
        let mut failing: Vec<usize> = Vec::new();
        for (r, region) in fused.regions.iter().enumerate() {
            let updated: Vec<Slot> = fused.updated(region, results).collect();
            updated.iter().for_each(|v| self.needs[r].extend(readers.get(v).into_iter().flatten()));
            if !updated.is_empty() {
                if !failing.is_empty() {
                    failing.extend(self.gates.last().map(|g| g.0));
                    self.gates.push((self.needs.len(), r));
                    self.needs.push(std::mem::take(&mut failing));
                }
                self.needs[r].extend(self.gates.last().map(|g| g.0));
            }
            let inputs = region.reads().into_iter().filter(|s| matches!(graph.node(*s).op.meaning, Meaning::Input));
            inputs.for_each(|v| readers.entry(v).or_default().push(r));
            if fails[r] {
                failing.push(r);
            }
        }
        for list in [&mut self.next, &mut self.writes, &mut self.reads] {
            list.resize(self.needs.len(), Vec::new());
        }
    }

    /// The order of the program.
    fn program(&self, regions: usize) -> Vec<usize> {
        let mut gates = self.gates.iter().peekable();
        let mut order = Vec::with_capacity(self.needs.len());
        for r in 0..regions {
            order.extend(gates.next_if(|g| g.1 == r).map(|g| g.0));
            order.push(r);
        }
        order
    }

    /// Lets what talks to other processes run one after the other, as in the program.
    fn keep_in_order(&mut self, fused: &Fused) {
        let mut last: Option<usize> = None;
        for (r, region) in fused.regions.iter().enumerate() {
            if !matches!(region, Region::Call { node, .. } if fused.graph.nodes[*node].is_ordered()) {
                continue;
            }
            self.needs[r].extend(last.replace(r));
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

    /// Bytes that are free once a region has run.
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
        // Gates first: they cost nothing, and others wait for them.
        let first_gate = waits.len() - self.gates.len();
        let entry = |r: usize| (r < first_gate, r);
        let mut ready: BTreeSet<(bool, usize)> = (0..waits.len()).filter(|&r| waits[r] == 0).map(entry).collect();
        let mut order = Vec::with_capacity(waits.len());
        let growth = |r: usize, left: &[usize]| {
            let more: usize = self.writes[r].iter().map(|&v| self.values[v].0).sum();
            let less: usize = self.reads[r].iter().filter(|&&v| left[v] == 1).map(|&v| self.values[v].0).sum();
            more as isize - less as isize
        };
        let key = |&&(is_region, r): &&(bool, usize), left: &[usize]| (is_region, growth(r, left), r);
        while let Some(&(_, r)) = ready.iter().take(READY_MAX).min_by_key(|e| key(e, &left)) {
            ready.remove(&entry(r));
            self.freed(r, &mut left);
            for &h in &self.next[r] {
                waits[h] -= 1;
                if waits[h] == 0 {
                    ready.insert(entry(h));
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

    /// Puts asynchronous starts right after their operands.
    fn hasten(&self, order: Vec<usize>, soon: &[bool]) -> Vec<usize> {
        let is_soon = |r: usize| soon.get(r).copied().unwrap_or(false);
        if !order.iter().any(|&r| is_soon(r)) {
            return order;
        }
        let mut view = vec![0; order.len()];
        order.iter().enumerate().for_each(|(k, &r)| view[r] = k);
        let mut waits: Vec<usize> = self.needs.iter().map(Vec::len).collect();
        let mut out = Vec::with_capacity(order.len());
        // What is ready to run soon, by its position in the order.
        let first = order.iter().filter(|&&r| is_soon(r) && waits[r] == 0).map(|&r| view[r]);
        let mut ready: BTreeSet<usize> = first.collect();
        let mut rest = order.iter().copied().filter(|&r| !is_soon(r));
        while let Some(r) = ready.pop_first().map(|k| order[k]).or_else(|| rest.next()) {
            out.push(r);
            for &h in &self.next[r] {
                waits[h] -= 1;
                if waits[h] == 0 && is_soon(h) {
                    ready.insert(view[h]);
                }
            }
        }
        out
    }

    /// Puts light regions that are ready together next to each other.
    fn waves(&self, order: Vec<usize>, light: &[bool]) -> (Vec<usize>, Vec<Range<usize>>) {
        let mut done = vec![false; order.len()];
        let mut out: Vec<usize> = Vec::with_capacity(order.len());
        let mut waves = Vec::new();
        let is_light = |r: usize| light.get(r).copied().unwrap_or(false);
        // How many regions, without gates, come before.
        let mut count = 0;
        for (k, &r) in order.iter().enumerate() {
            if done[r] {
                continue;
            }
            let start = out.len();
            out.push(r);
            if is_light(r) {
                let is_ready = |h: usize| !done[h] && is_light(h) && self.needs[h].iter().all(|&n| done[n]);
                let more = order[k + 1..].iter().take(LOOK_AHEAD).filter(|&&h| is_ready(h)).take(WAVE_MAX - 1);
                out.extend(more);
            }
            out[start..].iter().for_each(|&h| done[h] = true);
            if r < light.len() {
                waves.push(count..count + out.len() - start);
                count += out.len() - start;
            }
        }
        (out, waves)
    }
}
