//! The last step of reductions over a whole loop: partial results of blocks to one, in a fixed
//! order.

use super::body::{Body, Reduction, Writer};
use super::scalar;
use super::{Arg, Kernel, Lowered};
use ir::{DType, Slot};
use std::fmt::Write;

/// Combines the accumulators of each block. With one block they are the results; with more they
/// are partial results in scratch space, which further kernels combine.
pub fn blocks(w: &mut Writer, b: &Body, list: &[Reduction], parts: usize, block: usize, out: &mut Lowered) {
    if list.is_empty() {
        return;
    }
    w.gather(list, block);
    for r in list {
        let Some((_, slot)) = b.reductions().find(|(q, _)| q.step == r.step) else { continue };
        if parts == 1 {
            let p = w.target(slot);
            w.put(format!("if (threadIdx.x == 0) {p}[0] = put_{}(g{});\n", r.dtype, r.step));
        } else {
            let p = partial(w, r, slot, 1, parts, 1, out);
            w.put(format!("if (threadIdx.x == 0) {p}[blockIdx.x] = g{};\n", r.step));
        }
    }
}

/// Scratch space for partial results `[outer, parts, inner]` of a reduction, and the kernel that
/// combines them; the pointer's name in the kernel being written.
pub fn partial(
    w: &mut Writer,
    r: &Reduction,
    slot: Slot,
    outer: usize,
    parts: usize,
    inner: usize,
    out: &mut Lowered,
) -> String {
    let at = out.scratch;
    out.scratch += (outer * parts * inner * r.class().size()).next_multiple_of(16);
    out.finals.push(Final { reduction: *r, slot, at, sizes: [outer, parts, inner] });
    w.scratch(at, r.class())
}

/// Partial results `[outer, parts, inner]` in scratch space, and where their combination goes.
pub struct Final {
    reduction: Reduction,
    slot: Slot,
    at: usize,
    sizes: [usize; 3],
}

/// Threads of a block that combines columns: 32 of them by as many parts.
const SIDE: usize = 32;

/// The kernels that combine partial results: one for those of the same sizes.
pub fn combine(mut list: Vec<Final>) -> Vec<Kernel> {
    let mut out = Vec::new();
    while let Some(first) = list.first() {
        let sizes = first.sizes;
        let (same, rest): (Vec<Final>, Vec<Final>) = list.into_iter().partition(|f| f.sizes == sizes);
        out.push(combine_same(&same, sizes));
        list = rest;
    }
    out
}

fn combine_same(list: &[Final], [outer, _, inner]: [usize; 3]) -> Kernel {
    let (block, grid) = if inner == 1 { (256, outer.div_ceil(8)) } else { (SIDE * SIDE, outer * inner.div_ceil(SIDE)) };
    let params: Vec<String> = list.iter().enumerate().map(|(i, f)| f.params(i)).collect();
    let mut s = format!("extern \"C\" __global__ void __launch_bounds__({block}) run({}) {{\n", params.join(", "));
    for (i, f) in list.iter().enumerate() {
        let _ = write!(s, "if (blockIdx.x / {grid}u == {i}u) {{\n{}}}\n", f.text(i, grid));
    }
    s += "}\n";
    let args = list.iter().flat_map(|f| [Arg::Scratch(f.at), Arg::Value(f.slot)]).collect();
    Kernel::new(s, grid * list.len(), block, args)
}

impl Final {
    fn params(&self, i: usize) -> String {
        let (c, stored) = (self.reduction.class().c(), scalar::stored(self.reduction.dtype));
        format!("const {c}* __restrict__ p{i}, {stored}* __restrict__ q{i}")
    }

    /// What the blocks do that combine it, as the `i`-th of several that have `grid` blocks each.
    fn text(&self, i: usize, grid: usize) -> String {
        let Final { reduction: r, sizes: [outer, parts, inner], .. } = self;
        let (c, op, dtype, start) = (r.class().c(), r.op(), r.dtype, r.start());
        if *inner == 1 {
            return format!(
                "const unsigned long long row = (unsigned long long)(blockIdx.x % {grid}u) * 8 + threadIdx.x / 32;\n\
                 if (row >= {outer}) return;\n\
                 {c} a = {start};\n\
                 for (int k = threadIdx.x % 32; k < {parts}; k += 32) a = {op}::of(a, p{i}[row * {parts} + k]);\n\
                 a = across<{op}, 32>(a);\n\
                 if (threadIdx.x % 32 == 0) q{i}[row] = put_{dtype}(a);\n"
            );
        }
        let tiles = inner.div_ceil(SIDE);
        format!(
            "__shared__ {c} s[{SIDE}][{wide}];\n\
             const int x = threadIdx.x % {SIDE}, y = threadIdx.x / {SIDE};\n\
             const unsigned b = blockIdx.x % {grid}u;\n\
             const unsigned long long o = b / {tiles}, at = b % {tiles} * {SIDE} + x;\n\
             {c} a = {start};\n\
             if (at < {inner})\n#pragma unroll 4\n\
             for (int k = y; k < {parts}; k += {SIDE}) a = {op}::of(a, p{i}[(o * {parts} + k) * {inner} + at]);\n\
             s[y][x] = a;\n\
             __syncthreads();\n\
             a = across<{op}, 32>(s[x][y]);\n\
             const unsigned long long to = b % {tiles} * {SIDE} + y;\n\
             if (x == 0 && to < {inner}) q{i}[o * {inner} + to] = put_{dtype}(a);\n",
            wide = SIDE + 1
        )
    }
}

/// What a value of a type is after it was combined: rounded to what the type holds.
pub fn rounded(x: &str, dtype: DType) -> String {
    match dtype {
        DType::F32 | DType::F64 | DType::I64 | DType::U64 => x.to_string(),
        _ => format!("get(put_{dtype}({x}))"),
    }
}
