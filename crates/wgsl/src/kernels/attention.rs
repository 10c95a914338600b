//! Attention as one kernel that never holds all scores (flash attention): a workgroup has a few queries of a head, walks
//! the keys in tiles, and keeps for each query the greatest score, the sum of exponentials and the weighted values so
//! far, rescaled whenever the greatest score grows.

use super::{Kernels, plain};
use crate::claims::{Call, Claim};
use crate::element::Class;
use crate::kernel::{Arg, Text, index, split};
use ir::{DType, FlatNode, Shape, Type};
use passes::{Operand, View};

/// Attention; dropout is left to its parts.
pub static CLAIMS: &[Claim] = &[Claim {
    is_whole: |_, types| is_whole(&types.iter().collect::<Vec<_>>()),
    accepts: |_, i, l| i < 3 || l.is_contiguous(),
    flops,
    ..Claim::new("attention", forward)
}];

/// Queries of a workgroup, keys of a tile, and threads.
const QUERIES: usize = 8;
const KEYS: usize = 16;
const THREADS: usize = 64;
/// Longest rows of queries, keys and values: a tile of them fits in workgroup memory.
const WIDTH_MAX: usize = 128;
/// Below every score.
const BELOW: &str = "-3.0e38";

/// Two GEMMs for every query and key that meet.
fn flops(n: &FlatNode, args: &[View]) -> usize {
    let [q, k, v] = [0, 1, 2].map(|i| &args[i].layout.shape);
    let [width, keys, outs] = [q.last(), k.iter().nth_back(1), v.last()].map(|d| d.copied().unwrap_or(1));
    let all = 2 * q.count() / width.max(1) * keys * (width + outs);
    if n.attrs.bool("causal").unwrap_or(false) { all / 2 } else { all }
}

/// A mask and lengths among the operands after the values, each if there is one; `None` if there is more.
fn beside(types: &[&Type]) -> Option<[Option<usize>; 2]> {
    let is_mask = |t: &&&Type| t.dtype == DType::Bool || t.dtype.is_float();
    let mask = types.get(3).filter(is_mask).map(|_| 3);
    let next = 3 + usize::from(mask.is_some());
    let lengths = types.get(next).filter(|t| t.dtype == DType::I32).map(|_| next);
    (types.len() == next + usize::from(lengths.is_some())).then_some([mask, lengths])
}

/// The sizes of `q[…, H, L, E]`, `k[…, G, S, E]`, `v[…, G, S, F]` with the same dimensions before the heads.
struct Sizes {
    heads: usize,
    /// Heads that share keys.
    each: usize,
    queries: usize,
    keys: usize,
    width: usize,
    outs: usize,
}

impl Sizes {
    fn new(q: &Shape, k: &Shape, v: &Shape) -> Option<Sizes> {
        let rank = q.rank();
        if rank < 2 || k.rank() != rank || v.rank() != rank || [q, k, v].iter().any(|s| s.count() == 0) {
            return None;
        }
        let outer = rank.saturating_sub(3);
        let of = |s: &Shape| if rank > 2 { s[rank - 3] } else { 1 };
        let (heads, kept) = (of(q), of(k));
        if k[..rank - 2] != v[..rank - 2] || k[..outer] != q[..outer] || !heads.is_multiple_of(kept) {
            return None;
        }
        let (width, outs) = (q[rank - 1], v[rank - 1]);
        let sizes = Sizes { heads, each: heads / kept, queries: q[rank - 2], keys: k[rank - 2], width, outs };
        (width.max(outs) <= WIDTH_MAX).then_some(sizes)
    }
}

/// Whether the kernel takes these operands.
fn is_whole(types: &[&Type]) -> bool {
    let Some([mask, _]) = beside(types) else { return false };
    let (q, k) = (&types[0].shape, &types[1].shape);
    matches!(types[0].dtype, DType::F32 | DType::F16 | DType::BF16)
        && Sizes::new(q, k, &types[2].shape).is_some()
        && mask.map(|i| &types[i].shape).is_none_or(|m| {
            let keys = k[k.rank() - 2];
            let scores: Shape = q[..q.rank() - 1].iter().copied().chain([keys]).collect();
            m.broadcasts_to(&scores)
        })
}

/// Element `row`, `column` of a head's matrix; `head` names the place in the last dimension before it.
fn element(t: &mut Text, o: &Operand, places: &[String], head: &str, row: &str, column: &str) -> String {
    let rank = o.layout.shape.rank();
    let mut at = places.to_vec();
    if let Some(last) = at.last_mut() {
        *last = head.to_string();
    }
    at.extend([row.to_string(), column.to_string()]);
    let p = t.param(Arg::Value(o.slot), o.ty.dtype, 0, false);
    p.at(&index(&o.layout.strides[..rank], o.layout.offset, &at))
}

fn forward(c: &Call) -> Kernels {
    let types: Vec<&Type> = c.args.iter().map(|a| &a.ty).collect();
    if !is_whole(&types) {
        return None;
    }
    let [mask, lengths] = beside(&types)?;
    let (q, k, v) = (&c.args[0], &c.args[1], &c.args[2]);
    let s = Sizes::new(&q.ty.shape, &k.ty.shape, &v.ty.shape)?;
    let Sizes { queries, keys, width, outs, .. } = s;
    let lead = &q.ty.shape[..q.ty.shape.rank() - 2];
    let heads: usize = lead.iter().product();
    let (is_causal, scale) = (c.attrs.bool("causal").ok()?, c.attrs.float("scale").ok()?);
    let floor = if q.ty.dtype == DType::F16 { "-6.0e4" } else { "-1.0e30" };
    let mut t = Text::new();
    let (mut places, names) = split(lead, "bh", "d");
    if let Some(last) = names.last() {
        places += &format!("let kv = {last} / {}u;\n", s.each);
    }
    let own = names.last().cloned().unwrap_or_default();
    let of_q = element(&mut t, q, &names, &own, "at", "e");
    let of_k = element(&mut t, k, &names, "kv", "at", "e");
    let of_v = element(&mut t, v, &names, "kv", "at", "e");
    let hide = hidden(&mut t, c, [mask, lengths], &s, &names, is_causal, floor);
    let (y, lse) = (t.writes(&c.outs[0]), t.writes(&c.outs[1]));
    let blocks = queries.div_ceil(QUERIES);
    let each = (QUERIES * outs).div_ceil(THREADS);
    t.before += &format!(
        "var<workgroup> tq: array<f32, {}>;\nvar<workgroup> tkv: array<f32, {}>;\nvar<workgroup> ts: array<f32, {}>;\n\
         var<workgroup> top: array<f32, {QUERIES}>;\nvar<workgroup> total: array<f32, {QUERIES}>;\n\
         var<workgroup> kept: array<f32, {QUERIES}>;\n",
        QUERIES * width,
        KEYS * width.max(outs),
        QUERIES * KEYS,
    );
    let load = |to: &str, rows: usize, columns: usize, first: &str, most: usize, value: &str| {
        format!(
            "for (var p = lane; p < {}u; p = p + {THREADS}u) {{\nlet at = {first} + p / {columns}u; let e = p % {columns}u;\n\
             var x = 0.0; if (at < {most}u) {{ x = {value}; }}\n{to}[p] = x;\n}}\n",
            rows * columns
        )
    };
    let load_q = load("tq", QUERIES, width, "first", queries, &format!("{of_q} * {}", Class::F32.number(scale)));
    let load_k = load("tkv", KEYS, width, "block", keys, &of_k);
    let load_v = load("tkv", KEYS, outs, "block", keys, &of_v);
    let most = if is_causal { format!("min({keys}u, first + {QUERIES}u)") } else { format!("{keys}u") };
    // With nothing hidden but by order, every query sees a key.
    let sees = if mask.is_some() || lengths.is_some() { format!("top[r] > {floor}") } else { "true".to_string() };
    let body = format!(
        "let bh = group / {blocks}u; let first = group % {blocks}u * {QUERIES}u;\n{places}{load_q}\
         if (lane < {QUERIES}u) {{ top[lane] = {BELOW}; total[lane] = 0.0; }}\n\
         var sums: array<f32, {each}>;\nlet row = lane / 8u; let i = first + row;\n\
         for (var block = 0u; block < {most}; block = block + {KEYS}u) {{\n{load_k}workgroupBarrier();\n\
         for (var c = lane % 8u; c < {KEYS}u; c = c + 8u) {{\nvar s = 0.0;\n\
         for (var e = 0u; e < {width}u; e = e + 1u) {{ s = s + tq[row * {width}u + e] * tkv[c * {width}u + e]; }}\n\
         let j = block + c;\n\
         if (i < {queries}u && j < {keys}u) {{\n{hide}}} else {{ s = {BELOW}; }}\nts[row * {KEYS}u + c] = s;\n}}\n\
         workgroupBarrier();\n\
         if (lane < {QUERIES}u) {{\nvar m = top[lane];\n\
         for (var c = 0u; c < {KEYS}u; c = c + 1u) {{ m = fmax_nan_f(m, ts[lane * {KEYS}u + c]); }}\n\
         let keep = exp_f(top[lane] - m);\nvar sum = total[lane] * keep;\n\
         for (var c = 0u; c < {KEYS}u; c = c + 1u) {{\nlet w = exp_f(ts[lane * {KEYS}u + c] - m);\n\
         ts[lane * {KEYS}u + c] = w; sum = sum + w;\n}}\n\
         top[lane] = m; total[lane] = sum; kept[lane] = keep;\n}}\n{load_v}workgroupBarrier();\n\
         for (var n = 0u; n < {each}u; n = n + 1u) {{\nlet p = n * {THREADS}u + lane;\n\
         if (p < {count}u) {{\nlet r = p / {outs}u; let f = p % {outs}u;\nvar sum = sums[n] * kept[r];\n\
         for (var c = 0u; c < {KEYS}u; c = c + 1u) {{ sum = sum + ts[r * {KEYS}u + c] * tkv[c * {outs}u + f]; }}\n\
         sums[n] = sum;\n}}\n}}\nworkgroupBarrier();\n}}\n\
         for (var n = 0u; n < {each}u; n = n + 1u) {{\nlet p = n * {THREADS}u + lane; let r = p / {outs}u;\n\
         if (p < {count}u && first + r < {queries}u) {{\n\
         let at = (bh * {queries}u + first + r) * {outs}u + p % {outs}u;\n\
         var w = 0.0; if ({sees}) {{ w = sums[n] / total[r]; }}\n{}}}\n}}\n\
         if (lane < {QUERIES}u && first + lane < {queries}u) {{\nlet r = lane; let at = bh * {queries}u + first + r;\n\
         var w = -inf_f(); if ({sees}) {{ w = top[r] + log_f(total[r]); }}\n{}}}\n",
        y.put("at", "w"),
        lse.put("at", "w"),
        count = QUERIES * outs,
    );
    plain(t.groups(heads * blocks, THREADS, &body))
}

/// Statements that bring the score `s` of query `i` and key `j` to the floor where the key is hidden, or add the mask.
fn hidden(
    t: &mut Text,
    c: &Call,
    [mask, lengths]: [Option<usize>; 2],
    sizes: &Sizes,
    names: &[String],
    is_causal: bool,
    floor: &str,
) -> String {
    let mut text = String::new();
    if is_causal {
        text += &format!("if (j > i) {{ s = {floor}; }}\n");
    }
    if let Some(m) = mask.map(|k| &c.args[k]) {
        let l = &m.layout;
        let own = l.shape.rank();
        let mut at: Vec<String> = names.to_vec();
        at.extend(["i".to_string(), "j".to_string()]);
        // Dimensions of one element, and those that it has not, are broadcast.
        let steps: Vec<isize> = (0..own).map(|d| if l.shape[d] == 1 { 0 } else { l.strides[d] }).collect();
        let value = t.reads(m).at(&index(&steps, 0, &at[at.len() - own..]));
        text += &match m.ty.dtype {
            DType::Bool => format!("if ({value} == 0) {{ s = {floor}; }}\n"),
            _ => format!("s = fmax_nan_f(s + {value}, {floor});\n"),
        };
    }
    if let Some(l) = lengths.map(|k| &c.args[k]) {
        let p = t.reads(l);
        let sequence = format!("bh / {}u", sizes.heads);
        let count = l.ty.shape.count() / 2;
        let (of_queries, of_keys) = (p.at(&sequence), p.at(&format!("{count}u + {sequence}")));
        text += &format!("if (i32(i) >= {of_queries} || i32(j) >= {of_keys}) {{ s = {floor}; }}\n");
    }
    text
}
