//! Inserts copies where a device cannot use a view: views that strides cannot express, operands that a kernel wants
//! contiguous, results that are views. Zero-size values and empty reductions become constants.
//!
//! Afterwards every view in the graph is strides over a stored value.

use crate::{Rewriter, Target};
use ir::{
    Attrs, CONST, Call, Cost, FlatNode, Grad, Graph, INPUT, Layout, Literal, Meaning, Monoid, Op, Out, Result, Scalar,
    Slot, Type,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A value's elements in row-major order: makes a view a value of its own.
pub static COPY: Op = Op {
    name: "copy",
    doc: "The same elements, contiguous.",
    infer: |c| Ok(c.types.iter().cloned().collect()),
    meaning: Meaning::Scalar(Scalar {
        arity: 1,
        out: Out::Same,
        float: |x| x[0],
        int: Some(|x| x[0]),
        code: "{0}",
        cost: Cost::Instruction,
        ..Scalar::DEFAULT
    }),
    grad: Grad::Missing("it is put in after differentiation"),
    ..Op::DEFAULT
};

/// A strided view: a layout over the buffer of a stored value.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The value that is stored.
    pub root: Slot,
    /// The elements of it, in order.
    pub layout: Layout,
}

/// Where each output of each node lies.
pub type Views = Vec<SmallVec<[View; 1]>>;

/// Every output as a view; views and the results of barriers point to the stored value.
pub fn views(graph: &Graph, target: &dyn Target) -> Result<Views> {
    let mut views = Views::with_capacity(graph.nodes.len());
    for (i, n) in graph.nodes.iter().enumerate() {
        views.push(match n.op.meaning {
            Meaning::View(f) => {
                let from = view_of(&views, n.inputs[0]);
                let types = graph.input_types(n);
                let layout = f(&Call { types: &types, attrs: &n.attrs }, &from.layout)?.ok_or_else(|| {
                    ir::Error::bug("a view that strides cannot express is left").in_op(n.op.name).at(n.site)
                })?;
                SmallVec::from_iter([View { root: from.root, layout }])
            }
            _ if target.is_barrier(n) => n.inputs.iter().map(|&s| view_of(&views, s).clone()).collect(),
            _ => own(i, n),
        });
    }
    Ok(views)
}

/// The views of a node whose outputs have memory of their own.
fn own(i: usize, n: &FlatNode) -> SmallVec<[View; 1]> {
    let view = |(o, t): (usize, &Type)| View { root: Slot::new(i, o), layout: Layout::contiguous(&t.shape) };
    n.outs.iter().enumerate().map(view).collect()
}

/// Where a value lies.
pub fn view_of(views: &Views, s: Slot) -> &View {
    &views[s.node as usize][s.out as usize]
}

/// Puts copies where they are needed, and constants in place of zero-size values and of reductions of
/// nothing. What only those used is left in the graph, without a use.
pub fn materialize(graph: &Graph, target: &dyn Target) -> Result<Graph> {
    let rw = Rewriter::new(graph);
    let mut m = Materializer { rw, target, views: Vec::new(), copies: FxHashMap::default() };
    for n in &graph.nodes {
        m.node(graph, n)?;
    }
    let outputs: Vec<Slot> = graph.outputs.iter().map(|&s| m.output(s)).collect::<Result<_>>()?;
    let mut new = m.rw.finish();
    new.outputs = outputs;
    Ok(new)
}

struct Materializer<'a> {
    rw: Rewriter<'a>,
    target: &'a dyn Target,
    /// Of the new graph.
    views: Views,
    copies: FxHashMap<Slot, Slot>,
}

impl Materializer<'_> {
    fn view(&self, s: Slot) -> View {
        view_of(&self.views, s).clone()
    }

    fn push(&mut self, n: &FlatNode, inputs: SmallVec<[Slot; 3]>) -> Slot {
        let at = self.rw.new.push_typed(n.op, inputs, n.attrs.clone(), n.outs.clone(), n.site);
        self.views.push(own(at.node as usize, n));
        at
    }

    fn keep(&mut self, n: &FlatNode, inputs: SmallVec<[Slot; 3]>) -> Slot {
        let at = self.push(n, inputs);
        if n.op == &INPUT {
            self.rw.new.inputs.push(at.node);
        }
        self.rw.replace((0..n.outs.len()).map(|o| Slot { node: at.node, out: o as u32 }));
        at
    }

    fn copy(&mut self, s: Slot) -> Result<Slot> {
        if let Some(&c) = self.copies.get(&s) {
            return Ok(c);
        }
        let site = self.rw.new.node(s).site;
        let c = self.rw.new.push(&COPY, &[s], Attrs::new(), site)?;
        self.views.push(own(c.node as usize, self.rw.new.node(c)));
        self.copies.insert(s, c);
        Ok(c)
    }

    /// Puts a constant in place of each output of a node.
    fn constants(&mut self, n: &FlatNode, values: impl IntoIterator<Item = Literal>) {
        let constant = |(ty, value): (&Type, Literal)| FlatNode {
            op: &CONST,
            inputs: SmallVec::new(),
            attrs: Attrs::new().with("value", value),
            outs: SmallVec::from_iter([ty.clone()]),
            site: n.site,
        };
        let nodes: Vec<FlatNode> = n.outs.iter().zip(values).map(constant).collect();
        let slots: Vec<Slot> = nodes.iter().map(|c| self.push(c, SmallVec::new())).collect();
        self.rw.replace(slots);
    }

    fn node(&mut self, old: &Graph, n: &FlatNode) -> Result<()> {
        if is_nothing(n) {
            self.constants(n, n.outs.iter().map(|t| Literal::zeros(t.dtype, t.shape.clone())));
            return Ok(());
        }
        let types = old.input_types(n);
        let mut inputs: SmallVec<[Slot; 3]> = n.inputs.iter().map(|&s| self.rw.at(s)).collect();
        match n.op.meaning {
            Meaning::View(f) => {
                let call = Call { types: &types, attrs: &n.attrs };
                let mut from = self.view(inputs[0]);
                let mut layout = f(&call, &from.layout)?;
                if layout.is_none() {
                    inputs[0] = self.copy(inputs[0])?;
                    from = self.view(inputs[0]);
                    layout = f(&call, &from.layout)?;
                }
                let layout = layout.ok_or_else(|| {
                    ir::Error::bug("a view of a contiguous tensor must exist").in_op(n.op.name).at(n.site)
                })?;
                let at = self.keep(n, inputs);
                self.views[at.node as usize] = SmallVec::from_iter([View { root: from.root, layout }]);
            }
            _ if self.target.is_barrier(n) => {
                let held = inputs.iter().map(|&s| self.view(s)).collect();
                let at = self.keep(n, inputs);
                self.views[at.node as usize] = held;
            }
            Meaning::Reduce(m) if types[0].shape.count() == 0 && n.outs[0].shape.count() > 0 => {
                self.constants(n, [neutral(m, &n.outs[0])]);
            }
            Meaning::Kernel(_) | Meaning::Composite(_) | Meaning::Control(_) => {
                for (i, s) in inputs.iter_mut().enumerate() {
                    let layout = self.view(*s).layout;
                    if !layout.is_contiguous() && !self.target.accepts(n, i, &layout) {
                        *s = self.copy(*s)?;
                    }
                }
                self.keep(n, inputs);
            }
            _ => {
                self.keep(n, inputs);
            }
        }
        Ok(())
    }

    /// A result must be all of a value that exists, in order.
    fn output(&mut self, old: Slot) -> Result<Slot> {
        let s = self.rw.at(old);
        let view = self.view(s);
        let root = self.rw.new.ty(view.root);
        let is_whole =
            view.layout.is_contiguous() && view.layout.offset == 0 && view.layout.shape.count() == root.shape.count();
        if is_whole { Ok(s) } else { self.copy(s) }
    }
}

/// True if a node computes no element. What talks to other processes runs all the same: they wait for it.
fn is_nothing(n: &FlatNode) -> bool {
    let is_given = matches!(n.op.meaning, Meaning::Input | Meaning::Const);
    !is_given && !n.is_ordered() && n.outs.iter().all(|t| t.shape.count() == 0)
}

/// The result of an empty reduction.
fn neutral(m: Monoid, ty: &Type) -> Literal {
    let count = ty.shape.count();
    if ty.dtype.is_float() {
        let x = match m {
            Monoid::Sum => 0.0,
            Monoid::Prod => 1.0,
            Monoid::Max => f64::NEG_INFINITY,
            Monoid::Min => f64::INFINITY,
        };
        Literal::from_f64(ty.dtype, ty.shape.clone(), &vec![x; count])
    } else {
        let x = match m {
            Monoid::Sum => 0,
            Monoid::Prod => 1,
            Monoid::Max => i64::MIN,
            Monoid::Min => i64::MAX,
        };
        Literal::from_i64(ty.dtype, ty.shape.clone(), &vec![x; count])
    }
}
