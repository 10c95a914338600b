//! Paged KV caches: writing rows, and attention over them (`paged.cu`).

use super::moves::begin;
use super::{Call, Text, paged_mma};
use crate::claims::Claim;
use crate::emit::{Arg, Kernel};
use ir::{Attrs, DType, FlatNode};
use passes::{Operand, View};

/// Ops on paged KV caches.
pub static CLAIMS: &[Claim] = &[
    Claim { scratch, flops, ..Claim::new("paged_attention", attention) },
    Claim { in_place: Some(0), ..Claim::new("paged_write", write) },
];

/// Keys of a segment.
const SEGMENT: usize = 512;
/// Blocks that keep a GPU busy: with fewer, segments are blocks of their own.
const BUSY: usize = 1024;
/// Query heads that a block computes, times the elements of a head that a lane has, at most: they are in registers.
const REGISTERS: usize = 32;

/// As if every token saw all that its table can hold.
fn flops(n: &FlatNode, args: &[View]) -> usize {
    let keys = args[1].layout.shape[1] * args[3].layout.shape[1];
    4 * n.outs[0].shape.count() * keys
}

/// `paged_write`.
fn write(c: &Call) -> Option<Vec<Kernel>> {
    let (cache, x, slots, y) = (&c.args[0], &c.args[1], &c.args[2], &c.outs[0]);
    let row: usize = cache.ty.shape[2..].iter().product();
    let mut kernels = begin(cache, y)?;
    let count = x.ty.shape.count();
    if count == 0 || cache.ty.shape.count() == 0 {
        return Some(kernels);
    }
    if y.ty.dtype == DType::I8 {
        return bytes(c, kernels);
    }
    let body = format!(
        "const idx slot = slots[i / {row}];\n\
         if (slot < 0 || slot >= {all}) return;\n\
         y[slot * {row} + i % {row}] = put_{dtype}(get(x[i]));\n",
        all = cache.ty.shape[0] * cache.ty.shape[1],
        dtype = y.ty.dtype
    );
    kernels.extend(Text::new().reads("x", x).reads("slots", slots).writes("y", y).each(count, &body)?);
    Some(kernels)
}

/// Rows in 8 bits with their scales: a warp for each head of a token.
fn bytes(c: &Call, mut kernels: Vec<Kernel>) -> Option<Vec<Kernel>> {
    let (cache, x, slots, y) = (&c.args[0], &c.args[1], &c.args[2], &c.outs[0]);
    let [tokens, heads, d] = [0, 1, 2].map(|i| x.ty.shape[i]);
    let body = format!(
        "const idx row = (idx)blockIdx.x * 4 + threadIdx.x / 32;\n\
         if (row >= {rows}) return;\n\
         const idx slot = slots[row / {heads}];\n\
         if (slot < 0 || slot >= {all}) return;\n\
         store_row<{d}>(x + row * {d}, y + (slot * {heads} + row % {heads}) * {width});\n",
        rows = tokens * heads,
        all = cache.ty.shape[0] * cache.ty.shape[1],
        width = cache.ty.shape[3],
    );
    let t = Text::new().reads("x", x).reads("slots", slots).writes("y", y);
    kernels.extend(t.blocks((tokens * heads).div_ceil(4), 128, &body)?);
    Some(kernels)
}

/// The sizes of an attention.
struct Sizes {
    tokens: usize,
    heads: usize,
    kv_heads: usize,
    d: usize,
    /// Query heads of a block, and blocks for those that share a key head.
    together: usize,
    parts: usize,
    /// Segments that a table can hold, and how many of them a block takes.
    segments: usize,
    each: usize,
}

impl Sizes {
    fn new(args: &[Operand]) -> Sizes {
        let [q, k, tables] = [0, 1, 3].map(|i| &args[i].ty.shape);
        let (tokens, heads, d, kv_heads) = (q[0], q[1], q[2], k[2]);
        let group = heads / kv_heads;
        let most = (REGISTERS / d.div_ceil(32).max(1)).clamp(1, 8);
        let together = (1..=most).rev().find(|n| group.is_multiple_of(*n)).unwrap_or(1);
        let segments = (tables[1] * k[1]).div_ceil(SEGMENT).max(1);
        let blocks = tokens * heads / together;
        let each = if blocks >= BUSY { segments } else { 1 };
        Sizes { tokens, heads, kv_heads, d, together, parts: group / together, segments, each }
    }
    /// Elements of a head that a lane has.
    fn width(&self) -> usize {
        self.d.div_ceil(32)
    }
    /// Whether a lane reads its elements of a row at once: 4 to 16 bytes, aligned.
    fn is_whole(&self, c: &Call) -> bool {
        let [k, v] = [1, 2].map(|i| &c.args[i]);
        let bytes = self.width() * k.ty.dtype.size();
        let is_aligned = [k, v].iter().all(|o| o.layout.offset.is_multiple_of(self.width()));
        let is_float = matches!(k.ty.dtype, DType::BF16 | DType::F16 | DType::F32);
        is_float && is_aligned && self.d == 32 * self.width() && matches!(bytes, 4 | 8 | 16)
    }
    /// Floats of a partial result.
    fn partial(&self) -> usize {
        32 * self.width() + 2
    }
    fn is_split(&self) -> bool {
        self.each < self.segments
    }
}

fn scratch(_: &Attrs, args: &[Operand]) -> usize {
    if let Some(bytes) = paged_mma::scratch(args) {
        return bytes;
    }
    let s = Sizes::new(args);
    if s.is_split() { 4 * s.tokens * s.heads * s.segments * s.partial() } else { 0 }
}

/// `paged_attention`: a block for each token, some of its heads and a segment (or all of them).
fn attention(c: &Call) -> Option<Vec<Kernel>> {
    let y = &c.outs[0];
    if y.ty.dtype == DType::F64 || c.args[1].ty.dtype == DType::F64 || y.ty.shape.count() == 0 {
        return None;
    }
    if let Some(kernels) = paged_mma::attention(c) {
        return Some(kernels);
    }
    let mut s = Sizes::new(c.args);
    if paged_mma::scratch(c.args).is_some() {
        // A GPU without tensor cores for it: there is no room for partial results.
        s.each = s.segments;
    }
    let end = if s.is_split() { s.keep() } else { s.finish(s.together, y.ty.dtype) };
    let body = see(c, &s)? + &end;
    let names = ["q", "k", "v", "tables", "sequences", "positions"];
    let t = names.iter().zip(c.args).fold(Text::new(), |t, (name, o)| t.reads(name, o));
    let blocks = s.tokens * s.heads / s.together * s.segments.div_ceil(s.each);
    if !s.is_split() {
        return t.writes("y", y).blocks(blocks, 128, &body);
    }
    let mut kernels = t.memory("part", "float", Arg::Scratch(0)).blocks(blocks, 128, &body)?;
    let t = Text::new().memory("part", "const float", Arg::Scratch(0)).writes("y", y);
    kernels.extend(t.blocks(s.tokens * s.heads, 32, &(s.merge() + &s.finish(1, y.ty.dtype)))?);
    Some(kernels)
}

/// Statements by which a block's `total` becomes that of its segments.
fn see(c: &Call, s: &Sizes) -> Option<String> {
    let Sizes { heads, kv_heads, d, together, parts, segments, each, .. } = s;
    let (cache, tables) = (&c.args[1].ty.shape, &c.args[3].ty.shape);
    Some(format!(
        "__shared__ float shared[4 * {together} * {partial}];\n\
         const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n\
         const idx work = blockIdx.x / {split}, token = work / {chunks};\n\
         const int from = blockIdx.x % {split} * {each};\n\
         const int chunk = work % {chunks}, head = chunk * {together}, kv = chunk / {parts};\n\
         const int sequence = sequences[token], position = positions[token];\n\
         const bool is_there = sequence >= 0 && sequence < {rows} && position >= 0;\n\
         const int* table = tables + (idx)(is_there ? sequence : 0) * {reach};\n\
         const idx end = position + 1ll < {most} ? position + 1ll : {most};\n\
         const idx start = {window} > 0 && position + 1ll > {window} ? position + 1ll - {window} : 0;\n\
         float query[{together}][{width}];\n\
         #pragma unroll\n\
         for (int r = 0; r < {together}; r++)\n\
         #pragma unroll\n\
         for (int e = 0; e < {width}; e++) {{\n\
         const int at = lane * {width} + e;\n\
         query[r][e] = at < {d} ? get(q[(token * {heads} + head + r) * {d} + at]) * {scale}f : 0.0f;\n}}\n\
         Partial<{together}, {width}> total;\n\
         clear(total);\n\
         if (is_there)\n\
         for (int s = from; s < from + {each} && (idx)s * {SEGMENT} < end; s++) {{\n\
         const idx first = (idx)s * {SEGMENT} > start ? (idx)s * {SEGMENT} : start;\n\
         const idx last = (idx)(s + 1) * {SEGMENT} < end ? (idx)(s + 1) * {SEGMENT} : end;\n\
         if (first < last)\n\
         see_segment<{is_whole}>(total, query, k, v, table, (int)first, (int)last, {blocks}, {size}, {row}ll, {wide}, kv, {d}, {cap}f,\n\
         shared);\n}}\n",
        partial = s.partial(),
        width = s.width(),
        is_whole = s.is_whole(c),
        split = segments.div_ceil(*each),
        chunks = heads / together,
        rows = tables[0],
        reach = tables[1],
        most = tables[1] * cache[1],
        window = c.attrs.size("window").ok()?,
        blocks = cache[0],
        size = cache[1],
        row = kv_heads * cache[3],
        wide = cache[3],
        scale = decimal(c.attrs.float("scale").ok()?),
        cap = decimal(c.attrs.float("softcap").ok()?),
    ))
}

impl Sizes {
    /// Statements that write the results of so many heads.
    fn finish(&self, together: usize, dtype: DType) -> String {
        let (heads, d, width) = (self.heads, self.d, self.width());
        format!(
            "#pragma unroll\n\
             for (int r = 0; r < {together}; r++)\n\
             #pragma unroll\n\
             for (int e = 0; e < {width}; e++)\n\
             if (lane * {width} + e < {d} && warp == 0)\n\
             y[(token * {heads} + head + r) * {d} + lane * {width} + e] =\n\
             put_{dtype}(total.sum[r] > 0 ? total.y[r][e] / total.sum[r] : 0.0f);\n"
        )
    }
    /// Statements that keep the partial results of a segment.
    fn keep(&self) -> String {
        let (heads, together, segments) = (self.heads, self.together, self.segments);
        let (width, partial) = (self.width(), self.partial());
        format!(
            "#pragma unroll\n\
             for (int r = 0; r < {together}; r++) {{\n\
             if (warp) continue;\n\
             float* to = part + ((token * {heads} + head + r) * {segments} + from) * {partial};\n\
             #pragma unroll\n\
             for (int e = 0; e < {width}; e++) to[lane * {width} + e] = total.y[r][e];\n\
             if (lane == 0) to[{partial} - 2] = total.most[r], to[{partial} - 1] = total.sum[r];\n}}\n"
        )
    }
    /// Statements by which `total` becomes that of all segments of a head.
    fn merge(&self) -> String {
        let (heads, segments, width, partial) = (self.heads, self.segments, self.width(), self.partial());
        format!(
            "const int lane = threadIdx.x, warp = 0;\n\
             const idx token = blockIdx.x / {heads};\n\
             const int head = blockIdx.x % {heads};\n\
             Partial<1, {width}> total;\n\
             clear(total);\n\
             for (int s = 0; s < {segments}; s++) {{\n\
             const float* from = part + ((token * {heads} + head) * {segments} + s) * {partial};\n\
             merge(total, 0, from[{partial} - 2], from[{partial} - 1], from + lane * {width});\n}}\n"
        )
    }
}

/// A number as a C literal with a point.
pub fn decimal(x: f64) -> String {
    let text = format!("{:?}", x as f32);
    if text.contains(['.', 'e', 'n', 'i']) { text } else { text + ".0" }
}
