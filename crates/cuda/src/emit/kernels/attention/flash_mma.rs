//! Attention of many queries in f32 and its gradient on tensor cores (`flash_mma.cu`), without scores in memory. Where
//! TF32 is allowed, a product is one of TF32; else it is three, whose error is about that of f32.
//!
//! The gradient is three kernels: sums of gradient times result, gradients of keys and values, gradients of queries. Each
//! result is summed by one block in one order.

use super::super::{Call, Operand, Text};
use crate::claims::op;
use crate::emit::{Arg, Kernel};
use crate::flags::{Flag, is_on};
use ir::{Attrs, DType, FlatNode, Type};

/// Rows of a block, rows of a tile of the other side, and threads.
const OWN: usize = 64;
const TILE: usize = 32;
const THREADS: usize = 128;
/// Longest rows of queries, keys and values.
const WIDTH_MAX: usize = 128;
/// Fewer queries do not fill a warp's rows.
const QUERIES_MIN: usize = 16;
/// Inputs of the gradient before a mask.
const GRADIENT_INPUTS: usize = 6;

/// Sizes of an attention.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    heads: usize,
    /// Heads of keys and values, and heads of queries that share one.
    kept: usize,
    shared: usize,
    queries: usize,
    keys: usize,
    width: usize,
}

impl Sizes {
    /// `None` where the kernels do not fit: other types, widths, or inputs beside a mask.
    fn new(types: &[&Type], rest: &[&Type], major: u32) -> Option<Sizes> {
        let [q, k, v] = types else { return None };
        let ([batch, heads, queries, width], [m, kept, keys, e]) = (dims(q)?, dims(k)?);
        let is_f32 = types.iter().all(|t| t.dtype == DType::F32);
        let is_fit = k.shape == v.shape && e == width && batch == m && kept > 0 && heads.is_multiple_of(kept);
        let is_whole = width.is_multiple_of(8) && (16..=WIDTH_MAX).contains(&width);
        let is_some = queries >= QUERIES_MIN && batch * heads * keys > 0 && queries.max(keys) < 1 << 30;
        if major < 8 || !is_f32 || !is_fit || !is_whole || !is_some {
            return None;
        }
        let s = Sizes { batch, heads, kept, shared: heads / kept, queries, keys, width };
        let has_mask = match rest {
            [] => true,
            [m] => s.takes_mask(m),
            _ => false,
        };
        (has_mask && s.bytes(2) <= bytes_max(major)).then_some(s)
    }
    fn takes_mask(&self, mask: &Type) -> bool {
        let all = [self.keys, self.queries, self.heads, self.batch];
        let sizes = mask.shape.iter().rev();
        matches!(mask.dtype, DType::Bool | DType::F32)
            && (2..=4).contains(&mask.shape.rank())
            && sizes.zip(all).all(|(&d, full)| d == 1 || d == full)
    }
    /// Bytes of shared memory with so many tensors of a block's own rows, and two tiles of two others.
    fn bytes(&self, own: usize) -> usize {
        4 * (self.width + 4) * (own * OWN + 4 * TILE)
    }
}

fn dims(t: &Type) -> Option<[usize; 4]> {
    t.shape.dims().try_into().ok()
}

/// Shared memory that a block may have: data-center GPUs since Hopper have more than others.
fn bytes_max(major: u32) -> usize {
    if matches!(major, 9 | 10) { 220 << 10 } else { 99 << 10 }
}

/// Whether the kernels compute an attention or its gradient.
pub fn claims(n: &FlatNode, types: &[Type], major: u32) -> bool {
    let all: Vec<&Type> = types.iter().collect();
    let first = match n.op.name {
        op::ATTENTION => 3,
        op::ATTENTION_GRAD => GRADIENT_INPUTS,
        _ => return false,
    };
    all.len() >= first && Sizes::new(&all[..3], &all[first..], major).is_some()
}

/// Bytes of scratch space of the gradient: the sum of gradient times result of each query.
pub fn scratch(_: &Attrs, args: &[Operand]) -> usize {
    let q = &args[0].ty;
    if q.dtype == DType::F32 { q.shape.iter().take(3).product::<usize>() * 4 } else { 0 }
}

/// What the kernels of one call share.
struct Writer<'a> {
    s: Sizes,
    c: &'a Call<'a>,
    mask: Option<&'a Operand>,
    is_causal: bool,
    /// Results are `[N, L, H, F]`.
    is_transposed: bool,
    scale: f64,
}

impl<'a> Writer<'a> {
    fn new(c: &'a Call<'a>, first: usize, is_transposed: bool) -> Option<Writer<'a>> {
        let types: Vec<&Type> = c.args.iter().map(|o| &o.ty).collect();
        let s = Sizes::new(types.get(..3)?, types.get(first..)?, c.major)?;
        let scale = c.attrs.float("scale").ok()? * std::f64::consts::LOG2_E;
        Some(Writer { s, c, mask: c.args.get(first), is_causal: c.attrs.bool("causal").ok()?, is_transposed, scale })
    }
    /// Template arguments: width, products, causal, aligned.
    fn template(&self, operands: &[&Operand]) -> String {
        let is_aligned = |o: &&Operand| {
            let l = &o.layout;
            l.offset.is_multiple_of(4) && l.strides[..3].iter().all(|s| s % 4 == 0)
        };
        let terms = if is_on(Flag::MatmulTf32) { 1 } else { 3 };
        format!("{}, {terms}, {}, {}", self.s.width, self.is_causal, operands.iter().all(is_aligned))
    }
    /// The rows of an operand's head.
    fn rows(&self, name: &str, o: &Operand, head: &str) -> String {
        let by = &o.layout.strides;
        format!("FlashRows{{{name} + n * {}ll + {head} * {}ll, {}}}", by[0], by[1], by[2])
    }
    /// Where a head's rows of a contiguous result with so many heads and rows begin, and the step between them.
    fn result(&self, name: &str, heads: usize, rows: usize, head: &str) -> String {
        let width = self.s.width;
        match self.is_transposed {
            true => format!("{name} + (n * {rows}ll * {heads} + {head}) * {width}, {}", heads * width),
            false => format!("{name} + (n * {heads}ll + {head}) * {rows} * {width}, {width}"),
        }
    }
    /// A function of query, key and score under the mask.
    fn see(&self, parameters: &str, head: &str) -> String {
        let with = |body: String| format!("[&]({parameters}int query, int key, float x) -> float {{ return {body}; }}");
        let Some(m) = self.mask else { return with("x".to_string()) };
        let shape = &m.layout.shape;
        let by = |back: usize, name: &str| match shape.rank().checked_sub(back) {
            Some(d) if shape[d] != 1 => format!("{name} * {}ll", m.layout.strides[d]),
            _ => "0".to_string(),
        };
        let at = format!("{} + {} + {} + {}", by(4, "n"), by(3, head), by(2, "query"), by(1, "key"));
        match m.ty.dtype {
            DType::Bool => with(format!("m[{at}] ? x : __int_as_float(0xff800000)")),
            _ => with(format!("x + m[{at}] * {:e}f", std::f64::consts::LOG2_E)),
        }
    }
    /// Parameters for operands, and for the mask.
    fn text(&self, names: &[(&str, usize)]) -> Text {
        let t = names.iter().fold(Text::new(), |t, &(name, i)| t.reads(name, &self.c.args[i]));
        match self.mask {
            Some(m) => t.reads("m", m),
            None => t,
        }
    }
    /// The block's tile among `tiles` of `heads` heads a sequence: `n`, `h` and `first`. Under a causal mask, the tiles
    /// that meet most come first: the last queries, or the first keys.
    fn place(&self, tiles: usize, heads: usize, is_last_first: bool) -> String {
        let all = self.s.batch * heads;
        let tile = match self.is_causal && is_last_first {
            true => format!("{} - (int)blockIdx.x / {all}", tiles - 1),
            false => format!("(int)blockIdx.x / {all}"),
        };
        format!(
            "const idx n = blockIdx.x % {all} / {heads};\n\
             const int h = blockIdx.x % {heads}, first = ({tile}) * {OWN};\n"
        )
    }
    fn kernel(&self, t: Text, blocks: usize, own: usize, body: &str) -> Option<Kernel> {
        let mut kernels = t.blocks(blocks, THREADS, body)?;
        kernels[0].shared = self.s.bytes(own) as u32;
        kernels.pop()
    }
}

/// The kernel of an attention; a transposed result is `[N, L, H, F]`.
pub fn attention(c: &Call, is_transposed: bool) -> Option<Vec<Kernel>> {
    let w = Writer::new(c, 3, is_transposed)?;
    let Sizes { batch, heads, shared, queries, keys, .. } = w.s;
    let [q, k, v] = c.args.first_chunk()?;
    let tiles = queries.div_ceil(OWN);
    let kv = format!("(h / {shared})");
    let body = format!(
        "{place}flash_forward<{template}>({q}, {k}, {v}, {y}, lse + (n * {heads} + h) * {queries}ll, first, {queries}, \
         {keys}, {scale:e}f, {see});\n",
        place = w.place(tiles, heads, true),
        template = w.template(&[q, k, v]),
        q = w.rows("q", q, "h"),
        k = w.rows("k", k, &kv),
        v = w.rows("v", v, &kv),
        y = w.result("y", heads, queries, "h"),
        scale = w.scale,
        see = w.see("", "h"),
    );
    let t = w.text(&[("q", 0), ("k", 1), ("v", 2)]).writes("y", &c.outs[0]).writes("lse", &c.outs[1]);
    Some(vec![w.kernel(t, batch * heads * tiles, 1, &body)?])
}

/// The kernels of an attention's gradient; transposed results are `[N, L, H, F]`.
pub fn gradients(c: &Call, is_transposed: bool) -> Option<Vec<Kernel>> {
    let w = Writer::new(c, GRADIENT_INPUTS, is_transposed)?;
    let Sizes { batch, heads, kept, shared, queries, keys, width } = w.s;
    let [q, k, v, y, _, g] = c.args.first_chunk()?;
    // A warp adds up a row.
    let rows = batch * heads * queries;
    let sums = format!(
        "const idx row = (idx)blockIdx.x * 4 + threadIdx.x / 32;\n\
         if (row >= {rows}ll) return;\n\
         const idx n = row / {of_one}ll, h = row / {queries} % {heads}, l = row % {queries};\n\
         const FlashRows a = {y}, b = {g};\n\
         float sum = 0;\n\
         for (int e = threadIdx.x % 32; e < {width}; e += 32) sum += a.at[l * a.step + e] * b.at[l * b.step + e];\n\
         sum = across<Sum, 32>(sum);\n\
         if (threadIdx.x % 32 == 0) along[row] = sum;\n",
        of_one = heads * queries,
        y = w.rows("y", y, "h"),
        g = w.rows("g", g, "h"),
    );
    let t = Text::new().reads("y", y).reads("g", g).memory("along", "float", Arg::Scratch(0));
    let mut kernels = t.blocks(rows.div_ceil(4), THREADS, &sums)?;

    let template = w.template(&[q, k, v, g]);
    let head = |head: &str| {
        let at = format!("(n * {heads} + {head}) * {queries}ll");
        format!("FlashHead{{{}, {}, lse + {at}, along + {at}}}", w.rows("q", q, head), w.rows("g", g, head))
    };
    let inputs = || {
        let t = w.text(&[("q", 0), ("k", 1), ("v", 2), ("lse", 4), ("g", 5)]);
        t.memory("along", "const float", Arg::Scratch(0))
    };
    let body = format!(
        "{place}flash_keys<{template}>({k}, {v}, {of_k}, {of_v}, first, {shared}, {queries}, {keys}, {scale:e}f,\n\
         [&](int i) {{ return {head}; }}, {see});\n",
        place = w.place(keys.div_ceil(OWN), kept, false),
        k = w.rows("k", k, "h"),
        v = w.rows("v", v, "h"),
        of_k = w.result("of_k", kept, keys, "h"),
        of_v = w.result("of_v", kept, keys, "h"),
        scale = w.scale,
        head = head(&format!("(h * {shared} + i)")),
        see = w.see("int i, ", &format!("(h * {shared} + i)")),
    );
    let t = inputs().writes("of_k", &c.outs[1]).writes("of_v", &c.outs[2]);
    kernels.push(w.kernel(t, batch * kept * keys.div_ceil(OWN), 2, &body)?);

    let kv = format!("(h / {shared})");
    let body = format!(
        "{place}flash_queries<{template}>({q}, {k}, {v}, {head}, {of_q}, first, {queries}, {keys}, {scale:e}f, {see});\n",
        place = w.place(queries.div_ceil(OWN), heads, true),
        q = w.rows("q", q, "h"),
        k = w.rows("k", k, &kv),
        v = w.rows("v", v, &kv),
        head = head("h"),
        of_q = w.result("of_q", heads, queries, "h"),
        scale = w.scale,
        see = w.see("", "h"),
    );
    let t = inputs().writes("of_q", &c.outs[0]);
    kernels.push(w.kernel(t, batch * heads * queries.div_ceil(OWN), 2, &body)?);
    Some(kernels)
}
