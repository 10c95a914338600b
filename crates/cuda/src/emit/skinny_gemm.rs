//! Skinny GEMMs: up to 64 rows by a K-major weight matrix, as in a decode step of a batch. The weights are read once,
//! and the first of them before the launch that computes the rows has ended.
//!
//! A block has 128 columns (64 where their number is no multiple of 128) and a part of K. One warp copies tiles of both
//! operands to a ring in shared memory by tensor maps (TMA); a group of four warps multiplies 64 columns by all rows with
//! `wgmma`. Split-K: the blocks of a cluster add their sums in distributed shared memory. How K is divided depends on the
//! matrix alone, so that a row's sums have one order whatever the number of rows.
//!
//! Loops that take the product (activations, KV-cache writes) run in the epilogue, and so do argmax and argmin.

mod epilogue;

use super::body::Body;
use super::gemv::{Launch, point, taken};
use super::kernels::Operand;
use super::partials::rounded;
use super::scalar::stored;
use super::{Arg, Kernel, Tiles};
use epilogue::{Local, Text};
use ir::{DType, Graph, Meaning};
use passes::{Loop, Step};
use std::fmt::Write;

/// Columns of a group of four warps, and elements of K in a stage.
const GROUP: usize = 64;
const CHUNK: usize = 64;
/// Bytes of shared memory of a block: two share a multiprocessor, one of this launch and one of the next.
const SHARED: usize = 113 << 10;
/// Of those, bytes for barriers and alignment.
const SHARED_EXTRA: usize = 1024 + 256;
/// Rows at most, and what their number is rounded up to.
const ROWS_MAX: usize = 64;
const ROWS_STEP: usize = 16;
/// Elements of a matrix that is worth it.
const LEAST: usize = 1 << 20;
/// Multiprocessors, blocks of a cluster at most, and chunks of K that a block should have.
const MULTIPROCESSORS: usize = 132;
const CLUSTER_MAX: usize = 8;
const CHUNKS_LEAST: usize = 4;
/// The generation of GPUs that multiplies like this.
const HOPPER: u32 = 9;

/// A product of few rows with a matrix, and the loops that go along with it.
pub struct Chain<'a> {
    /// The graph they are of.
    pub graph: &'a Graph,
    /// The rows, the matrix, and perhaps what is added.
    pub args: &'a [Operand],
    /// The product.
    pub y: &'a Operand,
    /// What takes the product.
    pub behind: Behind<'a>,
    /// A launch of the same run precedes it, so that the matrix can be read before that ends.
    pub is_later: bool,
}

/// What takes a product.
pub enum Behind<'a> {
    /// Loops.
    Loops(Vec<Part<'a>>),
    /// The search for the place of the greatest element of each row, or of the least.
    Extreme {
        /// The places.
        y: &'a Operand,
        /// It is the least.
        is_least: bool,
    },
}

/// A loop that takes a product, and perhaps what its result is put into.
pub struct Part<'a> {
    /// The loop.
    pub l: &'a Loop,
    /// Where its result goes instead of to memory of its own.
    pub put: Option<Put>,
}

/// Elements put into a value.
pub struct Put {
    /// Where: an index of their shape along an axis, or the slot of each row.
    pub index: Operand,
    /// The value.
    pub y: Operand,
    /// The axis; none where rows go to slots of a KV cache.
    pub axis: Option<usize>,
}

/// True for a product of few rows with a large matrix whose columns lie in memory one after the other.
pub fn fits(args: &[Operand], y: &Operand, major: u32) -> bool {
    let (x, w) = (&args[0], &args[1]);
    let [rows, columns] = *y.ty.shape.dims() else { return false };
    let is_half = matches!(y.ty.dtype, DType::BF16 | DType::F16);
    if major != HOPPER
        || !is_half
        || !(2..=ROWS_MAX).contains(&rows)
        || x.ty.shape.rank() != 2
        || w.ty.shape.rank() != 2
    {
        return false;
    }
    let inner = w.ty.shape[0];
    let (unit, step, row) = (w.layout.strides[0], w.layout.strides[1], x.layout.strides[0]);
    let is_aligned = |n: usize| n.is_multiple_of(8);
    unit == 1
        && x.layout.strides[1] == 1
        && step >= inner as isize
        && row >= inner as isize
        && [step.unsigned_abs(), row.unsigned_abs(), w.layout.offset, x.layout.offset].into_iter().all(is_aligned)
        && inner.is_multiple_of(CHUNK)
        && columns.is_multiple_of(GROUP)
        && inner * columns >= LEAST
}

/// True if loops can take the elements of a product as they appear.
pub fn may_take(parts: &[Part], y: &Operand) -> bool {
    way(parts, y).is_some()
}

/// How the sums become results.
enum Way<'a> {
    /// They are the results.
    Plain,
    /// One loop takes equal stretches of the rows, at each point an element of each.
    Stretches(&'a Loop, Vec<usize>),
    /// The extreme of what a block has of each row is kept.
    Extreme(bool),
    /// Loops take what a block has of each row.
    Local(Vec<(&'a Part<'a>, Local)>),
}

/// Bytes of scratch space for the search for an extreme of each row: what is found in the columns of each block.
pub fn scratch(y: &Operand) -> usize {
    y.ty.shape.count() / lines(y) * size_of::<u64>()
}

/// Columns of a block.
fn lines(y: &Operand) -> usize {
    if y.ty.shape[1].is_multiple_of(2 * GROUP) { 2 * GROUP } else { GROUP }
}

fn way<'a>(parts: &'a [Part<'a>], y: &Operand) -> Option<Way<'a>> {
    match parts {
        [] => Some(Way::Plain),
        [Part { l, put: None }] if let Some(found) = stretches(l, y) => Some(Way::Stretches(l, found)),
        _ => Some(Way::Local(parts.iter().map(|p| Some((p, Local::new(p.l, y)?))).collect::<Option<_>>()?)),
    }
}

/// For each load of the product by a plain loop: which stretch of its rows it takes, where its points are the
/// product's rows cut into as many equal stretches as it takes elements.
fn stretches(l: &Loop, y: &Operand) -> Option<Vec<usize>> {
    let [rows, columns] = *y.ty.shape.dims() else { return None };
    let loads = taken(l, y.slot);
    let count = loads.len();
    let is_plain = l.producer.is_none() && !l.steps.iter().any(|s| matches!(s, Step::Reduce { .. }));
    if !is_plain || !matches!(count, 2 | 4) || rows * columns != count * l.dims.iter().product::<usize>() {
        return None;
    }
    let each = columns / count;
    let mut found = Vec::new();
    for i in loads {
        let Step::Load { strides, offset, .. } = &l.steps[i] else { return None };
        let mut next = 1;
        for (d, s) in l.dims.iter().zip(strides).rev() {
            // From one row to the next all stretches are passed.
            let step = if next < each { next } else { next * count };
            let is_across = count > 1 && next < each && !each.is_multiple_of(next * d);
            if *s != step as isize || is_across {
                return None;
            }
            next *= d;
        }
        if offset % each != 0 || found.contains(&(offset / each)) {
            return None;
        }
        found.push(offset / each);
    }
    Some(found)
}

/// Blocks that K is divided between, for so many tiles of columns: as many as run at once.
fn parts(tiles: usize, inner: usize) -> usize {
    let chunks = inner / CHUNK;
    let fits = |parts: &usize| chunks.is_multiple_of(*parts) && chunks / parts >= CHUNKS_LEAST;
    let run_at_once = |parts: &usize| tiles * parts <= MULTIPROCESSORS;
    [CLUSTER_MAX, 4, 2].into_iter().filter(fits).find(run_at_once).unwrap_or(1)
}

/// The geometry of a launch.
struct Geometry {
    /// Rows rounded up, columns of a block, blocks that K is divided between.
    padded: usize,
    lines: usize,
    parts: usize,
    /// Stages of the ring.
    stages: usize,
}

impl Geometry {
    fn new(y: &Operand, inner: usize) -> Geometry {
        let (padded, lines) = (y.ty.shape[0].next_multiple_of(ROWS_STEP), lines(y));
        let stages = (SHARED - SHARED_EXTRA) / ((lines + padded) * CHUNK * 2);
        Geometry { padded, lines, parts: parts(y.ty.shape[1] / lines, inner), stages }
    }
    /// Warps that multiply; one more copies.
    fn warps(&self) -> usize {
        self.lines / GROUP * 4
    }
    fn threads(&self) -> usize {
        (self.warps() + 1) * 32
    }
    /// Rows whose sums a block of a cluster puts together.
    fn share(&self) -> usize {
        self.padded.div_ceil(self.parts)
    }
}

/// The kernels.
pub fn lower(c: &Chain) -> Vec<Kernel> {
    let second = match &c.behind {
        Behind::Extreme { y, .. } => Some(epilogue::extremes(c, y)),
        Behind::Loops(_) => None,
    };
    [product(c)].into_iter().chain(second).collect()
}

fn product(c: &Chain) -> Kernel {
    let (x, w, dtype) = (&c.args[0], &c.args[1], c.y.ty.dtype);
    let ([rows, columns], ty) = ([c.y.ty.shape[0], c.y.ty.shape[1]], stored(dtype));
    let inner = w.ty.shape[0];
    let s = Geometry::new(c.y, inner);
    let (padded, lines, parts) = (s.padded, s.lines, s.parts);
    let way = match &c.behind {
        Behind::Loops(parts) => way(parts, c.y).expect("it was asked before"),
        Behind::Extreme { is_least, .. } => Way::Extreme(*is_least),
    };
    let count = if let Way::Stretches(_, list) = &way { list.len() } else { 1 };
    // A matrix that nothing of this run has written can be read before the launch before has ended.
    let is_early = c.is_later && matches!(c.graph.node(w.slot).op.meaning, Meaning::Input | Meaning::Const);
    let mut out = Launch::default();
    for name in ["weights", "rows"] {
        out.params.push(format!("const __grid_constant__ TensorMap {name}"));
    }
    let added = c.args.get(2).map(|b| {
        out.param(&format!("const {ty}*"), "bias", Arg::Value(b.slot));
        b.layout.offset
    });
    let element = |sum: &str, column: &str| {
        let plus = added.map_or(String::new(), |offset| format!(" + get(bias[{offset} + {column}])"));
        format!("{sum}{plus}")
    };
    let Text { ahead, result } = finish(c, &way, &s, &element, &mut out);
    let mut source = format!("typedef long long idx;\n{}{}", multiply(padded, dtype), out.functions);
    let _ = write!(
        source,
        "extern \"C\" __global__ void __launch_bounds__({threads}, 2) run({params}) {{\n\
         constexpr int ROWS = {rows}, PADDED = {padded}, LINES = {lines}, INNER = {inner};\n\
         constexpr int PARTS = {parts}, STAGES = {stages}, POINTS = {points}, STRETCH = {stretch};\n\
         constexpr bool IS_EARLY = {is_early};\n\
         {body}{ahead}{sync}{result}{wait}}}\n",
        params = out.params.join(", "),
        threads = s.threads(),
        stages = s.stages,
        points = lines / count,
        stretch = columns / count,
        body = include_str!("skinny_gemm_body.cu"),
        sync = if parts > 1 { "sync_cluster();\n" } else { "__syncthreads();\n" },
        // A block's memory is read until the others are done.
        wait = if parts > 1 { "leave_cluster();\n" } else { "" },
    );
    let mut kernel = Kernel::new(source, columns / lines * parts, s.threads(), out.args);
    let map = |o: &Operand, lines: usize, step: isize, tile: usize| Tiles {
        slot: o.slot,
        offset: o.offset(),
        sizes: [inner, lines],
        step: step.unsigned_abs() * 2,
        tile: [CHUNK, tile],
    };
    kernel.maps = vec![map(w, columns, w.layout.strides[1], lines / count), map(x, rows, x.layout.strides[0], padded)];
    let ring = s.stages * (lines + padded) * CHUNK * 2;
    // Sums, and what warps see of two rows each.
    let sums = (padded * (lines + 4) + s.warps() * 2 * lines) * 4;
    kernel.shared = (ring.max(sums) + 1024) as u32;
    if parts > 1 {
        kernel.spread_over_clusters(parts);
    }
    kernel
}

/// The function that multiplies 64 lines by all rows, 16 elements deep.
fn multiply(padded: usize, dtype: DType) -> String {
    let count = padded / 2;
    let names: Vec<String> = (0..count).map(|i| format!("%{i}")).collect();
    let sums: Vec<String> = (0..count).map(|i| format!("\"+f\"(sums[{i}])")).collect();
    format!(
        "FN void multiply_matrices(float* sums, unsigned long long a, unsigned long long b) {{\n\
         asm volatile(\"wgmma.mma_async.sync.aligned.m64n{padded}k16.f32.{dtype}.{dtype} {{{names}}}, %{count}, %{last}, 1, 1, 1, 0, 0;\"\n\
         : {sums} : \"l\"(a), \"l\"(b));\n}}\n",
        names = names.join(", "),
        last = count + 1,
        sums = sums.join(", "),
    )
}

/// What is done with the sums of a block's share of the rows; `element` makes one an element of the product in a column.
fn finish(c: &Chain, way: &Way, s: &Geometry, element: &dyn Fn(&str, &str) -> String, out: &mut Launch) -> Text {
    let result = match way {
        Way::Local(list) => return epilogue::text(c, list, s, element, out),
        Way::Plain => epilogue::whole(c, s, element, out),
        Way::Stretches(l, list) => stretched(c, l, list, element, out),
        Way::Extreme(is_least) => epilogue::extreme(c, s, *is_least, element, out),
    };
    Text { ahead: String::new(), result }
}

/// A loop takes an element of each stretch of a row.
fn stretched(
    c: &Chain,
    l: &Loop,
    stretches: &[usize],
    element: &dyn Fn(&str, &str) -> String,
    out: &mut Launch,
) -> String {
    let loads = taken(l, c.y.slot);
    let given: Vec<(usize, String)> = loads.iter().enumerate().map(|(k, &step)| (step, format!("s{k}"))).collect();
    let body = Body::new(l, c.graph, false, |_| true, true);
    let head: Vec<String> = given.iter().map(|(_, s)| format!("const float {s}")).collect();
    let call = out.function("behind", &format!("idx n, {}", head.join(", ")), point(&body, &given), None);
    let sum = |which: &usize| {
        let at = format!("({which} * STRETCH + tile * POINTS + line)");
        rounded(&format!("({})", element(&format!("sum(row, {which} * POINTS + line)"), &at)), c.y.ty.dtype)
    };
    let sums: Vec<String> = stretches.iter().map(sum).collect();
    format!(
        "const auto sum = [&](int row, int line) -> float {{\n\
         const float* const from = all + row * WIDE + line;\nfloat s = 0;\n\
         #pragma unroll\nfor (int k = 0; k < PARTS; k++) s += PARTS > 1 ? of_block(from, k) : *from;\n\
         return s;\n}};\n\
         constexpr int SHARE = (PADDED * POINTS + PARTS - 1) / PARTS;\n\
         #pragma unroll 4\nfor (int i = threadIdx.x; warp < WARPS && i < SHARE; i += CONSUMERS) {{\n\
         const int n = part * SHARE + i, row = n / POINTS, line = n % POINTS;\n\
         if (row < ROWS) behind(row * (idx)STRETCH + tile * POINTS + line, {}, {call});\n}}\n",
        sums.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{Layout, Shape, Slot, Type};

    fn operand(node: usize, shape: &[usize], strides: &[isize]) -> Operand {
        let layout = Layout { shape: Shape::new(shape), strides: strides.iter().copied().collect(), offset: 0 };
        Operand { slot: Slot::new(node, 0), ty: Type::new(DType::BF16, shape), layout }
    }
    fn takes(dims: &[usize], loads: &[(&[isize], usize)]) -> Option<Vec<usize>> {
        let y = operand(2, &[8, 4096], &[4096, 1]);
        let load = |(strides, offset): &(&[isize], usize)| Step::Load {
            root: y.slot,
            strides: strides.iter().copied().collect(),
            offset: *offset,
        };
        let steps = loads.iter().map(load).collect();
        let l = Loop { dims: dims.to_vec(), inner: 1, steps, stores: Vec::new(), nodes: Vec::new(), producer: None };
        stretches(&l, &y)
    }

    #[test]
    fn large_matrices_of_few_rows_fit() {
        let fits = |rows: usize, strides: &[isize], major: u32| {
            let (x, w) = (operand(0, &[rows, 512], &[512, 1]), operand(1, &[512, 4096], strides));
            fits(&[x, w], &operand(2, &[rows, 4096], &[4096, 1]), major)
        };
        assert!(fits(2, &[1, 512], 9) && fits(64, &[1, 520], 9));
        assert!(!fits(1, &[1, 512], 9) && !fits(65, &[1, 512], 9), "rows");
        assert!(!fits(8, &[4096, 1], 9) && !fits(8, &[1, 516], 9), "how the matrix lies");
        assert!(!fits(8, &[1, 512], 8) && !fits(8, &[1, 512], 10), "other generations");
    }

    #[test]
    fn blocks_share_columns_where_there_are_few() {
        assert_eq!(parts(3072 / 128, 2048), 4);
        assert_eq!(parts(2048 / 128, 8192), 8);
        assert_eq!(parts(16384 / 128, 2048), 1);
        assert_eq!(parts(1, 192), 1, "three chunks");
    }

    #[test]
    fn loops_take_whole_rows_or_equal_stretches() {
        assert_eq!(takes(&[8 * 4096], &[(&[1], 0)]), None, "as it lies");
        assert_eq!(takes(&[8, 2048], &[(&[4096, 1], 2048), (&[4096, 1], 0)]), Some(vec![1, 0]));
        assert_eq!(takes(&[8, 32, 64], &[(&[4096, 64, 1], 0), (&[4096, 64, 1], 2048)]), Some(vec![0, 1]));
        assert_eq!(takes(&[8, 2048], &[(&[4096, 2], 0), (&[4096, 2], 1)]), None, "every second column");
        assert_eq!(takes(&[8, 2048], &[(&[4096, 1], 0), (&[4096, 1], 0)]), None, "one stretch twice");
        assert_eq!(takes(&[2048, 8], &[(&[1, 4096], 0), (&[1, 4096], 2048)]), None, "column by column");
    }
}
