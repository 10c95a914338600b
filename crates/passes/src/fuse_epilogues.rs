//! Joins a kernel with the loop that alone reads its result, where the loop takes the elements one
//! by one as they lie: bias, activation, residual and optimizer step then work on pieces of the
//! result that are still in cache.

use crate::{Fused, Loop, Producer, Region, Step, View};
use ir::{FlatNode, Slot};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Whether a device runs a kernel with these operands piece by piece.
pub type Feeds<'a> = &'a dyn Fn(&FlatNode, &[View]) -> bool;

/// Moves kernels into the loops that they can feed; into those that may write over an input only where
/// `updates` says so, as they may have to wait longer than the kernel.
pub fn fuse_epilogues(fused: &mut Fused, feeds: Feeds, updates: bool) {
    let results = fused.results();
    let graph = &fused.graph;
    let mut readers = Readers::new(&fused.regions);
    for at in 0..fused.regions.len() {
        let Region::Call { node, args, .. } = &fused.regions[at] else { continue };
        let (n, s) = (&graph.nodes[*node], Slot::new(*node, 0));
        let is_free = n.outs.len() == 1 && n.outs[0].shape.rank() >= 2 && !results.contains(&s) && feeds(n, args);
        let Some(r) = readers.sole(s).filter(|_| is_free) else { continue };
        let Region::Loop(l) = &fused.regions[r] else { continue };
        if !updates && fused.updated(&fused.regions[r], &results).next().is_some() {
            continue;
        }
        let shape = &n.outs[0].shape;
        let Some(l) = with_rows(l, s, shape.count(), shape[shape.rank() - 1]) else { continue };
        let feed = Producer { node: *node, args: args.clone() };
        let mut roots: SmallVec<[Slot; 4]> = fused.regions[at].reads();
        roots.sort_unstable();
        roots.dedup();
        roots.into_iter().for_each(|root| readers.hand_over(root, at, r, fused.regions[r].reads().contains(&root)));
        fused.regions[r] = Region::Loop(Loop { producer: Some(feed), ..l });
        fused.regions[at] = Region::Loop(Loop::default());
    }
    fused.drop_empty();
}

/// How many regions read each value, and the sum of their numbers: the number itself if it is one.
struct Readers(FxHashMap<Slot, (usize, usize)>);

impl Readers {
    fn new(regions: &[Region]) -> Readers {
        let mut all: FxHashMap<Slot, (usize, usize)> = FxHashMap::default();
        for (r, region) in regions.iter().enumerate() {
            let mut reads = region.reads();
            reads.sort_unstable();
            reads.dedup();
            for s in reads {
                let (count, sum) = all.entry(s).or_default();
                (*count, *sum) = (*count + 1, *sum + r);
            }
        }
        Readers(all)
    }
    /// The only region that reads a value.
    fn sole(&self, s: Slot) -> Option<usize> {
        self.0.get(&s).filter(|(count, _)| *count == 1).map(|&(_, r)| r)
    }
    /// What one region read another one reads, which perhaps did so already.
    fn hand_over(&mut self, s: Slot, from: usize, to: usize, is_read: bool) {
        let (count, sum) = self.0.entry(s).or_default();
        (*count, *sum) = if is_read { (*count - 1, *sum - from) } else { (*count, *sum - from + to) };
    }
}

/// The loop over `count / n` rows of `n` points, if it is elementwise and takes `s` as it lies.
fn with_rows(l: &Loop, s: Slot, count: usize, n: usize) -> Option<Loop> {
    let m = count / n.max(1);
    let is_plain = l.producer.is_none() && l.inner == 1 && !l.steps.iter().any(|t| matches!(t, Step::Reduce { .. }));
    if !is_plain || n < 2 {
        return None;
    }
    let mut l = l.clone();
    if l.dims == [m * n] {
        // Rows that were joined are taken apart again.
        l.dims = vec![m, n];
        let apart = |strides: &mut SmallVec<[isize; 4]>| strides.insert(0, strides[0] * n as isize);
        l.steps.iter_mut().for_each(|t| {
            if let Step::Load { strides, .. } = t {
                apart(strides);
            }
        });
        l.stores.iter_mut().for_each(|t| apart(&mut t.strides));
    }
    let as_it_lies = |t: &Step| match t {
        Step::Load { root, strides, offset } if *root == s => strides[..] == [n as isize, 1] && *offset == 0,
        _ => true,
    };
    (l.dims == [m, n] && l.steps.iter().all(as_it_lies)).then_some(l)
}
