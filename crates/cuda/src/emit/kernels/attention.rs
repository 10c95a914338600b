//! Attention of a single query, as in writing a text word by word: as fast as its keys and values
//! can be read. A warp takes 32 keys of one head of them at a time, multiplies them with all the
//! heads of queries that share it on tensor cores, and keeps what softmax needs as it goes; keys
//! that a mask hides are not read. What the warps of a block have is put together in shared memory,
//! what the blocks of one head have in that of their cluster.

use super::{Call, Operand, Text};
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
/// Keys a warp takes at a time.
const TILE: usize = 32;
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
        let wanted = BLOCKS.div_ceil(batch * kept).min(keys.div_ceil(TILE * WARPS)).next_power_of_two();
        let parts = if major < CLUSTERS { 1 } else { wanted.min(CLUSTER_MAX) };
        let warps = if batch * kept < 2 * BLOCKS { WARPS } else { WARPS_FEW };
        Some(Sizes { batch, heads, kept, keys, width, parts, warps })
    }
    /// Heads of queries that share keys.
    fn shared(&self) -> usize {
        self.heads / self.kept
    }
}

/// True if there is a kernel for an attention on GPUs of a generation.
pub fn claims(n: &FlatNode, types: &[Type], major: u32) -> bool {
    let [q, k, v, rest @ ..] = types else { return false };
    let fits_mask = |m: &Type| m.dtype == DType::Bool || m.dtype == q.dtype;
    n.op.name == "attention"
        && n.attrs.bool("causal") == Ok(false)
        && rest.len() <= 1
        && rest.iter().all(|m| fits_mask(m) && (2..=4).contains(&m.shape.rank()))
        && Sizes::new(q, k, v, major).is_some()
}

/// The kernel of an attention of one query; `None` for others.
pub fn attention(c: &Call) -> Option<Vec<Kernel>> {
    let [q, k, v, mask @ ..] = c.args else { return None };
    // A turned result has its heads and queries the other way round, which is the same for one.
    let s = Sizes::new(&q.ty, &k.ty, &v.ty, c.major)?;
    let scale = c.attrs.float("scale").ok()?;
    if c.attrs.bool("causal") != Ok(false) {
        return None;
    }
    let mut t = Text::new().reads("q", q).reads("k", k).reads("v", v);
    if let [m] = mask {
        t = t.reads("m", m);
    }
    let t = t.writes("y", &c.outs[0]).writes("lse", &c.outs[1]);
    let body = begin(&s, [q, k, v], scale) + &tiles(&s, [q, k, v], mask.first()) + &end(&s, q.ty.dtype);
    let mut kernels = t.blocks(s.batch * s.kept * s.parts, s.warps * 32, &body)?;
    for k in &mut kernels {
        k.hold(THREADS / (s.warps * 32));
        if s.parts > 1 {
            k.spread_over_clusters(s.parts);
        }
    }
    Some(kernels)
}

/// Where the block is, and the queries as tensor cores take them: lane 4g + c has row g, and of each
/// 32 elements the 8 from 8c on.
fn begin(s: &Sizes, [q, k, v]: [&Operand; 3], scale: f64) -> String {
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
            "if (const idx key = (part + warp * {}) * {TILE} + lane; key < {}) {{\n{}{}}}\n",
            s.parts,
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
         const int g = r < {shared} ? r : {last};\n{early}{WAIT}\
         uint4 u[{chunks}];\n\
         #pragma unroll\nfor (int i = 0; i < {chunks}; i++) {{\n\
         u[i] = *(const uint4*)(q + b * {q0} + (h * {shared} + g) * {q1} + i * 32 + c * {EACH});\n\
         if (r >= {shared}) u[i] = make_uint4(0, 0, 0, 0);\n}}\n\
         // Powers of two instead of e.\n\
         const float scale = {scale:e}f;\n\
         float top = hidden, l = 0, acc[{passes}][8][4] = {{}};\n",
        scale = scale * std::f64::consts::LOG2_E,
        parts = s.parts,
        kept = s.kept,
        parts_kept = s.parts * s.kept,
        last = shared - 1,
        chunks = width / 32,
        passes = width.div_ceil(64),
        q0 = q.layout.strides[0],
        q1 = q.layout.strides[1],
    )
}

/// The loop over the warp's keys: scores, softmax as it goes, sums of values.
fn tiles(s: &Sizes, [q, k, v]: [&Operand; 3], mask: Option<&Operand>) -> String {
    let (shared, width, dtype) = (s.shared(), s.width, q.ty.dtype);
    let at = |o: &Operand, d: usize| o.layout.strides[d];
    let by_head = |text: &str, head: &str| text.replace("HEAD", &format!("(h * {shared} + {head})"));
    let (seen, added) = match mask {
        None => ("true".to_string(), String::new()),
        Some(m) if m.ty.dtype == DType::Bool => (format!("m[{}]", mask_at(m)), String::new()),
        Some(m) => ("true".to_string(), format!(" + get(m[{}]) * {:e}f", mask_at(m), std::f64::consts::LOG2_E)),
    };
    let heads = if seen.contains("HEAD") { shared } else { 1 };
    let any: Vec<String> = (0..heads).map(|g| by_head(&seen, &g.to_string())).collect();
    format!(
        "// Which of a tile's keys are seen; known one tile ahead.\n\
         const auto look = [&](int tile) -> unsigned {{\n\
         const idx key = tile * {TILE} + lane;\n\
         return __ballot_sync(0xffffffffu, key < {keys} && ({any}));\n}};\n\
         uint4 x[4][{chunks}], z[2][4][{passes}];\n\
         const auto ask_keys = [&](int tile, unsigned seen) {{\n\
         #pragma unroll\nfor (int t = 0; t < 4; t++) {{\n\
         const idx key = tile * {TILE} + t * 8 + r;\nconst bool is_in = seen >> (t * 8 + r) & 1;\n\
         #pragma unroll\nfor (int i = 0; i < {chunks}; i++) {{\n\
         x[t][i] = make_uint4(0, 0, 0, 0);\n\
         if (is_in) x[t][i] = *(const uint4*)(k + b * {k0} + h * {k1} + key * {k2} + i * 32 + c * {EACH});\n}}\n}}\n}};\n\
         const auto ask_values = [&](int tile, unsigned seen) {{\n\
         #pragma unroll\nfor (int t = 0; t < 8; t++) {{\n\
         const int place = t / 4 * 16 + t % 4 / 2 * 8 + c * 2 + t % 2;\n\
         const idx key = tile * {TILE} + place;\nconst bool is_in = seen >> place & 1;\n\
         #pragma unroll\nfor (int i = 0; i < {passes}; i++) {{\n\
         z[t / 4][t % 4][i] = make_uint4(0, 0, 0, 0);\n\
         if (is_in && i * 64 + r * {EACH} < {width}) z[t / 4][t % 4][i] = *(const uint4*)(v + b * {v0} + h * {v1} + key * {v2} + i * 64 + r * {EACH});\n}}\n}}\n}};\n\
         int tile = part + warp * {parts};\n\
         unsigned seen = look(tile), next = look(tile + {step});\n\
         ask_keys(tile, seen);\nask_values(tile, seen);\n\
         // The next keys are on their way while values are used, the next values while keys are.\n\
         for (; tile < {tiles}; tile += {step}) {{\n\
         const idx first = tile * {TILE};\n\
         float p[4][4], most = hidden;\n\
         #pragma unroll\nfor (int t = 0; t < 4; t++) {{\n\
         #pragma unroll\nfor (int i = 0; i < 4; i++) p[t][i] = 0;\n\
         #pragma unroll\nfor (int i = 0; i < {chunks}; i++) {{\n\
         multiply_{dtype}(p[t], u[i].x, 0, u[i].y, 0, x[t][i].x, x[t][i].y);\n\
         multiply_{dtype}(p[t], u[i].z, 0, u[i].w, 0, x[t][i].z, x[t][i].w);\n}}\n\
         #pragma unroll\nfor (int i = 0; i < 2; i++) {{\n\
         const idx key = first + t * 8 + c * 2 + i;\n\
         p[t][i] = (seen >> (t * 8 + c * 2 + i) & 1){one} ? p[t][i] * scale{added} : hidden;\n\
         most = fmaxf(most, p[t][i]);\n}}\n}}\n\
         ask_keys(tile + {step}, next);\n\
         if (seen) {{\n\
         most = fmaxf(top, across<Max, 4>(most));\n\
         const float less = top == hidden ? 0.0f : exp2f(top - most);\n\
         top = most;\nl = l * less;\n\
         #pragma unroll\nfor (int t = 0; t < 4; t++)\n\
         #pragma unroll\nfor (int i = 0; i < 2; i++) {{\n\
         p[t][i] = top == hidden ? 0.0f : exp2f(p[t][i] - top);\nl = l + p[t][i];\n}}\n\
         #pragma unroll\nfor (int i = 0; i < {passes}; i++)\n\
         #pragma unroll\nfor (int j = 0; j < 8; j++) {{\nacc[i][j][0] *= less;\nacc[i][j][1] *= less;\n\
         #pragma unroll\nfor (int w = 0; w < 2; w++) {{\n\
         const unsigned how = j % 2 ? 0x7632 : 0x5410;\n\
         const unsigned e = __byte_perm((&z[w][0][i].x)[j / 2], (&z[w][1][i].x)[j / 2], how);\n\
         const unsigned f = __byte_perm((&z[w][2][i].x)[j / 2], (&z[w][3][i].x)[j / 2], how);\n\
         multiply_{dtype}(acc[i][j], pair_{dtype}(p[w * 2][0], p[w * 2][1]), 0, pair_{dtype}(p[w * 2 + 1][0], p[w * 2 + 1][1]), 0, e, f);\n}}\n}}\n}}\n\
         ask_values(tile + {step}, next);\nseen = next;\nnext = look(tile + 2 * {step});\n}}\n",
        parts = s.parts,
        tiles = s.keys.div_ceil(TILE),
        step = s.parts * s.warps,
        keys = s.keys,
        any = any.join(" || "),
        // Heads may see different keys.
        one = if heads > 1 { format!(" && {}", by_head(&seen, "g")) } else { String::new() },
        added = by_head(&added, "g"),
        chunks = width / 32,
        passes = width.div_ceil(64),
        k0 = at(k, 0),
        k1 = at(k, 1),
        k2 = at(k, 2),
        v0 = at(v, 0),
        v1 = at(v, 1),
        v2 = at(v, 2),
    )
}

/// What the warps have, together: first those of the block, then the blocks of the cluster, each for
/// its share of the elements.
fn end(s: &Sizes, dtype: DType) -> String {
    let (shared, width, parts, warps) = (s.shared(), s.width, s.parts, s.warps);
    let all = shared * width;
    let (sync, other) =
        if parts > 1 { ("sync_cluster();\n", "of_block(at, n)") } else { ("__syncthreads();\n", "*at") };
    format!(
        "l = across<Sum, 4>(l);\n\
         __shared__ float sums[{warps}][{shared}][{width}], tops[{warps}][{shared}], ls[{warps}][{shared}];\n\
         __shared__ float left[{shared}][{each}];\n\
         if (r < {shared}) {{\n\
         if (c == 0) {{ tops[warp][r] = top; ls[warp][r] = l; }}\n\
         #pragma unroll\nfor (int i = 0; i < {passes}; i++)\n\
         #pragma unroll\nfor (int j = 0; j < 8; j++)\n\
         #pragma unroll\nfor (int n = 0; n < 2; n++) {{\n\
         const int f = i * 64 + (c * 2 + n) * 8 + j;\n\
         if (f < {width}) sums[warp][r][f] = acc[i][j][n];\n}}\n}}\n\
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
        passes = width.div_ceil(64),
        block = warps * 32,
        share = all.div_ceil(parts),
        heads = s.heads,
        ln2 = std::f64::consts::LN_2,
        // A block's memory is read until the others are done.
        wait = if parts > 1 { "sync_cluster();\n" } else { "" },
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
