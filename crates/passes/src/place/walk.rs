//! The simulation: nodes in order, each on the device that finishes it first.

use super::groups::Groups;
use super::{Holding, Placement, Request, Why, Work, bytes, is_given};
use ir::{Graph, Meaning, Slot, Type};

const UNDECIDED: u32 = u32::MAX;

struct Walk<'a> {
    graph: &'a Graph,
    request: &'a Request<'a>,
    groups: Groups,
    work: Vec<Work>,
    /// By node: the number of an input, for inputs.
    input: Vec<u32>,
    /// By set of nodes, at its root.
    decided: Vec<u32>,
    /// The work of a set's forward nodes, at its root.
    together: Vec<Work>,
    /// Bytes of the variables of a set, at its root.
    stored: Vec<usize>,
    /// Views and single numbers that depend on inputs alone: they go where they are first read.
    waits: Vec<bool>,
    device: Vec<Option<usize>>,
    why: Vec<Why>,
    /// Nodes whose value a gradient reads: it is kept until then.
    is_kept: Vec<bool>,
    /// Inputs that are updated: a gradient of their size is kept.
    is_updated: Vec<bool>,
    /// Devices that have a node's value.
    has: Vec<u64>,
    finish: Vec<f64>,
    free_at: Vec<f64>,
    used: Vec<usize>,
    /// The largest value that is not kept, by device.
    transient: Vec<usize>,
    considered: usize,
}

pub(super) fn walk(graph: &Graph, request: &Request, groups: Groups, work: Vec<Work>) -> Placement {
    let (n, devices) = (graph.nodes.len(), request.devices.len());
    let mut w = Walk {
        graph,
        request,
        groups,
        work,
        input: vec![UNDECIDED; n],
        decided: vec![UNDECIDED; n],
        together: vec![Work::default(); n],
        stored: vec![0; n],
        waits: vec![false; n],
        device: vec![None; n],
        why: vec![Why::Anywhere; n],
        is_kept: vec![false; n],
        is_updated: vec![false; graph.inputs.len()],
        has: vec![0; n],
        finish: vec![0.0; n],
        free_at: vec![0.0; devices],
        used: vec![0; devices],
        transient: vec![0; devices],
        considered: 0,
    };
    w.prepare();
    let alone = w.alone();
    for i in (0..n).filter(|&i| !is_given(&graph.nodes[i])) {
        let place = graph.nodes[i].site.place;
        match alone {
            Some(d) if place > 0 => w.settle(i, d, Why::Constraint(place)),
            Some(d) => w.settle(i, d, Why::Cost),
            None if w.may_wait(i) => w.waits[i] = true,
            None => {
                let (d, why) = w.choose(i);
                w.settle(i, d, why);
            }
        }
    }
    // What only results read.
    for i in (0..n).filter(|&i| w.waits[i]).collect::<Vec<_>>() {
        if w.device[i].is_none() {
            let (d, why) = w.choose(i);
            w.settle(i, d, why);
        }
    }
    let mut home = |(&i, held): (&u32, &Holding)| {
        let root = w.groups.find(i) as usize;
        let d = w.decided[root];
        (held.is_variable && d != UNDECIDED).then_some(d as usize).or(held.home)
    };
    let homes = graph.inputs.iter().zip(request.inputs).map(&mut home).collect();
    let bytes = w.used.iter().zip(&w.transient).map(|(u, t)| u + t).collect();
    let seconds = w.free_at.iter().copied().fold(0.0, f64::max);
    Placement { device: w.device, why: w.why, homes, work: w.work, seconds, bytes, considered: w.considered }
}

impl Walk<'_> {
    fn prepare(&mut self) {
        for (k, (&i, held)) in self.graph.inputs.iter().zip(self.request.inputs).enumerate() {
            self.input[i as usize] = k as u32;
            if held.is_variable {
                let root = self.groups.find(i) as usize;
                self.stored[root] += self.graph.nodes[i as usize].outs[0].bytes();
            }
        }
        self.graph.updates.iter().for_each(|&(k, _)| self.is_updated[k as usize] = true);
        for (i, n) in self.graph.nodes.iter().enumerate() {
            if n.site.is_gradient {
                n.inputs.iter().for_each(|s| self.is_kept[s.node as usize] |= !self.graph.node(*s).site.is_gradient);
            } else {
                let root = self.groups.find(i as u32) as usize;
                self.together[root].flops += self.work[i].flops;
                self.together[root].bytes += self.work[i].bytes;
            }
        }
    }

    /// The device that runs everything at least as fast alone as all of them together could: those of one speed gain
    /// nothing from sending values of a chain to each other. `None` where constraints or memory forbid it.
    fn alone(&mut self) -> Option<usize> {
        let n = self.graph.nodes.len();
        let mut allowed = u64::MAX;
        let (mut needed, mut largest) = (0usize, 0usize);
        for i in 0..n as u32 {
            let is_input = self.input[i as usize] != UNDECIDED;
            if !is_given(&self.graph.nodes[i as usize]) || is_input {
                let root = self.groups.find(i);
                let is_free_input = is_input && !self.groups.is_variable[i as usize];
                allowed &= if is_free_input { u64::MAX } else { self.groups.allowed(root) };
                needed += if root == i { self.stored[i as usize] } else { 0 };
            }
            let out: usize = self.graph.nodes[i as usize].outs.iter().map(Type::bytes).sum();
            if !is_given(&self.graph.nodes[i as usize]) && !self.graph.nodes[i as usize].op.is_view() {
                needed += if self.is_kept[i as usize] { out } else { 0 };
                largest = largest.max(out);
            }
        }
        let updated = self.graph.inputs.iter().zip(&self.is_updated).filter(|(_, u)| **u);
        let gradients: usize = updated.map(|(&i, _)| self.graph.nodes[i as usize].outs[0].bytes()).sum();
        needed += gradients + largest;
        let fits = |d: usize| self.request.devices[d].memory.is_none_or(|m| needed <= m);
        let all = |d: usize| self.work.iter().map(|&w| self.request.devices[d].seconds(w)).sum::<f64>();
        let one = (0..self.request.devices.len()).filter(|&d| allowed >> d & 1 == 1 && fits(d));
        let (d, seconds) = one.map(|d| (d, all(d))).min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))?;
        // Together they are no faster than the longest chain on the fastest of them.
        (self.longest() >= 0.9 * seconds).then_some(d)
    }

    /// Seconds of the longest chain of nodes, each on the device that is fastest for it.
    fn longest(&self) -> f64 {
        let mut end = vec![0.0f64; self.graph.nodes.len()];
        let mut longest = 0.0f64;
        for (i, n) in self.graph.nodes.iter().enumerate() {
            let ready = n.inputs.iter().map(|s| end[s.node as usize]).fold(0.0, f64::max);
            let own = self.request.devices.iter().map(|d| d.seconds(self.work[i])).fold(f64::INFINITY, f64::min);
            end[i] = ready + own;
            longest = longest.max(end[i]);
        }
        longest
    }

    /// Whether a node is decided by what reads it.
    fn may_wait(&mut self, i: usize) -> bool {
        let n = &self.graph.nodes[i];
        let is_small = n.outs.iter().all(|t| t.shape.count() <= 1) && matches!(n.op.meaning, Meaning::Scalar(_));
        let is_early = |s: &Slot| is_given(self.graph.node(*s)) || self.waits[s.node as usize];
        if n.site.is_gradient || !(is_small || n.op.is_view()) || !n.inputs.iter().all(is_early) {
            return false;
        }
        let root = self.groups.find(i as u32);
        self.decided[root as usize] == UNDECIDED && !self.groups.allowed(root).is_power_of_two()
    }

    /// Puts a node on a device, and before it what waits for its first reader.
    fn settle(&mut self, i: usize, d: usize, why: Why) {
        let mut stack = vec![(i, d, why, false)];
        while let Some((i, d, why, is_ready)) = stack.pop() {
            if self.device[i].is_some() {
                continue;
            }
            if !is_ready {
                stack.push((i, d, why, true));
                for s in &self.graph.nodes[i].inputs {
                    let j = s.node as usize;
                    if self.waits[j] && self.device[j].is_none() {
                        let root = self.groups.find(s.node);
                        let (allowed, decided) = (self.groups.allowed(root), self.decided[root as usize]);
                        let to = match decided {
                            UNDECIDED if allowed >> d & 1 == 1 => d,
                            UNDECIDED => allowed.trailing_zeros() as usize,
                            known => known as usize,
                        };
                        stack.push((j, to, why, false));
                    }
                }
                continue;
            }
            self.put(i, d);
            (self.device[i], self.why[i]) = (Some(d), why);
        }
    }

    fn choose(&mut self, i: usize) -> (usize, Why) {
        let n = &self.graph.nodes[i];
        let root = self.groups.find(i as u32);
        let allowed = self.groups.allowed(root);
        let constraint = || (n.site.place > 0 && !n.site.is_gradient).then_some(Why::Constraint(n.site.place));
        let decided = self.decided[root as usize];
        if decided != UNDECIDED {
            let is_variable = self.groups.is_variable[i];
            return (
                decided as usize,
                constraint().unwrap_or(if is_variable { Why::Variable } else { Why::Colocated }),
            );
        }
        if n.site.is_gradient {
            return (self.with_forward(i, allowed), Why::Gradient);
        }
        if allowed.is_power_of_two() {
            return (allowed.trailing_zeros() as usize, constraint().unwrap_or(Why::Variable));
        }
        (self.earliest(i, root, allowed), Why::Cost)
    }

    /// The device of a gradient: that of its forward op, else the one that has most of what it reads.
    fn with_forward(&mut self, i: usize, allowed: u64) -> usize {
        let n = &self.graph.nodes[i];
        if let Some(&forward) = self.groups.forward.get(&n.site.origin) {
            let root = self.groups.find(forward);
            let d = self.decided[root as usize];
            if d != UNDECIDED && allowed >> d & 1 == 1 {
                return d as usize;
            }
        }
        let mut best = (allowed.trailing_zeros() as usize, 0);
        for d in (0..self.request.devices.len()).filter(|d| allowed >> d & 1 == 1) {
            self.considered += n.inputs.len();
            let here: usize = n
                .inputs
                .iter()
                .filter(|s| self.has[s.node as usize] >> d & 1 == 1)
                .map(|&s| bytes(self.graph, s))
                .sum();
            if here > best.1 {
                best = (d, here);
            }
        }
        best.0
    }

    /// The device that finishes a set of nodes first, if its memory has room for them; without room anywhere, the one
    /// with the most.
    fn earliest(&mut self, i: usize, root: u32, allowed: u64) -> usize {
        let mut best: Option<(bool, f64, usize)> = None;
        for d in (0..self.request.devices.len()).filter(|d| allowed >> d & 1 == 1) {
            let ready = self.ready(i, d);
            let own = self.request.devices[d].seconds(self.together[root as usize]);
            let finish = ready.max(self.free_at[d]) + own;
            let room = self.request.devices[d].memory.map_or(f64::INFINITY, |m| {
                let (used, needed) = (self.used[d] + self.transient[d], self.needed(i, d));
                m as f64 - used as f64 - needed as f64
            });
            let fits = room >= 0.0;
            let rank = if fits { finish } else { -room };
            let is_better = best.is_none_or(|(was_fit, was, _)| (fits && !was_fit) || (fits == was_fit && rank < was));
            if is_better {
                best = Some((fits, rank, d));
            }
        }
        best.map_or(0, |b| b.2)
    }

    /// When a node's inputs are on a device.
    fn ready(&mut self, i: usize, d: usize) -> f64 {
        let to = &self.request.devices[d];
        let mut ready = 0.0f64;
        for s in &self.graph.nodes[i].inputs {
            self.considered += 1;
            let j = s.node as usize;
            if self.has[j] >> d & 1 == 1 {
                ready = ready.max(self.finish[j]);
                continue;
            }
            let size = self.graph.ty(*s).bytes();
            let k = self.input[j];
            if k != UNDECIDED {
                let root = self.groups.find(s.node) as usize;
                let home = match self.decided[root] {
                    UNDECIDED => self.request.inputs[k as usize].home,
                    h => Some(h as usize),
                };
                let is_free = self.request.inputs[k as usize].is_variable && home.is_none();
                ready = ready.max(match home {
                    Some(h) if h != d => self.request.devices[h].send_s(to, size),
                    None if !is_free && !to.is_host => to.latency + size as f64 / to.rate,
                    _ => 0.0,
                });
            } else if self.waits[j] && self.has[j] == 0 {
                ready = ready.max(self.below(j, d));
            } else if self.has[j] != 0 {
                let from = &self.request.devices[self.has[j].trailing_zeros() as usize];
                ready = ready.max(self.finish[j] + from.send_s(to, size));
            }
        }
        ready
    }

    /// When what a waiting node looks at is on a device.
    fn below(&mut self, j: usize, d: usize) -> f64 {
        let (mut at, mut ready) = (j, 0.0f64);
        // Views have one input; of numbers, the first tells enough.
        while let Some(s) = self.graph.nodes[at].inputs.first() {
            at = s.node as usize;
            let k = self.input[at];
            if k != UNDECIDED && self.request.inputs[k as usize].is_variable {
                let root = self.groups.find(at as u32) as usize;
                let h = self.decided[root];
                if h != UNDECIDED && h as usize != d {
                    let (from, to) = (&self.request.devices[h as usize], &self.request.devices[d]);
                    ready = from.send_s(to, self.graph.ty(*s).bytes());
                }
            }
            if !self.waits[at] {
                break;
            }
        }
        ready
    }

    /// The variable that a waiting view looks at, if it is one.
    fn looked_at(&self, mut at: usize) -> usize {
        while self.waits[at] && self.device[at].is_none() && self.graph.nodes[at].op.is_view() {
            at = self.graph.nodes[at].inputs[0].node as usize;
        }
        at
    }

    /// Bytes that a node adds to what a device holds.
    fn needed(&mut self, i: usize, d: usize) -> usize {
        let n = &self.graph.nodes[i];
        let mut sum = 0;
        for s in &n.inputs {
            let j = self.looked_at(s.node as usize);
            let k = self.input[j];
            if self.has[j] >> d & 1 == 1 || self.graph.nodes[j].op == &ir::CONST {
                continue;
            }
            let size = bytes(self.graph, *s);
            sum += size;
            if k != UNDECIDED && self.request.inputs[k as usize].is_variable {
                let root = self.groups.find(j as u32) as usize;
                if self.decided[root] == UNDECIDED {
                    sum += self.stored[root].saturating_sub(size);
                }
                sum += if self.is_updated[k as usize] { size } else { 0 };
            }
        }
        let own: usize = n.outs.iter().map(Type::bytes).sum();
        sum + if n.op.is_view() { 0 } else { own }
    }

    /// Puts a node on a device: values and variables that it needs come there.
    fn put(&mut self, i: usize, d: usize) {
        let n = &self.graph.nodes[i];
        let root = self.groups.find(i as u32) as usize;
        if self.decided[root] == UNDECIDED {
            self.decided[root] = d as u32;
            self.used[d] += self.stored[root];
        }
        let ready = self.ready(i, d);
        for s in &n.inputs {
            let j = s.node as usize;
            if self.has[j] >> d & 1 == 1 || self.graph.node(*s).op == &ir::CONST {
                continue;
            }
            let (k, size) = (self.input[j], bytes(self.graph, *s));
            let mut is_here = false;
            if k != UNDECIDED && self.request.inputs[k as usize].is_variable {
                let set = self.groups.find(s.node);
                let allowed = self.groups.allowed(set);
                if self.decided[set as usize] == UNDECIDED {
                    let home = if allowed >> d & 1 == 1 { d } else { allowed.trailing_zeros() as usize };
                    self.decided[set as usize] = home as u32;
                    self.used[home] += self.stored[set as usize];
                }
                is_here = self.decided[set as usize] == d as u32;
                if self.is_updated[k as usize] && self.has[j] == 0 {
                    self.used[d] += size;
                }
            }
            self.used[d] += if is_here { 0 } else { size };
            self.has[j] |= 1 << d;
        }
        self.has[i] |= 1 << d;
        let own: usize = if n.op.is_view() { 0 } else { n.outs.iter().map(Type::bytes).sum() };
        if self.is_kept[i] {
            self.used[d] += own;
        } else {
            self.transient[d] = self.transient[d].max(own);
        }
        self.finish[i] = ready.max(self.free_at[d]) + self.request.devices[d].seconds(self.work[i]);
        self.free_at[d] = self.finish[i];
    }
}
