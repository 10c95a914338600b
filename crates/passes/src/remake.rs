//! Computes again what is cheaper to compute than to keep.
//!
//! A loop often computes more than it needs itself, because its operands are at hand: the slope of
//! an activation along with the activation. Where the loops that use such a value can compute it
//! from stored values that are no larger, it need not be written.

use crate::{Fused, Loop, Region, Step, place_of};
use ir::{Graph, Slot};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Steps that are computed again at most.
const STEPS_MAX: usize = 32;
/// Smaller values are not worth it.
const BYTES_MIN: usize = 1 << 16;

/// Lets loops compute values again instead of reading them, where that moves fewer bytes.
pub fn remake(mut fused: Fused) -> Fused {
    let results: FxHashSet<Slot> =
        fused.graph.outputs.iter().map(|&s| place_of(&fused.graph, &fused.places, s).root).collect();
    let mut readers: FxHashMap<Slot, Vec<usize>> = FxHashMap::default();
    for (r, region) in fused.regions.iter().enumerate() {
        let mut reads = region.reads();
        reads.sort_unstable();
        reads.dedup();
        reads.into_iter().for_each(|s| readers.entry(s).or_default().push(r));
    }
    for a in 0..fused.regions.len() {
        let Region::Loop(maker) = &fused.regions[a] else { continue };
        let slots: Vec<Slot> = maker.stores.iter().map(|s| s.slot).collect();
        for slot in slots {
            let users = readers.get(&slot).cloned().unwrap_or_default();
            if users.is_empty() || results.contains(&slot) || fused.graph.ty(slot).bytes() < BYTES_MIN {
                continue;
            }
            let Region::Loop(maker) = &fused.regions[a] else { continue };
            let Some(recipe) = Recipe::new(maker, slot) else { continue };
            let made: Option<Vec<Loop>> = users.iter().map(|&b| recipe.put(&fused, b)).collect();
            let Some(made) = made else { continue };
            for (&b, l) in users.iter().zip(made) {
                for root in recipe.roots() {
                    let list = readers.entry(root).or_default();
                    if !list.contains(&b) {
                        list.push(b);
                    }
                }
                fused.regions[b] = Region::Loop(l);
            }
            if let Region::Loop(maker) = &mut fused.regions[a] {
                maker.stores.retain(|s| s.slot != slot);
                prune(maker);
            }
        }
    }
    fused.regions.retain(|r| !matches!(r, Region::Loop(l) if l.stores.is_empty()));
    fused.waves = (0..fused.regions.len()).map(|r| r..r + 1).collect();
    fused
}

/// How a value comes about at each point of a loop.
struct Recipe {
    slot: Slot,
    dims: Vec<usize>,
    inner: usize,
    /// Strides with which the value is stored.
    strides: SmallVec<[isize; 4]>,
    /// The steps, arguments by their place in this list; the last gives the value.
    steps: Vec<Step>,
}

impl Recipe {
    fn new(l: &Loop, slot: Slot) -> Option<Recipe> {
        let store = l.stores.iter().find(|s| s.slot == slot)?;
        if l.feed.is_some() || store.strides.contains(&0) {
            return None;
        }
        let mut wanted = vec![false; l.steps.len()];
        wanted[store.step as usize] = true;
        for i in (0..l.steps.len()).rev().filter(|&i| i <= store.step as usize) {
            if wanted[i] {
                args(&l.steps[i])?.iter().for_each(|&a| wanted[a as usize] = true);
            }
        }
        let mut place = vec![0u32; l.steps.len()];
        let mut steps = Vec::new();
        for i in (0..l.steps.len()).filter(|&i| wanted[i]) {
            place[i] = steps.len() as u32;
            steps.push(moved(&l.steps[i], |a| place[a as usize]));
        }
        let scalars = steps.iter().filter(|s| matches!(s, Step::Scalar { .. })).count();
        // A value that is only read again is a load already.
        let fits = (1..=STEPS_MAX).contains(&scalars);
        fits.then(|| Recipe { slot, dims: l.dims.clone(), inner: l.inner, strides: store.strides.clone(), steps })
    }

    fn roots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.steps.iter().filter_map(|s| if let Step::Load { root, .. } = s { Some(*root) } else { None })
    }

    /// The loop `b` with the value computed in it, if it can be and that moves no more bytes.
    fn put(&self, fused: &Fused, b: usize) -> Option<Loop> {
        let Region::Loop(l) = &fused.regions[b] else { return None };
        let count = |dims: &[usize]| dims.iter().product::<usize>();
        if l.feed.is_some() || count(&l.dims) != count(&self.dims) {
            return None;
        }
        let whole = contiguous(&l.dims);
        let is_same_space = l.dims == self.dims && l.inner == self.inner;
        let is_whole = |strides: &[isize], offset: usize| offset == 0 && strides == whole.as_slice();
        let reads_whole = l.steps.iter().all(|s| match s {
            Step::Load { root, strides, offset } if *root == self.slot => is_whole(strides, *offset),
            _ => true,
        });
        if !reads_whole || self.strides != contiguous(&self.dims) {
            return None;
        }
        let mut steps = Vec::with_capacity(self.steps.len());
        for s in &self.steps {
            steps.push(match s {
                Step::Load { strides, .. } if is_same_space || strides.iter().all(|&k| k == 0) => {
                    let mut s = s.clone();
                    if let Step::Load { strides, .. } = &mut s
                        && !is_same_space
                    {
                        *strides = l.dims.iter().map(|_| 0).collect();
                    }
                    s
                }
                Step::Load { root, strides, offset: 0 } if *strides == self.strides => {
                    Step::Load { root: *root, strides: whole.clone(), offset: 0 }
                }
                Step::Load { .. } => return None,
                other => other.clone(),
            });
        }
        let fits = self.more(&fused.graph, l, &steps) <= fused.graph.ty(self.slot).bytes();
        fits.then(|| splice(l, self.slot, &steps))
    }

    /// Bytes that a loop would have to read beside what it reads already.
    fn more(&self, graph: &Graph, l: &Loop, steps: &[Step]) -> usize {
        let has = |root: Slot| l.steps.iter().any(|s| matches!(s, Step::Load { root: r, .. } if *r == root));
        let mut new: Vec<Slot> = Vec::new();
        for s in steps {
            if let Step::Load { root, .. } = s
                && !has(*root)
                && !new.contains(root)
            {
                new.push(*root);
            }
        }
        new.iter().map(|&s| graph.ty(s).bytes()).sum()
    }
}

/// The steps a step uses; `None` for what a loop cannot compute again.
fn args(s: &Step) -> Option<SmallVec<[u32; 3]>> {
    match s {
        Step::Scalar { args, .. } => Some(args.clone()),
        Step::Load { .. } | Step::Const(_) => Some(SmallVec::new()),
        Step::Reduce { .. } => None,
    }
}

/// A step with its arguments elsewhere.
fn moved(s: &Step, to: impl Fn(u32) -> u32) -> Step {
    let mut s = s.clone();
    match &mut s {
        Step::Scalar { args, .. } => args.iter_mut().for_each(|a| *a = to(*a)),
        Step::Reduce { arg, .. } => *arg = to(*arg),
        Step::Load { .. } | Step::Const(_) => {}
    }
    s
}

fn contiguous(dims: &[usize]) -> SmallVec<[isize; 4]> {
    let mut strides: SmallVec<[isize; 4]> = dims.iter().map(|_| 1).collect();
    for d in (0..dims.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * dims[d + 1] as isize;
    }
    strides
}

/// A loop with the steps of a recipe in place of the load of a value.
fn splice(l: &Loop, slot: Slot, recipe: &[Step]) -> Loop {
    let mut out = Loop { steps: Vec::new(), ..l.clone() };
    let mut place = vec![0u32; l.steps.len()];
    let mut value = None;
    for (i, s) in l.steps.iter().enumerate() {
        if matches!(s, Step::Load { root, .. } if *root == slot) {
            place[i] = *value.get_or_insert_with(|| {
                let mut at: Vec<u32> = Vec::new();
                for r in recipe {
                    let step = moved(r, |a| at[a as usize]);
                    at.push(push(&mut out, step));
                }
                at[at.len() - 1]
            });
        } else {
            let step = moved(s, |a| place[a as usize]);
            place[i] = push(&mut out, step);
        }
    }
    out.stores.iter_mut().for_each(|s| s.step = place[s.step as usize]);
    let new = recipe.iter().filter_map(|s| if let Step::Scalar { node, .. } = s { Some(*node) } else { None });
    let new: Vec<u32> = new.filter(|n| !out.nodes.contains(n)).collect();
    out.nodes.extend(new);
    out.nodes.sort_unstable();
    out
}

/// Adds a step, or finds the same load.
fn push(l: &mut Loop, step: Step) -> u32 {
    if let Step::Load { root, strides, offset } = &step {
        let same = |s: &Step| matches!(s, Step::Load { root: r, strides: t, offset: o } if (r, t, o) == (root, strides, offset));
        if let Some(at) = l.steps.iter().position(same) {
            return at as u32;
        }
    }
    l.steps.push(step);
    l.steps.len() as u32 - 1
}

/// Drops steps that nothing uses.
fn prune(l: &mut Loop) {
    let mut wanted = vec![false; l.steps.len()];
    l.stores.iter().for_each(|s| wanted[s.step as usize] = true);
    for i in (0..l.steps.len()).rev().filter(|&i| wanted[i]).collect::<Vec<_>>() {
        mark(l, i, &mut wanted);
    }
    let mut place = vec![0u32; l.steps.len()];
    let mut steps = Vec::new();
    let mut nodes: FxHashSet<u32> = FxHashSet::default();
    for (i, s) in l.steps.iter().enumerate().filter(|(i, _)| wanted[*i]) {
        if let Step::Scalar { node, .. } | Step::Reduce { node, .. } = s {
            nodes.insert(*node);
        }
        place[i] = steps.len() as u32;
        steps.push(moved(s, |a| place[a as usize]));
    }
    l.stores.iter_mut().for_each(|s| s.step = place[s.step as usize]);
    l.steps = steps;
    l.nodes.retain(|n| nodes.contains(n));
}

/// Marks everything that step `i` needs.
fn mark(l: &Loop, i: usize, wanted: &mut [bool]) {
    let mut stack = vec![i as u32];
    while let Some(i) = stack.pop() {
        let list: SmallVec<[u32; 3]> = match &l.steps[i as usize] {
            Step::Scalar { args, .. } => args.clone(),
            Step::Reduce { arg, .. } => SmallVec::from_slice(&[*arg]),
            Step::Load { .. } | Step::Const(_) => SmallVec::new(),
        };
        for a in list {
            if !std::mem::replace(&mut wanted[a as usize], true) {
                stack.push(a);
            }
        }
    }
}
