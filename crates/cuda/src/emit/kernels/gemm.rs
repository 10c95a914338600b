//! GEMMs that no library computes: integer matrices, and strides that cuBLASLt does not take.

use super::{Call, Text, split};
use crate::claims::Claim;
use crate::emit::Kernel;
use crate::emit::scalar::Class;
use crate::library::cublas;
use std::fmt::Write;

/// GEMMs.
pub static CLAIMS: &[Claim] = &[
    Claim {
        accepts: |n, _, l| !cublas::has(n.outs[0].dtype) || cublas::accepts(l, &n.outs[0].shape),
        flops: cublas::gemm_flops,
        ..Claim::new("matmul", matmul)
    },
    Claim { flops: cublas::gemm_flops, ..Claim::new("int_matmul", matmul) },
];

/// A GEMM with operands of any strides.
fn matmul(c: &Call) -> Option<Vec<Kernel>> {
    let (a, b, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let shape = &y.ty.shape;
    let rank = shape.rank();
    let k = a.ty.shape[a.ty.shape.rank() - 1];
    let class = Class::of(y.ty.dtype).c();
    // Without the offset, which the pointer has already.
    let at = |o: &super::Operand, first: usize| {
        let l = &o.layout;
        let lead = rank - l.shape.rank();
        let batch = (0..l.shape.rank() - 2).filter(|&d| l.shape[d] != 1);
        let mut s: String = batch.map(|d| format!("i{} * ({}) + ", d + lead, l.strides[d])).collect();
        let (row, column) = (l.strides[l.shape.rank() - 2], l.strides[l.shape.rank() - 1]);
        let _ = match first {
            0 => write!(s, "i{} * ({row}) + k * ({column})", rank - 2),
            _ => write!(s, "k * ({row}) + i{} * ({column})", rank - 1),
        };
        s
    };
    let body = format!(
        "{}{class} sum = 0;\nfor (idx k = 0; k < {k}; k++) sum = sum + get(a[{}]) * get(b[{}]);\ny[i] = put_{}(sum);\n",
        split(shape, "i", "i"),
        at(a, 0),
        at(b, 1),
        y.ty.dtype
    );
    Text::new().reads("a", a).reads("b", b).writes("y", y).each(shape.count(), &body)
}
