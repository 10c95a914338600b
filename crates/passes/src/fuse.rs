//! Cuts a graph into regions: elementwise nodes and reductions that share an iteration space run
//! as one loop, every other node by itself. Views cost nothing: they are strides of loads.
//!
//! Nodes are taken in order; each joins the loops its operands are computed in where the spaces
//! agree, no result of a whole loop is needed inside it, and no cycle between regions comes about.

use crate::iteration_space::{self as space, Mask, Split};
use crate::{Along, Fused, Region, Target, View, Views, view_of, views};
use ir::{FlatNode, Graph, Layout, Meaning, Result, Shape, Slot};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;

/// The most nodes a loop may have: compile time and registers stay bounded.
const NODES_MAX: usize = 256;
/// Largest space that is reduced as a whole inside a loop, by one thread.
const WHOLE_MAX: usize = 4096;
/// How many of the loops that read a value are considered for joining.
const READERS_MAX: usize = 4;
/// How many regions are looked at, from either side, for a way from one to another.
const SEARCH_MAX: usize = 4096;

/// Cuts a graph, in which every view can be said with strides, into regions.
pub fn fuse(graph: Graph, target: &dyn Target) -> Result<Fused> {
    let views = views(&graph, target)?;
    let barrier = barriers(&graph, target);
    let mut f = Fuser::new(&graph, &views, &barrier, target);
    for i in 0..graph.nodes.len() {
        f.place(i)?;
    }
    let regions = f.regions();
    let waves = (0..regions.len()).map(|r| r..r + 1).collect();
    Ok(Fused { graph, views, barrier, regions, waves })
}

/// For each node, the barrier that returned its value: itself, or that of the viewed value.
fn barriers(graph: &Graph, target: &dyn Target) -> Vec<Option<u32>> {
    let mut barrier: Vec<Option<u32>> = Vec::with_capacity(graph.nodes.len());
    for (i, n) in graph.nodes.iter().enumerate() {
        barrier.push(match n.op.meaning {
            Meaning::View(_) => barrier[n.inputs[0].node as usize],
            _ => target.is_barrier(n).then_some(i as u32),
        });
    }
    barrier
}

/// A node's part in a loop.
#[derive(Clone, Copy)]
pub(crate) struct Member {
    /// The dimensions of the loop's space that its value varies along.
    pub mask: Mask,
    /// How a reduction combines, and whether its result exists only after the loop.
    pub reduce: Option<(Along, bool)>,
    /// The dimensions a reduction's operand varies along.
    pub from: Mask,
}

/// A region under construction.
pub(crate) struct Group {
    pub dims: Vec<usize>,
    /// The dimensions that make up a row, once a reduction has decided it.
    pub inner: Option<Mask>,
    pub nodes: Vec<usize>,
    is_loop: bool,
    /// The groups that need it, and those it needs; some more than once.
    next: Vec<usize>,
    prev: Vec<usize>,
}

/// The groups that a search has come to: the number of the search and the side it came from.
#[derive(Default)]
struct Search {
    number: u32,
    seen: Vec<(u32, bool)>,
}

pub(crate) struct Fuser<'a> {
    pub graph: &'a Graph,
    pub views: &'a Views,
    barrier: &'a [Option<u32>],
    target: &'a dyn Target,
    pub groups: Vec<Group>,
    /// Where a group has gone.
    merged: Vec<usize>,
    /// The group of each node that is computed.
    of: Vec<Option<usize>>,
    pub members: Vec<Member>,
    kept: Vec<bool>,
    /// The loops that read each stored value.
    readers: FxHashMap<Slot, Vec<usize>>,
    search: RefCell<Search>,
}

/// How a node would join a group.
struct Fit {
    split: Split,
    member: Member,
    inner: Option<Mask>,
}

impl<'a> Fuser<'a> {
    fn new(graph: &'a Graph, views: &'a Views, barrier: &'a [Option<u32>], target: &'a dyn Target) -> Fuser<'a> {
        let n = graph.nodes.len();
        let nothing = Member { mask: 0, reduce: None, from: 0 };
        Fuser {
            graph,
            views,
            barrier,
            target,
            groups: Vec::new(),
            merged: Vec::new(),
            of: vec![None; n],
            members: vec![nothing; n],
            kept: vec![false; n],
            readers: FxHashMap::default(),
            search: RefCell::default(),
        }
    }
    /// True if a node's value is needed outside its group.
    pub fn is_kept(&self, node: usize) -> bool {
        self.kept[node]
    }

    /// The group a node is computed in.
    pub fn group(&self, node: usize) -> Option<usize> {
        let mut g = self.of[node]?;
        while self.merged[g] != g {
            g = self.merged[g];
        }
        Some(g)
    }
    fn find(&self, mut g: usize) -> usize {
        while self.merged[g] != g {
            g = self.merged[g];
        }
        g
    }

    /// Where an operand lies.
    pub fn operand(&self, s: Slot) -> &'a View {
        view_of(self.views, s)
    }
    /// True if a value is one number known at compile time.
    pub fn is_number(&self, s: Slot) -> bool {
        self.graph.constant(s).is_some_and(|c| c.count() == 1)
    }

    fn place(&mut self, i: usize) -> Result<()> {
        let n = &self.graph.nodes[i];
        match n.op.meaning {
            Meaning::Input | Meaning::Const | Meaning::View(_) => {}
            Meaning::Scalar(_) | Meaning::Reduce(_) => self.place_in_loop(i)?,
            Meaning::Recast => return Err(ir::Error::bug("a complex number is left").in_op(n.op.name).at(n.site)),
            Meaning::Kernel(_) | Meaning::Composite(_) | Meaning::Control(_) => {
                let g = self.open(Vec::new(), false);
                self.enter(i, g);
            }
        }
        Ok(())
    }

    fn open(&mut self, dims: Vec<usize>, is_loop: bool) -> usize {
        let g = self.groups.len();
        self.groups.push(Group { dims, inner: None, nodes: Vec::new(), is_loop, next: Vec::new(), prev: Vec::new() });
        self.merged.push(g);
        g
    }

    /// Puts a node into a group and draws the edges from what it needs.
    fn enter(&mut self, i: usize, g: usize) {
        self.of[i] = Some(g);
        self.groups[g].nodes.push(i);
        for from in self.needs(i) {
            if from != g && self.groups[from].next.last() != Some(&g) {
                self.groups[from].next.push(g);
                self.groups[g].prev.push(from);
            }
        }
        if self.groups[g].is_loop {
            for &s in &self.graph.nodes[i].inputs {
                let root = self.operand(s).root;
                if self.group(root.node as usize) != Some(g)
                    && self.graph.ty(root).shape.count() >= self.target.share_min()
                {
                    self.readers.entry(root).or_default().push(g);
                }
            }
        }
    }

    /// The groups a node's operands are computed in, and the barriers that hold them back; each once, in
    /// the order of the operands.
    fn needs(&self, i: usize) -> Vec<usize> {
        let mut out: Vec<usize> = Vec::new();
        let mut seen: FxHashSet<usize> = FxHashSet::default();
        let inputs = &self.graph.nodes[i].inputs;
        for &s in inputs {
            let root = self.operand(s).root.node as usize;
            let barrier = self.barrier[s.node as usize].map(|f| f as usize);
            for g in [Some(root), barrier].into_iter().flatten().filter_map(|n| self.group(n)) {
                // Few operands need no set.
                let is_known = if inputs.len() <= 16 { out.contains(&g) } else { !seen.insert(g) };
                if !is_known {
                    out.push(g);
                }
            }
        }
        out
    }

    fn place_in_loop(&mut self, i: usize) -> Result<()> {
        // The latest operand's loop first: it is the most likely to be still in cache.
        let mut needs = self.needs(i);
        needs.sort_by_key(|&g| std::cmp::Reverse(self.groups[g].nodes.last().copied()));
        let mut home: Option<usize> = None;
        for &g in &needs {
            match home {
                None if self.admits(i, g, &needs)? => home = Some(g),
                // What comes after the merged loop must not be among the node's other needs.
                Some(h) if self.may_merge(h, g) && !needs.iter().any(|&o| self.reaches(g, self.find(o))) => {
                    self.merge(h, g)
                }
                _ => {}
            }
        }
        if home.is_none() {
            home = self.sibling(i, &needs)?;
        }
        // Merging may have split dimensions or decided rows; the node must still fit.
        let home = match home {
            Some(h) => self.fit(i, h)?.map(|fit| (h, fit)),
            None => None,
        };
        let (g, fit) = match home {
            Some(found) => found,
            None => {
                let shape = &self.space_shape(&self.graph.nodes[i]);
                let g = self.open(space::dims_of(shape), true);
                let fit = self.fit(i, g)?.ok_or_else(|| ir::Error::bug("a node does not fit its own loop"))?;
                (g, fit)
            }
        };
        self.resize(g, &fit.split);
        self.groups[g].inner = fit.inner;
        self.members[i] = fit.member;
        self.enter(i, g);
        Ok(())
    }

    /// A loop over the same space that reads one of the node's large operands anyway.
    fn sibling(&self, i: usize, needs: &[usize]) -> Result<Option<usize>> {
        let n = &self.graph.nodes[i];
        let count = self.space_shape(n).count();
        for &s in &n.inputs {
            let view = self.operand(s);
            let is_whole = view.layout.shape.count() == count && view.layout.is_contiguous();
            let readers = self.readers.get(&view.root).filter(|_| is_whole);
            for &g in readers.into_iter().flat_map(|r| r.iter().rev().take(READERS_MAX)) {
                let g = self.find(g);
                if !needs.contains(&g) && self.admits(i, g, needs)? {
                    return Ok(Some(g));
                }
            }
        }
        Ok(None)
    }

    /// The shape a node iterates over: a reduction's is its operand's.
    fn space_shape(&self, n: &FlatNode) -> Shape {
        match n.op.meaning {
            Meaning::Reduce(_) => self.graph.ty(n.inputs[0]).shape.clone(),
            _ => n.outs[0].shape.clone(),
        }
    }

    /// Replaces a group's dimensions by finer ones.
    fn resize(&mut self, g: usize, split: &Split) {
        if split.dims == self.groups[g].dims {
            return;
        }
        let group = &mut self.groups[g];
        group.dims = split.dims.clone();
        group.inner = group.inner.map(|m| split.remap(m));
        for &i in &group.nodes {
            let m = &mut self.members[i];
            m.mask = split.remap(m.mask);
            m.from = split.remap(m.from);
        }
    }

    /// True if node `i` may join group `g`: it fits, and none of its other needs comes after `g`.
    fn admits(&self, i: usize, g: usize, needs: &[usize]) -> Result<bool> {
        let is_open = self.groups[g].is_loop && self.groups[g].nodes.len() < NODES_MAX;
        if !is_open || self.fit(i, g)?.is_none() {
            return Ok(false);
        }
        Ok(!needs.iter().any(|&h| h != g && self.reaches(g, h)))
    }

    /// True if `to` needs `from`, directly or through others, or if that takes too long to find out. The
    /// search goes from both ends: of a long graph most lies before one of them or after the other.
    fn reaches(&self, from: usize, to: usize) -> bool {
        let Search { number, seen } = &mut *self.search.borrow_mut();
        *number += 1;
        seen.resize(self.groups.len(), (0, false));
        let mut queues = [vec![from], vec![to]];
        (seen[from], seen[to]) = ((*number, false), (*number, true));
        for at in 0..SEARCH_MAX {
            for (side, queue) in queues.iter_mut().enumerate() {
                let Some(&g) = queue.get(at) else { return false };
                let group = &self.groups[g];
                for &h in if side == 0 { &group.next } else { &group.prev } {
                    let h = self.find(h);
                    match seen[h] {
                        (n, is_back) if n == *number && is_back == (side == 0) => return true,
                        (n, _) if n == *number => {}
                        _ => {
                            seen[h] = (*number, side == 1);
                            queue.push(h);
                        }
                    }
                }
            }
        }
        true
    }

    fn may_merge(&self, a: usize, b: usize) -> bool {
        let (ga, gb) = (&self.groups[a], &self.groups[b]);
        if !gb.is_loop || ga.nodes.len() + gb.nodes.len() >= NODES_MAX {
            return false;
        }
        let Some((sa, sb)) = common(&ga.dims, &gb.dims) else { return false };
        let rows_agree = match (ga.inner, gb.inner) {
            (Some(x), Some(y)) => sa.remap(x) == sb.remap(y),
            _ => true,
        };
        rows_agree && !self.reaches(a, b) && !self.reaches(b, a)
    }

    /// Makes two loops one.
    fn merge(&mut self, a: usize, b: usize) {
        let Some((sa, sb)) = common(&self.groups[a].dims, &self.groups[b].dims) else { return };
        self.resize(a, &sa);
        self.resize(b, &sb);
        let b_nodes = std::mem::take(&mut self.groups[b].nodes);
        let b_next = std::mem::take(&mut self.groups[b].next);
        let b_prev = std::mem::take(&mut self.groups[b].prev);
        let inner = self.groups[b].inner;
        let ga = &mut self.groups[a];
        ga.inner = ga.inner.or(inner);
        ga.nodes.extend(b_nodes);
        ga.nodes.sort_unstable();
        ga.next.extend(b_next);
        ga.prev.extend(b_prev);
        self.merged[b] = a;
    }

    /// How a node fits a loop's space, if it does.
    fn fit(&self, i: usize, g: usize) -> Result<Option<Fit>> {
        let n = &self.graph.nodes[i];
        let shape = self.space_shape(n);
        let Some((split, mask)) = self.align(n, &shape, g) else { return Ok(None) };
        for &s in &n.inputs {
            if !self.operand_fits(s, &shape, g, &split, mask) {
                return Ok(None);
            }
        }
        let inner = self.groups[g].inner.map(|m| split.remap(m));
        match n.op.meaning {
            Meaning::Reduce(_) => self.fit_reduce(n, &shape, split, mask, inner),
            _ => Ok(Some(Fit { split, member: Member { mask, reduce: None, from: 0 }, inner })),
        }
    }

    /// The split of a group's space in which a node's shape lies along `mask`: along all of it,
    /// or along what one of its operands in the group varies along.
    fn align(&self, n: &FlatNode, shape: &Shape, g: usize) -> Option<(Split, Mask)> {
        let dims = &self.groups[g].dims;
        let other = space::dims_of(shape);
        let all = space::full(dims);
        if shape.count() == space::count(dims, all) {
            let split = space::split(dims, all, &other)?;
            let mask = space::full(&split.dims);
            return Some((split, mask));
        }
        for &s in &n.inputs {
            let view = self.operand(s);
            let root = view.root.node as usize;
            let is_same = self.group(root) == Some(g)
                && view.layout.is_contiguous()
                && view.layout.offset == 0
                && view.layout.shape.count() == shape.count()
                && self.graph.ty(view.root).shape.count() == shape.count();
            if is_same && let Some(split) = space::split(dims, self.members[root].mask, &other) {
                let mask = split.remap(self.members[root].mask);
                return Some((split, mask));
            }
        }
        None
    }

    /// True if an operand can be had at each point: from memory by strides, or from the same point
    /// of the loop.
    fn operand_fits(&self, s: Slot, shape: &Shape, g: usize, split: &Split, mask: Mask) -> bool {
        if self.is_number(s) {
            return true;
        }
        let view = self.operand(s);
        let Some(strides) = load_strides(&view.layout, shape, &split.dims, mask) else { return false };
        let root = view.root.node as usize;
        if self.group(root) != Some(g) {
            return true;
        }
        let m = &self.members[root];
        let is_after = m.reduce.is_some_and(|(_, after)| after);
        !is_after && view.layout.offset == 0 && strides == space::strides(&split.dims, split.remap(m.mask))
    }

    /// Which way a reduction runs in a space, if it can.
    fn fit_reduce(
        &self,
        n: &FlatNode,
        shape: &Shape,
        split: Split,
        from: Mask,
        inner: Option<Mask>,
    ) -> Result<Option<Fit>> {
        let axes = n.attrs.sizes("axes")?;
        let kept: Vec<usize> = (0..shape.rank()).filter(|&a| shape[a] != 1).collect();
        let gone = split.of_other(|j| axes.contains(&kept[j]));
        let all = space::full(&split.dims);
        let last: Mask = if split.dims.is_empty() { 0 } else { 1 << (split.dims.len() - 1) };
        let done = |along, after, inner| {
            let member = Member { mask: from & !gone, reduce: Some((along, after)), from };
            Ok(Some(Fit { split: split.clone(), member, inner }))
        };
        if from != all {
            // A row value: its rows can be combined, not parts of them.
            let is_rows = inner.is_some_and(|m| from == all & !m);
            return if is_rows && gone == from { done(Along::Column, true, inner) } else { Ok(None) };
        }
        let row = |row: Mask| {
            let longest = self.target.row_max(space::count(&split.dims, all & !row));
            done(Along::Row, space::count(&split.dims, row) > longest, Some(row))
        };
        match inner {
            Some(m) if m == gone => row(m),
            Some(m) if all & !m == gone => done(Along::Column, true, inner),
            _ if gone == all && (inner.is_some() || space::count(&split.dims, all) > WHOLE_MAX) => {
                done(Along::All, true, inner)
            }
            None if is_leading(gone) && gone & last == 0 && gone != 0 => done(Along::Column, true, Some(all & !gone)),
            None => row(gone),
            _ => Ok(None),
        }
    }

    /// The finished regions, in an order that respects their edges; among those that are ready,
    /// the one with the earliest node.
    fn regions(mut self) -> Vec<Region> {
        self.mark_kept();
        let live: Vec<usize> = (0..self.groups.len()).filter(|&g| self.merged[g] == g).collect();
        let mut waits = vec![0usize; self.groups.len()];
        for &g in &live {
            for h in self.followers(g) {
                waits[h] += 1;
            }
        }
        let key = |g: usize| std::cmp::Reverse((self.groups[g].nodes.first().copied(), g));
        let mut ready: std::collections::BinaryHeap<_> =
            live.iter().filter(|&&g| waits[g] == 0).map(|&g| key(g)).collect();
        let mut out = Vec::with_capacity(live.len());
        while let Some(std::cmp::Reverse((_, g))) = ready.pop() {
            out.push(self.region(g));
            for h in self.followers(g) {
                waits[h] -= 1;
                if waits[h] == 0 {
                    ready.push(key(h));
                }
            }
        }
        assert_eq!(out.len(), live.len(), "regions must not need each other in a circle");
        out
    }

    fn mark_kept(&mut self) {
        for (i, n) in self.graph.nodes.iter().enumerate() {
            let Some(g) = self.group(i) else { continue };
            for &s in &n.inputs {
                let root = self.operand(s).root.node as usize;
                self.kept[root] |= self.group(root) != Some(g);
            }
        }
        for &s in &self.graph.outputs {
            let root = self.operand(s).root.node as usize;
            self.kept[root] = true;
        }
    }

    fn followers(&self, g: usize) -> Vec<usize> {
        let mut out: Vec<usize> = self.groups[g].next.iter().map(|&h| self.find(h)).collect();
        out.sort_unstable();
        out.dedup();
        out
    }

    fn region(&self, g: usize) -> Region {
        if self.groups[g].is_loop {
            return Region::Loop(crate::build_loop::build_loop(self, g));
        }
        let node = self.groups[g].nodes[0];
        let n = &self.graph.nodes[node];
        let own = |o: usize| View { root: Slot::new(node, o), layout: Layout::contiguous(&n.outs[o].shape) };
        Region::Call {
            node,
            args: n.inputs.iter().map(|&s| self.operand(s).clone()).collect(),
            // What a barrier holds back stays where it is.
            outs: if self.barrier[node].is_some() { Vec::new() } else { (0..n.outs.len()).map(own).collect() },
        }
    }
}

/// The strides with which an operand of a node of shape `shape` is read in a space.
pub(crate) fn load_strides(
    layout: &Layout,
    shape: &Shape,
    dims: &[usize],
    mask: Mask,
) -> Option<smallvec::SmallVec<[isize; 4]>> {
    space::embed(&layout.broadcast_to(shape), dims, mask)
}

/// The finest common split of two spaces with the same points.
fn common(a: &[usize], b: &[usize]) -> Option<(Split, Split)> {
    if a.iter().product::<usize>() != b.iter().product::<usize>() {
        return None;
    }
    Some((space::split(a, space::full(a), b)?, space::split(b, space::full(b), a)?))
}

/// True if the mask is the first dimensions of a space, without gaps.
fn is_leading(mask: Mask) -> bool {
    mask & (mask + 1) == 0
}
