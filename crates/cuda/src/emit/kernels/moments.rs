//! The variance of all elements of a large tensor, read once.
//!
//! A thread takes 16 elements at a time: their mean, and the squares of their distances from it. These are merged with
//! what came before by Chan's rule, so that no sum of squares cancels. The order depends on the number of elements
//! alone.

use super::{Call, Text};
use crate::claims::Claim;
use crate::emit::scalar::stored;
use crate::emit::{Arg, Kernel};
use ir::{DType, FlatNode, Type};

/// Moments of whole tensors.
pub static CLAIMS: &[Claim] = &[Claim {
    is_whole,
    scratch: |_, _| 3 * 8 * PARTS,
    flops: |_, args| 4 * args[0].layout.shape.count(),
    ..Claim::new("var", var)
}];

/// Elements from which on a second pass over them costs more than a second launch.
const LARGE: usize = 1 << 21;
/// Partial results, at most.
const PARTS: usize = 1024;
/// Threads of a block, and elements that a block takes at a time.
const THREADS: usize = 256;
const TILE: usize = 16 * THREADS;

fn is_whole(n: &FlatNode, types: &[Type]) -> bool {
    let x = &types[0];
    let is_float = matches!(x.dtype, DType::F32 | DType::BF16 | DType::F16);
    let axes = n.attrs.ints("axes").map_or(0, <[i64]>::len);
    is_float && axes == x.shape.rank() && x.shape.count() >= LARGE
}

/// Merges counts, means and squares of two halves of a block's threads, again and again.
const TREE: &str = "
    __shared__ N shared[3][256];
    shared[0][threadIdx.x] = n, shared[1][threadIdx.x] = mean, shared[2][threadIdx.x] = squares;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            const N a = shared[0][threadIdx.x], b = shared[0][threadIdx.x + half];
            if (b > 0) {
                const N apart = shared[1][threadIdx.x + half] - shared[1][threadIdx.x], part = b / (a + b);
                shared[0][threadIdx.x] = a + b;
                shared[1][threadIdx.x] += apart * part;
                shared[2][threadIdx.x] += shared[2][threadIdx.x + half] + apart * apart * part * a;
            }
        }
        __syncthreads();
    }
";

fn var(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let (count, ty, dtype) = (x.ty.shape.count(), stored(x.ty.dtype), y.ty.dtype);
    let width = 16 / x.ty.dtype.size();
    let width = if x.layout.offset.is_multiple_of(width) { width } else { 1 };
    let (tiles, parts) = (count / TILE, (count / TILE).min(PARTS));
    let first = format!(
        "typedef float N;
         N n = 0, mean = 0, squares = 0;
         idx tiles = 0;
         for (idx tile = blockIdx.x; tile < {tiles}; tile += {parts}) {{
         float e[16];
         #pragma unroll
         for (int j = 0; j < 16 / {width}; j++) {{
         const pack<{ty}, {width}> own = *(const pack<{ty}, {width}>*)(x + tile * {TILE} + ((idx)j * {THREADS} + threadIdx.x) * {width});
         #pragma unroll
         for (int k = 0; k < {width}; k++) e[{width} * j + k] = item(own, k);
         }}
         float sum = 0, around = 0;
         #pragma unroll
         for (int k = 0; k < 16; k++) sum += e[k];
         const float middle = sum * 0.0625f;
         #pragma unroll
         for (int k = 0; k < 16; k++) around = fmaf(e[k] - middle, e[k] - middle, around);
         const float apart = middle - mean, part = 1.0f / (float)(++tiles);
         mean = fmaf(apart, part, mean);
         squares += around + apart * apart * (16.0f * (float)(tiles - 1) * part);
         }}
         n = 16.0f * (float)tiles;
         // What is left after the last whole tile, by one thread.
         if (threadIdx.x == 0 && blockIdx.x == 0)
         for (idx i = {tiles}ll * {TILE}; i < {count}; i++) {{
         const float own = get(x[i]), apart = own - mean;
         n += 1;
         mean += apart / n;
         squares += apart * (own - mean);
         }}
         {TREE}
         if (threadIdx.x < 3) part_of[threadIdx.x * {PARTS} + blockIdx.x] = shared[threadIdx.x][0];\n"
    );
    let t = Text::new().reads("x", x).memory("part_of", "double", Arg::Scratch(0));
    let mut kernels = t.blocks(parts, THREADS, &first)?;
    let divisor = (count as f64 - c.attrs.float("correction").ok()?).max(0.0);
    let last = format!(
        "typedef double N;
         N n = 0, mean = 0, squares = 0;
         for (int p = threadIdx.x; p < {parts}; p += {THREADS}) {{
         const N a = n, b = part_of[p], apart = part_of[{PARTS} + p] - mean;
         n = a + b;
         mean += apart * (b / n);
         squares += part_of[2 * {PARTS} + p] + apart * apart * (a * b / n);
         }}
         {TREE}
         if (threadIdx.x == 0) y[0] = put_{dtype}((float)(shared[2][0] / {divisor:?}));\n"
    );
    let t = Text::new().memory("part_of", "const double", Arg::Scratch(0)).writes("y", y);
    kernels.extend(t.blocks(1, THREADS, &last)?);
    Some(kernels)
}
