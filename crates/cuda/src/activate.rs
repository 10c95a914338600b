//! An activation that the library computes along with a product: gelu, and what it is taken of, which
//! its slope will need. The slope stays with the loops: the library's product that ends with it and
//! the sum of its rows takes twice as long as a product and a loop.

use crate::absorb::MATMUL_BIAS;
use ir::{Attrs, Batch, DType, Error, FlatNode, Grad, Graph, Meaning, Op, Result, Slot, Type, Types};
use passes::{Rewriter, decompose, deduplicate, prune, simplify};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// gelu_tanh(a × b + bias), and what it is taken of.
pub static MATMUL_GELU: Op = Op {
    name: "matmul_gelu",
    doc: "gelu_tanh of the matrix product of the first two inputs plus the third in each row, and what it is taken of.",
    attrs: &[],
    infer: |_| Err(Error::bug("its types are given")),
    meaning: Meaning::Kernel(|_, _| Err(Error::bug("it is only made where the library computes it"))),
    grad: Grad::Missing("it is put in after differentiation"),
    batch: Batch::Auto,
    cases: Vec::new,
};

/// True for an activation that may go along with a product.
pub fn claims(n: &FlatNode, types: &[Type]) -> bool {
    let is_half = types.first().is_some_and(|t| matches!(t.dtype, DType::BF16 | DType::F16));
    is_half && is_gelu(n)
}

fn is_gelu(n: &FlatNode) -> bool {
    n.op.name == "gelu_tanh"
}

/// What nodes become.
enum Part {
    /// A product with a bias, whose result is kept beside its activation.
    Before,
    /// The activation of a product, behind these views of it (the last first).
    After(usize, Vec<usize>),
}

/// Puts activations into the products they belong to; the rest becomes what it consists of.
pub fn activate(graph: &Graph) -> Result<Graph> {
    if !graph.nodes.iter().any(is_gelu) {
        return Ok(graph.clone());
    }
    let parts = parts(graph);
    let mut rw = Rewriter::new(graph);
    for (i, n) in graph.nodes.iter().enumerate() {
        match parts.get(&i) {
            None => rw.keep(n),
            Some(Part::Before) => {
                let inputs = n.inputs.iter().map(|&s| rw.at(s)).collect();
                let outs: Types = [n.outs[0].clone(), n.outs[0].clone()].into_iter().collect();
                let at = rw.new.push_typed(&MATMUL_GELU, inputs, Attrs::new(), outs, n.site);
                rw.replace([Slot { node: at.node, out: 1 }]);
            }
            Some(Part::After(product, views)) => {
                let at = Slot { node: rw.at(Slot::new(*product, 0)).node, out: 0 };
                let at = again(&mut rw, graph, views, at);
                rw.replace([at]);
            }
        }
    }
    let left = prune(&rw.finish());
    if !left.nodes.iter().any(is_gelu) {
        return Ok(left);
    }
    Ok(prune(&deduplicate(&simplify(&decompose(&left, &|n, _| !is_gelu(n))?)?)))
}

/// The views (the last first) of another value.
fn again(rw: &mut Rewriter, graph: &Graph, views: &[usize], mut at: Slot) -> Slot {
    for &v in views.iter().rev() {
        let v = &graph.nodes[v];
        at = rw.new.push_typed(v.op, SmallVec::from_iter([at]), v.attrs.clone(), v.outs.clone(), v.site);
    }
    at
}

/// What a value has another shape of, and the views up to it, the last first.
fn behind(graph: &Graph, mut s: Slot) -> (Slot, Vec<usize>) {
    let mut views = Vec::new();
    while graph.node(s).op.name == "reshape" {
        views.push(s.node as usize);
        s = graph.node(s).inputs[0];
    }
    (s, views)
}

fn parts(graph: &Graph) -> FxHashMap<usize, Part> {
    let mut parts: FxHashMap<usize, Part> = FxHashMap::default();
    for (i, n) in graph.nodes.iter().enumerate().filter(|(_, n)| is_gelu(n)) {
        let (root, views) = behind(graph, n.inputs[0]);
        let m = graph.node(root);
        let fits = m.op == &MATMUL_BIAS && m.outs[0].shape[1].is_multiple_of(8);
        if fits && !parts.contains_key(&(root.node as usize)) {
            parts.insert(root.node as usize, Part::Before);
            parts.insert(i, Part::After(root.node as usize, views));
        }
    }
    parts
}
