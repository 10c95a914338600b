//! NHWC images in memory, which convolutions of 16-bit floats want.
//!
//! Each such convolution becomes one of images `[N, H, W, C]`. Elementwise ops, reductions and pooling of its results
//! stay in that layout, so that images are permuted only where they enter and leave. An input with few channels and
//! stride 2 is first transformed by space-to-depth: Tensor Cores want many channels.

use crate::claims::op;
use crate::dnn::{Form, conv_last};
use crate::emit::kernels::Operand;
use crate::rewrite::pooling::{self, Part};
use crate::rewrite::rows::{CONV, CONV_INPUT_GRAD, CONV_WEIGHT_GRAD, DEPTH_CHANNELS, DEPTH_TO_SPACE, PERMUTE};
use crate::rewrite::rows::{POOL, POOL_GRAD, SPACE_TO_DEPTH, SUM, TO_NCHW, TO_NHWC, permuted};
use crate::target::Supports;
use ir::{Attrs, DType, FlatNode, Graph, Layout, Meaning, Monoid, Op, Result, Slot, Type};
use passes::{Rewriter, prune};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Images of at most this many pixels are summed by one thread for each vector of channels.
const PIXELS_MAX: usize = 1 << 12;

/// Which convolution a node is, if it may become NHWC.
fn form(n: &FlatNode) -> Option<(Form, &'static Op)> {
    let is_image = n.outs[0].shape.rank() == 4 && matches!(n.outs[0].dtype, DType::BF16 | DType::F16);
    Some(match n.op.name {
        _ if !is_image => return None,
        op::CONV => (Form::Forward, &CONV),
        op::CONV_INPUT_GRAD => (Form::Input, &CONV_INPUT_GRAD),
        op::CONV_WEIGHT_GRAD => (Form::Weight, &CONV_WEIGHT_GRAD),
        _ => return None,
    })
}

/// The graph with these convolutions, and what follows them, in NHWC.
pub fn nhwc(graph: &Graph, supports: Supports) -> Result<Option<Graph>> {
    if !graph.nodes.iter().any(|n| form(n).is_some()) {
        return Ok(None);
    }
    let mut t = NhwcRewriter {
        rw: Rewriter::new(graph),
        graph,
        nhwc: Vec::with_capacity(graph.nodes.len()),
        views: FxHashMap::default(),
        deep: FxHashMap::default(),
        parts: pooling::parts(graph),
        pools: FxHashMap::default(),
    };
    for (i, n) in graph.nodes.iter().enumerate() {
        let nhwc = t.node(i, n, supports)?;
        t.nhwc.push(nhwc);
    }
    Ok(Some(prune(&t.rw.finish())))
}

struct NhwcRewriter<'a> {
    rw: Rewriter<'a>,
    graph: &'a Graph,
    /// For each old node, its value with channels last, where there is one.
    nhwc: Vec<Option<Slot>>,
    /// Values of the new graph as views with channels last.
    views: FxHashMap<Slot, Slot>,
    /// Old values after space-to-depth.
    deep: FxHashMap<(Slot, [usize; 3]), Slot>,
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
    /// A value after space-to-depth, of `[rows, columns]` pixels, with `off` elements of padding before it.
    fn space_to_depth(&mut self, s: Slot, [rows, columns]: [usize; 2], off: usize) -> Result<Slot> {
        let key = (s, [rows, columns, off]);
        if let Some(&made) = self.deep.get(&key) {
            return Ok(made);
        }
        // A cast to 16 bits happens on the way.
        let n = self.graph.node(s);
        let is_cast = n.op.name == op::CAST && self.graph.ty(n.inputs[0]).dtype == DType::F32;
        let from = if is_cast { n.inputs[0] } else { s };
        let attrs = Attrs::new().with("off", off).with("sizes", [rows, columns].as_slice());
        let attrs = attrs.with("dtype", self.graph.ty(s).dtype);
        let made = self.rw.new.push(&SPACE_TO_DEPTH, &[self.rw.at(from)], attrs, n.site)?;
        self.deep.insert(key, made);
        Ok(made)
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

    fn node(&mut self, i: usize, n: &FlatNode, supports: Supports) -> Result<Option<Slot>> {
        if let Some((form, op)) = form(n) {
            if let Some(half) = SpaceToDepth::new(form, n, self.graph).filter(|h| h.fits(form, n, self.graph, supports))
            {
                return self.conv_space_to_depth(form, n, op, &half);
            }
            if self.fits(form, n, supports) {
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
            Meaning::Reduce(monoid) if self.is_over_pixels(n, monoid)? => {
                let inputs = SmallVec::from_iter([self.nhwc_of(n.inputs[0])?]);
                Some(self.put(n, &SUM, inputs, Attrs::new())?)
            }
            Meaning::Reduce(_) => {
                let mut axes: Vec<i64> = n.attrs.sizes("axes")?.iter().map(|&a| TO_NCHW[a]).collect();
                axes.sort_unstable();
                let inputs = SmallVec::from_iter([self.nhwc_of(n.inputs[0])?]);
                Some(self.put(n, n.op, inputs, Attrs::new().with("axes", &axes))?)
            }
            Meaning::View(_) if n.op.name == op::BROADCAST => {
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
        let x = self.space_to_depth(n.inputs[0], half.image, half.before)?;
        if form == Form::Forward {
            let inputs = SmallVec::from_iter([x, self.space_to_depth(n.inputs[1], half.kernel, half.off)?]);
            return self.put(n, op, inputs, half.attrs()).map(Some);
        }
        let (g, out) = (self.nhwc_of(n.inputs[1])?, &n.outs[0]);
        let deep = [out.shape[0], DEPTH_CHANNELS, half.kernel[0], half.kernel[1]];
        let deep = self.rw.new.push(op, &[x, g], half.attrs().with("shape", deep.as_slice()), n.site)?;
        let attrs = Attrs::new().with("off", half.off).with("shape", &out.shape);
        let made = self.rw.new.push(&DEPTH_TO_SPACE, &[deep], attrs, n.site)?;
        self.rw.replace([made]);
        Ok(None)
    }

    /// The value of a node that pools, with channels last. What only leads there is pruned later.
    fn pool(&mut self, i: usize, n: &FlatNode) -> Result<Option<Slot>> {
        let (index, g) = match self.parts.get(&i) {
            None => return Ok(None),
            Some(Part::Index) => {
                if let Some(x) = self.nhwc(n.inputs[0]) {
                    let at = self.rw.new.push(&POOL, &[x], n.attrs.clone(), n.site)?;
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
        let (g, shape) = (self.nhwc_of(g)?, permuted(&n.outs[0], &TO_NHWC).shape);
        self.rw.new.push(&POOL_GRAD, &[tap, g], found.attrs.clone().with("shape", &shape), n.site).map(Some)
    }

    /// True for sums over the pixels of images with many channels.
    fn is_over_pixels(&self, n: &FlatNode, monoid: Monoid) -> Result<bool> {
        let ty = self.graph.ty(n.inputs[0]);
        let is_short = matches!(ty.dtype, DType::BF16 | DType::F16);
        let is_over = monoid == Monoid::Sum && n.attrs.sizes("axes")?.as_slice() == [2, 3];
        let (channels, pixels) = (ty.shape[1], ty.shape[2] * ty.shape[3]);
        Ok(is_short && is_over && channels.is_multiple_of(64) && pixels <= PIXELS_MAX && ty.shape.count() > 0)
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
    fn fits(&self, form: Form, n: &FlatNode, supports: Supports) -> bool {
        let operand = |ty: &Type| operand(&permuted(ty, &TO_NHWC));
        let args: Vec<Operand> = n.inputs.iter().map(|&s| operand(self.graph.ty(s))).collect();
        conv_last(form, &n.attrs, &args, &operand(&n.outs[0])).is_some_and(|network| supports(&network))
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
    fn fits(&self, form: Form, n: &FlatNode, graph: &Graph, supports: Supports) -> bool {
        let (x, y) = (graph.ty(n.inputs[0]), &n.outs[0]);
        let deep = |count: usize, [h, w]: [usize; 2]| operand(&Type::new(x.dtype, [count, h, w, DEPTH_CHANNELS]));
        let image = deep(x.shape[0], self.image);
        let (other, out) = match form {
            Form::Forward => (deep(y.shape[1], self.kernel), operand(&permuted(y, &TO_NHWC))),
            _ => (operand(&permuted(graph.ty(n.inputs[1]), &TO_NHWC)), deep(y.shape[0], self.kernel)),
        };
        conv_last(form, &self.attrs(), &[image, other], &out).is_some_and(|network| supports(&network))
    }
}
