//! Fuses the addition of a bias into the GEMM before it, as a cuBLASLt epilogue.

use crate::claims::op;
use crate::library::cublas;
use crate::rewrite::rows::MATMUL_BIAS;
use ir::{FlatNode, Graph, Meaning, Result, Slot};
use passes::Rewriter;
use smallvec::SmallVec;

/// Fuses each bias into the GEMM of which it is the only user.
pub fn fuse_bias(graph: &Graph) -> Result<Option<Graph>> {
    let uses = uses(graph);
    // Nodes that are made later, together with their only user.
    let mut later = vec![false; graph.nodes.len()];
    let mut found: Vec<Option<BiasedGemm>> = (0..graph.nodes.len()).map(|_| None).collect();
    for (i, n) in graph.nodes.iter().enumerate() {
        if let Some(f) = find(graph, &uses, n) {
            later[f.product] = true;
            f.views.iter().for_each(|&v| later[v] = true);
            found[i] = Some(f);
        }
    }
    if found.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut rw = Rewriter::new(graph);
    for (i, n) in graph.nodes.iter().enumerate() {
        match &found[i] {
            // Only the addition uses these.
            None if later[i] => rw.replace([Slot::new(0, 0)]),
            None => rw.keep(n),
            Some(f) => {
                let m = &graph.nodes[f.product];
                let inputs = [m.inputs[0], m.inputs[1], f.bias].map(|s| rw.at(s));
                let mut at = rw.new.push(&MATMUL_BIAS, &inputs, ir::Attrs::new(), m.site)?;
                for &v in f.views.iter().rev() {
                    let v = &graph.nodes[v];
                    at = rw.new.push_typed(v.op, SmallVec::from_iter([at]), v.attrs.clone(), v.outs.clone(), v.site);
                }
                rw.replace([at]);
            }
        }
    }
    Ok(Some(rw.finish()))
}

/// A GEMM, the reshapes between it and the addition (the last first), and the bias.
struct BiasedGemm {
    product: usize,
    views: Vec<usize>,
    bias: Slot,
}

fn uses(graph: &Graph) -> Vec<u32> {
    let mut uses = vec![0; graph.nodes.len()];
    let all = graph.nodes.iter().flat_map(|n| &n.inputs).chain(&graph.outputs);
    all.for_each(|s| uses[s.node as usize] += 1);
    uses
}

fn find(graph: &Graph, uses: &[u32], n: &FlatNode) -> Option<BiasedGemm> {
    if n.op.name != op::ADD || !cublas::has_epilogues(n.outs[0].dtype) {
        return None;
    }
    let [a, b] = [n.inputs[0], n.inputs[1]];
    [(a, b), (b, a)].into_iter().find_map(|(sum, bias)| {
        let columns = *n.outs[0].shape.last()?;
        let is_row = graph.ty(bias).shape.dims() == [columns] && graph.ty(sum) == &n.outs[0];
        let mut views = Vec::new();
        let mut at = sum;
        while is_row && uses[at.node as usize] == 1 {
            let m = graph.node(at);
            match m.op.meaning {
                Meaning::Kernel(_) if m.op.name == op::MATMUL && m.outs[0].shape.rank() == 2 => {
                    let inner = graph.ty(m.inputs[0]).shape[1];
                    let fits = m.outs[0].shape[1] == columns && inner > 0 && m.outs[0].shape.count() > 0;
                    return fits.then_some(BiasedGemm { product: at.node as usize, views, bias });
                }
                Meaning::View(_) if m.op.name == op::RESHAPE => {
                    views.push(at.node as usize);
                    at = m.inputs[0];
                }
                _ => return None,
            }
        }
        None
    })
}
