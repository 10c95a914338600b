//! Attention of many queries in f32, without scores in memory: a block has 64 or 128 queries and goes through the keys 64
//! at a time. Products are sums of f32 products, as PyTorch's are by default; where TF32 is allowed, and for masks, other
//! widths and gradients, tensor cores multiply instead ([`super::flash_mma`]).
//!
//! A thread has 4 or 8 queries by 8 keys of the scores, and as many queries by an eighth of the result. Operands that a product
//! reads together follow each other in shared memory.

use super::super::{Call, Operand, Text};
use crate::claims::op;
use crate::emit::Kernel;
use crate::flags::{Flag, is_on};
use ir::{DType, FlatNode, Type};

/// Keys of a tile, and threads of a block.
const TILE: usize = 64;
const THREADS: usize = 128;
/// A row of keys in shared memory: its vectors stay aligned.
const ROW: usize = TILE + 4;
/// Queries from which on a thread has 8 of them.
const MANY: usize = 256;

/// Sizes of an attention.
struct Sizes {
    /// Heads of queries, of all sequences and of one.
    all: usize,
    heads: usize,
    /// Heads of queries that share keys.
    shared: usize,
    queries: usize,
    keys: usize,
    width: usize,
}

impl Sizes {
    fn new(types: &[Type]) -> Option<Sizes> {
        let [q, k, v] = types else { return None };
        let ([n, h, queries, width], [m, g, keys, e]) =
            (*q.shape.dims().first_chunk()?, *k.shape.dims().first_chunk()?);
        let is_f32 = types.iter().all(|t| t.dtype == DType::F32 && t.shape.rank() == 4);
        let is_fit = matches!(width, 32 | 64) && e == width && n == m && g > 0 && h.is_multiple_of(g);
        let is_some = queries >= 16 && n * h * keys > 0;
        (is_f32 && k.shape == v.shape && is_fit && is_some).then_some(Sizes {
            all: n * h,
            heads: h,
            shared: h / g,
            queries,
            keys,
            width,
        })
    }
    /// Queries of a thread.
    fn own(&self) -> usize {
        if self.queries >= MANY { 8 } else { 4 }
    }
    /// Bytes of shared memory: queries, keys and weights by element, values by key.
    fn bytes(&self) -> usize {
        let line = 16 * self.own() + 4;
        4 * (self.width * (line + ROW) + TILE * line + TILE * (self.width + 4))
    }
}

/// Whether there is a kernel for an attention.
pub fn claims(n: &FlatNode, types: &[Type]) -> bool {
    n.op.name == op::ATTENTION && !is_on(Flag::MatmulTf32) && Sizes::new(types).is_some()
}

/// The kernel of an attention of many queries in f32; `None` for others. A transposed result is `[N, L, H, F]`.
pub fn attention(c: &Call, is_transposed: bool) -> Option<Vec<Kernel>> {
    let [q, k, v] = c.args else { return None };
    let types = [q, k, v].map(|o| o.ty.clone());
    let s = Sizes::new(&types).filter(|_| !is_on(Flag::MatmulTf32))?;
    let is_causal = c.attrs.bool("causal").ok()?;
    let Sizes { all, heads, shared, queries, keys, width } = s;
    let own = s.own();
    let (many, line) = (16 * own, 16 * own + 4);
    let tiles = queries.div_ceil(many);
    let each = width / 8;
    // With a mask, the last queries see most: they come first.
    let tile = if is_causal { format!("{} - blockIdx.x / {all}", tiles - 1) } else { format!("blockIdx.x / {all}") };
    let end = if is_causal { format!("min({keys}, first + {many})") } else { keys.to_string() };
    let seen = if is_causal { " && from + column <= first + OWN * rows + r" } else { "" };
    // Four elements at once, where they are aligned.
    let four = |o: &Operand, at: &str| match o.layout.offset.is_multiple_of(4) {
        true => format!("*(const float4*)({at})"),
        false => format!("make_float4(({at})[0], ({at})[1], ({at})[2], ({at})[3])"),
    };
    let scale = c.attrs.float("scale").ok()? * std::f64::consts::LOG2_E;
    let start = |o: &Operand, head: &str| format!("n * {}ll + {head} * {}ll", o.layout.strides[0], o.layout.strides[1]);
    let to = match is_transposed {
        true => format!("((n * (idx){queries} + row) * {heads} + h) * {width}"),
        false => format!("((n * {heads} + h) * (idx){queries} + row) * {width}"),
    };
    let body = format!(
        "enum {{ OWN = {own} }};\n\
         extern __shared__ __align__(16) float room[];\n\
         float* own = room;                              // [width][queries]\n\
         float* other = own + {width} * {line};           // [width][keys]\n\
         float* weights = other + {width} * {ROW};       // [keys][queries]\n\
         float* values = weights + {TILE} * {line};       // [keys][width]\n\
         const int n = blockIdx.x % {all} / {heads}, h = blockIdx.x % {heads}, first = ({tile}) * {many};\n\
         const int columns = threadIdx.x % 8, rows = threadIdx.x / 8;\n\
         const float* queries = q + {q_at};\n\
         const float* keys = k + {k_at};\n\
         const float* given = v + {v_at};\n\
         const float hidden = __int_as_float(0xff800000);\n\
         for (int t = threadIdx.x; t < {many} * {quarters}; t += {THREADS}) {{\n\
         const int row = t % {many}, e = t / {many} * 4;\n\
         const float4 x = first + row < {queries} ? {q_four} : make_float4(0, 0, 0, 0);\n\
         own[e * {line} + row] = x.x * {scale:e}f, own[(e + 1) * {line} + row] = x.y * {scale:e}f;\n\
         own[(e + 2) * {line} + row] = x.z * {scale:e}f, own[(e + 3) * {line} + row] = x.w * {scale:e}f;\n}}\n\
         float most[OWN], sum[OWN] = {{}}, out[OWN][{each}] = {{}};\n\
         #pragma unroll\nfor (int r = 0; r < OWN; r++) most[r] = hidden;\n\
         for (int from = 0; from < {end}; from += {TILE}) {{\n\
         __syncthreads();\n\
         #pragma unroll 8\n\
         for (int t = threadIdx.x; t < {TILE} * {quarters}; t += {THREADS}) {{\n\
         const int row = t % {TILE}, e = t / {TILE} * 4;\n\
         const float4 x = from + row < {keys} ? {k_four} : make_float4(0, 0, 0, 0);\n\
         other[e * {ROW} + row] = x.x, other[(e + 1) * {ROW} + row] = x.y;\n\
         other[(e + 2) * {ROW} + row] = x.z, other[(e + 3) * {ROW} + row] = x.w;\n}}\n\
         #pragma unroll 8\n\
         for (int t = threadIdx.x; t < {TILE} * {quarters}; t += {THREADS}) {{\n\
         const int row = t / {quarters}, e = t % {quarters} * 4;\n\
         const float4 x = from + row < {keys} ? {v_four} : make_float4(0, 0, 0, 0);\n\
         *(float4*)(values + row * {} + e) = x;\n}}\n\
         __syncthreads();\n\
         float p[OWN][8] = {{}};\n\
         #pragma unroll 8\n\
         for (int e = 0; e < {width}; e++) {{\n\
         float x[OWN];\n\
         #pragma unroll\nfor (int r = 0; r < OWN; r += 4) *(float4*)(x + r) = *(const float4*)(own + e * {line} + OWN * rows + r);\n\
         const float4 b = *(const float4*)(other + e * {ROW} + 4 * columns), d = *(const float4*)(other + e * {ROW} + 32 + 4 * columns);\n\
         const float z[8] = {{b.x, b.y, b.z, b.w, d.x, d.y, d.z, d.w}};\n\
         #pragma unroll\nfor (int r = 0; r < OWN; r++)\n\
         #pragma unroll\nfor (int i = 0; i < 8; i++) p[r][i] = fmaf(x[r], z[i], p[r][i]);\n}}\n\
         #pragma unroll\nfor (int r = 0; r < OWN; r++) {{\n\
         float top = most[r];\n\
         #pragma unroll\nfor (int i = 0; i < 8; i++) {{\n\
         const int column = i / 4 * 32 + 4 * columns + i % 4;\n\
         if (!(from + column < {keys}{seen})) p[r][i] = hidden;\n\
         top = fmaxf(top, p[r][i]);\n}}\n\
         top = across<Max, 8>(top);\n\
         const float less = top == hidden ? 1.0f : exp2f(most[r] - top);\n\
         most[r] = top;\n\
         float own_sum = 0;\n\
         #pragma unroll\nfor (int i = 0; i < 8; i++) {{\n\
         p[r][i] = top == hidden ? 0.0f : exp2f(p[r][i] - top);\n\
         own_sum += p[r][i];\n}}\n\
         sum[r] = sum[r] * less + own_sum;\n\
         #pragma unroll\nfor (int j = 0; j < {each}; j++) out[r][j] *= less;\n}}\n\
         #pragma unroll\nfor (int i = 0; i < 8; i++)\n\
         #pragma unroll\nfor (int r = 0; r < OWN; r += 4)\n\
         *(float4*)(weights + (i / 4 * 32 + 4 * columns + i % 4) * {line} + OWN * rows + r) =\n\
         make_float4(p[r][i], p[r + 1][i], p[r + 2][i], p[r + 3][i]);\n\
         __syncwarp();\n\
         #pragma unroll 4\n\
         for (int key = 0; key < {TILE}; key++) {{\n\
         float x[OWN];\n\
         #pragma unroll\nfor (int r = 0; r < OWN; r += 4) *(float4*)(x + r) = *(const float4*)(weights + key * {line} + OWN * rows + r);\n\
         #pragma unroll\nfor (int j = 0; j < {each} / 4; j++) {{\n\
         const float4 b = *(const float4*)(values + key * {} + 32 * j + 4 * columns);\n\
         const float z[4] = {{b.x, b.y, b.z, b.w}};\n\
         #pragma unroll\nfor (int r = 0; r < OWN; r++)\n\
         #pragma unroll\nfor (int i = 0; i < 4; i++) out[r][4 * j + i] = fmaf(x[r], z[i], out[r][4 * j + i]);\n}}\n}}\n}}\n\
         #pragma unroll\nfor (int r = 0; r < OWN; r++) {{\n\
         const float all = across<Sum, 8>(sum[r]);\n\
         const int row = first + OWN * rows + r;\n\
         if (row >= {queries}) continue;\n\
         #pragma unroll\nfor (int j = 0; j < {each} / 4; j++)\n\
         *(float4*)(y + {to} + 32 * j + 4 * columns) = make_float4(out[r][4 * j] / all, out[r][4 * j + 1] / all,\n\
         out[r][4 * j + 2] / all, out[r][4 * j + 3] / all);\n\
         if (columns == 0) lse[(n * {heads} + h) * (idx){queries} + row] = (most[r] + log2f(all)) * {ln2:e}f;\n}}\n",
        width + 4,
        width + 4,
        quarters = width / 4,
        q_at = start(q, "h"),
        k_at = start(k, &format!("(h / {shared})")),
        v_at = start(v, &format!("(h / {shared})")),
        q_four = four(q, &format!("queries + (first + row) * {}ll + e", q.layout.strides[2])),
        k_four = four(k, &format!("keys + (from + row) * {}ll + e", k.layout.strides[2])),
        v_four = four(v, &format!("given + (from + row) * {}ll + e", v.layout.strides[2])),
        ln2 = std::f64::consts::LN_2,
    );
    let t = Text::new().reads("q", q).reads("k", k).reads("v", v).writes("y", &c.outs[0]).writes("lse", &c.outs[1]);
    let mut kernels = t.blocks(all * tiles, THREADS, &body)?;
    kernels[0].shared = s.bytes() as u32;
    Some(kernels)
}
