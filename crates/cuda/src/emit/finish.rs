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
    out.finals.push(combine(r, slot, at, outer, parts, inner));
    w.scratch(at, r.class())
}

fn combine(r: &Reduction, slot: Slot, at: usize, outer: usize, parts: usize, inner: usize) -> Kernel {
    let (c, op, dtype) = (r.class().c(), r.op(), r.dtype);
    let (stored, start) = (scalar::stored(dtype), r.start());
    let mut s = format!("extern \"C\" __global__ void run(const {c}* __restrict__ p0, {stored}* __restrict__ p1) {{\n");
    let grid = if inner == 1 {
        let _ = write!(
            s,
            "const unsigned long long row = (unsigned long long)blockIdx.x * 8 + threadIdx.x / 32;\n\
             if (row >= {outer}) return;\n\
             {c} a = {start};\n\
             for (int i = threadIdx.x % 32; i < {parts}; i += 32) a = {op}::of(a, p0[row * {parts} + i]);\n\
             a = across<{op}, 32>(a);\n\
             if (threadIdx.x % 32 == 0) p1[row] = put_{dtype}(a);\n}}\n"
        );
        outer.div_ceil(8)
    } else {
        let tiles = inner.div_ceil(32);
        let _ = write!(
            s,
            "__shared__ {c} s[8][33];\n\
             const int x = threadIdx.x % 32, y = threadIdx.x / 32;\n\
             const unsigned long long o = blockIdx.x / {tiles}, i = blockIdx.x % {tiles} * 32 + x;\n\
             {c} a = {start};\n\
             if (i < {inner}) for (int k = y; k < {parts}; k += 8) a = {op}::of(a, p0[(o * {parts} + k) * {inner} + i]);\n\
             s[y][x] = a;\n\
             __syncthreads();\n\
             if (y > 0 || i >= {inner}) return;\n\
             for (int k = 1; k < 8; k++) a = {op}::of(a, s[k][x]);\n\
             p1[o * {inner} + i] = put_{dtype}(a);\n}}\n"
        );
        outer * tiles
    };
    Kernel {
        source: s,
        grid: grid as u32,
        block: 256,
        args: vec![Arg::Scratch(at), Arg::Value(slot)],
        is_table: false,
        is_move: false,
    }
}

/// What a value of a type is after it was combined: rounded to what the type holds.
pub fn rounded(x: &str, dtype: DType) -> String {
    match dtype {
        DType::F32 | DType::F64 | DType::I64 | DType::U64 => x.to_string(),
        _ => format!("get(put_{dtype}({x}))"),
    }
}
