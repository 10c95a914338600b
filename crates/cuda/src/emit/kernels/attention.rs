//! Attention of a single query, as in writing a text word by word: as fast as its keys and values
//! can be read. A block has a stretch of the keys of one head of them, and all the heads of queries
//! that share it; keys that a mask hides are not read.

use super::{Call, Operand, Text};
use crate::emit::scalar::stored;
use crate::emit::{Arg, Kernel};
use ir::{DType, FlatNode, Type};

/// Elements of a load of 16 bytes.
const EACH: usize = 8;
/// Threads of a block.
const BLOCK: usize = 256;
/// Blocks that keep the device busy.
const BLOCKS: usize = 264;
/// Keys that a block has at least.
const KEYS_MIN: usize = 64;
/// Scores that a block keeps at most, and elements of results.
const SCORES_MAX: usize = 4096;
const RESULTS_MAX: usize = 512;
/// Heads of queries that share keys at most.
const SHARED_MAX: usize = 8;

/// Sizes of an attention of one query.
struct Sizes {
    batch: usize,
    /// Heads of queries, and of keys and values.
    heads: usize,
    kept: usize,
    keys: usize,
    width: usize,
    /// Stretches that the keys are cut into, and keys of each.
    parts: usize,
    stretch: usize,
}

impl Sizes {
    fn new(q: &Type, k: &Type, v: &Type) -> Option<Sizes> {
        let [batch, heads, 1, width] = *q.shape.dims() else { return None };
        let [_, kept, keys, _] = *k.shape.dims() else { return None };
        let is_half = matches!(q.dtype, DType::BF16 | DType::F16);
        let is_same = k == v && k.shape[0] == batch && k.shape[3] == width;
        let is_whole = (width / EACH).is_power_of_two() && width.is_multiple_of(EACH) && width <= 32 * EACH;
        if !is_half || !is_same || !is_whole || batch * heads * keys * kept == 0 || !heads.is_multiple_of(kept) {
            return None;
        }
        let shared = heads / kept;
        if shared > SHARED_MAX || shared * width > RESULTS_MAX {
            return None;
        }
        let wanted = BLOCKS.div_ceil(batch * kept).max(keys.div_ceil(SCORES_MAX / shared));
        let stretch = keys.div_ceil(wanted).max(KEYS_MIN);
        Some(Sizes { batch, heads, kept, keys, width, parts: keys.div_ceil(stretch), stretch })
    }
    /// Heads of queries that share keys.
    fn shared(&self) -> usize {
        self.heads / self.kept
    }
    fn rows(&self) -> usize {
        self.batch * self.heads
    }
}

/// True if there are kernels for an attention.
pub fn claims(n: &FlatNode, types: &[Type]) -> bool {
    let [q, k, v, rest @ ..] = types else { return false };
    let fits_mask = |m: &Type| m.dtype == DType::Bool || m.dtype == q.dtype;
    n.op.name == "attention"
        && n.attrs.bool("causal") == Ok(false)
        && rest.len() <= 1
        && rest.iter().all(|m| fits_mask(m) && (2..=4).contains(&m.shape.rank()))
        && Sizes::new(q, k, v).is_some()
}

/// Bytes for what the stretches leave: sums of values, greatest scores and sums of exponentials.
pub fn scratch(args: &[Operand]) -> usize {
    let [q, k, v, ..] = args else { return 0 };
    match Sizes::new(&q.ty, &k.ty, &v.ty) {
        Some(s) if s.parts > 1 => s.rows() * s.parts * (s.width + 2) * 4,
        _ => 0,
    }
}

/// The kernels of an attention of one query; `None` for others.
pub fn attention(c: &Call) -> Option<Vec<Kernel>> {
    let [q, k, v, mask @ ..] = c.args else { return None };
    // A turned result has its heads and queries the other way round, which is the same for one.
    let s = Sizes::new(&q.ty, &k.ty, &v.ty)?;
    let scale = c.attrs.float("scale").ok()?;
    if c.attrs.bool("causal") != Ok(false) {
        return None;
    }
    let mut t = Text::new().reads("q", q).reads("k", k).reads("v", v);
    if let [m] = mask {
        t = t.reads("m", m);
    }
    let body = stretch(&s, [q, k, v], mask.first(), scale);
    if s.parts == 1 {
        let end = format!(
            "y[row * {width} + f] = put_{}(l > 0 ? sum / l : 0.0f);\n\
                           if (f == 0) lse[row] = l > 0 ? top + logf(l) : __int_as_float(0xff800000);\n",
            q.ty.dtype,
            width = s.width
        );
        return t.writes("y", &c.outs[0]).writes("lse", &c.outs[1]).blocks(
            s.batch * s.kept,
            BLOCK,
            &(body + &end + "}\n"),
        );
    }
    let end = format!(
        "const idx at = (row * {parts} + part) * {};\nleft[at + f] = sum;\n\
         if (f == 0) {{ left[at + {width}] = top; left[at + {width} + 1] = l; }}\n}}\n",
        s.width + 2,
        parts = s.parts,
        width = s.width
    );
    let t = t.memory("left", "float", Arg::Scratch(0));
    let mut kernels = t.blocks(s.batch * s.kept * s.parts, BLOCK, &(body + &end))?;
    kernels.extend(combine(&s, c)?);
    Some(kernels)
}

/// Everything up to `sum`, the sum of values times weights in place `f` of head `row`, with the
/// greatest score `top` and the sum of exponentials `l`; inside an open loop.
fn stretch(s: &Sizes, [q, k, v]: [&Operand; 3], mask: Option<&Operand>, scale: f64) -> String {
    let (ty, shared, width) = (stored(q.ty.dtype), s.shared(), s.width);
    let lanes = width / EACH;
    let at = |o: &Operand, d: usize| o.layout.strides[d];
    let seen = match mask {
        None => "true".to_string(),
        Some(m) if m.ty.dtype == DType::Bool => format!("m[{}]", mask_at(m)),
        Some(_) => "true".to_string(),
    };
    // What a mask adds differs by head where the mask has heads.
    let added = match mask {
        Some(m) if m.ty.dtype != DType::Bool => format!(" + get(m[{}])", mask_at(m)),
        _ => String::new(),
    };
    let hidden = "__int_as_float(0xff800000)";
    let seen_all = if seen == "true" {
        "true".to_string()
    } else {
        (0..shared).map(|g| seen.replace("HEAD", &format!("(h * {shared} + {g})"))).collect::<Vec<_>>().join(" || ")
    };
    let seen_one = seen.replace("HEAD", &format!("(h * {shared} + g)"));
    let added = added.replace("HEAD", &format!("(h * {shared} + g)"));
    format!(
        "__shared__ float score[{shared}][{keys_max}];\n\
         __shared__ float tops[{shared}], sums[{shared}];\n\
         __shared__ float out[{warps}][{shared}][{width}];\n\
         const idx part = blockIdx.x % {parts}, h = blockIdx.x / {parts} % {kept}, b = blockIdx.x / {parts_kept};\n\
         const int first = part * {stretch}, count = min({stretch}, {keys} - first);\n\
         const int lane = threadIdx.x % {lanes}, group = threadIdx.x / {lanes};\n\
         float u[{shared}][{EACH}];\n\
         #pragma unroll\nfor (int g = 0; g < {shared}; g++) {{\n\
         const pack<{ty}, {EACH}> p = *(const pack<{ty}, {EACH}>*)(q + b * {q0} + (h * {shared} + g) * {q1} + lane * {EACH});\n\
         #pragma unroll\nfor (int i = 0; i < {EACH}; i++) u[g][i] = get(p.at[i]) * {scale:e}f;\n}}\n\
         #pragma unroll 2\nfor (int j = group; j < {rounded}; j += {groups}) {{\n\
         const idx key = first + j;\n\
         const bool is_seen = j < count && ({seen_all});\n\
         float dot[{shared}] = {{}};\n\
         if (is_seen) {{\n\
         const pack<{ty}, {EACH}> p = *(const pack<{ty}, {EACH}>*)(k + b * {k0} + h * {k1} + key * {k2} + lane * {EACH});\n\
         #pragma unroll\nfor (int g = 0; g < {shared}; g++)\n\
         #pragma unroll\nfor (int i = 0; i < {EACH}; i++) dot[g] = dot[g] + u[g][i] * get(p.at[i]);\n}}\n\
         #pragma unroll\nfor (int g = 0; g < {shared}; g++) {{\n\
         const float x = across<Sum, {lanes}>(dot[g]);\n\
         if (lane == 0 && j < count) score[g][j] = is_seen && ({seen_one}) ? x{added} : {hidden};\n}}\n}}\n\
         __syncthreads();\n\
         for (int g = threadIdx.x / 32; g < {shared}; g += {warps}) {{\n\
         float top = {hidden};\n\
         for (int j = threadIdx.x % 32; j < count; j += 32) top = fmaxf(top, score[g][j]);\n\
         top = across<Max, 32>(top);\n\
         float l = 0;\n\
         for (int j = threadIdx.x % 32; j < count; j += 32) {{\n\
         const float e = top == {hidden} ? 0.0f : expf(score[g][j] - top);\n\
         score[g][j] = e;\nl = l + e;\n}}\n\
         l = across<Sum, 32>(l);\n\
         if (threadIdx.x % 32 == 0) {{ tops[g] = top; sums[g] = l; }}\n}}\n\
         __syncthreads();\n\
         float acc[{shared}][{EACH}] = {{}};\n\
         #pragma unroll 2\nfor (int j = group; j < count; j += {groups}) {{\n\
         const idx key = first + j;\n\
         if (!({seen_all})) continue;\n\
         const pack<{ty}, {EACH}> p = *(const pack<{ty}, {EACH}>*)(v + b * {v0} + h * {v1} + key * {v2} + lane * {EACH});\n\
         #pragma unroll\nfor (int g = 0; g < {shared}; g++) {{\nconst float e = score[g][j];\n\
         #pragma unroll\nfor (int i = 0; i < {EACH}; i++) acc[g][i] = acc[g][i] + e * get(p.at[i]);\n}}\n}}\n\
         #pragma unroll\nfor (int g = 0; g < {shared}; g++)\n\
         #pragma unroll\nfor (int i = 0; i < {EACH}; i++) {{\nfloat x = acc[g][i];\n\
         #pragma unroll\nfor (int d = 16; d >= {lanes}; d /= 2) x = x + __shfl_xor_sync(0xffffffffu, x, d);\n\
         if (threadIdx.x % 32 < {lanes}) out[threadIdx.x / 32][g][lane * {EACH} + i] = x;\n}}\n\
         __syncthreads();\n\
         for (int t = threadIdx.x; t < {all}; t += {BLOCK}) {{\n\
         const int g = t / {width}, f = t % {width};\n\
         const idx row = b * {heads} + h * {shared} + g;\n\
         float sum = 0;\n\
         #pragma unroll\nfor (int w = 0; w < {warps}; w++) sum = sum + out[w][g][f];\n\
         const float top = tops[g], l = sums[g];\n",
        keys_max = s.stretch,
        warps = BLOCK / 32,
        groups = BLOCK / lanes,
        rounded = s.stretch.next_multiple_of(BLOCK / lanes),
        parts = s.parts,
        kept = s.kept,
        parts_kept = s.parts * s.kept,
        stretch = s.stretch,
        keys = s.keys,
        heads = s.heads,
        all = shared * width,
        q0 = at(q, 0),
        q1 = at(q, 1),
        k0 = at(k, 0),
        k1 = at(k, 1),
        k2 = at(k, 2),
        v0 = at(v, 0),
        v1 = at(v, 1),
        v2 = at(v, 2),
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

/// The stretches of each head put together.
fn combine(s: &Sizes, c: &Call) -> Option<Vec<Kernel>> {
    let (width, parts, each) = (s.width, s.parts, s.width + 2);
    let body = format!(
        "const idx row = blockIdx.x;\nconst int f = threadIdx.x;\n\
         const float* at = left + row * {parts} * {each};\n\
         float top = __int_as_float(0xff800000);\n\
         #pragma unroll 8\nfor (int i = 0; i < {parts}; i++) top = fmaxf(top, at[i * {each} + {width}]);\n\
         float sum = 0, l = 0;\n\
         #pragma unroll 8\nfor (int i = 0; i < {parts}; i++) {{\n\
         const float less = at[i * {each} + {width}], w = less == __int_as_float(0xff800000) ? 0.0f : expf(less - top);\n\
         l = l + w * at[i * {each} + {width} + 1];\nsum = sum + w * at[i * {each} + f];\n}}\n\
         y[row * {width} + f] = put_{}(l > 0 ? sum / l : 0.0f);\n\
         if (f == 0) lse[row] = l > 0 ? top + logf(l) : __int_as_float(0xff800000);\n",
        c.outs[0].ty.dtype
    );
    let t =
        Text::new().memory("left", "const float", Arg::Scratch(0)).writes("y", &c.outs[0]).writes("lse", &c.outs[1]);
    t.blocks(s.rows(), width, &body)
}
