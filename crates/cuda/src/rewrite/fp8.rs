//! Products of 8-bit floats as the library wants them: both factors with the dimension that is summed
//! over last in memory.

use crate::library::cublas;
use crate::rewrite::attention_layout::library_op;
use crate::rewrite::nhwc::PERMUTE;
use ir::{Attrs, FlatNode, Graph, Op, Result, Type};
use passes::Rewriter;
use smallvec::SmallVec;

/// a × bᵀ times two scales.
pub static SCALED_GEMM: Op = library_op(
    "scaled_product",
    "The matrix product of the first input and the transposed second, times the third and the fourth.",
);

/// What the library asks of the sizes that rows in memory have.
const EVEN: usize = 16;
/// The first compute capability that multiplies 8-bit floats.
const CAPABLE: (u32, u32) = (8, 9);

/// True for a product that the library computes on a GPU of this compute capability.
pub fn claims(n: &FlatNode, types: &[Type], capability: (u32, u32)) -> bool {
    let [a, b, ..] = types else { return false };
    let ([m, k], [_, columns]) = (a.shape.dims(), b.shape.dims()) else { return false };
    n.op.name == "scaled_matmul"
        && capability >= CAPABLE
        && cublas::multiplies([a.dtype, b.dtype])
        && *m > 0
        && [*k, *columns].iter().all(|d| *d > 0 && d.is_multiple_of(EVEN))
}

/// Supports the second factor of every product that was claimed lie the way the library takes it.
pub fn transpose_operands(graph: &Graph) -> Result<Graph> {
    if !graph.nodes.iter().any(|n| n.op.name == "scaled_matmul") {
        return Ok(graph.clone());
    }
    let mut rw = Rewriter::new(graph);
    for n in &graph.nodes {
        if n.op.name != "scaled_matmul" {
            rw.keep(n);
            continue;
        }
        let mut inputs: SmallVec<_> = n.inputs.iter().map(|&s| rw.at(s)).collect();
        inputs[1] = rw.new.push(&PERMUTE, &[inputs[1]], Attrs::new().with("axes", [1i64, 0].as_slice()), n.site)?;
        let at = rw.new.push_typed(&SCALED_GEMM, inputs, Attrs::new(), n.outs.clone(), n.site);
        rw.replace([at]);
    }
    Ok(rw.finish())
}
