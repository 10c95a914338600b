//! Rematerialization: recomputes values that are cheaper to compute than to store.
//!
//! A loop often computes more than it needs, because the operands are at hand: the derivative of an activation
//! along with the activation, or a gradient in two element types. Where the loops that use such a value can compute
//! it from stored values that are no larger, it is not stored. Numbers of which a row has one, such as its mean, are
//! stored for that. A small value that is one instruction away from others is computed where it is used, which saves
//! a loop.

use crate::{Along, Fused, Loop, Region, Step, Store};
use ir::{Cost, Graph, Slot};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The most steps that are recomputed.
const STEPS_MAX: usize = 32;
/// The most steps from a narrower value.
const NARROW_STEPS_MAX: usize = 3;
/// The most passes over all loops.
const ROUNDS_MAX: usize = 4;
/// Values of at least this size are worth it for their bytes.
const BYTES_MIN: usize = 1 << 16;

/// Which values are computed again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// Those that follow in few steps from one value beside them, of half their size or less.
    Narrow,
}

/// Lets loops recompute values instead of reading them, where that moves fewer bytes.
pub fn rematerialize(fused: Fused) -> Fused {
    remake(fused, Which::All)
}

/// Lets loops recompute values from narrower ones that are stored beside them, such as numbers from the bytes that were
/// made of them.
pub fn rematerialize_narrow(fused: Fused) -> Fused {
    remake(fused, Which::Narrow)
}

fn remake(mut fused: Fused, which: Which) -> Fused {
    let results = fused.results();
    let mut readers: FxHashMap<Slot, Vec<usize>> = FxHashMap::default();
    for (r, region) in fused.regions.iter().enumerate() {
        let mut reads = region.reads();
        reads.sort_unstable();
        reads.dedup();
        reads.into_iter().for_each(|s| readers.entry(s).or_default().push(r));
    }
    // One value computed again may put at hand what another is computed from.
    for _ in 0..ROUNDS_MAX {
        let count = fused.regions.len();
        if (0..count).filter(|&a| remake_of(&mut fused, a, which, &results, &mut readers)).count() == 0 {
            break;
        }
    }
    fused.drop_empty();
    fused
}

/// Lets other loops compute what loop `a` stores, where that is better; false if nothing is.
fn remake_of(
    fused: &mut Fused,
    a: usize,
    which: Which,
    results: &FxHashSet<Slot>,
    readers: &mut FxHashMap<Slot, Vec<usize>>,
) -> bool {
    let Region::Loop(maker) = &fused.regions[a] else { return false };
    let slots: Vec<Slot> = maker.stores.iter().map(|s| s.slot).filter(|s| !results.contains(s)).collect();
    let mut is_changed = false;
    for slot in slots {
        let users = readers.get(&slot).cloned().unwrap_or_default();
        let Region::Loop(maker) = &fused.regions[a] else { continue };
        let found = if users.is_empty() { None } else { best(fused, maker, slot, which, &users) };
        let Some((recipe, made)) = found else { continue };
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
            let new = recipe.rows.into_iter().filter(|r| maker.stores.iter().all(|s| s.slot != r.slot));
            maker.stores.extend(new.collect::<Vec<_>>());
            prune(maker);
        }
        is_changed = true;
    }
    is_changed
}

/// The way to compute a value in all the loops that use it that reads the fewest bytes, and these
/// loops with it.
fn best(fused: &Fused, maker: &Loop, slot: Slot, which: Which, users: &[usize]) -> Option<(Recipe, Vec<Loop>)> {
    let ways: &[bool] = if which == Which::Narrow { &[true] } else { &[false, true] };
    let ways = ways.iter().filter_map(|&is_near| {
        let recipe = Recipe::new(maker, slot, is_near)?;
        if which == Which::Narrow && !recipe.is_narrow(&fused.graph) {
            return None;
        }
        let made: Option<Vec<(Loop, usize)>> = users.iter().map(|&b| recipe.put(fused, b)).collect();
        let (loops, bytes): (Vec<Loop>, Vec<usize>) = made?.into_iter().unzip();
        Some((bytes.iter().sum::<usize>(), recipe, loops))
    });
    ways.min_by_key(|(bytes, ..)| *bytes).map(|(_, recipe, loops)| (recipe, loops))
}

/// How a value comes about at each point of a loop, whose dimensions are taken in the order in which the value lies in
/// memory.
struct Recipe {
    slot: Slot,
    dims: Vec<usize>,
    /// Strides with which the value is stored.
    strides: SmallVec<[isize; 4]>,
    /// The steps, arguments by their index in this list; the last computes the value.
    steps: Vec<Step>,
    /// Numbers of which a row has one, which must be stored.
    rows: Vec<Store>,
}

impl Recipe {
    /// From what the loop reads, or (`is_near`) from what else it stores.
    fn new(l: &Loop, slot: Slot, is_near: bool) -> Option<Recipe> {
        let store = l.stores.iter().find(|s| s.slot == slot)?;
        let whole = &store.strides;
        let order = memory_order(&l.dims, whole).filter(|_| l.producer.is_none())?;
        let last = store.step as usize;
        let row = |i: usize| row_store(l, i);
        let near = |i: usize| -> Option<Step> {
            let is_plain = |s: &Step| matches!(s, Step::Scalar { .. });
            let kept = l.stores.iter().find(|s| is_near && s.step as usize == i && i != last && s.strides == *whole)?;
            let load = Step::Load { root: kept.slot, strides: whole.clone(), offset: 0 };
            is_plain(&l.steps[i]).then_some(load)
        };
        let mut wanted = vec![false; l.steps.len()];
        wanted[last] = true;
        for i in (0..=last).rev() {
            if wanted[i] && near(i).is_none() && row(i).is_none() {
                args(&l.steps[i])?.iter().for_each(|&a| wanted[a as usize] = true);
            }
        }
        let mut view = vec![0u32; l.steps.len()];
        let mut steps = Vec::new();
        for i in (0..=last).filter(|&i| wanted[i]) {
            view[i] = steps.len() as u32;
            let load = |s: Store| Step::Load { root: s.slot, strides: s.strides, offset: 0 };
            let known = row(i).map(load).or_else(|| near(i));
            let mut step = known.unwrap_or_else(|| moved(&l.steps[i], |a| view[a as usize]));
            if let Step::Load { strides, .. } = &mut step {
                *strides = order.iter().map(|&d| strides[d]).collect();
            }
            steps.push(step);
        }
        let rows = (0..=last).filter(|&i| wanted[i]).filter_map(row).collect();
        let scalars = steps.iter().filter(|s| matches!(s, Step::Scalar { .. })).count();
        // A value that is only read again is a load already.
        let fits = (1..=STEPS_MAX).contains(&scalars);
        let dims: Vec<usize> = order.iter().map(|&d| l.dims[d]).collect();
        fits.then(|| Recipe { slot, strides: contiguous(&dims), dims, steps, rows })
    }

    /// Whether it takes few cheap steps from one value of the same shape and at most half the size, which is large.
    fn is_narrow(&self, graph: &Graph) -> bool {
        let bytes = graph.ty(self.slot).bytes();
        let is_cheap_step = |s: &Step| match s {
            Step::Scalar { node, .. } => is_cheap(graph, *node),
            Step::Load { root, strides, offset } => {
                *strides == self.strides && *offset == 0 && 2 * graph.ty(*root).bytes() <= bytes
            }
            Step::Const(_) => true,
            Step::Reduce { .. } => false,
        };
        let scalars = self.steps.iter().filter(|s| matches!(s, Step::Scalar { .. })).count();
        let is_one = self.roots().count() == 1 && self.rows.is_empty();
        bytes >= BYTES_MIN && is_one && scalars <= NARROW_STEPS_MAX && self.steps.iter().all(is_cheap_step)
    }

    fn roots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.steps.iter().filter_map(|s| if let Step::Load { root, .. } = s { Some(*root) } else { None })
    }

    /// The loop `b` with the value computed in it, and the bytes it reads for that, if it can be
    /// and that moves no more bytes.
    fn put(&self, fused: &Fused, b: usize) -> Option<(Loop, usize)> {
        let Region::Loop(l) = &fused.regions[b] else { return None };
        let count = |dims: &[usize]| dims.iter().product::<usize>();
        let bytes = fused.graph.ty(self.slot).bytes();
        if l.producer.is_some() {
            return None;
        }
        if bytes < BYTES_MIN {
            return self.put_small(&fused.graph, l).map(|l| (l, 0));
        }
        let whole = self.loads_in(l).next()?.0;
        let order = memory_order(&l.dims, whole)?;
        let reads_whole = self.loads_in(l).all(|(strides, offset)| offset == 0 && strides == whole);
        if !reads_whole || count(&l.dims) != count(&self.dims) {
            return None;
        }
        let dims: Vec<usize> = order.iter().map(|&d| l.dims[d]).collect();
        let mut steps = Vec::with_capacity(self.steps.len());
        for s in &self.steps {
            steps.push(match s {
                Step::Load { root, strides, offset } => {
                    let mut own = whole.clone();
                    let strides = refit(strides, &self.dims, &dims)?;
                    order.iter().zip(strides).for_each(|(&d, s)| own[d] = s);
                    Step::Load { root: *root, strides: own, offset: *offset }
                }
                Step::Scalar { node, args, .. } => Step::Scalar { node: *node, args: args.clone(), row: false },
                other => other.clone(),
            });
        }
        let more = self.more(&fused.graph, l, &steps);
        // Numbers of rows come on top.
        (more <= bytes + bytes / 16).then(|| (splice(l, self.slot, &steps), more))
    }

    /// How a loop reads the value.
    fn loads_in<'l>(&self, l: &'l Loop) -> impl Iterator<Item = (&'l SmallVec<[isize; 4]>, usize)> {
        let slot = self.slot;
        l.steps.iter().filter_map(move |s| match s {
            Step::Load { root, strides, offset } if *root == slot => Some((strides, *offset)),
            _ => None,
        })
    }

    /// A loop with a small value computed at every point of it, where that is one cheap step.
    fn put_small(&self, graph: &Graph, l: &Loop) -> Option<Loop> {
        let mut loads = self.loads_in(l);
        let (at, from) = loads.next()?;
        if loads.next().is_some() {
            return None;
        }
        let scalars = self.steps.iter().filter(|s| matches!(s, Step::Scalar { .. })).count();
        let mut steps = Vec::with_capacity(self.steps.len());
        for s in &self.steps {
            steps.push(match s {
                Step::Load { root, strides, offset } if *strides == self.strides => {
                    Step::Load { root: *root, strides: at.clone(), offset: from + offset }
                }
                Step::Load { .. } => return None,
                Step::Scalar { node, args, .. } if scalars == 1 && is_cheap(graph, *node) => {
                    Step::Scalar { node: *node, args: args.clone(), row: false }
                }
                Step::Const(_) => s.clone(),
                _ => return None,
            });
        }
        Some(splice(l, self.slot, &steps))
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

/// How a step's value is stored, if a row has one number of it that was reduced from the row.
fn row_store(l: &Loop, step: usize) -> Option<Store> {
    let node = match l.steps[step] {
        Step::Reduce { node, along: Along::Row, after: false, .. } | Step::Scalar { node, row: true, .. } => node,
        _ => return None,
    };
    let outer = l.dims.len() - l.inner;
    let mut strides = contiguous(&l.dims[..outer]);
    strides.extend(l.dims[outer..].iter().map(|_| 0));
    Some(Store { slot: Slot::new(node as usize, 0), step: step as u32, strides, offset: 0 })
}

/// True for a step that is one instruction.
fn is_cheap(graph: &Graph, node: u32) -> bool {
    graph.nodes[node as usize].op.scalar().is_some_and(|s| s.cost == Cost::Instruction)
}

/// Strides over the space `from` as strides over `to`, which has the same points in the same order.
fn refit(strides: &[isize], from: &[usize], to: &[usize]) -> Option<SmallVec<[isize; 4]>> {
    let mut out: SmallVec<[isize; 4]> = to.iter().map(|_| 0).collect();
    let (mut i, mut j) = (from.len(), to.len());
    // What of the dimensions in hand is left, and has been passed.
    let (mut a, mut b, mut a_done, mut b_done) = (1, 1, 1, 1);
    while i > 0 || a > 1 {
        if a == 1 {
            i -= 1;
            (a, a_done) = (from[i], 1);
        }
        if b == 1 {
            j = j.checked_sub(1)?;
            (b, b_done) = (to[j], 1);
        }
        let piece = a.min(b);
        if !a.is_multiple_of(piece) || !b.is_multiple_of(piece) {
            return None;
        }
        let stride = strides[i] * a_done as isize;
        match b_done {
            1 => out[j] = stride,
            _ if out[j] * b_done as isize != stride => return None,
            _ => {}
        }
        (a, b, a_done, b_done) = (a / piece, b / piece, a_done * piece, b_done * piece);
    }
    (j == 0 && b == 1).then_some(out)
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

/// The order of dimensions in which these strides are contiguous.
fn memory_order(dims: &[usize], strides: &[isize]) -> Option<SmallVec<[usize; 4]>> {
    let mut order: SmallVec<[usize; 4]> = (0..dims.len()).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(strides[d]));
    let mut step = 1;
    let is_dense = order.iter().rev().all(|&d| {
        let fits = strides[d] == step;
        step *= dims[d] as isize;
        fits
    });
    is_dense.then_some(order)
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
    let mut view = vec![0u32; l.steps.len()];
    let mut value = None;
    for (i, s) in l.steps.iter().enumerate() {
        if matches!(s, Step::Load { root, .. } if *root == slot) {
            view[i] = *value.get_or_insert_with(|| {
                let mut at: Vec<u32> = Vec::new();
                for r in recipe {
                    let step = moved(r, |a| at[a as usize]);
                    at.push(push(&mut out, step));
                }
                at[at.len() - 1]
            });
        } else {
            let step = moved(s, |a| view[a as usize]);
            view[i] = push(&mut out, step);
        }
    }
    out.stores.iter_mut().for_each(|s| s.step = view[s.step as usize]);
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
    let mut view = vec![0u32; l.steps.len()];
    let mut steps = Vec::new();
    let mut nodes: FxHashSet<u32> = FxHashSet::default();
    for (i, s) in l.steps.iter().enumerate().filter(|(i, _)| wanted[*i]) {
        if let Step::Scalar { node, .. } | Step::Reduce { node, .. } = s {
            nodes.insert(*node);
        }
        view[i] = steps.len() as u32;
        steps.push(moved(s, |a| view[a as usize]));
    }
    l.stores.iter_mut().for_each(|s| s.step = view[s.step as usize]);
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
