//! Attention of a single query, as in writing a text word by word: as fast as its keys and values
//! can be read. A warp takes some keys of one head of them at a time, multiplies them with all the
//! heads of queries that share it on tensor cores, and keeps what softmax needs as it goes; keys
//! that a mask hides are not read. What the warps of a block have is put together in shared memory,
//! what the blocks of one head have in that of their cluster.

mod flash;
pub mod flash_mma;
mod registers;
mod ring;

use super::{Call, Operand, Text};
use crate::claims::op;
use crate::emit::{Kernel, WAIT};
use ir::{DType, FlatNode, Type};

/// Elements of a load of 16 bytes.
const EACH: usize = 8;
/// Bytes that are asked for at once.
const LINE: usize = 128;
/// Warps of a block: few where there are blocks enough.
const WARPS: usize = 8;
const WARPS_FEW: usize = 4;
/// Threads of a multiprocessor, each with registers for what it has on its way.
const THREADS: usize = 512;
/// Multiprocessors of the generation that overlaps launches most, and the shared memory of each.
const HOPPER: u32 = 9;
const MULTIPROCESSORS: usize = 132;
const SHARED_MEMORY: usize = 228 << 10;
/// Blocks that keep the device busy.
const BLOCKS: usize = 64;
/// Blocks of a cluster at most.
const CLUSTER_MAX: usize = 8;
/// Longest rows of queries, keys and values.
const WIDTH_MAX: usize = 128;
/// Heads of queries that share keys at most: half the rows that tensor cores multiply.
const SHARED_MAX: usize = 8;
/// The first generation of GPUs whose tensor cores know bf16, and the first with clusters.
const TENSOR: u32 = 8;
const CLUSTERS: u32 = 9;

/// Sizes of an attention of one query.
struct Sizes {
    batch: usize,
    /// Heads of queries, and of keys and values.
    heads: usize,
    kept: usize,
    keys: usize,
    width: usize,
    /// Blocks that the keys of a head are dealt out to, and warps of each.
    parts: usize,
    warps: usize,
    /// How often a warp has keys in shared memory, where they go there.
    stages: usize,
}

impl Sizes {
    fn new(q: &Type, k: &Type, v: &Type, major: u32) -> Option<Sizes> {
        let [batch, heads, 1, width] = *q.shape.dims() else { return None };
        let [_, kept, keys, _] = *k.shape.dims() else { return None };
        let is_half = matches!(q.dtype, DType::BF16 | DType::F16);
        let is_same = k == v && k.shape[0] == batch && k.shape[3] == width;
        let is_whole = width.is_multiple_of(4 * EACH) && width <= WIDTH_MAX;
        if major < TENSOR || !is_half || !is_same || !is_whole || batch * heads * keys * kept == 0 {
            return None;
        }
        if !heads.is_multiple_of(kept) || heads / kept > SHARED_MAX {
            return None;
        }
        let wanted = BLOCKS.div_ceil(batch * kept).min(keys.div_ceil(registers::TILE * WARPS)).next_power_of_two();
        let parts = if major < CLUSTERS { 1 } else { wanted.min(CLUSTER_MAX) };
        let warps = if batch * kept < 2 * BLOCKS { WARPS } else { WARPS_FEW };
        let least = Sizes { batch, heads, kept, keys, width, parts, warps, stages: ring::STAGES };
        let more = Sizes { stages: ring::STAGES + 1, ..least };
        Some(if major == HOPPER && more.fits() { more } else { least })
    }
    /// Heads of queries that share keys.
    fn shared(&self) -> usize {
        self.heads / self.kept
    }
    /// True if as many blocks as a multiprocessor has threads for find room in its shared memory, with what the
    /// system and the end of the kernel need.
    fn fits(&self) -> bool {
        let end = (2 * self.warps + self.width + 2) * self.shared() * 4;
        (ring::bytes(self) + end + (1 << 10)) * THREADS <= SHARED_MEMORY * self.warps * 32
    }
    /// Bytes of a block's shared memory that keep more blocks from a multiprocessor than are its part. The others
    /// would else go wherever there is room, since blocks of the launch before still have some.
    fn bytes_min(&self, major: u32) -> usize {
        let each = (self.batch * self.kept).div_ceil(MULTIPROCESSORS);
        if major == HOPPER && each * self.warps * 32 <= THREADS { SHARED_MEMORY / (each + 1) } else { 0 }
    }
    /// There are blocks enough, so that each warp has many keys.
    fn is_many(&self) -> bool {
        self.warps == WARPS_FEW
    }
}

/// Which keys are seen, as C.
struct View {
    /// Whether any head that shares them sees `key`.
    any: String,
    /// And whether the head `g` does, where heads see different ones.
    one: String,
    /// What is added to the score of `key`.
    added: String,
}

impl View {
    fn new(s: &Sizes, mask: Option<&Operand>) -> View {
        let by_head = |text: &str, head: &str| text.replace("HEAD", &format!("(h * {} + {head})", s.shared()));
        let (seen, added) = match mask {
            None => ("true".to_string(), String::new()),
            Some(m) if m.ty.dtype == DType::Bool => (format!("m[{}]", mask_at(m)), String::new()),
            Some(m) => ("true".to_string(), format!(" + get(m[{}]) * {:e}f", mask_at(m), std::f64::consts::LOG2_E)),
        };
        let heads = if seen.contains("HEAD") { s.shared() } else { 1 };
        let any: Vec<String> = (0..heads).map(|g| by_head(&seen, &g.to_string())).collect();
        let one = if heads > 1 { format!(" && {}", by_head(&seen, "g")) } else { String::new() };
        View { any: any.join(" || "), one, added: by_head(&added, "g") }
    }
}

/// True if there is a kernel for an attention on GPUs of a generation.
pub fn claims(n: &FlatNode, types: &[Type], major: u32) -> bool {
    let [q, k, v, rest @ ..] = types else { return false };
    if flash::claims(n, types) || flash_mma::claims(n, types, major) {
        return true;
    }
    let fits_mask = |m: &Type| m.dtype == DType::Bool || m.dtype == q.dtype;
    n.op.name == op::ATTENTION
        && n.attrs.bool("causal") == Ok(false)
        && rest.len() <= 1
        && rest.iter().all(|m| fits_mask(m) && (2..=4).contains(&m.shape.rank()))
        && Sizes::new(q, k, v, major).is_some()
}

/// The kernel of an attention of one query, or of many in f32; `None` for others.
pub fn attention(c: &Call) -> Option<Vec<Kernel>> {
    one_query(c).or_else(|| flash::attention(c, false)).or_else(|| flash_mma::attention(c, false))
}

/// The same with a result `[N, L, H, F]`.
pub fn attention_transposed(c: &Call) -> Option<Vec<Kernel>> {
    one_query(c).or_else(|| flash::attention(c, true)).or_else(|| flash_mma::attention(c, true))
}

/// The kernel of an attention of one query; `None` for others.
fn one_query(c: &Call) -> Option<Vec<Kernel>> {
    let [q, k, v, mask @ ..] = c.args else { return None };
    // A transposed result has its heads and queries the other way round, which is the same for one.
    let s = Sizes::new(&q.ty, &k.ty, &v.ty, c.major)?;
    let scale = c.attrs.float("scale").ok()?;
    if c.attrs.bool("causal") != Ok(false) {
        return None;
    }
    let mut t = Text::new().reads("q", q).reads("k", k).reads("v", v);
    if let [m] = mask {
        t = t.reads("m", m);
    }
    let (view, given) = (View::new(&s, mask.first()), [q, k, v]);
    let put = c.put.filter(|_| s.is_many());
    if let Some(index) = put {
        t = t.reads("index", index);
    }
    let (tiles, sums, bytes) = if s.is_many() {
        (ring::tiles(&s, given, &view, put.is_some()), ring::sums(&s), ring::bytes(&s).max(s.bytes_min(c.major)))
    } else {
        (registers::tiles(&s, given, &view), registers::sums(&s), 0)
    };
    let t = t.writes("y", &c.outs[0]).writes("lse", &c.outs[1]);
    // With an index of what is put into caches, the rest is asked for first.
    let wait = if put.is_some() { "" } else { WAIT };
    let body = begin(&s, given, scale, wait) + &tiles + &end(&s, &sums, q.ty.dtype);
    let mut kernels = t.blocks(s.batch * s.kept * s.parts, s.warps * 32, &body)?;
    for k in &mut kernels {
        k.hold(THREADS / (s.warps * 32));
        k.shared = bytes as u32;
        if s.parts > 1 {
            k.spread_over_clusters(s.parts);
        }
    }
    Some(kernels)
}

/// Where the block is.
fn begin(s: &Sizes, [_, k, v]: [&Operand; 3], scale: f64, wait: &str) -> String {
    let (shared, width) = (s.shared(), s.width);
    // Where there is little to read, it is asked for before it is known what of it is seen.
    let ask = |name: &str, o: &Operand| {
        let (by, size) = (|d: usize| o.layout.strides[d], o.ty.dtype.size());
        let lines: Vec<usize> = (0..width).step_by(LINE / size).collect();
        let at = format!("{name} + b * {} + h * {} + key * {}", by(0), by(1), by(2));
        lines.iter().map(|line| format!("ask_for({at} + {line});\n")).collect::<String>()
    };
    let early = if s.parts > 1 {
        format!(
            "if (const idx key = (part + warp * {}) * {} + lane; key < {}) {{\n{}{}}}\n",
            s.parts,
            registers::TILE,
            s.keys,
            ask("k", k),
            ask("v", v)
        )
    } else {
        String::new()
    };
    format!(
        "const float hidden = __int_as_float(0xff800000);\n\
         const idx part = blockIdx.x % {parts}, h = blockIdx.x / {parts} % {kept}, b = blockIdx.x / {parts_kept};\n\
         const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = lane / 4, c = lane % 4;\n\
         const int g = r < {shared} ? r : {last};\n{early}{wait}\
         // Powers of two instead of e.\n\
         const float scale = {scale:e}f;\n\
         float top = hidden, l = 0;\n",
        scale = scale * std::f64::consts::LOG2_E,
        parts = s.parts,
        kept = s.kept,
        parts_kept = s.parts * s.kept,
        last = shared - 1,
    )
}

/// What the warps have, together: first those of the block, then the blocks of the cluster, each for
/// its share of the elements.
fn end(s: &Sizes, sums: &str, dtype: DType) -> String {
    let (shared, width, parts, warps) = (s.shared(), s.width, s.parts, s.warps);
    let all = shared * width;
    let (sync, other) =
        if parts > 1 { ("sync_cluster();\n", "of_block(at, n)") } else { ("__syncthreads();\n", "*at") };
    format!(
        "l = across<Sum, 4>(l);\n\
         __shared__ float tops[{warps}][{shared}], ls[{warps}][{shared}], left[{shared}][{each}];\n\
         {sums}if (r < {shared} && c == 0) {{ tops[warp][r] = top; ls[warp][r] = l; }}\n\
         __syncthreads();\n\
         for (int t = threadIdx.x; t < {all}; t += {block}) {{\n\
         const int g = t / {width}, f = t % {width};\n\
         float most = hidden, sum = 0, l = 0;\n\
         #pragma unroll\nfor (int w = 0; w < {warps}; w++) most = fmaxf(most, tops[w][g]);\n\
         #pragma unroll\nfor (int w = 0; w < {warps}; w++) {{\n\
         const float e = tops[w][g] == hidden ? 0.0f : exp2f(tops[w][g] - most);\n\
         sum = sum + e * sums[w][g][f];\nl = l + e * ls[w][g];\n}}\n\
         left[g][f] = sum;\n\
         if (f == 0) {{ left[g][{width}] = most; left[g][{width} + 1] = l; }}\n}}\n\
         {sync}\
         const auto take = [&](const float* at, int n) -> float {{ return {other}; }};\n\
         for (int t = part * {share} + threadIdx.x; t < min({all}, (int)(part + 1) * {share}); t += {block}) {{\n\
         const int g = t / {width}, f = t % {width};\n\
         const idx row = b * {heads} + h * {shared} + g;\n\
         float most = hidden, sum = 0, l = 0;\n\
         #pragma unroll\nfor (int n = 0; n < {parts}; n++) most = fmaxf(most, take(&left[g][{width}], n));\n\
         #pragma unroll\nfor (int n = 0; n < {parts}; n++) {{\n\
         const float there = take(&left[g][{width}], n), e = there == hidden ? 0.0f : exp2f(there - most);\n\
         sum = sum + e * take(&left[g][f], n);\nl = l + e * take(&left[g][{width} + 1], n);\n}}\n\
         y[row * {width} + f] = put_{dtype}(l > 0 ? sum / l : 0.0f);\n\
         if (f == 0) lse[row] = l > 0 ? (most + log2f(l)) * {ln2:e}f : hidden;\n}}\n\
         {wait}",
        each = width + 2,
        block = warps * 32,
        share = all.div_ceil(parts),
        heads = s.heads,
        ln2 = std::f64::consts::LN_2,
        // A block's memory is read until the others are done.
        wait = if parts > 1 { "leave_cluster();\n" } else { "" },
    )
}

/// The element of a mask for batch `b`, head `HEAD` and `key`.
fn mask_at(m: &Operand) -> String {
    let rank = m.layout.shape.rank();
    let by = |back: usize, name: &str| match rank.checked_sub(back) {
        Some(d) if m.layout.shape[d] != 1 => format!("{name} * {}", m.layout.strides[d]),
        _ => "0".to_string(),
    };
    format!("{} + {} + {}", by(4, "b"), by(3, "HEAD"), by(1, "key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lie_evenly_on_multiprocessors() {
        let most = |batch: usize, kept: usize, major: u32| {
            let ty = |heads: usize, keys: usize| Type::new(DType::BF16, [batch, heads, keys, 64]);
            let s = Sizes::new(&ty(2 * kept, 1), &ty(kept, 90), &ty(kept, 90), major)?;
            SHARED_MEMORY.checked_div(s.bytes_min(major))
        };
        assert_eq!(most(64, 8, HOPPER), Some(5), "which with what else they need are four");
        assert_eq!(most(70, 2, HOPPER), Some(3));
        assert_eq!(most(640, 8, HOPPER), None, "more than fit at once");
        assert_eq!(most(64, 8, TENSOR), None, "other generations have less");
    }

    #[test]
    fn keys_are_further_ahead_where_there_is_room() {
        let stages = |width: usize, major: u32| {
            let ty = |heads: usize, keys: usize| Type::new(DType::BF16, [64, heads, keys, width]);
            Sizes::new(&ty(32, 1), &ty(8, 90), &ty(8, 90), major).map(|s| s.stages)
        };
        assert_eq!(stages(64, HOPPER), Some(3));
        assert_eq!(stages(128, HOPPER), Some(2), "wide keys");
        assert_eq!(stages(64, TENSOR), Some(2), "other generations have less");
    }
}
