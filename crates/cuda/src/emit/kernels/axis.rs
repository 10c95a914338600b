//! Indices of extremes along an axis.

use super::{Call, Text};
use crate::claims::Claim;
use crate::emit::Kernel;
use crate::emit::scalar::{Class, stored};
use ir::AxisSplit;

/// Indices of extremes.
pub static CLAIMS: &[Claim] = &[Claim::new("argmax", |c| extreme(c, ">")), Claim::new("argmin", |c| extreme(c, "<"))];

/// Elements that a thread reads before it looks at them.
const AT_ONCE: usize = 8;

/// Lanes of so many elements at least get a cluster of blocks each, as many as keep the device busy.
const CLUSTER_SIZE: usize = 1 << 15;
const CLUSTER_MAX: usize = 8;
const BLOCKS: usize = 128;

/// The place of the greatest or least element: the first of equals, a NaN before all. A warp for
/// each lane; where lanes are few and long, a block, or several.
fn extreme(c: &Call, op: &str) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let l = AxisSplit::new(&x.ty.shape, c.attrs.size("axis").ok()?);
    let class = Class::of(x.ty.dtype).c();
    let lanes = l.outer * l.inner;
    let threads = if l.size >= 4096 && lanes <= 1024 { 1024 } else { 32 };
    let each = 1024usize.min(256.max(threads)) / threads;
    let parts = if c.major >= 9 && l.size >= CLUSTER_SIZE { (BLOCKS / lanes.max(1)).clamp(1, CLUSTER_MAX) } else { 1 };
    let is_shared = parts > 1;
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
         long long best = -1;\n{class} top = 0;\n\
         auto wins = [](long long j, {class} v, long long best, {class} top) {{\n\
         if (best < 0) return j >= 0;\n\
         if (j < 0) return false;\n\
         const bool a = v != v, b = top != top;\n\
         if (a || b) return a && (!b || j < best);\n\
         return v {op} top || (v == top && j < best);\n}};\n\
         for (idx k = first + threadIdx.x % {threads} * {width}; k < end; k += {step} * {AT_ONCE}) {{\n\
         pack<{ty}, {width}> v[{AT_ONCE}];\n\
         #pragma unroll\nfor (int j = 0; j < {AT_ONCE}; j++)\n\
         if (k + j * {step} < end) v[j] = *(const pack<{ty}, {width}>*)(x + base + (k + j * {step}) * {inner});\n\
         #pragma unroll\nfor (int j = 0; j < {AT_ONCE}; j++)\n\
         #pragma unroll\nfor (int e = 0; e < {width}; e++) {{\n\
         const {class} now = get(v[j].at[e]);\n\
         if (k + j * {step} < end && (best < 0 || (top == top && !(now {no_better} top)))) {{ best = k + j * {step} + e; top = now; }}\n}}\n}}\n\
         auto combine = [&] {{\n\
         for (int d = 16; d > 0; d /= 2) {{\n\
         const long long j = __shfl_xor_sync(0xffffffffu, best, d);\n\
         const {class} v = __shfl_xor_sync(0xffffffffu, top, d);\n\
         if (wins(j, v, best, top)) {{ best = j; top = v; }}\n}}\n}};\n\
         combine();\n{}{}",
        if threads > 32 { across(class) } else { String::new() },
        if is_shared {
            among_blocks(class, parts)
        } else {
            format!("if (threadIdx.x % {threads} == 0) y[lane] = best;\n")
        },
        size = l.size,
        inner = l.inner,
        step = threads * width,
        ty = stored(x.ty.dtype),
    );
    let mut kernels =
        Text::new().reads("x", x).writes("y", y).blocks(lanes.div_ceil(each) * parts, each * threads, &body)?;
    if is_shared {
        kernels.iter_mut().for_each(|k| k.spread_over_clusters(parts));
    }
    Some(kernels)
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
