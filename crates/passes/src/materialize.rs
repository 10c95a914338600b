//! Copies where a device cannot do with a view: views that strides cannot express, operands that
//! a kernel wants contiguous, results that are views.
//!
//! Afterwards every view in the graph can be said with strides over a value that exists.

use crate::Rewriter;
use ir::{
    Attrs, Batch, CONST, Call, FlatNode, Grad, Graph, INPUT, Layout, Literal, Meaning, Monoid, Op, Out, Result, Scalar,
    Slot, Type,
};
use smallvec::SmallVec;

/// A value's elements in row-major order; what makes a view into a value of its own.
pub static COPY: Op = Op {
    name: "copy",
    doc: "The same elements, contiguous.",
    attrs: &[],
    infer: |c| Ok(c.types.iter().cloned().collect()),
    meaning: Meaning::Scalar(Scalar {
        arity: 1,
        out: Out::Same,
        float: |x| x[0],
        int: Some(|x| x[0]),
        code: "{0}",
        neutral: None,
        domain: (-1.0, 1.0),
    }),
    grad: Grad::Missing("it is put in after differentiation"),
    batch: Batch::Auto,
    cases: Vec::new,
};

/// Whether a kernel takes its operand (by number) with this layout, as it lies in memory.
pub type Accepts<'a> = &'a dyn Fn(&FlatNode, usize, &Layout) -> bool;

/// Where a value's elements lie: a layout over the buffer of a value that is not a view.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The value that is stored.
    pub root: Slot,
    /// The elements of it, in order.
    pub layout: Layout,
}

/// Where each node's first output lies; views point to what they show.
pub fn places(graph: &Graph) -> Result<Vec<Place>> {
    let mut places: Vec<Place> = Vec::with_capacity(graph.nodes.len());
    for (i, n) in graph.nodes.iter().enumerate() {
        let place = match n.op.meaning {
            Meaning::View(f) => {
                let from = place_of(graph, &places, n.inputs[0]);
                let types = graph.input_types(n);
                let layout = f(&Call { types: &types, attrs: &n.attrs }, &from.layout)?.ok_or_else(|| {
                    ir::Error::bug("a view that strides cannot express is left").in_op(n.op.name).at(n.site)
                })?;
                Place { root: from.root, layout }
            }
            _ => Place { root: Slot::new(i, 0), layout: Layout::contiguous(&n.outs[0].shape) },
        };
        places.push(place);
    }
    Ok(places)
}

/// Where any value lies, given the places of first outputs.
pub fn place_of(graph: &Graph, places: &[Place], s: Slot) -> Place {
    match s.out {
        0 => places[s.node as usize].clone(),
        _ => Place { root: s, layout: Layout::contiguous(&graph.ty(s).shape) },
    }
}

/// Puts copies where they are needed, and constants in place of reductions of nothing.
pub fn materialize(graph: &Graph, accepts: Accepts) -> Result<Graph> {
    let mut m = Materializer { rw: Rewriter::new(graph), accepts, places: Vec::new(), copies: Vec::new() };
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
    accepts: Accepts<'a>,
    /// Of each new node's first output.
    places: Vec<Place>,
    copies: Vec<(Slot, Slot)>,
}

impl Materializer<'_> {
    fn place(&self, s: Slot) -> Place {
        place_of(&self.rw.new, &self.places, s)
    }

    fn push(&mut self, n: &FlatNode, inputs: SmallVec<[Slot; 3]>) -> Slot {
        let at = self.rw.new.push_typed(n.op, inputs, n.attrs.clone(), n.outs.clone(), n.site);
        self.places.push(Place { root: at, layout: Layout::contiguous(&n.outs[0].shape) });
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
        if let Some(&(_, c)) = self.copies.iter().find(|(of, _)| *of == s) {
            return Ok(c);
        }
        let site = self.rw.new.node(s).site;
        let c = self.rw.new.push(&COPY, &[s], Attrs::new(), site)?;
        let layout = Layout::contiguous(&self.rw.new.ty(c).shape);
        self.places.push(Place { root: c, layout });
        self.copies.push((s, c));
        Ok(c)
    }

    fn node(&mut self, old: &Graph, n: &FlatNode) -> Result<()> {
        let types = old.input_types(n);
        let mut inputs: SmallVec<[Slot; 3]> = n.inputs.iter().map(|&s| self.rw.at(s)).collect();
        match n.op.meaning {
            Meaning::View(f) => {
                let call = Call { types: &types, attrs: &n.attrs };
                let mut from = self.place(inputs[0]);
                let mut layout = f(&call, &from.layout)?;
                if layout.is_none() {
                    inputs[0] = self.copy(inputs[0])?;
                    from = self.place(inputs[0]);
                    layout = f(&call, &from.layout)?;
                }
                let layout = layout.ok_or_else(|| {
                    ir::Error::bug("a view of a contiguous tensor must exist").in_op(n.op.name).at(n.site)
                })?;
                let at = self.keep(n, inputs);
                self.places[at.node as usize] = Place { root: from.root, layout };
            }
            Meaning::Reduce(m) if types[0].shape.count() == 0 && n.outs[0].shape.count() > 0 => {
                let attrs = Attrs::new().with("value", neutral(m, &n.outs[0]));
                let constant = FlatNode { op: &CONST, inputs: SmallVec::new(), attrs, ..n.clone() };
                self.keep(&constant, SmallVec::new());
            }
            Meaning::Kernel(_) | Meaning::Composite(_) | Meaning::Control(_) => {
                for (i, s) in inputs.iter_mut().enumerate() {
                    let layout = self.place(*s).layout;
                    if !layout.is_contiguous() && !(self.accepts)(n, i, &layout) {
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
        let place = self.place(s);
        let root = self.rw.new.ty(place.root);
        let is_whole = place.layout.is_contiguous()
            && place.layout.offset == 0
            && place.layout.shape.count() == root.shape.count();
        if is_whole { Ok(s) } else { self.copy(s) }
    }
}

/// What a reduction of no elements gives.
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
