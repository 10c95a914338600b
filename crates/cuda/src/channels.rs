//! Pictures with their channels last in memory, as convolutions of 16-bit floats want them.
//!
//! Each such convolution is put in terms of pictures `[N, H, W, C]`; what is computed element by
//! element, added up or pooled from its results stays in that order, so that pictures are turned
//! only where they enter and leave. Pictures that enter with a few channels get some that are zero:
//! the library reads whole vectors of them.

use crate::dnn::{Form, conv_last};
use crate::emit::kernels::Operand;
use crate::plan::Has;
use crate::pooling::{self, PADDED, POOL, POOL_GRAD, Part, SUM};
use ir::{Attrs, Batch, DType, Error, FlatNode, Grad, Graph, Layout, Meaning, Monoid, Op, Result, Shape, Slot, Type};
use passes::{Rewriter, prune};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Dimensions of a picture in the new order, and back.
const LAST: [i64; 4] = [0, 2, 3, 1];
const FIRST: [i64; 4] = [0, 3, 1, 2];
/// Pictures with fewer channels get as many.
const CHANNELS_MIN: usize = 8;
/// Pictures of so many places at most are added up by a thread for each vector of channels.
const PLACES_MAX: usize = 1 << 12;

/// The dimensions in another order.
pub static TURN: Op = Op {
    name: "permute",
    doc: "Dimensions in another order.",
    attrs: &[("axes", ir::AttrKind::Ints)],
    infer: |c| Ok([turned(&c.types[0], c.attrs.ints("axes")?)].into_iter().collect()),
    meaning: Meaning::View(|c, l| {
        let axes = c.attrs.sizes("axes")?;
        Ok(Some(Layout {
            shape: axes.iter().map(|&a| l.shape[a]).collect(),
            strides: axes.iter().map(|&a| l.strides[a]).collect(),
            offset: l.offset,
        }))
    }),
    grad: Grad::Missing("it is put in after differentiation"),
    batch: Batch::Auto,
    cases: Vec::new,
};

/// The first elements along the last dimension.
static NARROW: Op = Op {
    name: "slice",
    doc: "The first elements along the last dimension.",
    attrs: &[("size", ir::AttrKind::Int)],
    infer: |_| Err(Error::bug("its type is given")),
    meaning: Meaning::View(|c, l| {
        let mut l = l.clone();
        let last = l.shape.rank() - 1;
        l.shape.dims_mut()[last] = c.attrs.size("size")?;
        Ok(Some(l))
    }),
    grad: Grad::Missing("it is put in after differentiation"),
    batch: Batch::Auto,
    cases: Vec::new,
};

macro_rules! last {
    ($op:ident, $name:literal) => {
        static $op: Op = Op {
            name: $name,
            doc: "The convolution of that name, of pictures and kernels with channels last.",
            attrs: &[],
            infer: |_| Err(Error::bug("its type is given")),
            meaning: Meaning::Kernel(|_, _| Err(Error::bug("it is only made where the library computes it"))),
            grad: Grad::Missing("it is put in after differentiation"),
            batch: Batch::Auto,
            cases: Vec::new,
        };
    };
}
last!(CONV, "conv_last");
last!(INPUT_GRAD, "conv_input_grad_last");
last!(WEIGHT_GRAD, "conv_weight_grad_last");

fn turned(t: &Type, axes: &[i64]) -> Type {
    Type::new(t.dtype, axes.iter().map(|&a| t.shape[a as usize]).collect::<Shape>())
}

/// Which convolution a node is, where it may be put in terms of channels last.
fn form(n: &FlatNode) -> Option<(Form, &'static Op)> {
    let is_picture = n.outs[0].shape.rank() == 4 && matches!(n.outs[0].dtype, DType::BF16 | DType::F16);
    Some(match n.op.name {
        _ if !is_picture => return None,
        "conv" => (Form::Forward, &CONV),
        "conv_input_grad" => (Form::Input, &INPUT_GRAD),
        "conv_weight_grad" => (Form::Weight, &WEIGHT_GRAD),
        _ => return None,
    })
}

/// The graph with such convolutions, and what follows them, in the new order.
pub fn channels_last(graph: &Graph, has: Has) -> Result<Graph> {
    if !graph.nodes.iter().any(|n| form(n).is_some()) {
        return Ok(graph.clone());
    }
    let mut t = Turner {
        rw: Rewriter::new(graph),
        graph,
        last: Vec::with_capacity(graph.nodes.len()),
        views: FxHashMap::default(),
        padded: FxHashMap::default(),
        parts: pooling::parts(graph),
        pools: FxHashMap::default(),
    };
    for (i, n) in graph.nodes.iter().enumerate() {
        let twin = t.node(i, n, has)?;
        t.last.push(twin);
    }
    Ok(prune(&t.rw.finish()))
}

struct Turner<'a> {
    rw: Rewriter<'a>,
    graph: &'a Graph,
    /// For each old node, its value with channels last, where there is one.
    last: Vec<Option<Slot>>,
    /// Values of the new graph as views with channels last.
    views: FxHashMap<Slot, Slot>,
    /// Old values with channels last, and some more of them.
    padded: FxHashMap<Slot, Slot>,
    /// Nodes that pool.
    parts: FxHashMap<usize, Part>,
    /// Results of poolings, and which elements of the windows they are, by the old node.
    pools: FxHashMap<usize, [Slot; 2]>,
}

impl Turner<'_> {
    fn turn(&mut self, s: Slot, axes: &[i64]) -> Result<Slot> {
        let site = self.rw.new.node(s).site;
        self.rw.new.push(&TURN, &[s], Attrs::new().with("axes", axes), site)
    }
    fn twin(&self, s: Slot) -> Option<Slot> {
        if s.out == 0 { self.last[s.node as usize] } else { None }
    }
    /// A value with channels last: computed so, or as a view.
    fn with_last(&mut self, s: Slot) -> Result<Slot> {
        let at = self.rw.at(s);
        match (self.twin(s), self.views.get(&at)) {
            (Some(t), _) => Ok(t),
            (None, Some(&view)) => Ok(view),
            (None, None) => {
                let view = self.turn(at, &LAST)?;
                self.views.insert(at, view);
                Ok(view)
            }
        }
    }
    /// A value with channels last and zeros up to as many as the library wants.
    fn with_more(&mut self, s: Slot) -> Slot {
        if let Some(&made) = self.padded.get(&s) {
            return made;
        }
        // Numbers are brought into the element type on the way.
        let n = self.graph.node(s);
        let is_cast = n.op.name == "cast" && self.graph.ty(n.inputs[0]).dtype == DType::F32;
        let from = if is_cast { n.inputs[0] } else { s };
        let mut out = turned(self.graph.ty(s), &LAST);
        out.shape.dims_mut()[3] = CHANNELS_MIN;
        let inputs = SmallVec::from_iter([self.rw.at(from)]);
        let made = self.rw.new.push_typed(&PADDED, inputs, Attrs::new(), SmallVec::from_iter([out]), n.site);
        self.padded.insert(s, made);
        made
    }
    /// Puts a node with one result into the new graph, channels last, and its usual order as a
    /// view of that.
    fn put(&mut self, n: &FlatNode, op: &'static Op, inputs: SmallVec<[Slot; 3]>, attrs: Attrs) -> Result<Slot> {
        let out = turned(&n.outs[0], &LAST);
        let twin = self.rw.new.push_typed(op, inputs, attrs, SmallVec::from_iter([out]), n.site);
        let back = self.turn(twin, &FIRST)?;
        self.rw.replace([back]);
        Ok(twin)
    }

    fn node(&mut self, i: usize, n: &FlatNode, has: Has) -> Result<Option<Slot>> {
        if let Some((form, op)) = form(n) {
            if self.fits(form, n, has, true) {
                return self.conv_of_few(form, n, op);
            }
            if self.fits(form, n, has, false) {
                let inputs = n.inputs.iter().map(|&s| self.with_last(s)).collect::<Result<_>>()?;
                let twin = self.put(n, op, inputs, n.attrs.clone())?;
                // A kernel's gradient meets the kernel, which stays as it is.
                return Ok((form != Form::Weight).then_some(twin));
            }
        }
        if let Some(made) = self.pool(i, n)? {
            let back = self.turn(made, &FIRST)?;
            self.rw.replace([back]);
            return Ok(Some(made));
        }
        let follows =
            n.outs.len() == 1 && n.outs[0].shape.rank() == 4 && n.inputs.iter().any(|&s| self.twin(s).is_some());
        let twin = match n.op.meaning {
            _ if !follows => None,
            Meaning::Scalar(_) => self.scalar(n)?,
            Meaning::Reduce(monoid) if self.is_over_places(n, monoid)? => {
                let inputs = SmallVec::from_iter([self.with_last(n.inputs[0])?]);
                Some(self.put(n, &SUM, inputs, Attrs::new())?)
            }
            Meaning::Reduce(_) => {
                let axes: Vec<i64> = n.attrs.sizes("axes")?.iter().map(|&a| FIRST[a]).collect();
                let inputs = SmallVec::from_iter([self.with_last(n.inputs[0])?]);
                Some(self.put(n, n.op, inputs, Attrs::new().with("axes", &axes))?)
            }
            Meaning::View(_) if n.op.name == "broadcast" => {
                let shape: Vec<i64> = turned(&n.outs[0], &LAST).shape.iter().map(|&d| d as i64).collect();
                let inputs = SmallVec::from_iter([self.with_last(n.inputs[0])?]);
                Some(self.put(n, n.op, inputs, Attrs::new().with("shape", &shape))?)
            }
            _ => None,
        };
        if twin.is_none() {
            self.rw.keep(n);
        }
        Ok(twin)
    }

    /// A convolution of pictures with few channels, or the gradient of its kernel.
    fn conv_of_few(&mut self, form: Form, n: &FlatNode, op: &'static Op) -> Result<Option<Slot>> {
        let x = self.with_more(n.inputs[0]);
        if form == Form::Forward {
            let inputs = SmallVec::from_iter([x, self.with_more(n.inputs[1])]);
            return self.put(n, op, inputs, n.attrs.clone()).map(Some);
        }
        let inputs = SmallVec::from_iter([x, self.with_last(n.inputs[1])?]);
        let (few, mut more) = (turned(&n.outs[0], &LAST), turned(&n.outs[0], &LAST));
        more.shape.dims_mut()[3] = CHANNELS_MIN;
        let all = self.rw.new.push_typed(op, inputs, n.attrs.clone(), SmallVec::from_iter([more]), n.site);
        let size = Attrs::new().with("size", few.shape[3]);
        let narrow = SmallVec::from_iter([all]);
        let narrow = self.rw.new.push_typed(&NARROW, narrow, size, SmallVec::from_iter([few]), n.site);
        let back = self.turn(narrow, &FIRST)?;
        self.rw.replace([back]);
        Ok(None)
    }

    /// The value of a node that pools, with channels last. What only leads there is pruned later.
    fn pool(&mut self, i: usize, n: &FlatNode) -> Result<Option<Slot>> {
        let (index, g) = match self.parts.get(&i) {
            None => return Ok(None),
            Some(Part::Index) => {
                if let Some(x) = self.twin(n.inputs[0]) {
                    let outs = pooling::types(self.graph, n);
                    let at = self.rw.new.push_typed(&POOL, SmallVec::from_iter([x]), n.attrs.clone(), outs, n.site);
                    self.pools.insert(i, [at, Slot { node: at.node, out: 1 }]);
                }
                return Ok(None);
            }
            Some(&Part::Pooled(index)) => (index, None),
            Some(&Part::Back(index, g)) => (index, Some(g)),
        };
        let Some(&[y, tap]) = self.pools.get(&index) else { return Ok(None) };
        let Some(g) = g else { return Ok(Some(y)) };
        let found = &self.graph.nodes[index];
        let (inputs, out) = (SmallVec::from_iter([tap, self.with_last(g)?]), turned(&n.outs[0], &LAST));
        Ok(Some(self.rw.new.push_typed(&POOL_GRAD, inputs, found.attrs.clone(), SmallVec::from_iter([out]), n.site)))
    }

    /// True for sums over the places of pictures with many channels.
    fn is_over_places(&self, n: &FlatNode, monoid: Monoid) -> Result<bool> {
        let ty = self.graph.ty(n.inputs[0]);
        let is_short = matches!(ty.dtype, DType::BF16 | DType::F16);
        let is_over = monoid == Monoid::Sum && n.attrs.sizes("axes")?.as_slice() == [2, 3];
        let (channels, places) = (ty.shape[1], ty.shape[2] * ty.shape[3]);
        Ok(is_short && is_over && channels.is_multiple_of(64) && places <= PLACES_MAX && ty.shape.count() > 0)
    }

    /// An elementwise node, where all it uses can be had with channels last.
    fn scalar(&mut self, n: &FlatNode) -> Result<Option<Slot>> {
        let is_number = |s: Slot| self.graph.ty(s).shape.count() == 1;
        if n.inputs.iter().any(|&s| !is_number(s) && self.graph.ty(s).shape.rank() != 4) {
            return Ok(None);
        }
        let mut inputs: SmallVec<[Slot; 3]> = SmallVec::new();
        for &s in &n.inputs {
            inputs.push(if is_number(s) { self.rw.at(s) } else { self.with_last(s)? });
        }
        self.put(n, n.op, inputs, n.attrs.clone()).map(Some)
    }

    /// True if the library has a way to compute a convolution with channels last; `is_few`: with
    /// zeros beside the few channels of its pictures.
    fn fits(&self, form: Form, n: &FlatNode, has: Has, is_few: bool) -> bool {
        let channels = self.graph.ty(n.inputs[0]).shape[1];
        let is_whole = n.attrs.size("groups") == Ok(1) && form != Form::Input;
        if is_few && (channels >= CHANNELS_MIN || !is_whole) {
            return false;
        }
        // The picture, and the kernel or its gradient.
        let has_few = |i: usize| is_few && (i == 0 || i == if form == Form::Forward { 1 } else { 2 });
        let operand = |(i, ty): (usize, &Type)| {
            let mut ty = turned(ty, &LAST);
            if has_few(i) {
                ty.shape.dims_mut()[3] = CHANNELS_MIN;
            }
            Operand { slot: Slot::new(0, 0), layout: Layout::contiguous(&ty.shape), ty }
        };
        let args: Vec<Operand> = n.inputs.iter().map(|&s| self.graph.ty(s)).enumerate().map(operand).collect();
        conv_last(form, &n.attrs, &args, &operand((2, &n.outs[0]))).is_some_and(|network| has(&network))
    }
}
