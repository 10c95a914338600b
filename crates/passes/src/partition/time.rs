//! Microbatches: an axis of the mesh that is one of time. Its parts are computed one after the other, by the same ranks
//! with the same program, so what partitioning inserts along it are marks that a pipeline carries out.
//!
//! A value is computed once before all microbatches, during each of them, or once after them.

use super::{Exchange, Inserted, Order, Recut};
use ir::{Attrs, Error, FlatNode, Grad, Graph, Meaning, Mesh, Monoid, Op, Result, Site, Slot, Spec, Type};
use smallvec::SmallVec;
use std::ops::Range;

/// The axis of microbatches: the first, so that terms are added over microbatches before ranks exchange the sum.
pub const TIME: u8 = 0;
/// Its name.
pub const MICROBATCH: &str = "microbatch";

const fn mark(name: &'static str, doc: &'static str) -> Op {
    Op {
        name,
        doc,
        infer: |c| Ok(c.types.iter().cloned().collect()),
        meaning: Meaning::Kernel(|_, _| Err(Error::bug("a mark of microbatches is not run"))),
        grad: Grad::Missing("it is put in after differentiation"),
        ..Op::DEFAULT
    }
}
/// The rows of a value that belong to the microbatch, along dimension `dim`.
static TAKE: Op = mark("microbatch_take", "The part of a microbatch.");
/// The value in the first microbatch, zeros in the others.
static FIRST: Op = mark("microbatch_first", "The value in the first microbatch, zeros in the others.");
/// The combination of all microbatches' terms, in their order.
static SUM: Op = mark("microbatch_sum", "The combination of the terms of all microbatches.");
/// All microbatches' parts along dimension `dim`.
static JOIN: Op = mark("microbatch_join", "The parts of all microbatches.");

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The microbatch's part along a dimension.
    Take(usize),
    /// The value in the first microbatch, zeros in the others.
    First,
    /// The combination over all microbatches.
    Sum(Monoid),
    /// All parts along a dimension.
    Join(usize),
}

const MONOIDS: [Monoid; 4] = [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min];

impl Mark {
    /// The mark that a node is, if it is one.
    pub fn of(n: &FlatNode) -> Option<Mark> {
        let number = || n.attrs.size("of").unwrap_or(0);
        match n.op {
            o if o == &TAKE => Some(Mark::Take(number())),
            o if o == &FIRST => Some(Mark::First),
            o if o == &SUM => Some(Mark::Sum(MONOIDS[number()])),
            o if o == &JOIN => Some(Mark::Join(number())),
            _ => None,
        }
    }
    fn push(self, g: &mut Graph, x: Slot, ty: Type, site: Site) -> Slot {
        let (op, number) = match self {
            Mark::Take(dim) => (&TAKE, dim),
            Mark::First => (&FIRST, 0),
            Mark::Sum(how) => (&SUM, MONOIDS.iter().position(|m| *m == how).unwrap_or(0)),
            Mark::Join(dim) => (&JOIN, dim),
        };
        let attrs = Attrs::new().with("of", number as i64);
        g.push_typed(op, SmallVec::from_iter([x]), attrs, SmallVec::from_iter([ty]), site)
    }
}

/// What ranks exchange, and what microbatches do. Axes of the ranks follow [`TIME`].
pub struct InTime<'a>(pub &'a dyn Exchange);

impl Exchange for InTime<'_> {
    fn all_reduce(&self, g: &mut Graph, x: Slot, axis: u8, how: Monoid, site: Site) -> Result<Slot> {
        let ty = g.ty(x).clone();
        if axis == TIME {
            Ok(Mark::Sum(how).push(g, x, ty, site))
        } else {
            self.0.all_reduce(g, x, axis - 1, how, site)
        }
    }
    fn all_gather(&self, g: &mut Graph, x: Slot, axis: u8, dim: usize, sizes: &[usize], site: Site) -> Result<Slot> {
        if axis != TIME {
            return self.0.all_gather(g, x, axis - 1, dim, sizes, site);
        }
        let mut ty = g.ty(x).clone();
        ty.shape.dims_mut()[dim] = sizes.iter().sum();
        Ok(Mark::Join(dim).push(g, x, ty, site))
    }
    fn reduce_scatter(&self, g: &mut Graph, x: Slot, axis: u8, dim: usize, how: Monoid, site: Site) -> Result<Slot> {
        if axis == TIME {
            return Err(waits(g.node(x), site));
        }
        self.0.reduce_scatter(g, x, axis - 1, dim, how, site)
    }
    fn slice(&self, g: &mut Graph, x: Slot, axis: u8, dim: usize, range: Range<usize>, site: Site) -> Result<Slot> {
        if axis != TIME {
            return self.0.slice(g, x, axis - 1, dim, range, site);
        }
        let mut ty = g.ty(x).clone();
        ty.shape.dims_mut()[dim] = range.len();
        Ok(Mark::Take(dim).push(g, x, ty, site))
    }
    fn all_to_all(&self, g: &mut Graph, x: Slot, axis: u8, cut: Recut, site: Site) -> Result<Slot> {
        if axis != TIME {
            return self.0.all_to_all(g, x, axis - 1, cut, site);
        }
        let mut ty = g.ty(x).clone();
        ty.shape.dims_mut()[cut.from] *= cut.parts;
        let whole = Mark::Join(cut.from).push(g, x, ty.clone(), site);
        ty.shape.dims_mut()[cut.to] /= cut.parts;
        Ok(Mark::Take(cut.to).push(g, whole, ty, site))
    }
    fn reorder(&self, g: &mut Graph, x: Slot, dim: usize, order: Order, site: Site) -> Result<Slot> {
        self.0.reorder(g, x, dim, order, site)
    }
    fn zeros(&self, g: &mut Graph, ty: &Type, site: Site) -> Result<Slot> {
        self.0.zeros(g, ty, site)
    }
    fn combine(&self, g: &mut Graph, a: Slot, b: Slot, how: Monoid, site: Site) -> Result<Slot> {
        self.0.combine(g, a, b, how, site)
    }
    fn concat(&self, g: &mut Graph, parts: &[Slot], dim: usize, site: Site) -> Result<Slot> {
        self.0.concat(g, parts, dim, site)
    }
}

/// A value in the first microbatch, zeros in the others.
pub(super) fn first(g: &mut Graph, x: Slot, site: Site) -> Slot {
    let ty = g.ty(x).clone();
    Mark::First.push(g, x, ty, site)
}

/// When a node is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// Once, before all microbatches.
    Before,
    /// In each microbatch.
    During,
    /// Once, after all microbatches.
    After,
}

/// When each node is computed; or a node of a microbatch, and its input that is known after all microbatches only.
pub fn when(graph: &Graph) -> std::result::Result<Vec<When>, (usize, Slot)> {
    let mut all: Vec<When> = Vec::with_capacity(graph.nodes.len());
    for (i, n) in graph.nodes.iter().enumerate() {
        let of = |s: &Slot| all[s.node as usize];
        let late = n.inputs.iter().find(|s| of(s) == When::After);
        let now = match Mark::of(n) {
            Some(Mark::Take(_) | Mark::First) => When::During,
            Some(Mark::Sum(_) | Mark::Join(_)) => When::After,
            None => n.inputs.iter().map(of).max().unwrap_or(When::Before),
        };
        let is_during = now == When::During || n.inputs.iter().any(|s| of(s) == When::During);
        match late {
            Some(&s) if is_during => return Err((i, s)),
            _ => all.push(now),
        }
    }
    Ok(all)
}

/// The value of each microbatch that a value after all microbatches is computed from; the first, if there are several.
pub(super) fn gathered(graph: &Graph, late: Slot) -> Slot {
    let mut stack = vec![late];
    while let Some(s) = stack.pop() {
        let n = graph.node(s);
        match Mark::of(n) {
            Some(Mark::Sum(_) | Mark::Join(_)) => return n.inputs[0],
            _ => stack.extend(n.inputs.iter().rev()),
        }
    }
    late
}

/// Why a graph is not computed in microbatches.
pub(super) fn waits(n: &FlatNode, used_at: Site) -> Error {
    let (what, at) = (n.op.name, n.site);
    let e = format!(
        "a microbatch goes on only after {what} of the whole batch is known ({at}): a pipeline does not cut this; use \
         a layer without statistics of the batch, or one microbatch"
    );
    Error::value(e).in_op("stage").at(used_at)
}

/// A sharding over ranks and microbatches, from one over ranks.
pub fn in_time(spec: &Spec) -> Spec {
    let up = |a: &u8| a + 1;
    Spec {
        dims: spec.dims.iter().map(|d| d.iter().map(up).collect()).collect(),
        partial: spec.partial.iter().map(|(a, how)| (a + 1, *how)).collect(),
        dealt: spec.dealt.iter().map(|(a, deal)| (a + 1, *deal)).collect(),
    }
}
/// The same over ranks alone.
pub fn out_of_time(spec: &Spec) -> Spec {
    let down = |a: &u8| (*a != TIME).then(|| a - 1);
    Spec {
        dims: spec.dims.iter().map(|d| d.iter().filter_map(down).collect()).collect(),
        partial: spec.partial.iter().filter_map(|(a, how)| down(a).map(|a| (a, *how))).collect(),
        dealt: spec.dealt.iter().filter_map(|(a, deal)| down(a).map(|a| (a, *deal))).collect(),
    }
}
/// The mesh of ranks with the axis of microbatches.
pub fn mesh_in_time(mesh: &Mesh, micros: usize) -> Result<Mesh> {
    let mut axes = vec![(MICROBATCH, micros)];
    axes.extend((0..mesh.rank() as u8).map(|a| (mesh.name(a), mesh.size(a))));
    Mesh::new(&axes)
}

/// Exchanges between ranks, whose axes are those of the ranks alone.
pub fn exchanges_out_of_time(inserted: Vec<Inserted>) -> Vec<Inserted> {
    let one = |i: Inserted| Inserted { step: i.step.along(i.step.axis() - 1), from: out_of_time(&i.from), ..i };
    inserted.into_iter().map(one).collect()
}
