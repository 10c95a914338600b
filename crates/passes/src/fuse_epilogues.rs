//! Epilogue fusion: a kernel runs with the elementwise loop that alone reads its result. Bias, activation, residual
//! and optimizer step then work on tiles that are still in cache.

use crate::plan::commit_region;
use crate::{Fused, Loop, Producer, Region, Step, Target, plan_memory, schedule};
use ir::Slot;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A variant that needs less of the arena than this part of another is better, although it runs more regions.
const SMALLER: (usize, usize) = (7, 8);

/// Moves kernels into the loops that can be their epilogues.
///
/// An epilogue that updates a variable waits for all that can fail. Where values are recomputed after barriers, the
/// kernel's operands stay alive so long: then the update may be left as a region of its own.
pub fn fuse_epilogues(fused: Fused, target: &dyn Target) -> Fused {
    let has_barriers = fused.barrier.iter().any(Option::is_some);
    let may_wait = has_barriers && (0..fused.regions.len()).any(|r| target.may_fail(&fused, r));
    let apart = may_wait.then(|| fuse_where(fused.clone(), target, false));
    let joined = fuse_where(fused, target, true);
    let arena = |f: &Fused| {
        let f = schedule(f.clone(), target);
        let mut memory = plan_memory(&f, commit_region(&f, target), target);
        memory.pack(&vec![0; f.regions.len()]);
        memory.arena_bytes
    };
    apart.filter(|f| arena(f) < arena(&joined) / SMALLER.1 * SMALLER.0).unwrap_or(joined)
}

/// Moves kernels into the loops that can be their epilogues; into those that may overwrite an input only if
/// `updates`.
fn fuse_where(mut fused: Fused, target: &dyn Target, updates: bool) -> Fused {
    let results = fused.results();
    let graph = &fused.graph;
    let mut readers = Readers::new(&fused.regions);
    for at in 0..fused.regions.len() {
        let Region::Call { node, args, .. } = &fused.regions[at] else { continue };
        let (n, s) = (&graph.nodes[*node], Slot::new(*node, 0));
        let is_free =
            n.outs.len() == 1 && n.outs[0].shape.rank() >= 2 && !results.contains(&s) && target.has_epilogue(n, args);
        let Some(r) = readers.sole(s).filter(|_| is_free) else { continue };
        let Region::Loop(l) = &fused.regions[r] else { continue };
        if !updates && fused.updated(&fused.regions[r], &results).next().is_some() {
            continue;
        }
        let Some(l) = with_rows(l, s, n.outs[0].shape.count(), target.epilogue_columns(n)) else { continue };
        let producer = Producer { node: *node, args: args.clone() };
        let mut roots: SmallVec<[Slot; 4]> = fused.regions[at].reads();
        roots.sort_unstable();
        roots.dedup();
        roots.into_iter().for_each(|root| readers.hand_over(root, at, r, fused.regions[r].reads().contains(&root)));
        fused.regions[r] = Region::Loop(Loop { producer: Some(producer), ..l });
        fused.regions[at] = Region::Loop(Loop::default());
    }
    fused.drop_empty();
    fused
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
