//! Lets exchanges go on while the rest is computed. An exchange whose result is not needed at once is begun as soon as its
//! operand is computed, and ended where its result is first used. Small sums travel together. What ZeRO stores in parts is
//! gathered ahead of its use, a bounded number of bytes at a time.
//!
//! All decisions are made from the graph of the whole program and from sizes of even parts, so that they are the same on
//! every rank along an axis.

use ir::{Call, FlatNode, Graph, INPUT, Layout, Meaning, Result, Site, Slot, Type};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What an exchange makes of its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Terms become the whole, in place.
    Reduce,
    /// Terms become parts.
    Scatter,
    /// Parts become the whole.
    Gather,
}

/// Exchanges that go on meanwhile, as the op table provides them.
pub trait Overlap {
    /// What a node exchanges, if that can go on meanwhile.
    fn kind(&self, n: &FlatNode) -> Option<Kind>;
    /// Begins what a node exchanges on `x`, once the values `after` are computed.
    fn begin(&self, g: &mut Graph, n: &FlatNode, x: Slot, after: &[Slot]) -> Result<Slot>;
    /// Waits for its end.
    fn end(&self, g: &mut Graph, n: &FlatNode, begun: Slot, x: Slot) -> Result<Slot>;
    /// The elements of several values, one after the other.
    fn flat(&self, g: &mut Graph, values: &[Slot], site: Site) -> Result<Slot>;
    /// A value of that type, whose elements begin at `start`.
    fn unflat(&self, g: &mut Graph, x: Slot, start: usize, ty: &Type, site: Site) -> Result<Slot>;
}

/// An exchange that partitioning inserted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Its node in the program of the rank.
    pub node: usize,
    /// Along this axis of the mesh.
    pub axis: u8,
    /// Bytes of its operand and of its result, on a rank with even parts.
    pub operand: usize,
    pub result: usize,
    /// The node of the whole program that needs it; the number of all nodes for results.
    pub needed: usize,
}

/// Sums of at most so many bytes travel together, and so many bytes at most.
const SMALL_BYTES: usize = 64 << 10;
const BUCKET_BYTES: usize = 1 << 20;
/// Bytes that are gathered ahead of their use, or more if the next value has more; and bytes whose sums are under way.
const AHEAD_BYTES: usize = 1 << 20;
const UNDER_WAY_BYTES: usize = 4 << 20;
/// Ops that are computed meanwhile, at least.
const MEANWHILE_MIN: usize = 4;

/// An exchange of one value, or of several small ones.
struct Planned {
    kind: Kind,
    axis: u8,
    members: Vec<usize>,
    /// The values that it exchanges, before views of them; the last is computed last.
    roots: Vec<Slot>,
    /// Bytes that it keeps.
    bytes: usize,
    needed: usize,
}

/// The program with exchanges that go on meanwhile. `origins` has for each of its nodes that of the whole program, of
/// which `whole` is the graph.
pub(super) fn overlap(
    graph: Graph,
    whole: &Graph,
    origins: &[usize],
    candidates: &[Candidate],
    by: &dyn Overlap,
) -> Result<Graph> {
    let planned = plan(&graph, whole, origins, candidates, by);
    if planned.is_empty() {
        return Ok(graph);
    }
    let mut rewrite = Rewrite::new(&graph, by, planned);
    rewrite.run()?;
    Ok(rewrite.out)
}

/// Whether a value lies in memory as what it is a view of: a view that has to be copied first would be another value, and
/// not be kept as long as the exchange goes on.
fn is_in_place(graph: &Graph, mut s: Slot) -> bool {
    while let n = graph.node(s)
        && n.op.is_view()
        && let [from] = n.inputs[..]
    {
        let types = [graph.ty(from).clone()];
        let Meaning::View(layout) = n.op.meaning else { return false };
        let seen = layout(&Call { types: &types, attrs: &n.attrs }, &Layout::contiguous(&types[0].shape));
        let is_same = |l: Layout| l.is_contiguous() && l.offset == 0 && l.shape.count() == types[0].shape.count();
        if !seen.ok().flatten().is_some_and(is_same) {
            return false;
        }
        s = from;
    }
    true
}

/// What is computed, of which a value is a view.
fn root(graph: &Graph, mut s: Slot) -> Slot {
    while let n = graph.node(s)
        && n.op.is_view()
        && n.inputs.len() == 1
    {
        s = n.inputs[0];
    }
    s
}

fn plan(graph: &Graph, whole: &Graph, origins: &[usize], candidates: &[Candidate], by: &dyn Overlap) -> Vec<Planned> {
    // Ops before each node of the whole program.
    let mut before = Vec::with_capacity(whole.nodes.len() + 1);
    let mut count = 0;
    for n in &whole.nodes {
        before.push(count);
        count += usize::from(!n.op.is_view() && n.op != &INPUT);
    }
    before.push(count);
    let mut all: Vec<(usize, Planned)> = Vec::new();
    let mut gathered: Vec<Slot> = Vec::new();
    for c in candidates {
        let n = &graph.nodes[c.node];
        let Some(kind) = by.kind(n) else { continue };
        let from = root(graph, n.inputs[0]);
        // What is gathered again was not to be kept.
        let is_again = kind == Kind::Gather && gathered.contains(&from) && graph.node(from).op != &INPUT;
        if kind == Kind::Gather {
            gathered.push(from);
        }
        if is_again {
            continue;
        }
        let is_stored = graph.node(from).op == &INPUT;
        let made = if is_stored { 0 } else { origins[from.node as usize] + 1 };
        let is_ahead = kind == Kind::Gather && is_stored;
        let between = before[c.needed.min(whole.nodes.len())].saturating_sub(before[made.min(whole.nodes.len())]);
        // What is stored anew is gathered into its own memory.
        let is_stored_anew = kind == Kind::Gather && c.needed >= whole.nodes.len();
        if kind != Kind::Reduce && !is_in_place(graph, n.inputs[0]) {
            continue;
        }
        if between < MEANWHILE_MIN && !is_ahead || is_stored && kind != Kind::Gather || is_stored_anew {
            continue;
        }
        let bytes = if kind == Kind::Gather { c.result } else { c.operand };
        let members = vec![c.node];
        all.push((made, Planned { kind, axis: c.axis, members, roots: vec![from], bytes, needed: c.needed }));
    }
    // In the order in which operands are computed; what is stored is gathered in the order of its uses.
    all.sort_by_key(|(made, p)| (*made, p.needed));
    let mut out: Vec<Planned> = Vec::new();
    // The last bucket of each axis.
    let mut open: BTreeMap<u8, usize> = BTreeMap::new();
    for (made, p) in all {
        let is_small = p.kind == Kind::Reduce && p.bytes <= SMALL_BYTES;
        if is_small && let Some(&at) = open.get(&p.axis) {
            let b = &mut out[at];
            let (old, new) = (&graph.nodes[b.members[0]], &graph.nodes[p.members[0]]);
            let is_alike = old.attrs == new.attrs && old.outs[0].dtype == new.outs[0].dtype;
            // None of its results is needed before this operand is there.
            if is_alike && b.bytes + p.bytes <= BUCKET_BYTES && b.needed > made {
                b.bytes += p.bytes;
                b.needed = b.needed.min(p.needed);
                b.members.extend(p.members);
                b.roots.extend(p.roots);
                continue;
            }
        }
        if is_small {
            open.insert(p.axis, out.len());
        }
        out.push(p);
    }
    out
}

/// A planned exchange in the new program.
#[derive(Clone, Default)]
struct State {
    /// What was begun, and its operand.
    begun: Option<(Slot, Slot)>,
    ended: Option<Slot>,
}

struct Rewrite<'a> {
    graph: &'a Graph,
    by: &'a dyn Overlap,
    out: Graph,
    planned: Vec<Planned>,
    states: Vec<State>,
    /// For each node: the value in the new program.
    map: Vec<Option<u32>>,
    /// For each node: the planned exchange that it is.
    exchange: Vec<Option<usize>>,
    /// For members of a bucket: where their elements begin.
    starts: Vec<usize>,
    /// For each node: what begins after it.
    due: BTreeMap<usize, Vec<usize>>,
    /// By axis: what is gathered ahead, in the order of uses, and how many of these have begun.
    ahead: BTreeMap<u8, (Vec<usize>, usize)>,
    /// By axis: sums under way that keep their operands, in order.
    under_way: BTreeMap<u8, Vec<usize>>,
}

impl<'a> Rewrite<'a> {
    fn new(graph: &'a Graph, by: &'a dyn Overlap, planned: Vec<Planned>) -> Rewrite<'a> {
        let n = graph.nodes.len();
        let (mut exchange, mut starts) = (vec![None; n], vec![0; n]);
        let (mut due, mut ahead) = (BTreeMap::<usize, Vec<usize>>::new(), BTreeMap::<u8, (Vec<usize>, usize)>::new());
        for (p, plan) in planned.iter().enumerate() {
            let mut start = 0;
            for &m in &plan.members {
                exchange[m] = Some(p);
                starts[m] = start;
                start += graph.nodes[m].outs[0].shape.count();
            }
            let last = plan.roots.iter().map(|s| s.node as usize).max().unwrap_or(0);
            if graph.nodes[last].op == &INPUT {
                ahead.entry(plan.axis).or_default().0.push(p);
            } else {
                due.entry(last).or_default().push(p);
            }
        }
        let states = vec![State::default(); planned.len()];
        let out = Graph { updates: graph.updates.clone(), ..Graph::new() };
        let (map, under_way) = (vec![None; n], BTreeMap::new());
        Rewrite { graph, by, out, planned, states, map, exchange, starts, due, ahead, under_way }
    }

    fn run(&mut self) -> Result<()> {
        let graph = self.graph;
        let mut begins_ahead = true;
        for (i, n) in graph.nodes.iter().enumerate() {
            if n.op != &INPUT && std::mem::take(&mut begins_ahead) {
                let axes: Vec<u8> = self.ahead.keys().copied().collect();
                axes.into_iter().try_for_each(|a| self.gather_ahead(a, None))?;
            }
            // Ends and views of what is under way come where they are used.
            let waits = |s: &Slot| self.map[s.node as usize].is_none();
            let is_late = self.exchange[i].is_some() || n.op.is_view() && n.inputs.iter().any(waits);
            if !is_late && self.map[i].is_none() {
                self.emit(i)?;
            }
            for p in self.due.remove(&i).unwrap_or_default() {
                self.begin(p)?;
            }
        }
        for &s in &graph.outputs {
            let at = self.get(s)?;
            self.out.outputs.push(at);
        }
        Ok(())
    }

    /// A value in the new program.
    fn get(&mut self, s: Slot) -> Result<Slot> {
        let i = s.node as usize;
        if self.map[i].is_none() {
            match self.exchange[i] {
                Some(p) => self.ended(p, i)?,
                None => self.emit(i)?,
            }
        }
        let node = self.map[i].ok_or_else(|| ir::Error::bug("a value is used before it is there"))?;
        Ok(Slot { node, out: s.out })
    }
    fn emit(&mut self, i: usize) -> Result<()> {
        let graph = self.graph;
        let n = &graph.nodes[i];
        let inputs: SmallVec<[Slot; 3]> = n.inputs.iter().map(|&s| self.get(s)).collect::<Result<_>>()?;
        let at = self.out.push_typed(n.op, inputs, n.attrs.clone(), n.outs.clone(), n.site);
        if n.op == &INPUT {
            self.out.inputs.push(at.node);
        }
        self.map[i] = Some(at.node);
        Ok(())
    }

    /// Begins an exchange.
    fn begin(&mut self, p: usize) -> Result<()> {
        let (kind, axis, bytes) = (self.planned[p].kind, self.planned[p].axis, self.planned[p].bytes);
        let mut after = None;
        if kind == Kind::Scatter {
            // Operands are kept until the end: few of them at a time.
            loop {
                let list = self.under_way.entry(axis).or_default();
                let kept: usize = list.iter().map(|&q| self.planned[q].bytes).sum();
                if list.is_empty() || kept + bytes <= UNDER_WAY_BYTES {
                    break;
                }
                let first = list.remove(0);
                after = Some(self.end(first)?);
            }
            self.under_way.entry(axis).or_default().push(p);
        }
        self.begin_after(p, after)
    }
    fn begin_after(&mut self, p: usize, after: Option<Slot>) -> Result<()> {
        let graph = self.graph;
        let members = self.planned[p].members.clone();
        let n = &graph.nodes[members[0]];
        let mut values = Vec::with_capacity(members.len());
        for &m in &members {
            values.push(self.viewed(graph.nodes[m].inputs[0])?);
        }
        let x = if let [one] = values[..] { one } else { self.by.flat(&mut self.out, &values, n.site)? };
        let after: SmallVec<[Slot; 1]> = after.into_iter().collect();
        let begun = self.by.begin(&mut self.out, n, x, &after)?;
        self.states[p].begun = Some((begun, x));
        Ok(())
    }
    /// The operand of an exchange: views of what was computed, which stand where it is used in the old program.
    fn viewed(&mut self, s: Slot) -> Result<Slot> {
        if self.map[s.node as usize].is_none() && self.graph.node(s).op.is_view() {
            let inner = self.graph.node(s).inputs[0];
            self.viewed(inner)?;
            self.emit(s.node as usize)?;
        }
        self.get(s)
    }

    /// Waits for the end of an exchange.
    fn end(&mut self, p: usize) -> Result<Slot> {
        if let Some(at) = self.states[p].ended {
            return Ok(at);
        }
        if self.states[p].begun.is_none() {
            self.begin_after(p, None)?;
        }
        let (begun, x) = self.states[p].begun.ok_or_else(|| ir::Error::bug("an exchange ends that was not begun"))?;
        let n = &self.graph.nodes[self.planned[p].members[0]];
        let at = self.by.end(&mut self.out, n, begun, x)?;
        self.states[p].ended = Some(at);
        let axis = self.planned[p].axis;
        if let Some(list) = self.under_way.get_mut(&axis) {
            list.retain(|&q| q != p);
        }
        self.gather_ahead(axis, Some((p, at)))?;
        Ok(at)
    }
    /// The result of an exchange, for its member `i`.
    fn ended(&mut self, p: usize, i: usize) -> Result<()> {
        let all = self.end(p)?;
        let (n, is_one) = (&self.graph.nodes[i], self.planned[p].members.len() == 1);
        let own = if is_one { all } else { self.by.unflat(&mut self.out, all, self.starts[i], &n.outs[0], n.site)? };
        self.map[i] = Some(own.node);
        Ok(())
    }
    /// Begins to gather what is used next, once `ended` is there: at the beginning of the program, or the last that was
    /// gathered.
    fn gather_ahead(&mut self, axis: u8, ended: Option<(usize, Slot)>) -> Result<()> {
        let Some((list, begun)) = self.ahead.get(&axis) else { return Ok(()) };
        let (list, mut next) = (list.clone(), *begun);
        let place = |p: usize| list.iter().position(|&q| q == p);
        let used = match ended {
            Some((p, _)) => match place(p) {
                Some(at) => at + 1,
                None => return Ok(()),
            },
            None => 0,
        };
        let mut bytes: usize = list[used..next.max(used)].iter().map(|&p| self.planned[p].bytes).sum();
        while next < list.len() {
            bytes += self.planned[list[next]].bytes;
            if next > used && bytes > AHEAD_BYTES {
                break;
            }
            let p = list[next];
            next += 1;
            if let Some(entry) = self.ahead.get_mut(&axis) {
                entry.1 = next;
            }
            if self.states[p].begun.is_none() {
                self.begin_after(p, ended.map(|(_, at)| at))?;
            }
        }
        Ok(())
    }
}
