//! Block-quantized weights: GEMM, dequantization, rows of a table.
//!
//! A GEMM of 16-bit activations runs on tensor cores for any number of rows: weights are unpacked into the registers
//! that hold a 16×16 operand (`quant.cu`), in an order of `k` that suits the packed bytes. Sums are made in an order
//! that depends on `k` alone, so a row's result does not depend on the others. Other activations take a warp for each
//! row of weights.

use super::{BLOCK, Call, Text};
use crate::claims::Claim;
use crate::emit::{Arg, Kernel};
use ir::blocks::Format;
use ir::{Attrs, DType, FlatNode};
use passes::{Operand, View};

/// Ops on block-quantized weights.
pub static CLAIMS: &[Claim] = &[
    Claim { scratch: matmul_scratch, flops, ..Claim::new("quantized_matmul", matmul) },
    Claim { scratch: expert_scratch, flops, ..Claim::new("expert_matmul", expert_matmul) },
    Claim::new("dequantize", |c| unpack(c, None)),
    Claim::new("quantized_embedding", |c| unpack(c, Some(&c.args[1]))),
];

fn flops(n: &FlatNode, args: &[View]) -> usize {
    2 * n.outs[0].shape.count() * args[0].layout.shape.last().copied().unwrap_or(1)
}

/// The format of blocks; floats are left to cuBLAS by those who make the graph.
fn format(attrs: &Attrs) -> Option<Format> {
    Format::from_attr(attrs.str("format").ok()?).ok().filter(|f| f.block() > 1)
}

/// Weights as floats: all rows, or those of an index.
fn unpack(c: &Call, index: Option<&Operand>) -> Option<Vec<Kernel>> {
    let (w, y) = (&c.args[0], &c.outs[0]);
    let (rows, k) = (y.ty.shape[..y.ty.shape.rank() - 1].iter().product::<usize>(), *y.ty.shape.last()?);
    let f = format(c.attrs)?;
    let row = match index {
        Some(_) => format!("checked(index[i / {}], {}, report, launch)", k / 8, w.ty.shape[0]),
        None => format!("i / {}", k / 8),
    };
    let body = format!(
        "const idx row = {row};\n\
         const int sub = i % {packs} / 4, t = i % 4;\n\
         float e[8];\n\
         weights_{f}(w + row * {bytes}, sub, t, e);\n\
         const idx at = i / {packs} * {k} + sub * 32 + 4 * t;\n\
         #pragma unroll\n\
         for (int j = 0; j < 4; j++) {{\n\
         y[at + j] = put_{dtype}(e[j]);\n\
         y[at + 16 + j] = put_{dtype}(e[4 + j]);\n}}\n",
        packs = k / 8,
        f = f.attr(),
        bytes = f.bytes(k).ok()?,
        dtype = y.ty.dtype
    );
    let t = Text::new().reads("w", w);
    let t = match index {
        Some(index) => t.reads("index", index).writes("y", y).reports(),
        None => t.writes("y", y),
    };
    t.each(rows * k / 8, &body)
}

/// Activations that were quantized to 8 bits are kept as f32.
fn matmul_scratch(attrs: &Attrs, args: &[Operand]) -> usize {
    if attrs.bool("int8").unwrap_or(false) { 4 * args[0].ty.shape.count() } else { 0 }
}

/// `quantized_matmul`.
fn matmul(c: &Call) -> Option<Vec<Kernel>> {
    let (x, w, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let k = *x.ty.shape.last()?;
    let g = Gemm { f: format(c.attrs)?, m: x.ty.shape.count() / k.max(1), n: w.ty.shape[0], k, experts: None };
    let is_interleaved = c.attrs.bool("interleaved").ok()?;
    if y.ty.shape.count() == 0 || k == 0 || x.ty.dtype == DType::F64 || is_interleaved {
        return None;
    }
    let is_half = matches!(x.ty.dtype, DType::BF16 | DType::F16);
    if c.attrs.bool("int8").ok()? {
        let block = g.f.activation_block();
        let body = format!("round_activations<{block}>(x + i * {block}, to + i * {block});\n");
        let t = Text::new().reads("x", x).memory("to", "float", Arg::Scratch(0));
        let mut kernels = t.each(g.m * k / block, &body)?;
        let t = Text::new().memory("x", "const float", Arg::Scratch(0)).reads("w", w).writes("y", y);
        kernels.extend(g.by_rows(t, y.ty.dtype)?);
        return Some(kernels);
    }
    let t = Text::new().reads("x", x).reads("w", w).writes("y", y);
    let is_aligned = x.layout.offset.is_multiple_of(4);
    if is_half && is_aligned && c.major >= 8 { g.on_tensor_cores(t, y.ty.dtype) } else { g.by_rows(t, y.ty.dtype) }
}

/// The parts of the scratch space of [`expert_matmul`]: rows of x in the order of their experts, that order, and strips
/// of rows that are multiplied together: expert, first row, number of rows.
struct Parts {
    order: usize,
    strips: usize,
    end: usize,
}

impl Parts {
    fn new(attrs: &Attrs, x: &Operand) -> Parts {
        let (rows, experts) = (x.ty.shape[0], attrs.size("experts").unwrap_or(0));
        let size = if attrs.bool("int8").unwrap_or(false) { 4 } else { x.ty.dtype.size() };
        let order = (x.ty.shape.count() * size).next_multiple_of(256);
        let strips = order + (4 * rows).next_multiple_of(256);
        Parts { order, strips, end: strips + 12 * (rows + experts) }
    }
}

fn expert_scratch(attrs: &Attrs, args: &[Operand]) -> usize {
    Parts::new(attrs, &args[0]).end
}

/// `expert_matmul`: rows of x in the order of their experts, then a GEMM of strips of them.
fn expert_matmul(c: &Call) -> Option<Vec<Kernel>> {
    let (x, w, index, y) = (&c.args[0], &c.args[1], &c.args[2], &c.outs[0]);
    let (m, k, n, experts) = (x.ty.shape[0], x.ty.shape[1], y.ty.shape[1], c.attrs.size("experts").ok()?);
    let f = Format::from_attr(c.attrs.str("format").ok()?).ok()?;
    let is_interleaved = c.attrs.bool("interleaved").ok()?;
    if m * n * k == 0 || !k.is_multiple_of(32) || x.ty.dtype == DType::F64 || is_interleaved || experts > 4096 {
        return None;
    }
    let (int8, parts) = (c.attrs.bool("int8").ok()?, Parts::new(c.attrs, x));
    let is_half = matches!(x.ty.dtype, DType::BF16 | DType::F16) && !int8 && c.major >= 8;
    let g = Gemm { f, m, n, k, experts: Some(experts) };
    let per = if is_half { g.tiles().1 * 8 } else { m.min(8) };
    let count = g.strips(per);
    let lists = |t: Text, ty: &str| {
        let t = t.memory("order", &format!("{ty}int"), Arg::Scratch(parts.order));
        t.memory("strips", &format!("{ty}int"), Arg::Scratch(parts.strips))
    };
    let sort = format!(
        "__shared__ int rows[{experts}], begin[{experts}];\n\
         for (int e = threadIdx.x; e < {experts}; e += 1024) rows[e] = 0;\n\
         __syncthreads();\n\
         for (int i = threadIdx.x; i < {m}; i += 1024)\n\
         if (index[i] >= 0 && index[i] < {experts}) atomicAdd(&rows[index[i]], 1);\n\
         __syncthreads();\n\
         if (threadIdx.x == 0) {{\n\
         int at = 0, strip = 0;\n\
         for (int e = 0; e < {experts}; e++) {{\n\
         begin[e] = at;\n\
         for (int from = 0; from < rows[e]; from += {per}, strip++)\n\
         strips[3 * strip] = e, strips[3 * strip + 1] = at + from, strips[3 * strip + 2] = min({per}, rows[e] - from);\n\
         at += rows[e];\n}}\n\
         for (; strip < {count}; strip++) strips[3 * strip + 2] = 0;\n\
         for (; at < {m}; at++) order[at] = -1;\n}}\n\
         __syncthreads();\n\
         // Results do not depend on the order of an expert's rows.\n\
         for (int i = threadIdx.x; i < {m}; i += 1024)\n\
         if (index[i] >= 0 && index[i] < {experts}) order[atomicAdd(&begin[index[i]], 1)] = i;\n"
    );
    let mut kernels = lists(Text::new().reads("index", index), "").blocks(1, 1024, &sort)?;
    let from = "if (order[row] < 0) return;\n";
    let block = f.activation_block();
    let (count, gather) = match int8 {
        true => {
            let each = k / block;
            let at = format!("order[row] * (idx){k} + i % {each} * {block}");
            let round = format!("round_activations<{block}>(x + {at}, to + i * {block});\n");
            (m * each, format!("const idx row = i / {each};\n{from}{round}"))
        }
        false => (m * k, format!("const idx row = i / {k};\n{from}to[i] = x[order[row] * (idx){k} + i % {k}];\n")),
    };
    let ty = if int8 { "float" } else { crate::emit::scalar::stored(x.ty.dtype) };
    let t = Text::new().reads("x", x).memory("to", ty, Arg::Scratch(0));
    kernels.extend(lists(t, "const ").each(count, &gather)?);
    // Rows of no expert.
    let none = format!(
        "if (index[blockIdx.x] >= 0 && index[blockIdx.x] < {experts}) return;\n\
         for (int j = threadIdx.x; j < {n}; j += {BLOCK}) y[(idx)blockIdx.x * {n} + j] = put_{}(0.0f);\n",
        y.ty.dtype
    );
    kernels.extend(Text::new().reads("index", index).writes("y", y).blocks(m, BLOCK, &none)?);
    let t = Text::new().memory("x", &format!("const {ty}"), Arg::Scratch(0)).reads("w", w).writes("y", y);
    let t = lists(t, "const ");
    kernels.extend(if is_half { g.on_tensor_cores(t, y.ty.dtype)? } else { g.by_rows(t, y.ty.dtype)? });
    Some(kernels)
}

struct Gemm {
    f: Format,
    m: usize,
    n: usize,
    k: usize,
    /// Rows of x are multiplied with different matrices, so many, each of `n` rows.
    experts: Option<usize>,
}

impl Gemm {
    /// Strips of at most so many rows of x.
    fn strips(&self, per: usize) -> usize {
        self.m.div_ceil(per) + self.experts.map_or(0, |e| e.min(self.m))
    }
    /// Statements that find the `rows` of x from `first` on that a block multiplies, and the matrix `own`; and the row
    /// of the result that belongs to row `at` of x.
    fn strip(&self, per: usize) -> Option<(String, &'static str)> {
        let strips = self.strips(per);
        Some(match self.experts {
            None => {
                let m = self.m;
                let text = format!(
                    "const idx first = (idx)(blockIdx.x % {strips}) * {per};\n\
                     const int rows = {m} - first < {per} ? (int)({m} - first) : {per};\n\
                     const unsigned char* own = w;\n"
                );
                (text, "at")
            }
            Some(_) => {
                let matrix = self.n * self.f.bytes(self.k).ok()?;
                let text = format!(
                    "const int* strip = strips + 3 * (blockIdx.x % {strips});\n\
                     const idx first = strip[1];\n\
                     const int rows = strip[2];\n\
                     if (rows == 0) return;\n\
                     const unsigned char* own = w + strip[0] * {matrix}ll;\n"
                );
                (text, "order[at]")
            }
        })
    }
    /// Tiles of 16 rows of weights, and of 8 rows of x, that a warp multiplies. Neither changes the order of a sum.
    fn tiles(&self) -> (usize, usize) {
        let each = self.m.div_ceil(self.experts.unwrap_or(1));
        if each <= 8 { (1, 1) } else { (2, each.div_ceil(8).min(8)) }
    }

    /// A warp for each row of weights and eight rows of activations.
    fn by_rows(&self, t: Text, dtype: DType) -> Option<Vec<Kernel>> {
        let Gemm { f, m, n, k, .. } = self;
        let together = (*m).min(8);
        let (strip, at) = self.strip(together)?;
        let body = format!(
            "const idx n = (idx)blockIdx.x / {strips} * 8 + threadIdx.x / 32;\n\
             if (n >= {n}) return;\n\
             {strip}\
             float sums[{together}];\n\
             multiply_row<weights_{f}, {together}>(own + n * {bytes}, x + first * {k}, rows, {k}, sums);\n\
             #pragma unroll\n\
             for (int r = 0; r < {together}; r++) {{\n\
             const idx at = first + r;\n\
             if (threadIdx.x % 32 == 0 && r < rows) y[(idx){at} * {n} + n] = put_{dtype}(sums[r]);\n}}\n",
            strips = self.strips(together),
            f = f.attr(),
            bytes = f.bytes(*k).ok()?,
        );
        t.blocks(n.div_ceil(8) * self.strips(together), 256, &body)
    }

    /// Four warps share the sub-blocks of `TILES` times 16 rows of weights, each for up to 64 rows of activations.
    fn on_tensor_cores(&self, t: Text, dtype: DType) -> Option<Vec<Kernel>> {
        let Gemm { f, n, k, .. } = self;
        let (tiles, columns) = self.tiles();
        let (rows, tokens) = (16 * tiles, 8 * columns);
        let (strip, at) = self.strip(tokens)?;
        let body = format!(
            "const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;\n\
             const idx row = (idx)blockIdx.x / {strips} * {rows};\n\
             {strip}\
             float c[{tiles}][{columns}][4] = {{}};\n\
             #pragma unroll 2\n\
             for (int sub = warp; sub < {subs}; sub += 4) {{\n\
             unsigned a[{tiles}][8];\n\
             #pragma unroll\n\
             for (int r = 0; r < {tiles}; r++) {{\n\
             #pragma unroll\n\
             for (int h = 0; h < 2; h++) {{\n\
             const idx from = row + 16 * r + 8 * h + g;\n\
             float e[8];\n\
             weights_{f}(own + (from < {n} ? from : {n} - 1) * {bytes}, sub, t, e);\n\
             a[r][h] = pair_{dtype}(e[0], e[1]);\n\
             a[r][2 + h] = pair_{dtype}(e[2], e[3]);\n\
             a[r][4 + h] = pair_{dtype}(e[4], e[5]);\n\
             a[r][6 + h] = pair_{dtype}(e[6], e[7]);\n}}\n}}\n\
             #pragma unroll\n\
             for (int j = 0; j < {columns}; j++) {{\n\
             const idx at = first + 8 * j + g;\n\
             uint2 low = {{0, 0}}, high = {{0, 0}};\n\
             if (8 * j + g < rows) {{\n\
             low = *(const uint2*)(x + at * {k} + 32 * sub + 4 * t);\n\
             high = *(const uint2*)(x + at * {k} + 32 * sub + 16 + 4 * t);\n}}\n\
             #pragma unroll\n\
             for (int r = 0; r < {tiles}; r++) {{\n\
             multiply_{dtype}(c[r][j], a[r][0], a[r][1], a[r][2], a[r][3], low.x, low.y);\n\
             multiply_{dtype}(c[r][j], a[r][4], a[r][5], a[r][6], a[r][7], high.x, high.y);\n}}\n}}\n}}\n\
             __shared__ float part[3][{tiles}][{columns}][4][32];\n\
             #pragma unroll\n\
             for (int i = 0; i < {count}; i++) {{\n\
             const int r = i / {per}, j = i / 4 % {columns}, q = i % 4;\n\
             if (warp) part[warp - 1][r][j][q][lane] = c[r][j][q];\n}}\n\
             __syncthreads();\n\
             if (warp) return;\n\
             #pragma unroll\n\
             for (int i = 0; i < {count}; i++) {{\n\
             const int r = i / {per}, j = i / 4 % {columns}, q = i % 4;\n\
             float sum = c[r][j][q] + part[0][r][j][q][lane];\n\
             sum += part[1][r][j][q][lane];\n\
             sum += part[2][r][j][q][lane];\n\
             const int own_row = 8 * j + 2 * t + q % 2;\n\
             const idx to = row + 16 * r + 8 * (q / 2) + g, at = first + own_row;\n\
             if (to < {n} && own_row < rows) y[(idx){at} * {n} + to] = put_{dtype}(sum);\n}}\n",
            strips = self.strips(tokens),
            subs = k / 32,
            f = f.attr(),
            bytes = f.bytes(*k).ok()?,
            count = tiles * columns * 4,
            per = columns * 4,
        );
        t.blocks(n.div_ceil(rows) * self.strips(tokens), 128, &body)
    }
}
