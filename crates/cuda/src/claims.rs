//! What CUDA knows about the ops it computes by kernels or libraries: a row for each, in the file of its kernel.
//! An op without a row runs its reference on the host. Elementwise ops and reductions need none: loops are generated
//! from the C text of their rows.

use crate::dnn::{self, Planned};
use crate::emit::Kernel;
use crate::emit::kernels::{self, Call, Operand};
use crate::library::cufft::{self, Transform};
use ir::{Attrs, FlatNode, Layout, Type};
use passes::View;

/// A row.
pub struct Claim {
    /// The op's name.
    pub op: &'static str,
    /// Its kernels as CUDA C; `None` where none fits. A kernel that can fail takes [`crate::emit::Arg::Report`].
    pub kernels: fn(&Call) -> Option<Vec<Kernel>>,
    /// Bytes of scratch space that the kernels want.
    pub scratch: fn(&Attrs, &[Operand]) -> usize,
    /// Its transform by cuFFT, from attributes and operands.
    pub transform: fn(&Attrs, &[Operand]) -> Option<Transform>,
    /// Its cuDNN graph, from attributes, operands and results.
    pub network: fn(&Attrs, &[Operand], &[Operand]) -> Planned,
    /// The results as the cuDNN graph writes them; `None`: as they are.
    pub results: fn(&Attrs, &[Operand]) -> Option<Vec<Operand>>,
    /// The kernels before and after the cuDNN graph, from operands and results.
    pub around: fn(&[Operand], &[Operand]) -> Option<[Vec<Kernel>; 2]>,
    /// Whether cuDNN may run a composite of these input types; otherwise it is expanded.
    pub claims: fn(&[Type]) -> bool,
    /// Whether its kernels compute a composite of these input types whole; otherwise it is expanded.
    pub is_whole: fn(&FlatNode, &[Type]) -> bool,
    /// Whether an operand may have this layout; all may be contiguous.
    pub accepts: fn(&FlatNode, usize, &Layout) -> bool,
    /// The operand that the first result may overwrite: the kernels begin with a copy of it otherwise.
    pub in_place: Option<usize>,
    /// Whether its kernels, where one fits, come before libraries.
    pub is_kernel_first: bool,
    /// Whether its kernels come before libraries for these attributes, operands and results.
    pub is_kernel_better: fn(&Attrs, &[Operand], &[Operand]) -> bool,
    /// Its floating-point operations.
    pub flops: fn(&FlatNode, &[View]) -> usize,
    /// What a number that its kernels report is, and what is wrong with it; `None`: an index out of range.
    pub failure: Option<(&'static str, &'static str)>,
    /// Whether its elements are their own indices, which loops compute instead of loading them.
    pub is_index: bool,
    /// Whether it keeps the key of a draw, whose bits loops compute.
    pub is_key: bool,
}

impl Claim {
    /// A row of kernels.
    pub const fn new(op: &'static str, kernels: fn(&Call) -> Option<Vec<Kernel>>) -> Claim {
        Claim {
            op,
            kernels,
            scratch: |_, _| 0,
            transform: |_, _| None,
            network: |_, _, _| None,
            results: |_, _| None,
            around: |_, _| None,
            claims: |_| false,
            is_whole: |_, _| false,
            accepts: |_, _, _| false,
            in_place: None,
            is_kernel_first: false,
            is_kernel_better: |_, _, _| false,
            flops: |n, _| n.outs[0].shape.count(),
            failure: None,
            is_index: false,
            is_key: false,
        }
    }
    /// A row of a cuDNN graph without kernels.
    pub const fn of_network(op: &'static str, network: fn(&Attrs, &[Operand], &[Operand]) -> Planned) -> Claim {
        Claim { network, ..Claim::new(op, |_| None) }
    }
}

/// The row of an op.
pub fn claim(name: &str) -> Option<&'static Claim> {
    kernels::CLAIMS.iter().chain(dnn::CLAIMS).copied().chain([cufft::CLAIMS]).flatten().find(|c| c.op == name)
}

/// Ops of the table that the rewrites and schedules of this crate look for.
#[allow(missing_docs)]
pub mod op {
    pub const ADD: &str = "add";
    pub const ARGMAX: &str = "argmax";
    pub const ARGMIN: &str = "argmin";
    pub const ATTENTION: &str = "attention";
    pub const ATTENTION_GRAD: &str = "attention_grad";
    pub const BROADCAST: &str = "broadcast";
    pub const CAST: &str = "cast";
    pub const CONCAT: &str = "concat";
    pub const CONV: &str = "conv";
    pub const CONV_INPUT_GRAD: &str = "conv_input_grad";
    pub const CONV_WEIGHT_GRAD: &str = "conv_weight_grad";
    pub const FFT: &str = "fft";
    pub const GATHER: &str = "gather";
    pub const GELU_TANH: &str = "gelu_tanh";
    pub const GELU_TANH_GRAD: &str = "gelu_tanh_grad";
    pub const GT: &str = "gt";
    pub const INDEX_ADD: &str = "index_add";
    pub const MATMUL: &str = "matmul";
    pub const MAX_POOL_INDEX: &str = "max_pool_index";
    pub const MUL: &str = "mul";
    pub const PAD: &str = "pad";
    pub const PAGED_WRITE: &str = "paged_write";
    pub const PERMUTE: &str = "permute";
    pub const RANDOM_BITS: &str = "random_bits";
    pub const RELU: &str = "relu";
    pub const RESHAPE: &str = "reshape";
    pub const SCALED_MATMUL: &str = "scaled_matmul";
    pub const SCAN: &str = "scan";
    pub const SCATTER: &str = "scatter";
    pub const SCATTER_ADD: &str = "scatter_add";
    pub const SLICE: &str = "slice";
    pub const SUM: &str = "sum";
    pub const WHERE: &str = "where";
}
