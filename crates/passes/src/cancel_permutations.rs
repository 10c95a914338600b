//! Removes pairs of permutations with elementwise ops between them: `P(f(P⁻¹(a), b))` becomes `f(a, P(b))` where `b` is
//! small. Layers that compute with channels last then need no copies between them.

use crate::Rewriter;
use ir::{Call, FlatNode, Graph, Layout, Meaning, Result, Shape, Slot, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Ops looked through at most, one after the other.
const DEPTH_MAX: usize = 16;
/// How many times as large as an operand the result must be for the operand to be permuted.
const SMALL: usize = 8;

/// Cancels permutations; `None` if there is nothing to cancel.
pub fn cancel_permutations(graph: &Graph) -> Result<Option<Graph>> {
    let axes: Vec<Option<Axes>> = graph.nodes.iter().map(|n| permutation(graph, n)).collect::<Result<_>>()?;
    if axes.iter().flatten().count() < 2 {
        return Ok(None);
    }
    let mut c = Canceler {
        graph,
        axes: &axes,
        rw: Rewriter::new(graph),
        known: FxHashMap::default(),
        made: FxHashMap::default(),
    };
    let mut is_changed = false;
    for (i, n) in graph.nodes.iter().enumerate() {
        let found = match &axes[i] {
            Some(p) if c.form(p, n.inputs[0], 0) == Form::Cancels => Some(c.made(p, n, n.inputs[0])),
            _ => None,
        };
        match found {
            // A pair without anything between is left to `simplify`.
            Some(s) if axes[n.inputs[0].node as usize].is_none() => {
                is_changed = true;
                c.rw.replace([s]);
            }
            _ => c.rw.keep(n),
        }
    }
    Ok(is_changed.then(|| c.rw.finish()))
}

/// Which dimension of its operand each dimension of a permutation is.
type Axes = SmallVec<[usize; 6]>;

/// The axes of a node that is a permutation.
fn permutation(graph: &Graph, n: &FlatNode) -> Result<Option<Axes>> {
    let Meaning::View(f) = n.op.meaning else { return Ok(None) };
    let from = graph.ty(n.inputs[0]);
    if from.shape.rank() != n.outs[0].shape.rank() || from.shape.rank() < 2 {
        return Ok(None);
    }
    // Strides that name their dimension, whatever the sizes.
    let named = Layout { shape: from.shape.clone(), strides: (1..=from.shape.rank() as isize).collect(), offset: 0 };
    let Some(l) = f(&Call { types: std::slice::from_ref(from), attrs: &n.attrs }, &named)? else { return Ok(None) };
    let axis = |s: &isize| usize::try_from(*s - 1).ok().filter(|a| *a < from.shape.rank());
    let Some(axes) = l.strides.iter().map(axis).collect::<Option<Axes>>() else { return Ok(None) };
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    let is_order = sorted.iter().copied().eq(0..axes.len()) && l.offset == 0;
    let is_whole = axes.iter().zip(l.shape.iter()).all(|(&a, &d)| from.shape[a] == d);
    Ok((is_order && is_whole && !axes.iter().copied().eq(0..axes.len())).then_some(axes))
}

/// What a value is under a permutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// It has to be permuted.
    Moved,
    /// The permutation cancels another one in it.
    Cancels,
}

struct Canceler<'a> {
    graph: &'a Graph,
    axes: &'a [Option<Axes>],
    rw: Rewriter<'a>,
    known: FxHashMap<(Axes, Slot), Form>,
    /// Values of the new graph, by permutation and value of the old one.
    made: FxHashMap<(Axes, Slot), Slot>,
}

impl Canceler<'_> {
    fn form(&mut self, p: &Axes, s: Slot, depth: usize) -> Form {
        let key = (p.clone(), s);
        if let Some(&form) = self.known.get(&key) {
            return form;
        }
        let form = self.new_form(p, s, depth);
        self.known.insert(key, form);
        form
    }
    fn new_form(&mut self, p: &Axes, s: Slot, depth: usize) -> Form {
        let n = self.graph.node(s);
        if let Some(q) = &self.axes[s.node as usize] {
            let is_back = p.len() == q.len() && p.iter().enumerate().all(|(i, &a)| q[a] == i);
            return if is_back { Form::Cancels } else { Form::Moved };
        }
        let is_elementwise = matches!(n.op.meaning, Meaning::Scalar(_)) && n.outs.len() == 1;
        if !is_elementwise || depth == DEPTH_MAX {
            return Form::Moved;
        }
        let mut form = Form::Moved;
        for &i in &n.inputs {
            let shape = &self.graph.ty(i).shape;
            if shape.count() == 1 {
                continue;
            }
            if shape.rank() != p.len() {
                return Form::Moved;
            }
            match self.form(p, i, depth + 1) {
                Form::Cancels => form = Form::Cancels,
                Form::Moved if shape.count() * SMALL <= n.outs[0].shape.count() => {}
                Form::Moved => return Form::Moved,
            }
        }
        form
    }
    /// The value under the permutation that node `by` is.
    fn made(&mut self, p: &Axes, by: &FlatNode, s: Slot) -> Slot {
        let key = (p.clone(), s);
        if let Some(&new) = self.made.get(&key) {
            return new;
        }
        let (n, ty) = (self.graph.node(s), self.graph.ty(s));
        let outs = |ty: &Type| {
            let shape: Shape = p.iter().map(|&a| ty.shape[a]).collect();
            SmallVec::from_iter([Type::new(ty.dtype, shape)])
        };
        let new = if self.form(p, s, 0) == Form::Moved {
            let inputs = SmallVec::from_iter([self.rw.at(s)]);
            self.rw.new.push_typed(by.op, inputs, by.attrs.clone(), outs(ty), by.site)
        } else if self.axes[s.node as usize].is_some() {
            self.rw.at(n.inputs[0])
        } else {
            let operand = |c: &mut Self, i: Slot| match c.graph.ty(i).shape.count() {
                1 => c.rw.at(i),
                _ => c.made(p, by, i),
            };
            let inputs = n.inputs.iter().map(|&i| operand(self, i)).collect();
            self.rw.new.push_typed(n.op, inputs, n.attrs.clone(), outs(ty), n.site)
        };
        self.made.insert(key, new);
        new
    }
}
