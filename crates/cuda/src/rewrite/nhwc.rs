//! NHWC images in memory, which convolutions of 16-bit floats want.
//!
//! Each such convolution becomes one of images `[N, H, W, C]`. Elementwise ops, reductions, views, concatenation and
//! pooling of its results stay in that [`Order`], also where they split channels into groups or repeat pixels, so that
//! images are permuted only where they enter and leave. An input with few channels and stride 2 is first transformed by
//! space-to-depth: Tensor Cores want many channels.

mod order;

use crate::claims::op;
use crate::dnn::{Form, conv_last};
use crate::emit::kernels::Operand;
use crate::rewrite::pooling::{self, Part};
use crate::rewrite::rows::RESHAPE;
use crate::rewrite::rows::{CONV, CONV_INPUT_GRAD, CONV_WEIGHT_GRAD, DEPTH_CHANNELS, DEPTH_TO_SPACE, PERMUTE};
use crate::rewrite::rows::{POOL, POOL_GRAD, SPACE_TO_DEPTH, SUM, TO_NHWC, permuted};
use crate::target::Supports;
use ir::{Attrs, DType, FlatNode, Graph, Layout, Meaning, Monoid, Op, Result, Shape, Slot, Type};
use order::Order;
use passes::{Rewriter, prune};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Images of at most this many pixels are summed by one thread for each vector of channels.
const PIXELS_MAX: usize = 1 << 12;
/// A reduction of at least so many elements to fewer than so many results is made in two steps.
const ELEMENTS_MIN: usize = 1 << 18;
const RESULTS_MAX: usize = 1 << 15;
/// The sizes of the parts that the first step combines.
const PART_MIN: usize = 8;
const PART_MAX: usize = 128;
/// How many times as large as an operand a result must be for the operand to be permuted.
const SMALL: usize = 8;

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
        laid: Vec::with_capacity(graph.nodes.len()),
        returns: returns(graph),
        views: FxHashMap::default(),
        deep: FxHashMap::default(),
        parts: pooling::parts(graph),
        pools: FxHashMap::default(),
    };
    for (i, n) in graph.nodes.iter().enumerate() {
        let laid = t.node(i, n, supports)?;
        t.laid.push(laid.filter(|l| !l.order.is_row_major()));
    }
    Ok(Some(prune(&t.rw.finish())))
}

/// For each node, whether its value is reduced or becomes images again, perhaps after elementwise ops.
fn returns(graph: &Graph) -> Vec<bool> {
    let mut returns = vec![false; graph.nodes.len()];
    for (i, n) in graph.nodes.iter().enumerate().rev() {
        let is_wanted = match n.op.meaning {
            Meaning::Reduce(_) => true,
            Meaning::Scalar(_) | Meaning::View(_) => returns[i] || n.outs[0].shape.rank() == 4,
            _ => n.outs.len() == 1 && n.outs[0].shape.rank() == 4,
        };
        n.inputs.iter().filter(|_| is_wanted).for_each(|s| returns[s.node as usize] = true);
    }
    returns
}

/// A value of the new graph that holds an old one's elements in another order.
#[derive(Clone)]
struct Laid {
    slot: Slot,
    order: Order,
}

struct NhwcRewriter<'a> {
    rw: Rewriter<'a>,
    graph: &'a Graph,
    /// For each old node, its value in another order than row-major, where there is one.
    laid: Vec<Option<Laid>>,
    /// For each old node, whether it is worth another order at other ranks than 4.
    returns: Vec<bool>,
    /// Values of the new graph as views in another order.
    views: FxHashMap<(Slot, Order), Slot>,
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
    fn reshape(&mut self, s: Slot, sizes: &[i64]) -> Result<Slot> {
        let site = self.rw.new.node(s).site;
        if self.rw.new.ty(s).shape.iter().map(|&d| d as i64).eq(sizes.iter().copied()) {
            return Ok(s);
        }
        self.rw.new.push(&RESHAPE, &[s], Attrs::new().with("shape", sizes), site)
    }
    fn laid(&self, s: Slot) -> Option<&Laid> {
        self.laid[s.node as usize].as_ref().filter(|_| s.out == 0)
    }
    /// A value in an order: computed so, or as a view.
    fn in_order(&mut self, s: Slot, order: &Order) -> Result<Slot> {
        if let Some(l) = self.laid(s).filter(|l| l.order == *order) {
            return Ok(l.slot);
        }
        let key = (self.rw.at(s), order.clone());
        if let Some(&view) = self.views.get(&key) {
            return Ok(view);
        }
        let factors = self.reshape(key.0, &order.factors())?;
        let view = self.permute(factors, &order.to_memory())?;
        self.views.insert(key, view);
        Ok(view)
    }
    /// A value with channels last.
    fn nhwc_of(&mut self, s: Slot) -> Result<Slot> {
        let order = Order::permuted(&self.graph.ty(s).shape, &TO_NHWC);
        self.in_order(s, &order)
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
    /// Takes a value of the new graph for a node with one result; the row-major one is a view of it.
    fn place(&mut self, n: &FlatNode, slot: Slot, order: Order) -> Result<Laid> {
        let factors = self.permute(slot, &order.to_row_major())?;
        let shape: Vec<i64> = n.outs[0].shape.iter().map(|&d| d as i64).collect();
        let back = self.reshape(factors, &shape)?;
        self.rw.replace([back]);
        Ok(Laid { slot, order })
    }
    /// Puts a node with one result into the new graph, in an order.
    fn put(
        &mut self,
        n: &FlatNode,
        op: &'static Op,
        inputs: SmallVec<[Slot; 3]>,
        attrs: Attrs,
        order: Order,
    ) -> Result<Laid> {
        let out = Type::new(n.outs[0].dtype, order.stored().iter().map(|&d| d as usize).collect::<Shape>());
        let slot = self.rw.new.push_typed(op, inputs, attrs, SmallVec::from_iter([out]), n.site);
        self.place(n, slot, order)
    }
    /// The same for images with channels last.
    fn put_nhwc(&mut self, n: &FlatNode, op: &'static Op, inputs: SmallVec<[Slot; 3]>, attrs: Attrs) -> Result<Laid> {
        let order = Order::permuted(&n.outs[0].shape, &TO_NHWC);
        self.put(n, op, inputs, attrs, order)
    }

    fn node(&mut self, i: usize, n: &FlatNode, supports: Supports) -> Result<Option<Laid>> {
        if let Some((form, op)) = form(n) {
            if let Some(half) = SpaceToDepth::new(form, n, self.graph).filter(|h| h.fits(form, n, self.graph, supports))
            {
                return self.conv_space_to_depth(form, n, op, &half);
            }
            if self.fits(form, n, supports) {
                let inputs = n.inputs.iter().map(|&s| self.nhwc_of(s)).collect::<Result<_>>()?;
                let nhwc = self.put_nhwc(n, op, inputs, n.attrs.clone())?;
                // A kernel's gradient meets the kernel, which stays as it is.
                return Ok((form != Form::Weight).then_some(nhwc));
            }
        }
        if let Some(made) = self.pool(i, n)? {
            return self.place(n, made, Order::permuted(&n.outs[0].shape, &TO_NHWC)).map(Some);
        }
        let follows = n.outs.len() == 1 && n.inputs.iter().any(|&s| self.laid(s).is_some());
        let is_wanted = n.outs[0].shape.rank() == 4 || self.returns[i];
        let laid = match n.op.meaning {
            _ if !follows => None,
            Meaning::Scalar(_) if is_wanted => self.scalar(n)?,
            Meaning::Reduce(monoid) => self.reduce(n, monoid)?,
            Meaning::View(_) => self.view(n)?,
            Meaning::Kernel(_) if n.op.name == op::CONCAT && is_wanted => self.concat(n)?,
            _ => None,
        };
        if laid.is_none() {
            self.rw.keep(n);
        }
        Ok(laid)
    }

    /// A convolution in steps of two as one of deep images, or the gradient of its kernel.
    fn conv_space_to_depth(
        &mut self,
        form: Form,
        n: &FlatNode,
        op: &'static Op,
        half: &SpaceToDepth,
    ) -> Result<Option<Laid>> {
        let x = self.space_to_depth(n.inputs[0], half.image, half.before)?;
        if form == Form::Forward {
            let inputs = SmallVec::from_iter([x, self.space_to_depth(n.inputs[1], half.kernel, half.off)?]);
            return self.put_nhwc(n, op, inputs, half.attrs()).map(Some);
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
                if let Some(x) = self.laid_nhwc(n.inputs[0]) {
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

    /// A value that was computed with channels last.
    fn laid_nhwc(&self, s: Slot) -> Option<Slot> {
        let shape = &self.graph.ty(s).shape;
        let is_nhwc = |l: &&Laid| shape.rank() == 4 && l.order == Order::permuted(shape, &TO_NHWC);
        self.laid(s).filter(is_nhwc).map(|l| l.slot)
    }

    /// True for sums over the pixels of images with many channels.
    fn is_over_pixels(&self, n: &FlatNode, monoid: Monoid, dims: &[usize]) -> bool {
        let ty = self.graph.ty(n.inputs[0]);
        let is_short = matches!(ty.dtype, DType::BF16 | DType::F16);
        if monoid != Monoid::Sum || !is_short || dims != [2, 3] || self.laid_nhwc(n.inputs[0]).is_none() {
            return false;
        }
        let (channels, pixels) = (ty.shape[1], ty.shape[2] * ty.shape[3]);
        channels.is_multiple_of(64) && pixels <= PIXELS_MAX && ty.shape.count() > 0
    }

    /// A reduction, in the order of its operand.
    fn reduce(&mut self, n: &FlatNode, monoid: Monoid) -> Result<Option<Laid>> {
        let dims = n.attrs.sizes("axes")?;
        let Some(Laid { slot, order }) = self.laid(n.inputs[0]).cloned() else { return Ok(None) };
        let stored = |order: &Order| order.stored().iter().map(|&d| d as usize).collect::<Vec<_>>();
        let (mut sizes, axes) = (stored(&order), order.axes(&dims));
        axes.iter().for_each(|&a| sizes[a] = 1);
        let reduced = order.resized(&sizes);
        if self.is_over_pixels(n, monoid, &dims) {
            return self.put(n, &SUM, SmallVec::from_iter([slot]), Attrs::new(), reduced).map(Some);
        }
        let mut from = slot;
        if let Some((axis, part)) = first_step(&stored(&order), &axes, n.outs[0].dtype, monoid) {
            let mut sizes = order.stored();
            sizes[axis] /= part as i64;
            let whole = sizes.clone();
            sizes.insert(axis + 1, part as i64);
            from = self.reshape(from, &sizes)?;
            from = self.rw.new.push(n.op, &[from], n.attrs.clone().set("axes", [axis + 1].as_slice()), n.site)?;
            from = self.reshape(from, &whole)?;
        }
        let attrs = n.attrs.clone().set("axes", axes.as_slice());
        let made = self.put(n, n.op, SmallVec::from_iter([from]), attrs, reduced)?;
        Ok(Some(Laid { order: made.order.joined(), ..made }))
    }

    /// A view that keeps parts of dimensions whole.
    fn view(&mut self, n: &FlatNode) -> Result<Option<Laid>> {
        let Some(Laid { slot, order }) = self.laid(n.inputs[0]).cloned() else { return Ok(None) };
        let shape = &n.outs[0].shape;
        Ok(match n.op.name {
            op::RESHAPE => match order.reshaped(shape) {
                Some(to) => {
                    let made = self.reshape(slot, &to.stored())?;
                    Some(self.place(n, made, to)?)
                }
                None => None,
            },
            op::BROADCAST => {
                let to = order.broadcast(shape);
                let attrs = Attrs::new().with("shape", to.stored().as_slice());
                Some(self.put(n, n.op, SmallVec::from_iter([slot]), attrs, to)?)
            }
            op::SLICE => self.slice(n, slot, order)?,
            _ => None,
        })
    }

    /// A slice of whole dimensions.
    fn slice(&mut self, n: &FlatNode, slot: Slot, order: Order) -> Result<Option<Laid>> {
        let (from, to) = (&self.graph.ty(n.inputs[0]).shape, &n.outs[0].shape);
        let mut sizes = order.stored();
        let (mut starts, mut steps) = (vec![0; sizes.len()], vec![1; sizes.len()]);
        for d in 0..from.rank() {
            let (start, step) = (n.attrs.ints("starts")?[d], n.attrs.ints("steps")?[d]);
            if (start, step, to[d]) == (0, 1, from[d]) {
                continue;
            }
            let Some(at) = order.axis(d) else { return Ok(None) };
            (starts[at], steps[at], sizes[at]) = (start, step, to[d] as i64);
        }
        let order = order.resized(&sizes.iter().map(|&d| d as usize).collect::<Vec<_>>());
        let attrs = Attrs::new().with("starts", starts.as_slice()).with("sizes", sizes.as_slice());
        let attrs = attrs.with("steps", steps.as_slice());
        self.put(n, n.op, SmallVec::from_iter([slot]), attrs, order).map(Some)
    }

    /// Values one after the other along a whole dimension.
    fn concat(&mut self, n: &FlatNode) -> Result<Option<Laid>> {
        let dim = n.attrs.size("axis")?;
        let first = n.inputs.iter().find_map(|&s| self.laid(s)).map(|l| l.order.clone());
        let Some((order, axis)) = first.and_then(|o| o.axis(dim).map(|a| (o, a))) else { return Ok(None) };
        let with = |size: usize| {
            let mut sizes: Vec<usize> = order.stored().iter().map(|&d| d as usize).collect();
            sizes[axis] = size;
            order.resized(&sizes)
        };
        let sizes: Vec<usize> = n.inputs.iter().map(|&s| self.graph.ty(s).shape[dim]).collect();
        let inputs =
            n.inputs.iter().zip(sizes).map(|(&s, size)| self.in_order(s, &with(size))).collect::<Result<_>>()?;
        self.put(n, n.op, inputs, Attrs::new().with("axis", axis), with(n.outs[0].shape[dim])).map(Some)
    }

    /// An elementwise node, in the order of an operand.
    fn scalar(&mut self, n: &FlatNode) -> Result<Option<Laid>> {
        let shape = &n.outs[0].shape;
        let order = n.inputs.iter().filter(|&&s| self.graph.ty(s).shape == *shape).find_map(|&s| self.laid(s));
        let Some(order) = order.map(|l| l.order.clone()) else { return Ok(None) };
        let mut inputs: SmallVec<[Slot; 3]> = SmallVec::new();
        for &s in &n.inputs {
            let own = &self.graph.ty(s).shape;
            let is_same = self.laid(s).is_some_and(|l| l.order == order);
            // At other ranks than those of images, only what is small is permuted.
            let is_moved = is_same || shape.rank() == 4 || self.is_small(s, shape.count());
            inputs.push(match order.shrunk(own) {
                _ if own.count() == 1 => self.rw.at(s),
                Some(order) if is_moved => self.in_order(s, &order)?,
                _ => return Ok(None),
            });
        }
        self.put(n, n.op, inputs, n.attrs.clone(), order).map(Some)
    }

    /// True for a value of few elements, or one that repeats few, beside so many.
    fn is_small(&self, s: Slot, count: usize) -> bool {
        let n = self.graph.node(s);
        let from = if matches!(n.op.meaning, Meaning::View(_)) { n.inputs[0] } else { s };
        self.graph.ty(from).shape.count() * SMALL <= count
    }

    /// True if the library has a way to compute a convolution with channels last.
    fn fits(&self, form: Form, n: &FlatNode, supports: Supports) -> bool {
        let operand = |ty: &Type| operand(&permuted(ty, &TO_NHWC));
        let args: Vec<Operand> = n.inputs.iter().map(|&s| operand(self.graph.ty(s))).collect();
        conv_last(form, &n.attrs, &args, &operand(&n.outs[0])).is_some_and(|network| supports(&network))
    }
}

/// The dimension of which a reduction of values `sizes` along `axes` combines parts first, and their size: where few
/// results lie across memory, threads would walk long rows alone.
fn first_step(sizes: &[usize], axes: &[usize], dtype: DType, monoid: Monoid) -> Option<(usize, usize)> {
    let kept = || (0..sizes.len()).filter(|k| !axes.contains(k) && sizes[*k] > 1);
    let results: usize = kept().map(|k| sizes[k]).product();
    let is_exact = matches!(dtype, DType::F32 | DType::F64) || matches!(monoid, Monoid::Max | Monoid::Min);
    if !is_exact || results >= RESULTS_MAX || sizes.iter().product::<usize>() < ELEMENTS_MIN {
        return None;
    }
    // Where nothing that is kept comes first, it is a sum of columns.
    let (first, last) = (kept().next()?, kept().next_back()?);
    let axis = axes.iter().copied().rfind(|&a| sizes[a] > 1 && a < last).filter(|&a| a > first)?;
    let part = (1..=PART_MAX).rfind(|p| sizes[axis].is_multiple_of(*p))?;
    Some((axis, if part < PART_MIN { sizes[axis] } else { part })).filter(|(a, p)| axes.len() > 1 || *p < sizes[*a])
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
