//! Pictures with their channels last in memory, as convolutions of 16-bit floats want them.
//!
//! Each such convolution is put in terms of images `[N, H, W, C]`; what is computed element by
//! element, added up or pooled from its results stays in that order, so that images are permuted
//! only where they enter and leave. Pictures that enter with a few channels and are looked at in steps
//! of two are first made half as wide and high, with four times the channels: the library wants many.

use crate::dnn::{Form, conv_last};
use crate::emit::kernels::Operand;
use crate::plan::Supports;
use crate::rewrite::pooling::{self, DEPTH_TO_SPACE, POOL, POOL_GRAD, Part, SPACE_TO_DEPTH, SUM};
use ir::{Attrs, DType, Error, FlatNode, Grad, Graph, Layout, Meaning, Monoid, Op, Result, Shape, Slot, Type};
use passes::{Rewriter, prune};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Dimensions of a image in the new order, and back.
const TO_NHWC: [i64; 4] = [0, 2, 3, 1];
const TO_NCHW: [i64; 4] = [0, 3, 1, 2];
/// Channels of images that were made half as wide and high: four times those they had, and zeros.
const DEPTH_CHANNELS: usize = 16;
/// Pictures of so many places at most are added up by a thread for each vector of channels.
const PLACES_MAX: usize = 1 << 12;

/// The dimensions in another order.
pub static PERMUTE: Op = Op {
    name: "permute",
    doc: "Dimensions in another order.",
    attrs: &[("axes", ir::AttrKind::Ints)],
    infer: |c| Ok([permuted(&c.types[0], c.attrs.ints("axes")?)].into_iter().collect()),
    meaning: Meaning::View(|c, l| {
        let axes = c.attrs.sizes("axes")?;
        Ok(Some(Layout {
            shape: axes.iter().map(|&a| l.shape[a]).collect(),
            strides: axes.iter().map(|&a| l.strides[a]).collect(),
            offset: l.offset,
        }))
    }),
    grad: Grad::Missing("it is put in after differentiation"),
    ..Op::DEFAULT
};

macro_rules! last {
    ($op:ident, $name:literal) => {
        static $op: Op = Op {
            name: $name,
            doc: "The convolution of that name, of images and kernels with channels last.",
            attrs: &[],
            infer: |_| Err(Error::bug("its type is given")),
            meaning: Meaning::Kernel(|_, _| Err(Error::bug("it is only made where the library computes it"))),
            grad: Grad::Missing("it is put in after differentiation"),
            ..Op::DEFAULT
        };
    };
}
last!(CONV, "conv_last");
last!(INPUT_GRAD, "conv_input_grad_last");
last!(WEIGHT_GRAD, "conv_weight_grad_last");

fn permuted(t: &Type, axes: &[i64]) -> Type {
    Type::new(t.dtype, axes.iter().map(|&a| t.shape[a as usize]).collect::<Shape>())
}

/// Which convolution a node is, where it may be put in terms of channels last.
fn form(n: &FlatNode) -> Option<(Form, &'static Op)> {
    let is_image = n.outs[0].shape.rank() == 4 && matches!(n.outs[0].dtype, DType::BF16 | DType::F16);
    Some(match n.op.name {
        _ if !is_image => return None,
        "conv" => (Form::Forward, &CONV),
        "conv_input_grad" => (Form::Input, &INPUT_GRAD),
        "conv_weight_grad" => (Form::Weight, &WEIGHT_GRAD),
        _ => return None,
    })
}

/// The graph with such convolutions, and what follows them, in the new order.
pub fn nhwc(graph: &Graph, has: Supports) -> Result<Graph> {
    if !graph.nodes.iter().any(|n| form(n).is_some()) {
        return Ok(graph.clone());
    }
    let mut t = NhwcRewriter {
        rw: Rewriter::new(graph),
        graph,
        nhwc: Vec::with_capacity(graph.nodes.len()),
        views: FxHashMap::default(),
        deeper: FxHashMap::default(),
        parts: pooling::parts(graph),
        pools: FxHashMap::default(),
    };
    for (i, n) in graph.nodes.iter().enumerate() {
        let nhwc = t.node(i, n, has)?;
        t.nhwc.push(nhwc);
    }
    Ok(prune(&t.rw.finish()))
}

struct NhwcRewriter<'a> {
    rw: Rewriter<'a>,
    graph: &'a Graph,
    /// For each old node, its value with channels last, where there is one.
    nhwc: Vec<Option<Slot>>,
    /// Values of the new graph as views with channels last.
    views: FxHashMap<Slot, Slot>,
    /// Old values as deep ones.
    deeper: FxHashMap<(Slot, [usize; 3]), Slot>,
    /// Nodes that pool.
    parts: FxHashMap<usize, Part>,
    /// Results of poolings, and which elements of the windows they are, by the old node.
    pools: FxHashMap<usize, [Slot; 2]>,
}

impl NhwcRewriter<'_> {
    fn permute(&mut self, s: Slot, axes: &[i64]) -> Result<Slot> {
        let site = self.rw.new.node(s).site;
        self.rw.new.push(&PERMUTE, &[s], Attrs::new().with("axes", axes), site)
    }
    fn nhwc(&self, s: Slot) -> Option<Slot> {
        if s.out == 0 { self.nhwc[s.node as usize] } else { None }
    }
    /// A value with channels last: computed so, or as a view.
    fn nhwc_of(&mut self, s: Slot) -> Result<Slot> {
        let at = self.rw.at(s);
        match (self.nhwc(s), self.views.get(&at)) {
            (Some(t), _) => Ok(t),
            (None, Some(&view)) => Ok(view),
            (None, None) => {
                let view = self.permute(at, &TO_NHWC)?;
                self.views.insert(at, view);
                Ok(view)
            }
        }
    }
    /// A value as a deep one of `[rows, columns]`, its first place `off` behind.
    fn deep(&mut self, s: Slot, [rows, columns]: [usize; 2], off: usize) -> Slot {
        let key = (s, [rows, columns, off]);
        if let Some(&made) = self.deeper.get(&key) {
            return made;
        }
        // Numbers are brought into the element type on the way.
        let n = self.graph.node(s);
        let is_cast = n.op.name == "cast" && self.graph.ty(n.inputs[0]).dtype == DType::F32;
        let from = if is_cast { n.inputs[0] } else { s };
        let ty = self.graph.ty(s);
        let out = Type::new(ty.dtype, [ty.shape[0], rows, columns, DEPTH_CHANNELS]);
        let (inputs, attrs) = (SmallVec::from_iter([self.rw.at(from)]), Attrs::new().with("off", off));
        let made = self.rw.new.push_typed(&SPACE_TO_DEPTH, inputs, attrs, SmallVec::from_iter([out]), n.site);
        self.deeper.insert(key, made);
        made
    }
    /// Puts a node with one result into the new graph, channels last, and its usual order as a
    /// view of that.
    fn put(&mut self, n: &FlatNode, op: &'static Op, inputs: SmallVec<[Slot; 3]>, attrs: Attrs) -> Result<Slot> {
        let out = permuted(&n.outs[0], &TO_NHWC);
        let nhwc = self.rw.new.push_typed(op, inputs, attrs, SmallVec::from_iter([out]), n.site);
        let back = self.permute(nhwc, &TO_NCHW)?;
        self.rw.replace([back]);
        Ok(nhwc)
    }

    fn node(&mut self, i: usize, n: &FlatNode, has: Supports) -> Result<Option<Slot>> {
        if let Some((form, op)) = form(n) {
            if let Some(half) = SpaceToDepth::new(form, n, self.graph).filter(|h| h.fits(form, n, self.graph, has)) {
                return self.conv_space_to_depth(form, n, op, &half);
            }
            if self.fits(form, n, has) {
                let inputs = n.inputs.iter().map(|&s| self.nhwc_of(s)).collect::<Result<_>>()?;
                let nhwc = self.put(n, op, inputs, n.attrs.clone())?;
                // A kernel's gradient meets the kernel, which stays as it is.
                return Ok((form != Form::Weight).then_some(nhwc));
            }
        }
        if let Some(made) = self.pool(i, n)? {
            let back = self.permute(made, &TO_NCHW)?;
            self.rw.replace([back]);
            return Ok(Some(made));
        }
        let follows =
            n.outs.len() == 1 && n.outs[0].shape.rank() == 4 && n.inputs.iter().any(|&s| self.nhwc(s).is_some());
        let nhwc = match n.op.meaning {
            _ if !follows => None,
            Meaning::Scalar(_) => self.scalar(n)?,
            Meaning::Reduce(monoid) if self.is_over_places(n, monoid)? => {
                let inputs = SmallVec::from_iter([self.nhwc_of(n.inputs[0])?]);
                Some(self.put(n, &SUM, inputs, Attrs::new())?)
            }
            Meaning::Reduce(_) => {
                let axes: Vec<i64> = n.attrs.sizes("axes")?.iter().map(|&a| TO_NCHW[a]).collect();
                let inputs = SmallVec::from_iter([self.nhwc_of(n.inputs[0])?]);
                Some(self.put(n, n.op, inputs, Attrs::new().with("axes", &axes))?)
            }
            Meaning::View(_) if n.op.name == "broadcast" => {
                let shape: Vec<i64> = permuted(&n.outs[0], &TO_NHWC).shape.iter().map(|&d| d as i64).collect();
                let inputs = SmallVec::from_iter([self.nhwc_of(n.inputs[0])?]);
                Some(self.put(n, n.op, inputs, Attrs::new().with("shape", &shape))?)
            }
            _ => None,
        };
        if nhwc.is_none() {
            self.rw.keep(n);
        }
        Ok(nhwc)
    }

    /// A convolution in steps of two as one of deep images, or the gradient of its kernel.
    fn conv_space_to_depth(
        &mut self,
        form: Form,
        n: &FlatNode,
        op: &'static Op,
        half: &SpaceToDepth,
    ) -> Result<Option<Slot>> {
        let x = self.deep(n.inputs[0], half.image, half.before);
        if form == Form::Forward {
            let inputs = SmallVec::from_iter([x, self.deep(n.inputs[1], half.kernel, half.off)]);
            return self.put(n, op, inputs, half.attrs()).map(Some);
        }
        let inputs = SmallVec::from_iter([x, self.nhwc_of(n.inputs[1])?]);
        let out = &n.outs[0];
        let deep = Type::new(out.dtype, [out.shape[0], half.kernel[0], half.kernel[1], DEPTH_CHANNELS]);
        let deep = self.rw.new.push_typed(op, inputs, half.attrs(), SmallVec::from_iter([deep]), n.site);
        let (inputs, attrs) = (SmallVec::from_iter([deep]), Attrs::new().with("off", half.off));
        let made = self.rw.new.push_typed(&DEPTH_TO_SPACE, inputs, attrs, n.outs.clone(), n.site);
        self.rw.replace([made]);
        Ok(None)
    }

    /// The value of a node that pools, with channels last. What only leads there is pruned later.
    fn pool(&mut self, i: usize, n: &FlatNode) -> Result<Option<Slot>> {
        let (index, g) = match self.parts.get(&i) {
            None => return Ok(None),
            Some(Part::Index) => {
                if let Some(x) = self.nhwc(n.inputs[0]) {
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
        let (inputs, out) = (SmallVec::from_iter([tap, self.nhwc_of(g)?]), permuted(&n.outs[0], &TO_NHWC));
        Ok(Some(self.rw.new.push_typed(&POOL_GRAD, inputs, found.attrs.clone(), SmallVec::from_iter([out]), n.site)))
    }

    /// True for sums over the places of images with many channels.
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
            inputs.push(if is_number(s) { self.rw.at(s) } else { self.nhwc_of(s)? });
        }
        self.put(n, n.op, inputs, n.attrs.clone()).map(Some)
    }

    /// True if the library has a way to compute a convolution with channels last.
    fn fits(&self, form: Form, n: &FlatNode, has: Supports) -> bool {
        let operand = |ty: &Type| operand(&permuted(ty, &TO_NHWC));
        let args: Vec<Operand> = n.inputs.iter().map(|&s| operand(self.graph.ty(s))).collect();
        conv_last(form, &n.attrs, &args, &operand(&n.outs[0])).is_some_and(|network| has(&network))
    }
}

fn operand(ty: &Type) -> Operand {
    Operand { slot: Slot::new(0, 0), layout: Layout::contiguous(&ty.shape), ty: ty.clone() }
}

/// A convolution in steps of two as one in steps of one of deep images: element `2 q + k − padding`
/// of a line is element `k + off` of pair `q`, counted from `before` elements before the line.
struct SpaceToDepth {
    /// Pairs of a image and of a kernel, in both directions.
    image: [usize; 2],
    kernel: [usize; 2],
    off: usize,
    before: usize,
}

impl SpaceToDepth {
    fn new(form: Form, n: &FlatNode, graph: &Graph) -> Option<SpaceToDepth> {
        let list = |name: &str| n.attrs.sizes(name).map(|l| l.to_vec()).unwrap_or_default();
        let (kernel, result) = match form {
            Form::Forward => (graph.ty(n.inputs[1]), &n.outs[0]),
            Form::Weight => (&n.outs[0], graph.ty(n.inputs[1])),
            Form::Input => return None,
        };
        let channels = graph.ty(n.inputs[0]).shape[1];
        let is_plain = n.attrs.size("groups") == Ok(1) && list("stride") == [2, 2] && list("dilation") == [1, 1];
        let [padding, other] = list("padding_lo")[..] else { return None };
        if !is_plain || channels * 4 > DEPTH_CHANNELS || padding != other || kernel.shape.count() == 0 {
            return None;
        }
        let off = padding % 2;
        let pairs = |d: usize| (kernel.shape[d] + off).div_ceil(2);
        let kernel = [pairs(2), pairs(3)];
        let image = [result.shape[2] + kernel[0] - 1, result.shape[3] + kernel[1] - 1];
        Some(SpaceToDepth { image, kernel, off, before: padding + off })
    }

    fn attrs(&self) -> Attrs {
        let two = |x: i64| [x, x];
        let a = Attrs::new().with("stride", &two(1)[..]).with("dilation", &two(1)[..]).with("groups", 1i64);
        a.with("padding_lo", &two(0)[..]).with("padding_hi", &two(0)[..])
    }

    /// True if the library has a way to compute it.
    fn fits(&self, form: Form, n: &FlatNode, graph: &Graph, has: Supports) -> bool {
        let (x, y) = (graph.ty(n.inputs[0]), &n.outs[0]);
        let deep = |count: usize, [h, w]: [usize; 2]| operand(&Type::new(x.dtype, [count, h, w, DEPTH_CHANNELS]));
        let image = deep(x.shape[0], self.image);
        let (other, out) = match form {
            Form::Forward => (deep(y.shape[1], self.kernel), operand(&permuted(y, &TO_NHWC))),
            _ => (operand(&permuted(graph.ty(n.inputs[1]), &TO_NHWC)), deep(y.shape[0], self.kernel)),
        };
        conv_last(form, &self.attrs(), &[image, other], &out).is_some_and(|network| has(&network))
    }
}
