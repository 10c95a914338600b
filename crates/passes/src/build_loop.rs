//! Builds the loop of a group of nodes: loads, steps and stores over the group's space, with dimensions ordered and
//! collapsed where every access allows it.

use crate::fuse::{Fuser, load_strides};
use crate::iteration_space::{self as space, Mask};
use crate::{Loop, Step, Store};
use ir::{Literal, Meaning, Slot};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The loop of group `g`.
pub(crate) fn build_loop(f: &Fuser, g: usize) -> Loop {
    let mut w = LoopBuilder { f, g, steps: Vec::new(), at: FxHashMap::default() };
    let nodes = &f.groups[g].nodes;
    for &i in nodes {
        w.node(i);
    }
    let stored = kept(f, g);
    let stores = stored.iter().map(|&i| w.store(i)).collect();
    let group = &f.groups[g];
    let mut l = Loop {
        dims: group.dims.clone(),
        inner: 0,
        steps: w.steps,
        stores,
        nodes: nodes.iter().map(|&i| i as u32).collect(),
        producer: None,
    };
    order(&mut l, group.inner);
    l
}

struct LoopBuilder<'a, 'b> {
    f: &'b Fuser<'a>,
    g: usize,
    steps: Vec<Step>,
    at: FxHashMap<usize, u32>,
}

impl LoopBuilder<'_, '_> {
    fn push(&mut self, step: Step) -> u32 {
        self.steps.push(step);
        self.steps.len() as u32 - 1
    }

    fn node(&mut self, i: usize) {
        let n = &self.f.graph.nodes[i];
        let m = self.f.members[i];
        let all = space::full(&self.f.groups[self.g].dims);
        let step = match (n.op.meaning, m.reduce) {
            (Meaning::Reduce(monoid), Some((along, after))) => {
                let arg = self.operand(n.inputs[0], &self.f.graph.ty(n.inputs[0]).shape, m.from);
                Step::Reduce { node: i as u32, monoid, arg, row: m.from != all, along, after }
            }
            _ => {
                let args = n.inputs.iter().map(|&s| self.operand(s, &n.outs[0].shape, m.mask)).collect();
                Step::Scalar { node: i as u32, args, row: m.mask != all }
            }
        };
        let at = self.push(step);
        self.at.insert(i, at);
    }

    /// The step that has an operand of a node with this shape.
    fn operand(&mut self, s: Slot, shape: &ir::Shape, mask: Mask) -> u32 {
        if self.f.is_number(s)
            && let Some(c) = self.f.graph.constant(s)
        {
            return self.number(c.reshaped(()));
        }
        let view = self.f.operand(s);
        let root = view.root.node as usize;
        if self.f.group(root) == Some(self.g) {
            return self.at[&root];
        }
        let dims = &self.f.groups[self.g].dims;
        let strides = load_strides(&view.layout, shape, dims, mask).expect("checked when the node joined");
        let offset = view.layout.offset;
        let is_same = |t: &Step| matches!(t, Step::Load { root, strides: s, offset: o } if *root == view.root && *s == strides && *o == offset);
        match self.steps.iter().position(is_same) {
            Some(at) => at as u32,
            None => self.push(Step::Load { root: view.root, strides, offset }),
        }
    }

    fn number(&mut self, c: Literal) -> u32 {
        match self.steps.iter().position(|t| matches!(t, Step::Const(d) if *d == c)) {
            Some(at) => at as u32,
            None => self.push(Step::Const(c)),
        }
    }

    fn store(&self, i: usize) -> Store {
        let dims = &self.f.groups[self.g].dims;
        let strides = space::strides(dims, self.f.members[i].mask);
        Store { slot: Slot::new(i, 0), step: self.at[&i], strides, offset: 0 }
    }
}

/// The nodes of a group whose values are needed outside it.
fn kept(f: &Fuser, g: usize) -> Vec<usize> {
    f.groups[g].nodes.iter().copied().filter(|&i| f.is_kept(i)).collect()
}

/// Puts rows last, gives a loop without reductions its last dimension as the row, and joins
/// neighboring dimensions that every access steps through as if they were one.
fn order(l: &mut Loop, inner: Option<Mask>) {
    let rank = l.dims.len();
    let is_inner = |i: usize| inner.is_some_and(|m| m >> i & 1 == 1);
    let by: Vec<usize> = (0..rank).filter(|&i| !is_inner(i)).chain((0..rank).filter(|&i| is_inner(i))).collect();
    let pick = |s: &SmallVec<[isize; 4]>| by.iter().map(|&i| s[i]).collect::<SmallVec<[isize; 4]>>();
    l.dims = by.iter().map(|&i| l.dims[i]).collect();
    accesses(l, |s| *s = pick(s));
    let mut outer = rank - (0..rank).filter(|&i| is_inner(i)).count();
    let mut k = 0;
    while k + 1 < l.dims.len() {
        let d = l.dims[k + 1] as isize;
        let mut joins = k + 1 != outer || inner.is_none();
        accesses(l, |s| joins &= s[k] == s[k + 1] * d);
        if joins {
            l.dims[k] *= l.dims[k + 1];
            l.dims.remove(k + 1);
            accesses(l, |s| {
                s.remove(k);
            });
            outer -= usize::from(k < outer);
        } else {
            k += 1;
        }
    }
    l.inner = if inner.is_none() { l.dims.len().min(1) } else { l.dims.len() - outer };
}

/// Visits the strides of every load and store.
fn accesses(l: &mut Loop, mut f: impl FnMut(&mut SmallVec<[isize; 4]>)) {
    for s in &mut l.steps {
        if let Step::Load { strides, .. } = s {
            f(strides);
        }
    }
    let after: Vec<bool> = l.steps.iter().map(|s| matches!(s, Step::Reduce { after: true, .. })).collect();
    for s in l.stores.iter_mut().filter(|s| !after[s.step as usize]) {
        f(&mut s.strides);
    }
}
