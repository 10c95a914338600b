//! What the device knows about the ops it computes by kernels: a row for each, in the file of its kernel. An op without
//! a row, or whose row has no kernel for a call, runs on the host. Loops need none: they are generated from the C text
//! of elementwise rows.

use crate::kernel::Kernel;
use crate::kernels;
use ir::{Attrs, FlatNode, Layout, Type};
use passes::{Operand, View};

/// One node as kernels.
pub struct Call<'a> {
    /// Its attributes.
    pub attrs: &'a Attrs,
    /// Its operands.
    pub args: &'a [Operand],
    /// Its results; contiguous.
    pub outs: &'a [Operand],
}

/// A row.
pub struct Claim {
    /// The op's name.
    pub op: &'static str,
    /// Its kernels and their scratch bytes; `None` where none fits.
    pub kernels: fn(&Call) -> Option<(Vec<Kernel>, usize)>,
    /// Whether its kernels compute a composite of these input types whole; otherwise it is expanded.
    pub is_whole: fn(&FlatNode, &[Type]) -> bool,
    /// Whether an operand may have this layout; all may be contiguous.
    pub accepts: fn(&FlatNode, usize, &Layout) -> bool,
    /// Its floating-point operations.
    pub flops: fn(&FlatNode, &[View]) -> usize,
    /// What a bad index that its kernels report is called; `None`: `index`.
    pub reported: Option<&'static str>,
}

impl Claim {
    /// A row of kernels.
    pub const fn new(op: &'static str, kernels: fn(&Call) -> Option<(Vec<Kernel>, usize)>) -> Claim {
        Claim {
            op,
            kernels,
            is_whole: |_, _| false,
            accepts: |_, _, l| l.is_contiguous(),
            flops: |n, _| n.outs[0].shape.count(),
            reported: None,
        }
    }
}

/// The row of an op.
pub fn claim(name: &str) -> Option<&'static Claim> {
    kernels::CLAIMS.iter().flat_map(|list| list.iter()).find(|c| c.op == name)
}
