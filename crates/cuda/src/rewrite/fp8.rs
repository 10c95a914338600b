//! GEMM of fp8 in the layout that cuBLASLt wants: both operands with the inner dimension last in memory.

use crate::claims::op;
use crate::library::cublas;
use crate::rewrite::rows::{PERMUTE, SCALED_GEMM};
use ir::{Attrs, FlatNode, Graph, Result, Slot, Type};
use passes::Rewriter;

/// Rows in memory must be multiples of this.
const EVEN: usize = 16;
/// The first compute capability with fp8.
const CAPABLE: (u32, u32) = (8, 9);

/// True for a GEMM that cuBLASLt computes on a GPU of this compute capability.
pub fn claims(n: &FlatNode, types: &[Type], capability: (u32, u32)) -> bool {
    let [a, b, ..] = types else { return false };
    let ([m, k], [_, columns]) = (a.shape.dims(), b.shape.dims()) else { return false };
    n.op.name == op::SCALED_MATMUL
        && capability >= CAPABLE
        && cublas::multiplies([a.dtype, b.dtype])
        && *m > 0
        && [*k, *columns].iter().all(|d| *d > 0 && d.is_multiple_of(EVEN))
}

/// Supports the second factor of every product that was claimed lie the way the library takes it.
pub fn transpose_operands(graph: &Graph) -> Result<Option<Graph>> {
    if !graph.nodes.iter().any(|n| n.op.name == op::SCALED_MATMUL) {
        return Ok(None);
    }
    let mut rw = Rewriter::new(graph);
    for n in &graph.nodes {
        if n.op.name != op::SCALED_MATMUL {
            rw.keep(n);
            continue;
        }
        let mut inputs: Vec<Slot> = n.inputs.iter().map(|&s| rw.at(s)).collect();
        inputs[1] = rw.new.push(&PERMUTE, &[inputs[1]], Attrs::new().with("axes", [1i64, 0].as_slice()), n.site)?;
        let at = rw.new.push(&SCALED_GEMM, &inputs, n.attrs.clone(), n.site)?;
        rw.replace([at]);
    }
    Ok(Some(rw.finish()))
}
