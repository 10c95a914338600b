//! Copy elision: loops and kernels write their results where they would only be copied to. The gates of a cell, or the
//! gradients of queries, keys and values, are then slices of one tensor from the start.

use crate::{COPY, Fused, Loop, Region, Step, Store, Target, View};
use ir::{Layout, Slot};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Drops kernels that join what one region computes, and loops that put a kernel's result in another
/// order: who computes it writes it there.
pub fn elide_copies(mut fused: Fused, target: &dyn Target) -> Fused {
    let mut uses = Uses::new(&fused);
    for at in 0..fused.regions.len() {
        if let Some(parts) = parts(&fused, &uses, at, target) {
            let _ = in_loop(&mut fused, &mut uses, at, &parts) || in_kernel(&mut fused, &mut uses, at, &parts, target);
        }
    }
    for at in 0..fused.regions.len() {
        in_order(&mut fused, &mut uses, at, target);
    }
    fused.drop_empty();
    fused
}

/// The readers and the writer of each value.
struct Uses {
    readers: FxHashMap<Slot, Vec<usize>>,
    writer: FxHashMap<Slot, usize>,
    results: FxHashSet<Slot>,
}

impl Uses {
    fn new(fused: &Fused) -> Uses {
        let mut uses = Uses { readers: FxHashMap::default(), writer: FxHashMap::default(), results: fused.results() };
        for (r, region) in fused.regions.iter().enumerate() {
            let mut reads = region.reads();
            reads.sort_unstable();
            reads.dedup();
            reads.into_iter().for_each(|s| uses.readers.entry(s).or_default().push(r));
            uses.writer.extend(region.writes().into_iter().map(|s| (s, r)));
        }
        uses
    }
    /// The region that stores a value.
    fn writer(&self, s: Slot) -> Option<usize> {
        self.writer.get(&s).copied()
    }
    /// The regions that read a value.
    fn readers(&self, s: Slot) -> &[usize] {
        self.readers.get(&s).map_or(&[], Vec::as_slice)
    }
    /// True if the region alone reads a value.
    fn is_private(&self, s: Slot, reader: usize) -> bool {
        !self.results.contains(&s) && self.readers(s).iter().all(|&r| r == reader)
    }
}

/// A part of a joined value: `run` neighboring elements at a time, `row` apart in the whole, of which
/// they are the ones from `offset` on.
struct Part {
    from: Slot,
    to: Slot,
    run: isize,
    row: isize,
    offset: usize,
}

impl Part {
    /// The stride in the whole of a dimension that has `stride` in the part.
    fn stride(&self, size: usize, stride: isize) -> Option<isize> {
        if stride % self.run == 0 {
            return Some(stride / self.run * self.row);
        }
        (self.run % (stride * size as isize) == 0).then_some(stride)
    }
}

/// The parts that a region concatenates, each a whole value with no other reader.
fn parts(fused: &Fused, uses: &Uses, at: usize, target: &dyn Target) -> Option<Vec<Part>> {
    let Region::Call { node, args, outs } = &fused.regions[at] else { return None };
    let n = &fused.graph.nodes[*node];
    let axis = target.concat_axis(n)?;
    let behind: usize = n.outs[0].shape[axis + 1..].iter().product();
    let row = (n.outs[0].shape[axis] * behind) as isize;
    let mut offset = 0;
    let mut parts: Vec<Part> = Vec::new();
    let mut seen: FxHashSet<Slot> = FxHashSet::default();
    for p in args {
        let run = p.layout.shape[axis] * behind;
        let is_whole = p.layout.is_contiguous() && p.layout.shape.count() == fused.graph.ty(p.root).shape.count();
        if !is_whole || run == 0 || !seen.insert(p.root) || !uses.is_private(p.root, at) {
            return None;
        }
        parts.push(Part { from: p.root, to: outs[0].root, run: run as isize, row, offset });
        offset += run;
    }
    Some(parts)
}

/// Has one loop store all parts where they belong, if it computes them.
fn in_loop(fused: &mut Fused, uses: &mut Uses, at: usize, parts: &[Part]) -> bool {
    let Some(w) = uses.writer(parts[0].from) else { return false };
    let Region::Loop(l) = &fused.regions[w] else { return false };
    if l.stores.len() < parts.len() {
        return false;
    }
    let mut l = l.clone();
    let mut store = |p: &Part| -> Option<()> {
        // What was joined itself has a store for each of its own parts.
        let mut own = (0..l.stores.len()).filter(|&k| l.stores[k].slot == p.from);
        let k = own.next().filter(|&k| own.next().is_none() && l.stores[k].offset == 0)?;
        let is_reduced = matches!(l.steps[l.stores[k].step as usize], Step::Reduce { .. });
        if is_reduced || l.producer.as_ref().is_some_and(|f| f.slot() == p.from) {
            return None;
        }
        split(&mut l, k, p)?;
        let strides: Option<SmallVec<_>> =
            l.dims.iter().zip(&l.stores[k].strides).map(|(&d, &s)| p.stride(d, s)).collect();
        l.stores[k] = Store { slot: p.to, step: l.stores[k].step, strides: strides?, offset: p.offset };
        Some(())
    };
    if parts.iter().try_for_each(&mut store).is_none() {
        return false;
    }
    fused.regions[w] = Region::Loop(l);
    fused.regions[at] = Region::Loop(Loop::default());
    uses.writer.insert(parts[0].to, w);
    true
}

/// Cuts the dimension of a loop that runs over the end of a part's runs.
fn split(l: &mut Loop, store: usize, p: &Part) -> Option<()> {
    let strides = &l.stores[store].strides;
    let Some(k) = (0..l.dims.len()).find(|&k| p.stride(l.dims[k], strides[k]).is_none()) else { return Some(()) };
    let run = p.run / strides[k];
    let is_even = p.run % strides[k] == 0 && l.dims[k].is_multiple_of(run as usize) && run > 1;
    let is_plain = !l.steps.iter().any(|s| matches!(s, Step::Reduce { .. } | Step::Scalar { row: true, .. }));
    if !is_even || !is_plain || l.producer.is_some() {
        return None;
    }
    l.dims.insert(k + 1, run as usize);
    l.dims[k] /= run as usize;
    let cut = |s: &mut SmallVec<[isize; 4]>| {
        s.insert(k + 1, s[k]);
        s[k] *= run;
    };
    l.steps.iter_mut().for_each(|s| {
        if let Step::Load { strides, .. } = s {
            cut(strides);
        }
    });
    l.stores.iter_mut().for_each(|s| cut(&mut s.strides));
    Some(())
}

/// Has one kernel write all parts where they belong, if they are its results in another order.
fn in_kernel(fused: &mut Fused, uses: &mut Uses, at: usize, parts: &[Part], target: &dyn Target) -> bool {
    let graph = &fused.graph;
    let find = |p: &Part| {
        let r = uses.writer(p.from)?;
        copied(fused, r, p).map(|(s, layout)| (r, s, layout))
    };
    let Some(moved) = parts.iter().map(find).collect::<Option<Vec<_>>>() else { return false };
    let Some(w) = uses.writer(moved[0].1) else { return false };
    let Region::Call { node, .. } = &fused.regions[w] else { return false };
    let accepts = |(copy, s, layout): &(usize, Slot, Layout)| {
        s.node as usize == *node
            && uses.is_private(*s, *copy)
            && target.writes(&graph.nodes[*node], s.out as usize, layout)
    };
    if !moved.iter().all(accepts) {
        return false;
    }
    let to = parts[0].to;
    if let Region::Call { outs, .. } = &mut fused.regions[w] {
        for (_, s, layout) in &moved {
            outs[s.out as usize] = View { root: to, layout: layout.clone() };
        }
    }
    for (r, s, _) in &moved {
        fused.regions[*r] = Region::Loop(Loop::default());
        uses.readers.remove(s);
        uses.writer.remove(s);
    }
    fused.regions[at] = Region::Loop(Loop::default());
    uses.writer.insert(to, w);
    true
}

/// Has a kernel write its result in the order in which a loop would only copy it, if all others that
/// read it take it like that.
fn in_order(fused: &mut Fused, uses: &mut Uses, at: usize, target: &dyn Target) -> bool {
    let graph = &fused.graph;
    let Region::Loop(Loop { stores, .. }) = &fused.regions[at] else { return false };
    let [Store { slot: to, .. }] = stores[..] else { return false };
    let here = Part { from: to, to, run: 1, row: 1, offset: 0 };
    let Some((s, layout)) = copied(fused, at, &here) else { return false };
    let Some(w) = uses.writer(s) else { return false };
    let whole = Layout::contiguous(&layout.shape);
    let takes = |r: usize| match &fused.regions[r] {
        Region::Call { node, args, .. } => args
            .iter()
            .enumerate()
            .all(|(i, p)| p.root != s || (p.layout == whole && target.accepts(&graph.nodes[*node], i, &layout))),
        Region::Loop(_) => r == at,
    };
    let is_written = matches!(&fused.regions[w], Region::Call { node, outs, .. }
        if outs[s.out as usize].root == s && target.writes(&graph.nodes[*node], s.out as usize, &layout));
    let readers = uses.readers(s);
    if uses.results.contains(&s) || !is_written || !readers.iter().all(|&r| takes(r)) {
        return false;
    }
    let view = View { root: to, layout };
    let readers: Vec<usize> = readers.iter().copied().filter(|&r| r != at).collect();
    for &r in readers.iter().chain([&w]) {
        if let Region::Call { args, outs, .. } = &mut fused.regions[r] {
            args.iter_mut().chain(outs).filter(|p| p.root == s).for_each(|p| *p = view.clone());
        }
    }
    fused.regions[at] = Region::Loop(Loop::default());
    uses.readers.remove(&s);
    uses.readers.entry(to).or_default().extend(readers);
    uses.writer.insert(to, w);
    true
}

/// The value that a loop only copies a part from, and its layout in the whole.
fn copied(fused: &Fused, r: usize, p: &Part) -> Option<(Slot, Layout)> {
    let Region::Loop(l) = &fused.regions[r] else { return None };
    let ([Step::Load { root, strides, offset: 0 }, Step::Scalar { node, .. }], [store], None) =
        (l.steps.as_slice(), l.stores.as_slice(), &l.producer)
    else {
        return None;
    };
    let shape = &fused.graph.ty(*root).shape;
    let is_copy = fused.graph.nodes[*node as usize].op == &COPY && store.step == 1 && store.offset == 0;
    if !is_copy || shape.count() != l.dims.iter().product::<usize>() {
        return None;
    }
    let whole = Layout::contiguous(shape);
    let stride = |d: usize| {
        if shape[d] == 1 {
            return Some(0);
        }
        let k = (0..l.dims.len()).find(|&k| l.dims[k] == shape[d] && strides[k] == whole.strides[d])?;
        p.stride(l.dims[k], store.strides[k])
    };
    let strides = (0..shape.rank()).map(stride).collect::<Option<_>>()?;
    Some((*root, Layout { shape: shape.clone(), strides, offset: p.offset }))
}
