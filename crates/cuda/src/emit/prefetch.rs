//! Rows that a block brings to shared memory before it works on them: while it is busy with one, the next
//! are on their way.

use super::access::{index, split};
use super::body::{Body, Level, Writer};
use ir::Shape;
use passes::Step;

/// The first generation of GPUs that brings rows to shared memory by itself, and has so much of it; its
/// multiprocessors.
const FROM: u32 = 9;
pub const BLOCKS: usize = 132;
const SHARED_MAX: usize = 224 << 10;
/// Rows that are there or on their way at most.
const PARTS_MAX: usize = 4;

/// The rows of a block in shared memory.
pub struct Ahead {
    /// Which loads, and the bytes of each row that are theirs.
    loads: Vec<(usize, std::ops::Range<usize>)>,
    /// Rows there is room for, one of which is worked on.
    parts: usize,
}

impl Ahead {
    /// The rows of a loop, with room for two at least where a multiprocessor has so many blocks; `None` if
    /// they do not lie whole in memory.
    pub fn new(b: &Body, major: u32, blocks: usize) -> Option<Ahead> {
        let (outer, inner) = b.dims();
        let whole = Shape::new(inner).strides();
        let mut end = 0;
        let mut loads = Vec::new();
        for (step, strides, offset) in rows(b) {
            let size = b.dtype(step).size();
            let is_whole = |n: usize| (n * size).is_multiple_of(16);
            let is_line = strides[outer.len()..].iter().zip(&whole).all(|(a, b)| a == b);
            let is_apart = strides[..outer.len()].iter().all(|&s| s > 0 && is_whole(s.unsigned_abs()));
            if !is_line || !is_apart || !is_whole(offset) || !is_whole(b.l.columns()) {
                return None;
            }
            let start = end;
            end += b.l.columns() * size;
            loads.push((step, start..end));
        }
        let parts = (SHARED_MAX / blocks).checked_div(end)?.min(PARTS_MAX);
        (major >= FROM && parts >= 2).then_some(Ahead { loads, parts })
    }

    /// Bytes of all rows, and of one.
    pub fn bytes(&self) -> usize {
        self.parts * self.each()
    }
    fn each(&self) -> usize {
        self.loads.last().map_or(0, |(_, at)| at.end)
    }
    /// Where the row of a load begins, if it is here.
    pub fn start(&self, step: usize) -> Option<usize> {
        self.loads.iter().find(|(s, _)| *s == step).map(|(_, at)| at.start)
    }

    /// Asks for the first rows of a block, of which `grid` walk over all rows.
    pub fn begin(&self, w: &mut Writer, b: &Body, grid: usize) {
        let (outer, each, parts, total) = (b.dims().0, self.each(), self.parts, b.l.rows());
        let (text, at) = split(outer, "row", "r");
        let mut copies = String::new();
        for (step, range) in &self.loads {
            let Step::Load { strides, offset, .. } = &b.l.steps[*step] else { continue };
            let (p, from) = (w.source(*step), index(&strides[..outer.len()], *offset, &at));
            let (start, size) = (range.start, range.len());
            copies += &format!("bring(staged + part * {each} + {start}, {p} + ({from}), {size}, &ready[part]);\n");
        }
        w.put(format!(
            "extern __shared__ __align__(128) char staged[];\n__shared__ unsigned long long ready[{parts}];\n\
             const auto stage = [&](idx row, int part) {{\n{text}\nbarrier_expect(&ready[part], {each});\n{copies}}};\n\
             if (threadIdx.x == 0) {{\nfor (int i = 0; i < {parts}; i++) barrier_begin(&ready[i]);\n\
             for (int i = 0; i < {parts} - 1; i++) if (blockIdx.x + i * {grid}u < {total}u) stage(blockIdx.x + i * {grid}u, i);\n}}\n\
             __syncthreads();\nint turn = 0;\n"
        ));
    }

    /// Asks for a later row and waits for the one that comes `first`.
    pub fn next(&self, w: &mut Writer, b: &Body, grid: usize) {
        let (each, parts, total) = (self.each(), self.parts, b.l.rows());
        let far = (parts - 1) * grid;
        w.put(format!(
            "if (threadIdx.x == 0 && first + {far}u < {total}u) stage(first + {far}u, (turn + {parts} - 1) % {parts});\n\
             barrier_wait(&ready[turn % {parts}], turn / {parts} % 2);\n\
             const char* now = staged + turn % {parts} * {each};\nturn++;\n"
        ));
    }
}

/// True if a load reads the same for each row.
pub fn is_same(b: &Body, step: usize) -> bool {
    let outer = b.dims().0.len();
    matches!(&b.l.steps[step], Step::Load { strides, .. } if strides[..outer].iter().all(|&s| s == 0))
}

/// The loads that have a row of their own for each.
fn rows<'b>(b: &'b Body) -> impl Iterator<Item = (usize, &'b [isize], usize)> {
    b.loads().filter(|&(i, ..)| b.level[i] == Level::Full && !b.is_counted(i) && !is_same(b, i))
}
