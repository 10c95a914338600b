//! Cuts a placed graph into parts, each of one device, and names every value that is sent.
//!
//! A node's *level* is the largest number of times that values are sent on a way to it. Nodes of one device and level are
//! a part; where some of them lead to values that are sent and others do not, they are two, and the first of them runs
//! first. Parts are listed by level: a part reads only earlier ones, so running the list in order, on each device or on
//! all of them, never waits for itself. A value is sent at most once to each device that reads it. Constants, and views
//! that are no smaller than what they look at, are computed wherever they are read.

use crate::place::{Placement, is_given};
use ir::{FlatNode, Graph, Literal, Meaning, Site, Slot, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Where a value of a part comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum From {
    /// The input of the whole graph with this number.
    Input(usize),
    /// A result of an earlier part.
    Part {
        /// The part.
        part: usize,
        /// Which of its results.
        out: usize,
    },
}

/// What one device computes at a stretch.
#[derive(Clone, Debug)]
pub struct Part {
    /// The device.
    pub device: usize,
    /// How many times values are sent before.
    pub level: usize,
    /// What it computes.
    pub graph: Graph,
    /// Where its inputs come from.
    pub inputs: Vec<From>,
    /// Its results, as values of the whole graph.
    pub outputs: Vec<Slot>,
    /// Inputs of the whole graph whose memory it may take over, once the parts in [`Part::after`] have run: it is the last
    /// that reads them.
    pub lent: Vec<usize>,
    /// Earlier parts that read what it may overwrite.
    pub after: Vec<usize>,
}

/// A value that is sent.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The value of the whole graph.
    pub value: Slot,
    /// The device that has it; `None`: it is given on the host.
    pub from: Option<usize>,
    /// The device that reads it.
    pub to: usize,
    /// Its size.
    pub bytes: usize,
    /// What computes it, and where; `None` for an input.
    pub made_by: Option<(&'static str, Site)>,
    /// The first op that reads it there, and its line.
    pub used_by: (&'static str, Site),
}

/// A result of the whole graph.
#[derive(Clone, Debug)]
pub enum Output {
    /// A value.
    From(From),
    /// A constant.
    Constant(Literal),
}

/// A graph in parts.
#[derive(Clone, Debug)]
pub struct Split {
    /// In the order they run.
    pub parts: Vec<Part>,
    /// By part: the nodes of the whole graph that it was made of.
    pub nodes: Vec<Vec<u32>>,
    /// What is sent.
    pub transfers: Vec<Transfer>,
    /// The results of the whole graph.
    pub outputs: Vec<Output>,
}

/// Cuts a graph. `homes` has the device that each input lives on, `None` for those on the host.
pub fn split(graph: &Graph, placed: &Placement, homes: &[Option<usize>]) -> Split {
    let keys = keys(graph, placed);
    let mut sorted: Vec<(usize, bool, usize)> = keys.iter().flatten().copied().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let number: FxHashMap<(usize, bool, usize), usize> = sorted.iter().enumerate().map(|(p, k)| (*k, p)).collect();
    let part_of: Vec<Option<usize>> = keys.iter().map(|k| k.map(|k| number[&k])).collect();
    let part = |k: &(usize, bool, usize)| Part {
        device: k.2,
        level: k.0,
        graph: Graph::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        lent: Vec::new(),
        after: Vec::new(),
    };
    let mut input = vec![usize::MAX; graph.nodes.len()];
    graph.inputs.iter().enumerate().for_each(|(k, &i)| input[i as usize] = k);
    let mut b = Builder {
        graph,
        homes,
        part_of: &part_of,
        input,
        local: vec![FxHashMap::default(); sorted.len()],
        published: FxHashMap::default(),
        sent: FxHashMap::default(),
        transfers: Vec::new(),
        parts: sorted.iter().map(part).collect(),
    };
    for (i, n) in graph.nodes.iter().enumerate() {
        if let (Some(p), false) = (part_of[i], is_lazy(graph, n)) {
            let inputs: SmallVec<[Slot; 3]> = n.inputs.iter().map(|&s| b.fetch(p, s, n)).collect();
            b.push(p, i, inputs);
        }
    }
    let outputs: Vec<Output> = graph.outputs.iter().map(|&s| b.result(s)).collect();
    let (parts, transfers) = (b.parts, b.transfers);
    let mut nodes = vec![Vec::new(); parts.len()];
    part_of.iter().enumerate().for_each(|(i, p)| p.iter().for_each(|&p| nodes[p].push(i as u32)));
    let mut split = Split { parts, nodes, transfers, outputs };
    split.lend(graph);
    split
}

/// By node: its level, whether nothing that is sent depends on it, and its device.
fn keys(graph: &Graph, placed: &Placement) -> Vec<Option<(usize, bool, usize)>> {
    let n = graph.nodes.len();
    let mut level = vec![0usize; n];
    let mut last_ordered: Option<usize> = None;
    let mut before = vec![None; n];
    for (i, node) in graph.nodes.iter().enumerate() {
        let Some(d) = placed.device[i] else { continue };
        if node.is_ordered() {
            before[i] = last_ordered.replace(i);
        }
        let needs = node.inputs.iter().map(|s| s.node as usize).chain(before[i]);
        let of = |j: usize| placed.device[j].map_or(0, |e| level[j] + usize::from(e != d));
        level[i] = needs.map(of).max().unwrap_or(0);
    }
    sink(graph, placed, &mut level);
    // What is sent goes first, with all that it needs.
    let mut is_urgent = vec![false; n];
    for (i, node) in graph.nodes.iter().enumerate().rev() {
        let Some(d) = placed.device[i] else { continue };
        for j in node.inputs.iter().map(|s| s.node as usize).chain(before[i]) {
            let is_sent = placed.device[j].is_some_and(|e| e != d);
            is_urgent[j] |= is_sent || (is_urgent[i] && level[j] == level[i]);
        }
    }
    // Parts that are hardly any work are not worth a start of their own.
    let mut waiting: FxHashMap<(usize, usize), f64> = FxHashMap::default();
    for i in 0..n {
        if let (Some(d), false) = (placed.device[i], is_urgent[i]) {
            *waiting.entry((level[i], d)).or_default() += placed.work[i].flops + placed.work[i].bytes;
        }
    }
    let is_late = |i: usize, d: usize| !is_urgent[i] && waiting[&(level[i], d)] > LITTLE;
    (0..n).map(|i| placed.device[i].map(|d| (level[i], is_late(i, d), d))).collect()
}

/// Moves elementwise nodes, sums and views to the parts that read them: computed early, they would be kept for those.
fn sink(graph: &Graph, placed: &Placement, level: &mut [usize]) {
    const NONE: usize = usize::MAX;
    // The first level that reads a node on its own device; a node that others read stays.
    let mut first = vec![NONE; level.len()];
    let mut stays = vec![false; level.len()];
    graph.outputs.iter().for_each(|s| stays[s.node as usize] = true);
    for (i, n) in graph.nodes.iter().enumerate().rev() {
        let Some(d) = placed.device[i] else { continue };
        let is_light = !matches!(n.op.meaning, Meaning::Kernel(_) | Meaning::Composite(_) | Meaning::Control(_));
        if is_light && !stays[i] && first[i] != NONE && !n.is_ordered() {
            level[i] = first[i];
        }
        for s in &n.inputs {
            let j = s.node as usize;
            stays[j] |= placed.device[j].is_some_and(|e| e != d);
            first[j] = first[j].min(level[i]);
        }
    }
}

/// Whether a node is a view that is no smaller than what it looks at: it is made wherever it is read.
fn is_lazy(graph: &Graph, n: &FlatNode) -> bool {
    n.op.is_view() && n.inputs.len() == 1 && graph.ty(n.inputs[0]).bytes() <= n.outs[0].bytes()
}

/// Operations and bytes that are done with what is sent rather than after it.
const LITTLE: f64 = 1e5;

struct Builder<'a> {
    graph: &'a Graph,
    homes: &'a [Option<usize>],
    part_of: &'a [Option<usize>],
    /// By node: the number of an input.
    input: Vec<usize>,
    /// By part: values of the whole graph in the part's graph.
    local: Vec<FxHashMap<Slot, Slot>>,
    /// Values that are results of their part: which.
    published: FxHashMap<Slot, (usize, usize)>,
    /// Values that are sent to a device.
    sent: FxHashMap<(Slot, usize), ()>,
    transfers: Vec<Transfer>,
    parts: Vec<Part>,
}

impl Builder<'_> {
    fn push(&mut self, p: usize, i: usize, inputs: SmallVec<[Slot; 3]>) {
        let n = &self.graph.nodes[i];
        let at = self.parts[p].graph.push_typed(n.op, inputs, n.attrs.clone(), n.outs.clone(), n.site);
        for o in 0..n.outs.len() {
            self.local[p].insert(Slot::new(i, o), Slot { node: at.node, out: o as u32 });
        }
    }

    /// A value in the graph of a part, for a node that reads it.
    fn fetch(&mut self, p: usize, s: Slot, user: &FlatNode) -> Slot {
        if let Some(&at) = self.local[p].get(&s) {
            return at;
        }
        let n = self.graph.node(s);
        if n.op == &ir::CONST {
            self.push(p, s.node as usize, SmallVec::new());
            return self.local[p][&s];
        }
        if is_lazy(self.graph, n) {
            let root = self.fetch(p, n.inputs[0], user);
            self.push(p, s.node as usize, SmallVec::from_iter([root]));
            return self.local[p][&s];
        }
        let (from, home) = if n.op == &ir::INPUT {
            let k = self.input[s.node as usize];
            (From::Input(k), self.homes[k])
        } else {
            let (part, out) = self.publish(s);
            (From::Part { part, out }, Some(self.parts[part].device))
        };
        let to = self.parts[p].device;
        if home != Some(to) && self.sent.insert((s, to), ()).is_none() {
            let made_by = (!is_given(n)).then_some((n.op.name, n.site));
            let bytes = self.graph.ty(s).bytes();
            self.transfers.push(Transfer {
                value: s,
                from: home,
                to,
                bytes,
                made_by,
                used_by: (user.op.name, user.site),
            });
        }
        let part = &mut self.parts[p];
        part.inputs.push(from);
        let at = part.graph.input("", self.graph.ty(s), n.site);
        self.local[p].insert(s, at);
        at
    }

    /// Makes a value a result of its part.
    fn publish(&mut self, s: Slot) -> (usize, usize) {
        if let Some(&known) = self.published.get(&s) {
            return known;
        }
        let p = self.part_of[s.node as usize].expect("what is computed has a part");
        let at = self.fetch(p, s, self.graph.node(s));
        let part = &mut self.parts[p];
        part.graph.outputs.push(at);
        part.outputs.push(s);
        let known = (p, part.outputs.len() - 1);
        self.published.insert(s, known);
        known
    }

    fn result(&mut self, s: Slot) -> Output {
        let n = self.graph.node(s);
        if let Some(c) = self.graph.constant(s) {
            return Output::Constant(c.clone());
        }
        Output::From(if n.op == &ir::INPUT {
            From::Input(self.input[s.node as usize])
        } else {
            let (part, out) = self.publish(s);
            From::Part { part, out }
        })
    }
}

impl Split {
    /// The parts that read an input of the whole graph.
    pub fn readers(&self, input: usize) -> impl Iterator<Item = usize> + '_ {
        let reads = move |p: &Part| p.inputs.contains(&From::Input(input));
        self.parts.iter().enumerate().filter(move |(_, p)| reads(p)).map(|(p, _)| p)
    }

    /// Says which part may overwrite a variable: the one that computes its new value, if no later one reads the old.
    fn lend(&mut self, graph: &Graph) {
        let mut readers: FxHashMap<usize, SmallVec<[(usize, usize); 2]>> = FxHashMap::default();
        for (p, part) in self.parts.iter().enumerate() {
            for (local, from) in part.inputs.iter().enumerate() {
                if let From::Input(k) = from {
                    readers.entry(*k).or_default().push((p, local));
                }
            }
        }
        let mut uses: FxHashMap<From, usize> = FxHashMap::default();
        for o in &self.outputs {
            if let Output::From(f) = o {
                *uses.entry(*f).or_default() += 1;
            }
        }
        for &(k, o) in &graph.updates {
            let Output::From(f @ From::Part { part, out }) = self.outputs[o as usize] else { continue };
            // A value that is the new one of two variables, or a result besides, has memory of its own.
            if uses[&f] > 1 {
                continue;
            }
            let list = readers.get(&(k as usize)).cloned().unwrap_or_default();
            let Some(&(_, local)) = list.iter().find(|(p, _)| *p == part) else { continue };
            if list.iter().any(|(p, _)| *p > part) {
                continue;
            }
            let own = &mut self.parts[part];
            own.graph.updates.push((local as u32, out as u32));
            own.lent.push(k as usize);
            own.after.extend(list.iter().map(|(p, _)| *p).filter(|p| *p != part));
        }
        for p in &mut self.parts {
            p.graph.updates.sort_unstable();
            p.after.sort_unstable();
            p.after.dedup();
        }
    }

    /// Bytes that are sent.
    pub fn bytes(&self) -> usize {
        self.transfers.iter().map(|t| t.bytes).sum()
    }
    /// Types of a part's inputs.
    pub fn types(part: &Part) -> impl Iterator<Item = &Type> {
        part.graph.inputs.iter().map(|&i| &part.graph.nodes[i as usize].outs[0])
    }
}
