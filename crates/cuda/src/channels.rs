//! Pictures with their channels last in memory, as convolutions of 16-bit floats want them.
//!
//! Each such convolution is put in terms of pictures `[N, H, W, C]`; what is computed element by
//! element or added up from its results stays in that order, so that pictures are turned only
//! where they enter and leave.

use crate::dnn::{Form, conv_last};
use crate::emit::kernels::Operand;
use crate::plan::Has;
use ir::{Attrs, Batch, DType, Error, FlatNode, Grad, Graph, Layout, Meaning, Op, Result, Shape, Slot, Type};
use passes::Rewriter;
use smallvec::SmallVec;

/// Dimensions of a picture in the new order, and back.
const LAST: [i64; 4] = [0, 2, 3, 1];
const FIRST: [i64; 4] = [0, 3, 1, 2];

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
    let mut t = Turner { rw: Rewriter::new(graph), graph, last: Vec::with_capacity(graph.nodes.len()) };
    for n in &graph.nodes {
        let twin = t.node(n, has)?;
        t.last.push(twin);
    }
    Ok(t.rw.finish())
}

struct Turner<'a> {
    rw: Rewriter<'a>,
    graph: &'a Graph,
    /// For each old node, its value with channels last, where there is one.
    last: Vec<Option<Slot>>,
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
        match self.twin(s) {
            Some(t) => Ok(t),
            None => self.turn(self.rw.at(s), &LAST),
        }
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

    fn node(&mut self, n: &FlatNode, has: Has) -> Result<Option<Slot>> {
        if let Some((form, op)) = form(n)
            && self.fits(form, n, has)
        {
            let inputs = n.inputs.iter().map(|&s| self.with_last(s)).collect::<Result<_>>()?;
            let twin = self.put(n, op, inputs, n.attrs.clone())?;
            // A kernel's gradient meets the kernel, which stays as it is.
            return Ok((form != Form::Weight).then_some(twin));
        }
        let follows =
            n.outs.len() == 1 && n.outs[0].shape.rank() == 4 && n.inputs.iter().any(|&s| self.twin(s).is_some());
        let twin = match n.op.meaning {
            _ if !follows => None,
            Meaning::Scalar(_) => self.scalar(n)?,
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

    /// True if the library has a way to compute a convolution with channels last.
    fn fits(&self, form: Form, n: &FlatNode, has: Has) -> bool {
        let operand = |ty: &Type| {
            let ty = turned(ty, &LAST);
            Operand { slot: Slot::new(0, 0), layout: Layout::contiguous(&ty.shape), ty }
        };
        let args: Vec<Operand> = n.inputs.iter().map(|&s| operand(self.graph.ty(s))).collect();
        conv_last(form, &n.attrs, &args, &operand(&n.outs[0])).is_some_and(|network| has(&network))
    }
}
