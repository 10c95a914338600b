//! Indices of extremes along an axis.

use super::{Call, Operand, Text};
use crate::claims::Claim;
use crate::emit::scalar::{Class, stored};
use crate::emit::{Arg, Kernel};
use ir::{Attrs, AxisSplit};

/// Indices of extremes.
pub static CLAIMS: &[Claim] = &[
    Claim { scratch, ..Claim::new("argmax", |c| extreme(c, ">")) },
    Claim { scratch, ..Claim::new("argmin", |c| extreme(c, "<")) },
];

/// Elements that a thread reads before it looks at them.
const AT_ONCE: usize = 8;

/// Lanes of so many elements at least get a cluster of blocks each, as many as keep the device busy.
const CLUSTER_SIZE: usize = 1 << 15;
const CLUSTER_MAX: usize = 8;
const BLOCKS: usize = 128;

/// Blocks of a lane that is so long that clusters do not keep the device busy; 1 for other lanes.
fn spread(l: &AxisSplit) -> usize {
    let lanes = l.outer * l.inner;
    let is_long = l.size >= 1 << 19 && lanes * CLUSTER_MAX < BLOCKS;
    if is_long { (4 * BLOCKS / lanes.max(1)).min(l.size >> 14) } else { 1 }
}
fn scratch(attrs: &Attrs, args: &[Operand]) -> usize {
    let Ok(axis) = attrs.size("axis") else { return 0 };
    let l = AxisSplit::new(&args[0].ty.shape, axis);
    if spread(&l) > 1 { 16 * l.outer * l.inner * spread(&l) } else { 0 }
}

/// Declares the best element so far, how it is compared, and how the lanes of a warp combine theirs.
fn compared(class: &str, op: &str) -> String {
    format!(
        "auto wins = [](long long j, {class} v, long long best, {class} top) {{\n\
         if (best < 0) return j >= 0;\n\
         if (j < 0) return false;\n\
         const bool a = v != v, b = top != top;\n\
         if (a || b) return a && (!b || j < best);\n\
         return v {op} top || (v == top && j < best);\n}};\n\
         long long best = -1;\n{class} top = 0;\n\
         auto combine = [&] {{\n\
         for (int d = 16; d > 0; d /= 2) {{\n\
         const long long j = __shfl_xor_sync(0xffffffffu, best, d);\n\
         const {class} v = __shfl_xor_sync(0xffffffffu, top, d);\n\
         if (wins(j, v, best, top)) {{ best = j; top = v; }}\n}}\n}};\n"
    )
}

/// The place of the greatest or least element: the first of equals, a NaN before all. A warp for
/// each lane; where lanes are few and long, a block, or several.
fn extreme(c: &Call, op: &str) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let l = AxisSplit::new(&x.ty.shape, c.attrs.size("axis").ok()?);
    if l.inner >= ACROSS && l.size >= ACROSS {
        return extreme_across(x, y, &l, op);
    }
    let class = Class::of(x.ty.dtype).c();
    let lanes = l.outer * l.inner;
    let threads = if l.size >= 4096 && lanes <= 1024 { 1024 } else { 32 };
    let each = 1024usize.min(256.max(threads)) / threads;
    let parts = if c.major >= 9 && l.size >= CLUSTER_SIZE { (BLOCKS / lanes.max(1)).clamp(1, CLUSTER_MAX) } else { 1 };
    let is_spread = spread(&l) > 1;
    let parts = if is_spread { spread(&l) } else { parts };
    let is_shared = parts > 1 && !is_spread;
    // Places of a thread come in order, so that a later element must be better, or the first NaN.
    let no_better = if op == ">" { "<=" } else { ">=" };
    // Long lanes whose elements lie side by side are read 16 bytes at a time.
    let most = 16 / x.ty.dtype.size();
    let is_wide = threads > 32 && l.inner == 1 && l.size.is_multiple_of(most) && x.layout.offset.is_multiple_of(most);
    let width = if is_wide { most } else { 1 };
    let stretch = l.size.div_ceil(parts).next_multiple_of(width);
    let body = format!(
        "const idx lane = (idx)(blockIdx.x / {parts}) * {each} + threadIdx.x / {threads};\n\
         const idx first = blockIdx.x % {parts} * {stretch}, end = min(first + {stretch}, (idx){size});\n\
         if (lane >= {lanes}) return;\n\
         const idx base = lane / {inner} * {size} * {inner} + lane % {inner};\n\
         {}\
         for (idx k = first + threadIdx.x % {threads} * {width}; k < end; k += {step} * {AT_ONCE}) {{\n\
         pack<{ty}, {width}> v[{AT_ONCE}];\n\
         #pragma unroll\nfor (int j = 0; j < {AT_ONCE}; j++)\n\
         if (k + j * {step} < end) v[j] = *(const pack<{ty}, {width}>*)(x + base + (k + j * {step}) * {inner});\n\
         #pragma unroll\nfor (int j = 0; j < {AT_ONCE}; j++)\n\
         #pragma unroll\nfor (int e = 0; e < {width}; e++) {{\n\
         const {class} now = get(v[j].at[e]);\n\
         if (k + j * {step} < end && (best < 0 || (top == top && !(now {no_better} top)))) {{ best = k + j * {step} + e; top = now; }}\n}}\n}}\n\
         combine();\n{}{}",
        compared(class, op),
        if threads > 32 { across(class) } else { String::new() },
        if is_spread {
            "if (threadIdx.x == 0) { found[blockIdx.x] = best; values[blockIdx.x] = top; }\n".to_string()
        } else if is_shared {
            among_blocks(class, parts)
        } else {
            format!("if (threadIdx.x % {threads} == 0) y[lane] = best;\n")
        },
        size = l.size,
        inner = l.inner,
        step = threads * width,
        ty = stored(x.ty.dtype),
    );
    if is_spread {
        let memory = |t: Text| {
            let t = t.memory("found", "long long", Arg::Scratch(0));
            t.memory("values", class, Arg::Scratch(8 * lanes * parts))
        };
        let mut kernels = memory(Text::new().reads("x", x)).blocks(lanes * parts, threads, &body)?;
        let last = format!(
            "{}for (idx q = (idx)blockIdx.x * {parts} + threadIdx.x; q < (idx)(blockIdx.x + 1) * {parts}; q += 32)\n\
             if (wins(found[q], values[q], best, top)) {{ best = found[q]; top = values[q]; }}\n\
             combine();\nif (threadIdx.x == 0) y[blockIdx.x] = best;\n",
            compared(class, op)
        );
        kernels.extend(memory(Text::new().writes("y", y)).blocks(lanes, 32, &last)?);
        return Some(kernels);
    }
    let mut kernels =
        Text::new().reads("x", x).writes("y", y).blocks(lanes.div_ceil(each) * parts, each * threads, &body)?;
    if is_shared {
        kernels.iter_mut().for_each(|k| k.spread_over_clusters(parts));
    }
    Some(kernels)
}

/// Lanes side by side where they lie across memory.
const ACROSS: usize = 32;

/// The same along an axis whose neighbors lie apart: neighboring threads have neighboring lanes, and a few threads share
/// a lane.
fn extreme_across(x: &Operand, y: &Operand, l: &AxisSplit, op: &str) -> Option<Vec<Kernel>> {
    let AxisSplit { outer, size, inner } = *l;
    let (ty, class) = (stored(x.ty.dtype), Class::of(x.ty.dtype).c());
    let tiles = inner.div_ceil(ACROSS);
    let height = if outer * tiles < 4 * BLOCKS && size >= 256 { 32 } else { 8 };
    let no_better = if op == ">" { "<=" } else { ">=" };
    let body = format!(
        "{}const int a = threadIdx.x % {ACROSS}, b = threadIdx.x / {ACROSS};\n\
         const idx o = blockIdx.x / {tiles}, column = blockIdx.x % {tiles} * {ACROSS} + a;\n\
         const {ty}* from = x + o * {size} * {inner} + min(column, {inner}ll - 1);\n\
         for (int k = b; k < {size}; k += {height} * {AT_ONCE}) {{\n\
         {ty} v[{AT_ONCE}];\n\
         #pragma unroll\nfor (int j = 0; j < {AT_ONCE}; j++)\n\
         if (k + j * {height} < {size}) v[j] = from[(idx)(k + j * {height}) * {inner}];\n\
         #pragma unroll\nfor (int j = 0; j < {AT_ONCE}; j++) {{\n\
         const {class} now = get(v[j]);\n\
         if (k + j * {height} < {size} && (best < 0 || (top == top && !(now {no_better} top)))) {{ best = k + j * {height}; top = now; }}\n}}\n}}\n\
         __shared__ int places[{height}][{ACROSS}];\n__shared__ {class} tops[{height}][{ACROSS}];\n\
         places[b][a] = (int)best;\ntops[b][a] = top;\n\
         __syncthreads();\n\
         if (b > 0 || column >= {inner}) return;\n\
         for (int k = 1; k < {height}; k++)\n\
         if (wins(places[k][a], tops[k][a], best, top)) {{ best = places[k][a]; top = tops[k][a]; }}\n\
         y[o * {inner} + column] = best;\n",
        compared(class, op),
    );
    i32::try_from(size).ok()?;
    Text::new().reads("x", x).writes("y", y).blocks(outer * tiles, ACROSS * height, &body)
}

/// Combines what the blocks of a cluster have found.
fn among_blocks(class: &str, parts: usize) -> String {
    format!(
        "__shared__ long long place;\n__shared__ {class} there;\n\
         if (threadIdx.x == 0) {{ place = best; there = top; }}\n\
         sync_cluster();\n\
         for (int n = 0; n < {parts}; n++) {{\n\
         const long long j = of_block(&place, n);\nconst {class} v = of_block(&there, n);\n\
         if (wins(j, v, best, top)) {{ best = j; top = v; }}\n}}\n\
         if (threadIdx.x == 0 && blockIdx.x % {parts} == 0) y[lane] = best;\n\
         leave_cluster();\n"
    )
}

/// Combines what the 32 warps of a block have found.
fn across(class: &str) -> String {
    format!(
        "__shared__ long long places[32];\n__shared__ {class} tops[32];\n\
         if (threadIdx.x % 32 == 0) {{ places[threadIdx.x / 32] = best; tops[threadIdx.x / 32] = top; }}\n\
         __syncthreads();\n\
         best = places[threadIdx.x % 32]; top = tops[threadIdx.x % 32];\n\
         combine();\n"
    )
}
