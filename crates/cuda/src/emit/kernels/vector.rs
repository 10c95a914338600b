//! A vector times a matrix: as fast as the matrix can be read, which begins before the vector is
//! known.

use super::{Operand, Text};
use crate::emit::scalar::stored;
use crate::emit::{Kernel, WAIT};
use ir::DType;

/// Threads of a block: a warp for each element of the result.
const BLOCK: usize = 256;
/// Blocks that run at once: others have nothing to wait for.
const FIRST: usize = 1056;
/// Bytes that are asked for at once.
const LINE: usize = 128;

/// The product of one row with a matrix whose columns lie in memory one after the other, and what
/// is added; `None` for other products.
pub fn matvec(args: &[Operand], y: &Operand) -> Option<Vec<Kernel>> {
    let (x, w) = (&args[0], &args[1]);
    let size = y.ty.dtype.size();
    let is_float = matches!(y.ty.dtype, DType::F32 | DType::BF16 | DType::F16);
    let [rows, columns] = *y.ty.shape.dims() else { return None };
    if !is_float || rows != 1 || w.ty.shape.rank() != 2 || x.ty.shape.rank() != 2 || columns == 0 {
        return None;
    }
    let inner = w.ty.shape[0];
    let each = 16 / size;
    // The first step is along a column of the matrix, the second to the next column.
    let (unit, step) = (w.layout.strides[0], w.layout.strides[1]);
    let is_aligned = |n: usize| n.is_multiple_of(each);
    let fits = unit == 1
        && step >= inner as isize
        && x.layout.strides[1] == 1
        && [inner, step.unsigned_abs(), w.layout.offset, x.layout.offset].into_iter().all(is_aligned);
    if !fits || inner == 0 {
        return None;
    }
    let ty = stored(y.ty.dtype);
    let added = if args.len() > 2 { " + get(b[n])" } else { "" };
    let body = format!(
        "const idx n = (idx)blockIdx.x * {warps} + threadIdx.x / 32;\n\
         if (blockIdx.x < {FIRST} && n < {columns}) for (int k = threadIdx.x % 32 * {line}; k < {inner}; k += {lines}) ask_for(w + n * {step} + k);\n\
         {WAIT}\
         if (n >= {columns}) return;\n\
         float sum = 0;\n\
         #pragma unroll 4\n\
         for (int k = threadIdx.x % 32 * {each}; k < {inner}; k += {stride}) {{\n\
         const pack<{ty}, {each}> u = *(const pack<{ty}, {each}>*)(x + k), v = *(const pack<{ty}, {each}>*)(w + n * {step} + k);\n\
         #pragma unroll\n\
         for (int i = 0; i < {each}; i++) sum = sum + get(u.at[i]) * get(v.at[i]);\n}}\n\
         sum = across<Sum, 32>(sum);\n\
         if (threadIdx.x % 32 == 0) y[n] = put_{dtype}(sum{added});\n",
        warps = BLOCK / 32,
        stride = 32 * each,
        line = LINE / size,
        lines = 32 * LINE / size,
        dtype = y.ty.dtype
    );
    let mut t = Text::new().reads("x", x).reads("w", w);
    if let Some(b) = args.get(2) {
        t = t.reads("b", b);
    }
    t.writes("y", y).blocks(columns.div_ceil(BLOCK / 32), BLOCK, &body)
}
