//! Loops and kernels as CUDA C: pure functions from a region to source text and how to launch it.
//!
//! Sizes and strides are written into the text, so that the compiler can do without divisions
//! and bounds that are not needed; equal text is compiled once.

mod access;
mod across_rows;
mod body;
mod columns;
pub mod gemv;
mod geometry;
pub mod horizontal;
pub mod kernels;
mod partials;
mod pointwise;
mod prefetch;
mod rows;
pub mod scalar;
pub mod skinny_gemm;
mod split_rows;
mod transpose;

use body::Body;
use ir::{Graph, Slot};
use passes::{Along, Loop, Step};

pub use transpose::fits as transpose_fits;

/// The longest row that is reduced inside a kernel whose later steps use the result. A block has
/// a row, so only where there are many rows may they be long.
pub fn row_max(rows: usize) -> usize {
    if rows >= ROWS_MANY { 1 << 18 } else { 1 << 14 }
}
/// Elements of a value that is worth reading only once.
pub const SHARE_MIN: usize = 1 << 18;
/// Rows that keep the device busy with one block each.
const ROWS_MANY: usize = 256;
/// The most blocks of a kernel that leaves one partial result each.
const PARTIALS_MAX: usize = 528;

/// Loops of so many points at most are reduced by one block.
const SMALL: usize = 1 << 14;

/// An argument of a kernel: all are pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A stored value's first element.
    Value(Slot),
    /// A byte of the region's scratch space.
    Scratch(usize),
    /// Where a kernel reports a bad index.
    Report,
    /// The number under which it does so.
    Launch,
    /// What says on the device that a bad index was reported.
    Status,
}

/// A matrix of 16-bit elements whose tiles a kernel copies to shared memory: a parameter before its pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// The value.
    pub slot: Slot,
    /// Its first byte, counted from the value's.
    pub offset: usize,
    /// Elements of a line, which lie one after the other, and lines.
    pub sizes: [usize; 2],
    /// Bytes from a line to the next.
    pub step: usize,
    /// Elements of a tile's line, and its lines.
    pub tile: [usize; 2],
}

/// A kernel with its launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// CUDA C without the prelude; the entry point is `run`.
    pub source: String,
    /// Blocks.
    pub grid: u32,
    /// Threads of a block.
    pub block: u32,
    /// Bytes of shared memory beside what the text declares.
    pub shared: u32,
    /// Matrices that are copied by tiles.
    pub maps: Vec<Tiles>,
    /// Arguments.
    pub args: Vec<Arg>,
    /// They are one parameter, a table of pointers.
    pub is_table: bool,
    /// It copies each argument to the next, and is left out where they are the same.
    pub is_move: bool,
}

impl Kernel {
    /// A kernel of so many blocks of so many threads.
    pub fn new(source: String, grid: usize, block: usize, args: Vec<Arg>) -> Kernel {
        let (grid, block, maps) = (grid as u32, block as u32, Vec::new());
        Kernel { source, grid, block, shared: 0, maps, args, is_table: false, is_move: false }
    }
    /// Lets so many neighboring blocks run together and see each other's shared memory.
    pub fn spread_over_clusters(&mut self, blocks: usize) {
        self.source = self.source.replacen(" run(", &format!(" __cluster_dims__({blocks}, 1, 1) run("), 1);
    }
    /// Says how many blocks a multiprocessor should hold: fewer have more registers each.
    pub fn hold(&mut self, blocks: usize) {
        let bounds = format!("__launch_bounds__({}", self.block);
        self.source = self.source.replacen(&format!("{bounds})"), &format!("{bounds}, {blocks})"), 1);
    }
}

/// The statement with which a kernel waits for the launch before it: its first, unless it says
/// otherwise.
pub const WAIT: &str = "after_others();\n";
/// The same in a kernel that says itself when the next may begin.
const AWAIT: &str = "await_others();\n";

/// Kernels as one translation unit; their entry points become `run0`, `run1`…
pub fn unit(sources: &[&str]) -> String {
    let mut text = include_str!("prelude.cu").to_string();
    if sources.iter().any(|s| s.contains("digamma(") || s.contains("polygamma(")) {
        text += include_str!("special.cu");
    }
    if sources.iter().any(|s| s.contains("SortTile") || s.contains("sort_key")) {
        text += include_str!("sort.cu");
    }
    let has = |names: &[&str]| sources.iter().any(|s| names.iter().any(|f| s.contains(f)));
    let is_spectral = has(&["jacobi_", "exponential(", "factor_pairs(", "schur_eig("]);
    if is_spectral || has(&["cholesky(", "factor_", "substitute("]) {
        text += include_str!("linalg.cu");
    }
    if is_spectral {
        text += concat!(include_str!("jacobi.cu"), include_str!("spectral.cu"));
    }
    if sources.iter().any(|s| s.contains("Scan")) {
        text += include_str!("scan.cu");
    }
    if sources.iter().any(|s| s.contains("multiply_matrices")) {
        text += include_str!("skinny_gemm.cu");
    }
    if sources.iter().any(|s| s.contains("weights_") || s.contains("round_activations")) {
        text += include_str!("kernels/quant.cu");
    }
    if has(&["Partial<", "store_row<"]) {
        text += include_str!("kernels/paged.cu");
    }
    if has(&["Seen<"]) {
        text += include_str!("kernels/paged_mma.cu");
    }
    if has(&["FlashRows"]) {
        text += include_str!("kernels/attention/flash_mma.cu");
    }
    for (i, s) in sources.iter().enumerate() {
        // After the bounds: the text of an op of the program's own may come before.
        let mut source = s.replacen(") run(", &format!(") run{i}("), 1);
        let body = source.find(") run").and_then(|at| Some(at + source[at..].find("{\n")? + 2));
        if let Some(at) = body.filter(|_| ![WAIT, AWAIT].iter().any(|w| s.contains(w))) {
            source.insert_str(at, WAIT);
        }
        text += &format!("namespace k{i} {{\n{source}}}\n");
    }
    text
}

/// A loop's kernels, in the order they are launched, and the scratch space they want.
pub struct Lowered {
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// Partial results that are still to be combined, while the loop's kernels are written.
    finals: Vec<partials::Final>,
    /// Bytes of scratch space.
    pub scratch: usize,
}

/// The kernels of a loop for GPUs of a generation. `in_place`: a result may lie where an operand does.
pub fn lower(l: &Loop, graph: &Graph, in_place: bool, major: u32) -> Lowered {
    let has = |f: &dyn Fn(Along, bool, bool) -> bool| {
        l.steps.iter().any(|s| matches!(s, Step::Reduce { along, row, after, .. } if f(*along, *row, *after)))
    };
    let in_row = has(&|along, _, after| along == Along::Row && !after);
    let row_after = has(&|along, _, after| along == Along::Row && after);
    let columns = has(&|along, row, after| along == Along::Column && !row && after);
    let mut out = Lowered { kernels: Vec::new(), finals: Vec::new(), scratch: 0 };
    if in_row {
        let body = Body::new(l, graph, in_place, |_| true, true);
        if !across_rows::lower(&body, &mut out) {
            rows::lower(&body, major, &mut out);
        }
    } else if row_after && columns {
        // What is reduced along rows first: the second kernel may write over what both read.
        split_rows::lower(&Body::new(l, graph, in_place, |a| a == Along::Row, false), &mut out);
        columns::lower(&Body::new(l, graph, in_place, |a| a != Along::Row, true), &mut out);
    } else if row_after {
        split_rows::lower(&Body::new(l, graph, in_place, |_| true, true), &mut out);
    } else if columns {
        columns::lower(&Body::new(l, graph, in_place, |_| true, true), &mut out);
    } else {
        let body = Body::new(l, graph, in_place, |_| true, true);
        match transpose::lower(&body) {
            Some(kernel) => out.kernels.push(kernel),
            None => pointwise::lower(&body, &mut out),
        }
    }
    let finals = std::mem::take(&mut out.finals);
    out.kernels.extend(partials::combine(finals));
    out
}
