//! Kernels as CUDA C. A kernel's file has a [`Claim`] for each op it computes.

pub mod attention;
pub mod attention_inputs;
pub mod depthwise;
pub mod paged_mma;
pub mod recurrent;

/// Declares the files of kernels and lists their rows.
macro_rules! files {
    ($($name:ident),* $(,)?) => {
        $( pub mod $name; )*
        /// The rows of all files.
        pub static CLAIMS: &[&[Claim]] = &[$( $name::CLAIMS ),*];
    };
}
files! {
    axis,
    conv,
    custom,
    gemm,
    grouped,
    index,
    linalg,
    moments,
    moves,
    nhwc,
    paged,
    quant,
    sample,
    scan,
    sort,
    spectral,
}

pub use custom::CUSTOM;
pub use index::histogram;
pub use moves::place;
pub use passes::Operand;

use super::{Arg, Kernel};
use crate::claims::{Claim, claim};
use crate::emit::scalar::stored;
use ir::{Attrs, FlatNode};

/// One node as kernels.
pub struct Call<'a> {
    /// Its attributes.
    pub attrs: &'a Attrs,
    /// Its operands; contiguous.
    pub args: &'a [Operand],
    /// Its results; contiguous.
    pub outs: &'a [Operand],
    /// The GPU's generation: the first number of its compute capability.
    pub major: u32,
    /// Of an attention whose keys and values were put into caches: at which keys. The others have been there
    /// since before the launch before, and so have the index and the mask.
    pub put: Option<&'a Operand>,
    /// The results that something reads; a bit each.
    pub read: u32,
    /// The operands that nothing of the same run has computed; a bit each.
    pub given: u32,
}

impl Call<'_> {
    /// Whether nothing of the same run has computed an operand.
    pub fn is_given(&self, operand: usize) -> bool {
        self.given >> operand & 1 == 1
    }
    /// Whether something reads a result.
    pub fn is_read(&self, result: usize) -> bool {
        self.read >> result & 1 == 1
    }
}

/// The kernels of a node, or `None` where there are none for it.
pub fn kernels(
    n: &FlatNode,
    args: &[Operand],
    outs: &[Operand],
    major: u32,
    [read, given]: [u32; 2],
) -> Option<Vec<Kernel>> {
    let c = Call { attrs: &n.attrs, args, outs, major, put: None, read, given };
    claim(n.op.name).and_then(|row| (row.kernels)(&c))
}

/// Bytes of scratch space that a node's kernels want.
pub fn scratch(n: &FlatNode, args: &[Operand]) -> usize {
    claim(n.op.name).map_or(0, |row| (row.scratch)(&n.attrs, args))
}

/// Threads of a block.
const BLOCK: usize = 256;

/// A kernel being written: parameters by name.
pub struct Text {
    params: Vec<String>,
    args: Vec<Arg>,
    start: String,
}

impl Text {
    fn new() -> Text {
        Text { params: Vec::new(), args: Vec::new(), start: String::new() }
    }
    fn param(mut self, name: &str, o: &Operand, constant: &str) -> Text {
        let (ty, k) = (stored(o.ty.dtype), self.args.len());
        self.params.push(format!("{constant}{ty}* __restrict__ p{k}"));
        self.start += &format!("{constant}{ty}* __restrict__ {name} = p{k} + {};\n", o.layout.offset);
        self.args.push(Arg::Value(o.slot));
        self
    }
    /// An operand under a name.
    fn reads(self, name: &str, o: &Operand) -> Text {
        self.param(name, o, "const ")
    }
    /// A result under a name.
    fn writes(self, name: &str, o: &Operand) -> Text {
        self.param(name, o, "")
    }
    /// A parameter under a name of its own, for memory that is no operand.
    fn memory(mut self, name: &str, ty: &str, arg: Arg) -> Text {
        self.params.push(format!("{ty}* __restrict__ {name}"));
        self.args.push(arg);
        self
    }
    /// Parameters to report bad indices with.
    fn reports(mut self) -> Text {
        self.params.push("Report* report, long long launch".to_string());
        self.args.extend([Arg::Report, Arg::Launch]);
        self
    }
    /// One thread for each of `count` things, numbered `i`.
    fn each(self, count: usize, body: &str) -> Option<Vec<Kernel>> {
        let start =
            format!("const idx i = (idx)blockIdx.x * {BLOCK} + threadIdx.x;\nif (i >= {count}ull) return;\n{body}");
        self.blocks(count.div_ceil(BLOCK), BLOCK, &start)
    }
    /// So many blocks of so many threads.
    fn blocks(self, grid: usize, block: usize, body: &str) -> Option<Vec<Kernel>> {
        let source = format!(
            "typedef long long idx;\nextern \"C\" __global__ void __launch_bounds__({block}) run({}) {{\n{}{body}}}\n",
            self.params.join(", "),
            self.start
        );
        u32::try_from(grid).ok()?;
        Some(vec![Kernel::new(source, grid, block, self.args)])
    }
}

/// Statements that split `from` into places `{prefix}0`… of these sizes.
fn split(dims: &[usize], from: &str, prefix: &str) -> String {
    super::access::split(dims, from, prefix).0 + "\n"
}
