//! Attention over a paged KV cache of 16-bit floats on tensor cores (`paged_mma.cu`).

use super::paged::decimal;
use super::{Call, Text};
use crate::emit::scalar::stored;
use crate::emit::{Arg, Kernel, WAIT};
use ir::DType;
use passes::Operand;

/// Keys of a segment.
const SEGMENT: usize = 32;
/// Chains of segments.
const CHAINS: usize = 32;
/// Blocks that keep a GPU busy: with fewer, chains are blocks of their own.
const BUSY: usize = 512;
/// Query heads that a warp computes at most.
const HEADS_MAX: usize = 8;
/// Warps of a block that computes whole results.
const WARPS: usize = 2;
/// Segments of a warp that come to the second cache while the launch before ends, and blocks that do so.
const EARLY: usize = 2;
const EARLY_BLOCKS: usize = 792;
/// Chains whose partial results a warp reads before it merges them.
const AHEAD: usize = 8;

/// The sizes of an attention.
struct Sizes {
    tokens: usize,
    heads: usize,
    d: usize,
    /// Query heads of a block, and blocks for those that share a key head.
    together: usize,
    parts: usize,
    chains: usize,
}

impl Sizes {
    /// `None` where tensor cores do not fit.
    fn new(args: &[Operand]) -> Option<Sizes> {
        let [q, k, tables] = [0, 1, 3].map(|i| &args[i].ty.shape);
        let (tokens, heads, d, kv_heads) = (q[0], q[1], q[2], k[2]);
        let is_half = |o: &Operand| matches!(o.ty.dtype, DType::BF16 | DType::F16);
        let is_aligned = args[..3].iter().all(|o| o.layout.offset.is_multiple_of(8));
        let is_whole = k[1].is_multiple_of(16) && [64, 128].contains(&d) && k[0] > 0;
        if !args[..3].iter().all(is_half) || !is_aligned || !is_whole {
            return None;
        }
        let group = heads / kv_heads;
        let together = (1..=HEADS_MAX).rev().find(|n| group.is_multiple_of(*n)).unwrap_or(1);
        let chains = (tables[1] * k[1]).div_ceil(SEGMENT).clamp(1, CHAINS);
        Some(Sizes { tokens, heads, d, together, parts: group / together, chains })
    }
    fn is_split(&self) -> bool {
        self.chains > 1 && self.tokens * self.heads / self.together < BUSY
    }
    /// Floats of a partial result: weighted values, the greatest score and the sum of weights, in whole vectors.
    fn partial(&self) -> usize {
        self.d + 4
    }
    /// Segments of a warp's ring: long rows have more, as fewer blocks share a multiprocessor.
    fn stages(&self) -> usize {
        if self.d > 64 { 3 } else { 2 }
    }
    /// Bytes of a warp's ring.
    fn ring(&self) -> usize {
        self.stages() * 2 * SEGMENT * self.d * 2
    }
}

/// Bytes of partial results; `None` where tensor cores do not fit.
pub fn scratch(args: &[Operand]) -> Option<usize> {
    let s = Sizes::new(args)?;
    Some(if s.is_split() { 4 * s.tokens * s.heads * s.chains * s.partial() } else { 0 })
}

/// The kernels; `None` where tensor cores do not fit.
pub fn attention(c: &Call) -> Option<Vec<Kernel>> {
    let s = Sizes::new(c.args).filter(|_| c.major >= 8)?;
    let y = &c.outs[0];
    let names = ["q", "k", "v", "tables", "sequences", "positions"];
    let t = names.iter().zip(c.args).fold(Text::new(), |t, (name, o)| t.reads(name, o));
    let blocks = s.tokens * s.heads / s.together;
    if !s.is_split() {
        let body = format!("const idx work = blockIdx.x;\n{}{}", begin(c, &s, "warp", WARPS)?, whole(c, &s)?);
        let mut kernels = t.writes("y", y).blocks(blocks, 32 * WARPS, &body)?;
        kernels[0].shared = (WARPS * s.ring()) as u32;
        return Some(kernels);
    }
    let first = format!("blockIdx.x % {}", s.chains);
    let begin = begin(c, &s, &first, s.chains)?;
    let body = format!("const idx work = blockIdx.x / {};\n{begin}{}", s.chains, partial(c, &s)?);
    let mut kernels = t.memory("part", "float", Arg::Scratch(0)).blocks(blocks * s.chains, 32, &body)?;
    kernels[0].shared = s.ring() as u32;
    let t = Text::new().reads("sequences", &c.args[4]).reads("positions", &c.args[5]);
    let t = t.memory("part", "const float", Arg::Scratch(0)).writes("y", y);
    kernels.extend(t.blocks(s.tokens * s.heads, 32 * WARPS, &merged(c, &s)?)?);
    Some(kernels)
}

/// Statements that say which positions a token sees.
fn bounds(c: &Call) -> Option<String> {
    let (cache, tables) = (&c.args[1].ty.shape, &c.args[3].ty.shape);
    Some(format!(
        "const int sequence = sequences[token], position = positions[token];\n\
         const bool is_there = sequence >= 0 && sequence < {rows} && position >= 0;\n\
         const int end = !is_there ? 0 : position < {most} ? position + 1 : {most};\n\
         const int start = {window} > 0 && position >= {window} ? position + 1 - {window} : 0;\n",
        rows = tables[0],
        most = i32::try_from(tables[1] * cache[1]).ok()?,
        window = i32::try_from(c.attrs.size("window").ok()?).ok()?,
    ))
}

/// Statements that find the work of a warp, which sees chains `first`, `first + step`…, and take its queries. Keys and
/// values are asked for before the launch before has ended if it is known then where they lie. What that launch writes
/// is written to the same cache.
fn begin(c: &Call, s: &Sizes, first: &str, step: usize) -> Option<String> {
    let is_early = c.major >= 9 && (3..6).all(|i| c.is_given(i));
    let early = format!("if (blockIdx.x < {EARLY_BLOCKS}) ask_early<{}>(keys, {first}, {step}, {EARLY});\n{WAIT}", s.d);
    let (wait, early) = if is_early { ("", early) } else { (WAIT, String::new()) };
    let Sizes { heads, d, together, parts, chains, .. } = s;
    let (cache, tables) = (&c.args[1].ty.shape, &c.args[3].ty.shape);
    let ty = stored(c.args[1].ty.dtype);
    Some(format!(
        "{wait}extern __shared__ __align__(128) char memory[];\n\
         const idx token = work / {chunks};\n\
         const int chunk = work % {chunks}, head = chunk * {together}, kv = chunk / {parts};\n\
         {bounds}\
         const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4;\n\
         const Keys<{ty}> keys = {{k + kv * {d}, v + kv * {d}, tables + (idx)(is_there ? sequence : 0) * {reach},\n\
         {blocks}, {size}, {row}ll, start, end, {chains}}};\n\
         const unsigned ring = shared_at(memory) + warp * {ring};\n\
         {early}\
         uint2 given[{d} / 16];\n\
         #pragma unroll\n\
         for (int i = 0; i < {d} / 16; i++)\n\
         given[i] = group < {together} ? query<{ty}>(q + (token * {heads} + head + group) * {d} + 16 * i + 2 * quarter)\n\
         : make_uint2(0, 0);\n",
        chunks = heads / together,
        bounds = bounds(c)?,
        reach = tables[1],
        blocks = cache[0],
        size = cache[1],
        row = cache[2] * d,
        ring = s.ring(),
    ))
}

/// Statements of a warp that sees chains `first`, `first + step`…; `put` is given what it has seen of each.
fn see(c: &Call, s: &Sizes, [first, step, put]: [&str; 3]) -> Option<String> {
    Some(format!(
        "see_chains<{}, {}>(given, keys, {first}, {step}, ring, {}f, {}f, {put});\n",
        s.d,
        s.stages(),
        decimal(c.attrs.float("scale").ok()?),
        decimal(c.attrs.float("softcap").ok()?),
    ))
}

/// Statements that write what a lane has of heads to `to`, rows of `partial` floats, `apart` rows from a head to the
/// next.
fn keep(s: &Sizes, seen: &str, to: &str, apart: usize) -> String {
    let (together, partial, d) = (s.together, s.partial(), s.d);
    format!(
        "#pragma unroll\n\
         for (int h = 0; h < 2; h++) {{\n\
         if (2 * quarter + h >= {together}) continue;\n\
         float* own = {to} + (2 * quarter + h) * {};\n\
         #pragma unroll\n\
         for (int i = 0; i < {d} / 16; i++)\n\
         own[16 * i + group] = {seen}.y[i][h], own[16 * i + group + 8] = {seen}.y[i][h + 2];\n\
         if (group == 0) own[{d}] = {seen}.most[h], own[{d} + 1] = {seen}.sum[h];\n}}\n",
        apart * partial
    )
}

/// Statements of a block that computes a chain.
fn partial(c: &Call, s: &Sizes) -> Option<String> {
    let (heads, chains, partial, d) = (s.heads, s.chains, s.partial(), s.d);
    let to = format!("(part + ((token * {heads} + head) * {chains} + chain) * {partial})");
    let put = format!("[&](const Heads<{d}>& total, int chain) {{\n{}}}", keep(s, "total", &to, chains));
    see(c, s, [&format!("blockIdx.x % {chains}"), &chains.to_string(), &put])
}

/// Statements of a block that computes all chains of its heads: a warp every second.
fn whole(c: &Call, s: &Sizes) -> Option<String> {
    let (heads, together, partial, d) = (s.heads, s.together, s.partial(), s.d);
    let put = format!("[&](const Heads<{d}>& total, int) {{ merge(seen, total); }}");
    Some(format!(
        "Heads<{d}> seen;\n\
         clear(seen);\n\
         {see}\
         // The rings have been read.\n\
         bring_wait<0>();\n\
         __syncthreads();\n\
         float* shared = (float*)memory;\n\
         {keep}\
         __syncthreads();\n\
         for (int n = threadIdx.x; n < {together} * {d}; n += {threads}) {{\n\
         const int r = n / {d}, e = n % {d};\n\
         {finish}\
         y[(token * {heads} + head + r) * {d} + e] = {result};\n}}\n",
        see = see(c, s, ["warp", &WARPS.to_string(), &put])?,
        keep = keep(s, "seen", &format!("shared + warp * {}", together * partial), 1),
        threads = 32 * WARPS,
        finish = finish(&format!("shared + r * {partial}"), together * partial, d),
        result = result(c),
    ))
}

/// Statements of a block that merges the chains of a head as `whole` does.
fn merged(c: &Call, s: &Sizes) -> Option<String> {
    let (heads, chains, partial, d) = (s.heads, s.chains, s.partial(), s.d);
    Some(format!(
        "__shared__ float shared[{WARPS} * {partial}];\n\
         const idx token = blockIdx.x / {heads};\n\
         {bounds}\
         const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;\n\
         Seen<{d} / 32> total;\n\
         clear(total);\n\
         for (int first = warp; first < {chains}; first += {AHEAD} * {WARPS}) {{\n\
         // All of these are on their way before the first is merged.\n\
         Seen<{d} / 32> own[{AHEAD}];\n\
         #pragma unroll\n\
         for (int u = 0; u < {AHEAD}; u++) {{\n\
         const int n = first + u * {WARPS};\n\
         clear(own[u]);\n\
         if (n >= {chains} || first_segment(n, start, {chains}) * {SEGMENT} >= end) continue;\n\
         const float* from = part + ((idx)blockIdx.x * {chains} + n) * {partial};\n\
         own[u].most = from[{d}], own[u].sum = from[{d} + 1];\n\
         #pragma unroll\n\
         for (int e = 0; e < {d} / 32; e++) own[u].y[e] = from[lane + 32 * e];\n}}\n\
         #pragma unroll\n\
         for (int u = 0; u < {AHEAD}; u++) merge(total, own[u]);\n}}\n\
         float* to = shared + warp * {partial};\n\
         #pragma unroll\n\
         for (int e = 0; e < {d} / 32; e++) to[lane + 32 * e] = total.y[e];\n\
         if (lane == 0) to[{d}] = total.most, to[{d} + 1] = total.sum;\n\
         __syncthreads();\n\
         for (int e = threadIdx.x; e < {d}; e += {threads}) {{\n\
         {finish}\
         y[(idx)blockIdx.x * {d} + e] = {result};\n}}\n",
        bounds = bounds(c)?,
        threads = 32 * WARPS,
        finish = finish("shared", partial, d),
        result = result(c),
    ))
}

/// Statements by which `all` becomes element `e` of what all warps have seen, `apart` floats from each other.
fn finish(from: &str, apart: usize, d: usize) -> String {
    format!(
        "const float* from = {from};\n\
         Seen<1> all;\n\
         clear(all);\n\
         #pragma unroll\n\
         for (int w = 0; w < {WARPS}; w++) {{\n\
         const float* one = from + w * {apart};\n\
         Seen<1> own;\n\
         own.most = one[{d}], own.sum = one[{d} + 1], own.y[0] = one[e];\n\
         merge(all, own);\n}}\n"
    )
}

/// The result of a head's element.
fn result(c: &Call) -> String {
    format!("put_{}(all.sum == 0 ? 0.0f : all.y[0] / all.sum)", c.outs[0].ty.dtype)
}
