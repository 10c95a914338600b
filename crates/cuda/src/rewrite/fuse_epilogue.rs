//! Fuses activations into GEMM as cuBLASLt epilogues, where that was measured to be faster than a loop after it:
//! gelu with its auxiliary input, relu with its bit mask, the backward of both with the bias gradient, and the
//! bias gradient alone.

use crate::claims::op;
use crate::emit::kernels::Operand;
use crate::library::cublas;
use crate::library::epilogue::Epilogue;
use crate::rewrite::rows::{MATMUL_BIAS, MATMUL_DGELU, MATMUL_DRELU, MATMUL_GELU, MATMUL_RELU, MATMUL_SUMS, RESHAPE};
use crate::rewrite::views_of;
use crate::target::IsFaster;
use ir::{Attrs, DType, FlatNode, Graph, Layout, Meaning, Op, Result, Slot, Type, Types};
use passes::{Rewriter, View, decompose, deduplicate, prune, simplify};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// True for an activation, or its derivative, that may become an epilogue.
pub fn claims(n: &FlatNode, types: &[Type]) -> bool {
    let Some(t) = types.first() else { return false };
    match n.op.name {
        op::GELU_TANH | op::GELU_TANH_GRAD => matches!(t.dtype, DType::BF16 | DType::F16),
        op::RELU => cublas::has_epilogues(t.dtype),
        _ => false,
    }
}

fn is_claimed(n: &FlatNode) -> bool {
    claims(n, &n.outs)
}

/// Fuses activations and their derivatives into GEMM.
pub fn fuse_epilogue(graph: &Graph, is_faster: IsFaster) -> Result<Option<Graph>> {
    if !graph.nodes.iter().any(|n| is_claimed(n) || n.op.name == op::SUM) {
        return Ok(None);
    }
    let found = EpilogueFinder::new(graph, is_faster)?;
    if found.parts.is_empty() { Ok(None) } else { Ok(Some(prune(&found.rewritten()?))) }
}

/// Decomposes the activations that no GEMM took.
pub fn decompose_activations(graph: &Graph) -> Result<Option<Graph>> {
    if !graph.nodes.iter().any(is_claimed) {
        return Ok(None);
    }
    Ok(Some(prune(&deduplicate(&simplify(&decompose(graph, &|n, _| !is_claimed(n))?)?))))
}

/// What a node becomes.
#[derive(Clone)]
enum Part {
    /// A GEMM with an epilogue, and which of its results replaces the node.
    Made { op: &'static Op, inputs: Vec<Slot>, attrs: Attrs, own: u32 },
    /// Another result of the GEMM made at a node, after its reshapes (the last first).
    Of { node: usize, out: u32, views: Vec<usize>, shape: Type },
    /// Whether the result of the GEMM made at a node is positive.
    Positive { node: usize },
    /// Removed: the epilogue computes it.
    Gone,
}

struct EpilogueFinder<'a> {
    graph: &'a Graph,
    is_faster: IsFaster<'a>,
    views: Vec<Option<View>>,
    /// The users of each node; a number past the last node stands for the outputs.
    users: Vec<Vec<usize>>,
    parts: FxHashMap<usize, Part>,
}

impl<'a> EpilogueFinder<'a> {
    fn new(graph: &'a Graph, is_faster: IsFaster<'a>) -> Result<EpilogueFinder<'a>> {
        let mut users = vec![Vec::new(); graph.nodes.len()];
        for (i, n) in graph.nodes.iter().enumerate() {
            n.inputs.iter().for_each(|s| users[s.node as usize].push(i));
        }
        graph.outputs.iter().for_each(|s| users[s.node as usize].push(graph.nodes.len()));
        let mut f = EpilogueFinder { graph, is_faster, views: views_of(graph)?, users, parts: FxHashMap::default() };
        for i in 0..graph.nodes.len() {
            match graph.nodes[i].op.name {
                op::GELU_TANH => f.gelu(i),
                op::RELU => f.relu(i),
                op::MUL => f.gelu_slope(i),
                _ => None,
            };
        }
        // What is left of sums.
        for i in (0..graph.nodes.len()).filter(|&i| graph.nodes[i].op.name == op::MATMUL) {
            f.sums(i);
        }
        Ok(f)
    }

    /// The graph with what was found.
    fn rewritten(&self) -> Result<Graph> {
        let graph = self.graph;
        let mut rw = Rewriter::new(graph);
        let mut made: FxHashMap<usize, Slot> = FxHashMap::default();
        for (i, n) in graph.nodes.iter().enumerate() {
            match self.parts.get(&i) {
                None => rw.keep(n),
                Some(Part::Gone) => rw.replace(n.outs.iter().map(|_| Slot::new(0, 0))),
                Some(Part::Made { op, inputs, attrs, own }) => {
                    let inputs: Vec<Slot> = inputs.iter().map(|&s| self.input(&mut rw, s, &made)).collect();
                    let at = rw.new.push(op, &inputs, attrs.clone(), n.site)?;
                    made.insert(i, at);
                    let at = Slot { node: at.node, out: *own };
                    let at = shaped(&mut rw, at, &n.outs[0], n);
                    rw.replace([at]);
                }
                Some(Part::Of { node, out, views, shape }) => {
                    let at = Slot { node: made[node].node, out: *out };
                    let at = again(&mut rw, graph, views, at);
                    let at = shaped(&mut rw, at, shape, n);
                    rw.replace([at]);
                }
                Some(Part::Positive { node }) => {
                    let (zero, site) = (rw.at(n.inputs[1]), n.site);
                    let at = shaped(&mut rw, made[node], graph.ty(n.inputs[0]), n);
                    let inputs = SmallVec::from_iter([at, zero]);
                    let at = rw.new.push_typed(n.op, inputs, n.attrs.clone(), n.outs.clone(), site);
                    rw.replace([at]);
                }
            }
        }
        Ok(rw.finish())
    }

    /// An input of a new node: bits of a positive part are a result the graph did not have.
    fn input(&self, rw: &mut Rewriter, s: Slot, made: &FxHashMap<usize, Slot>) -> Slot {
        match self.parts.get(&(s.node as usize)) {
            Some(Part::Made { op, .. }) if std::ptr::eq(*op, &MATMUL_RELU) && s.out == 1 => {
                Slot { node: made[&(s.node as usize)].node, out: 1 }
            }
            // The transposed view of a new value may not exist yet here.
            _ if self.graph.node(s).op.name == op::PERMUTE => {
                let v = self.graph.node(s);
                let x = rw.at(v.inputs[0]);
                rw.new.push_typed(v.op, SmallVec::from_iter([x]), v.attrs.clone(), v.outs.clone(), v.site)
            }
            _ => rw.at(s),
        }
    }

    /// Whether a GEMM with this epilogue is faster.
    fn pays(&self, a: Slot, b: Slot, c: &Type, epilogue: Epilogue) -> bool {
        let operand = |s: Slot| {
            let ty = self.graph.ty(s).clone();
            let place =
                self.views[s.node as usize].as_ref().filter(|p| s.out == 0 && cublas::accepts(&p.layout, &c.shape));
            Operand { slot: s, layout: place.map_or_else(|| Layout::contiguous(&ty.shape), |p| p.layout.clone()), ty }
        };
        let c = Operand { slot: Slot::new(0, 0), layout: Layout::contiguous(&c.shape), ty: c.clone() };
        cublas::gemm(&operand(a), &operand(b), &c, epilogue).is_some_and(|p| (self.is_faster)(&p))
    }

    /// gelu of a GEMM with a bias.
    fn gelu(&mut self, i: usize) -> Option<()> {
        let graph = self.graph;
        let (root, views) = behind(graph, graph.nodes[i].inputs[0]);
        let m = self.product(root, &MATMUL_BIAS)?;
        self.pays(m.inputs[0], m.inputs[1], &m.outs[0], Epilogue::GeluAux).then_some(())?;
        let gemm = Part::Made { op: &MATMUL_GELU, inputs: m.inputs.to_vec(), attrs: Attrs::new(), own: 1 };
        self.parts.insert(root.node as usize, gemm);
        let shape = graph.nodes[i].outs[0].clone();
        self.parts.insert(i, Part::Of { node: root.node as usize, out: 0, views, shape });
        Some(())
    }

    /// A GEMM without an epilogue so far, whose rows are aligned.
    fn product(&self, root: Slot, op: &Op) -> Option<&'a FlatNode> {
        let m = self.graph.node(root);
        let fits = m.op == op && is_aligned(&m.outs[0]);
        (fits && !self.parts.contains_key(&(root.node as usize))).then_some(m)
    }

    /// The GEMM before a chain of reshapes, if nothing else uses it or them.
    fn only(&self, s: Slot) -> Option<(Slot, Vec<usize>)> {
        let (root, views) = behind(self.graph, s);
        let is_alone = |n: usize| self.users[n].len() == 1;
        (is_alone(root.node as usize) && views.iter().all(|&v| is_alone(v))).then_some((root, views))
    }

    /// relu of a GEMM with a bias, and its backward if there is one.
    fn relu(&mut self, i: usize) -> Option<()> {
        let graph = self.graph;
        let x = graph.nodes[i].inputs[0];
        let (root, views) = behind(graph, x);
        let m = self.product(root, &MATMUL_BIAS)?;
        // Its operand is read for its sign only.
        let is_alone = |n: usize| self.users[n].len() == 1;
        let on_way = views.iter().skip(1).all(|&v| is_alone(v)) && (views.is_empty() || is_alone(root.node as usize));
        let asks: Vec<usize> = self.users[x.node as usize].iter().copied().filter(|&u| u != i).collect();
        let is_positive = |&u: &usize| {
            graph.nodes.get(u).is_some_and(|n| n.op.name == op::GT && n.inputs[0] == x && is_zero(graph, n.inputs[1]))
        };
        (on_way && asks.iter().all(is_positive)).then_some(())?;
        let product = |epilogue: Epilogue| self.pays(m.inputs[0], m.inputs[1], &m.outs[0], epilogue);
        let slope = match asks[..] {
            [ask] if product(Epilogue::ReluMask) => {
                self.relu_slope(ask).filter(|s| s.product.outs[0].shape == m.outs[0].shape)
            }
            _ => None,
        };
        (slope.is_some() || product(Epilogue::Relu)).then_some(())?;
        let attrs = Attrs::new().with("mask", slope.is_some());
        let node = root.node as usize;
        if let Some(slope) = slope {
            self.insert(slope, &MATMUL_DRELU, Slot { node: root.node, out: 1 });
        }
        self.parts.insert(node, Part::Made { op: &MATMUL_RELU, inputs: m.inputs.to_vec(), attrs, own: 0 });
        let shape = graph.nodes[i].outs[0].clone();
        self.parts.insert(i, Part::Of { node, out: 0, views: views.clone(), shape });
        // Views on the way to it are made anew.
        for &ask in asks.iter().filter(|ask| !self.parts.contains_key(ask)).collect::<Vec<_>>() {
            self.parts.insert(ask, Part::Positive { node });
        }
        Some(())
    }

    /// `where(positive, product, 0)`, by the node that says what is positive.
    fn relu_slope(&self, ask: usize) -> Option<Slope<'a>> {
        let [user] = self.users[ask][..] else { return None };
        let n = self.graph.nodes.get(user)?;
        let fits = n.op.name == op::WHERE && n.inputs[0].node as usize == ask && is_zero(self.graph, n.inputs[2]);
        let slope = self.slope(user, fits.then_some(n.inputs[1])?, Epilogue::DRelu)?;
        Some(Slope { gone: slope.gone.iter().copied().chain([ask]).collect(), ..slope })
    }

    /// A GEMM times the derivative of gelu.
    fn gelu_slope(&mut self, i: usize) -> Option<()> {
        let graph = self.graph;
        let n = &graph.nodes[i];
        let is_backward = |s: Slot| graph.node(s).op.name == op::GELU_TANH_GRAD;
        let (slope, g) = match [n.inputs[0], n.inputs[1]] {
            [g, s] if is_backward(s) => (s, g),
            [s, g] if is_backward(s) => (s, g),
            _ => return None,
        };
        let (inner, _) = behind(graph, graph.node(slope).inputs[0]);
        let is_matrix = graph.ty(inner).shape.rank() == 2;
        let found = self.slope(i, is_matrix.then_some(g)?, Epilogue::DGelu)?;
        (graph.ty(inner).shape == found.product.outs[0].shape).then(|| self.insert(found, &MATMUL_DGELU, inner))
    }

    /// A GEMM that only the derivative uses, whose columns are summed.
    fn slope(&self, node: usize, g: Slot, epilogue: Epilogue) -> Option<Slope<'a>> {
        let graph = self.graph;
        let (root, views) = self.only(g)?;
        let m = graph.node(root);
        let matmul = m.op.name == op::MATMUL && is_aligned(&m.outs[0]);
        (matmul && cublas::has_epilogues(m.outs[0].dtype) && !self.parts.contains_key(&(root.node as usize)))
            .then_some(())?;
        let columns = m.outs[0].shape[1];
        let rank = graph.nodes[node].outs[0].shape.rank();
        let is_sum = |&&u: &&usize| {
            let n = graph.nodes.get(u);
            n.is_some_and(|n| {
                n.op.name == op::SUM && is_over_rows(n, rank, columns) && n.outs[0].dtype == m.outs[0].dtype
            })
        };
        let sums = self.users[node].iter().find(is_sum).copied()?;
        self.pays(m.inputs[0], m.inputs[1], &m.outs[0], epilogue).then_some(())?;
        let gone = views.into_iter().chain([root.node as usize]).collect();
        Some(Slope { product: m, node, sums, gone })
    }

    fn insert(&mut self, s: Slope<'a>, op: &'static Op, inner: Slot) {
        let m = s.product;
        let shape = self.graph.nodes[s.sums].outs[0].clone();
        self.parts.insert(s.sums, Part::Of { node: s.node, out: 1, views: Vec::new(), shape });
        s.gone.into_iter().for_each(|n| drop(self.parts.insert(n, Part::Gone)));
        let inputs = vec![m.inputs[0], m.inputs[1], inner];
        self.parts.insert(s.node, Part::Made { op, inputs, attrs: Attrs::new(), own: 0 });
    }

    /// A GEMM with a transposed matrix whose columns are also summed: the gradients of a weight and a bias. Where a
    /// loop computes the matrix, the loop sums it.
    fn sums(&mut self, i: usize) -> Option<()> {
        let graph = self.graph;
        let m = &graph.nodes[i];
        let transposed = graph.node(m.inputs[0]);
        let is_transposed =
            transposed.op.name == op::PERMUTE && transposed.outs[0].shape.rank() == 2 && m.outs[0].shape.rank() == 2;
        (is_transposed && cublas::has_epilogues(m.outs[0].dtype) && !self.parts.contains_key(&i)).then_some(())?;
        let g = transposed.inputs[0];
        let (root, views) = behind(graph, g);
        matches!(graph.node(root).op.meaning, Meaning::Kernel(_) | Meaning::Composite(_)).then_some(())?;
        let columns = graph.ty(g).shape[1];
        // Sums of the matrix itself, or of one of the shapes it had.
        let shapes = views.iter().copied().chain([root.node as usize]);
        let sum = shapes.flat_map(|v| self.users[v].iter().copied()).find(|&u| {
            graph.nodes.get(u).is_some_and(|n| {
                let rank = graph.ty(n.inputs[0]).shape.rank();
                n.op.name == op::SUM && is_over_rows(n, rank, columns) && n.outs[0].dtype == m.outs[0].dtype
            })
        })?;
        let first = sum.min(i);
        let is_known = |s: Slot| {
            let node = s.node as usize;
            node < first && !matches!(self.parts.get(&node), Some(Part::Gone))
        };
        (is_known(g) && is_known(m.inputs[1]) && !self.parts.contains_key(&sum)).then_some(())?;
        self.pays(m.inputs[0], m.inputs[1], &m.outs[0], Epilogue::BiasGrad).then_some(())?;
        let own = u32::from(first == sum);
        let gemm = Part::Made { op: &MATMUL_SUMS, inputs: m.inputs.to_vec(), attrs: Attrs::new(), own };
        self.parts.insert(first, gemm);
        let other = sum.max(i);
        let shape = graph.nodes[other].outs[0].clone();
        self.parts.insert(other, Part::Of { node: first, out: 1 - own, views: Vec::new(), shape });
        Some(())
    }
}

/// A GEMM with a backward epilogue: the node that multiplies both, the node of the bias gradient, and the nodes
/// between.
struct Slope<'a> {
    product: &'a FlatNode,
    node: usize,
    sums: usize,
    gone: Vec<usize>,
}

/// Up to this many rows, GEMM may have its own kernels, fused with the loops after it.
const ROWS_FEW: usize = 64;

/// True for a matrix with rows that the library takes, and more than a few.
fn is_aligned(t: &Type) -> bool {
    t.shape.rank() == 2 && t.shape[1].is_multiple_of(8) && t.shape[0] > ROWS_FEW
}

/// True for a sum over all dimensions but the last, which has so many elements.
fn is_over_rows(n: &FlatNode, rank: usize, columns: usize) -> bool {
    let all: Vec<usize> = (0..rank - 1).collect();
    n.attrs.sizes("axes").is_ok_and(|axes| axes[..] == all[..]) && n.outs[0].shape.count() == columns
}

/// True for the number 0.
fn is_zero(graph: &Graph, s: Slot) -> bool {
    let value = graph.node(s).attrs.literal("value");
    matches!(graph.node(s).op.meaning, Meaning::Const)
        && value.is_ok_and(|l| l.shape().count() == 1 && l.bytes().iter().all(|&b| b == 0))
}

/// A value in the shape that is wanted.
fn shaped(rw: &mut Rewriter, at: Slot, want: &Type, like: &FlatNode) -> Slot {
    if rw.new.ty(at).shape == want.shape {
        return at;
    }
    let dims: Vec<i64> = want.shape.iter().map(|&d| d as i64).collect();
    rw.new.push_typed(
        &RESHAPE,
        SmallVec::from_iter([at]),
        Attrs::new().with("shape", &dims),
        Types::from_iter([want.clone()]),
        like.site,
    )
}

/// The views (the last first) of another value.
fn again(rw: &mut Rewriter, graph: &Graph, views: &[usize], mut at: Slot) -> Slot {
    for &v in views.iter().rev() {
        let v = &graph.nodes[v];
        at = rw.new.push_typed(v.op, SmallVec::from_iter([at]), v.attrs.clone(), v.outs.clone(), v.site);
    }
    at
}

/// The value before a chain of reshapes, and the chain, the last first.
fn behind(graph: &Graph, mut s: Slot) -> (Slot, Vec<usize>) {
    let mut views = Vec::new();
    while graph.node(s).op.name == op::RESHAPE {
        views.push(s.node as usize);
        s = graph.node(s).inputs[0];
    }
    (s, views)
}
