//! Joins a kernel with the loop that alone reads its result, where the loop takes the elements one
//! by one as they lie: bias, activation, residual and optimizer step then work on pieces of the
//! result that are still in cache.

use crate::{Feed, Fused, Loop, Place, Region, Step, place_of};
use ir::{FlatNode, Slot};
use smallvec::SmallVec;

/// Whether a device runs a kernel with these operands piece by piece.
pub type Feeds<'a> = &'a dyn Fn(&FlatNode, &[Place]) -> bool;

/// Moves kernels into the loops that they can feed.
pub fn feed(fused: &mut Fused, feeds: Feeds) {
    let graph = &fused.graph;
    let outputs: Vec<Slot> = graph.outputs.iter().map(|&s| place_of(graph, &fused.places, s).root).collect();
    let mut at = 0;
    while at < fused.regions.len() {
        let found = match &fused.regions[at] {
            Region::Call { node, args, .. } => {
                let n = &graph.nodes[*node];
                let s = Slot::new(*node, 0);
                let is_free = n.outs.len() == 1 && !outputs.contains(&s) && feeds(n, args);
                if is_free {
                    sole_reader(&fused.regions, s).map(|r| (r, Feed { node: *node, args: args.clone() }))
                } else {
                    None
                }
            }
            Region::Loop(_) => None,
        };
        let shape = found.as_ref().map(|(_, f)| &graph.nodes[f.node].outs[0].shape);
        let taken = match (&found, shape) {
            (Some((r, f)), Some(shape)) if shape.rank() >= 2 => match &fused.regions[*r] {
                Region::Loop(l) => with_rows(l, f.slot(), shape.count(), shape[shape.rank() - 1]),
                Region::Call { .. } => None,
            },
            _ => None,
        };
        match (found, taken) {
            (Some((r, f)), Some(l)) => {
                fused.regions[r] = Region::Loop(Loop { feed: Some(f), ..l });
                fused.regions.remove(at);
            }
            _ => at += 1,
        }
    }
    fused.waves = (0..fused.regions.len()).map(|r| r..r + 1).collect();
}

/// The only region that reads a value.
fn sole_reader(regions: &[Region], s: Slot) -> Option<usize> {
    let mut readers = regions.iter().enumerate().filter(|(_, r)| r.reads().contains(&s)).map(|(i, _)| i);
    match (readers.next(), readers.next()) {
        (Some(r), None) => Some(r),
        _ => None,
    }
}

/// The loop over `count / n` rows of `n` points, if it is elementwise and takes `s` as it lies.
fn with_rows(l: &Loop, s: Slot, count: usize, n: usize) -> Option<Loop> {
    let m = count / n.max(1);
    let is_plain = l.feed.is_none() && l.inner == 1 && !l.steps.iter().any(|t| matches!(t, Step::Reduce { .. }));
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
