//! Kernels that move elements: concatenation, padding, choice by index; numbers from nothing.

use super::{Call, Operand, Text, split};
use crate::claims::{Claim, op};
use crate::emit::scalar::{Class, constant, stored};
use crate::emit::{Arg, Kernel};
use crate::rewrite::rows::DRAW_KEY;
use ir::{AxisSplit, Literal};
use std::fmt::Write;

/// Kernels that move elements, and numbers from nothing.
pub static CLAIMS: &[Claim] = &[
    Claim { accepts: |_, _, l| l.strides.iter().all(|&s| s >= 0), ..Claim::new("concat", concat) },
    Claim::new("barrier", barrier),
    Claim::new("pad", pad),
    Claim::new("check_class", check_class),
    Claim::new("take", take),
    Claim::new("gather", gather),
    Claim::new("fold", fold),
    Claim { is_index: true, ..Claim::new("iota", iota) },
    Claim::new(op::RANDOM_BITS, random_bits),
    Claim { is_key: true, ..Claim::new(DRAW_KEY.name, draw_key) },
];

/// The most elements of a row of `size` that one access moves, where all of these positions and
/// steps are multiples of that; and the C type of such an access.
fn wide(o: &Operand, steps: &[usize]) -> (usize, &'static str) {
    let bytes = o.ty.dtype.size();
    let fits = |n: usize| steps.iter().all(|s| (s * bytes).is_multiple_of(n));
    match [16, 8, 4].into_iter().find(|&n| n > bytes && fits(n)) {
        Some(16) => (16 / bytes, "uint4"),
        Some(8) => (8 / bytes, "uint2"),
        Some(4) => (4 / bytes, "unsigned"),
        _ => (1, stored(o.ty.dtype)),
    }
}

/// Tensors one after the other along an axis, one kernel each; their elements may lie anywhere.
fn concat(c: &Call) -> Option<Vec<Kernel>> {
    let axis = c.attrs.size("axis").ok()?;
    let y = &c.outs[0];
    if let Some(kernels) = interleave(c, axis) {
        return Some(kernels);
    }
    let out = AxisSplit::new(&y.ty.shape, axis);
    let mut kernels = Vec::new();
    let mut at = 0;
    for a in c.args {
        let part = a.ty.shape[axis] * out.inner;
        let count = part * out.outer;
        if count > 0 {
            let l = &a.layout;
            let is_line = l.strides.last() == Some(&1) || l.is_contiguous();
            let mut steps = vec![part, out.size * out.inner, at, l.offset, y.layout.offset];
            steps.extend(l.shape.last());
            let apart = l.strides.iter().zip(l.shape.iter()).rev().skip(1).filter(|(_, d)| **d > 1);
            steps.extend(apart.map(|(s, _)| s.unsigned_abs()));
            let (n, ty) = if is_line { wide(a, &steps) } else { (1, stored(a.ty.dtype)) };
            let source = if l.is_contiguous() {
                "const idx from = i;\n".to_string()
            } else {
                let mut dims = l.shape.dims().to_vec();
                if let Some(last) = dims.last_mut() {
                    *last /= n;
                }
                let by = |d: usize| if d + 1 == dims.len() { l.strides[d] } else { l.strides[d] / n as isize };
                let sum: Vec<String> = (0..dims.len()).map(|d| format!("i{d} * {}", by(d))).collect();
                format!("{}const idx from = {};\n", split(&dims, "i", "i"), sum.join(" + "))
            };
            let body = format!(
                "{source}(({ty}*)y)[i / {0} * {1} + {2} + i % {0}] = ((const {ty}*)x)[from];\n",
                part / n,
                out.size * out.inner / n,
                at / n
            );
            kernels.extend(Text::new().reads("x", a).writes("y", y).each(count / n, &body)?);
        }
        at += part;
    }
    Some(kernels)
}

/// Values whose elements alternate: a thread writes one of each.
fn interleave(c: &Call, axis: usize) -> Option<Vec<Kernel>> {
    let y = &c.outs[0];
    let (n, ty, count) = (c.args.len(), stored(y.ty.dtype), c.args[0].ty.shape.count());
    let is_one = |a: &Operand| a.ty.shape[axis] == 1 && a.layout.is_contiguous();
    let is_last = y.ty.shape[axis + 1..].iter().all(|&d| d == 1);
    let is_wide = n.is_power_of_two() && n * y.ty.dtype.size() <= 16 && y.layout.offset.is_multiple_of(n);
    if n < 2 || count == 0 || !is_last || !is_wide || !c.args.iter().all(is_one) {
        return None;
    }
    let text = c.args.iter().enumerate().fold(Text::new(), |t, (k, a)| t.reads(&format!("x{k}"), a));
    let mut body = format!("pack<{ty}, {n}> out;\n");
    (0..n).for_each(|k| body += &format!("out.at[{k}] = x{k}[i];\n"));
    text.writes("y", y).each(count, &(body + &format!("*(pack<{ty}, {n}>*)(y + i * {n}) = out;\n")))
}

fn copy(from: &Operand, to: &Operand) -> Option<Vec<Kernel>> {
    let count = to.ty.shape.count();
    let (n, ty) = wide(to, &[count, from.layout.offset, to.layout.offset]);
    let body = format!("(({ty}*)y)[i] = ((const {ty}*)x)[i];\n");
    Text::new().reads("x", from).writes("y", to).each(count / n, &body)
}

/// A copy to be changed, unless it lies there already.
pub(super) fn begin(from: &Operand, to: &Operand) -> Option<Vec<Kernel>> {
    let mut kernels = copy(from, to)?;
    kernels.iter_mut().for_each(|k| k.is_move = true);
    Some(kernels)
}

/// Values as they are.
fn barrier(c: &Call) -> Option<Vec<Kernel>> {
    let mut kernels = Vec::new();
    for (a, o) in c.args.iter().zip(c.outs).filter(|(_, o)| o.ty.shape.count() > 0) {
        kernels.extend(copy(a, o)?);
    }
    Some(kernels)
}

/// The name of the element's number, and the start of a block in which `idx` has 32 bits, where they suffice for so many
/// elements: divisions take a quarter of the time.
fn narrow(count: usize) -> (&'static str, &'static str) {
    match i32::try_from(count) {
        Ok(_) => ("number", "{\nconst unsigned number = (unsigned)i;\ntypedef int idx;\n"),
        Err(_) => ("i", "{\n"),
    }
}

/// Elements from which on a thread of `pad` writes 16 bytes.
const PAD_WIDE: usize = 1 << 16;

/// A border of one value; negative widths crop.
fn pad(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let (count, dtype, rank) = (y.ty.shape.count(), y.ty.dtype, y.ty.shape.rank());
    let (lo, strides) = (c.attrs.ints("lo").ok()?, x.ty.shape.strides());
    let fill = constant(&Literal::scalar_f64(dtype, c.attrs.float("value").ok()?)).text;
    let width = 16 / dtype.size().min(16);
    let width = if count >= PAD_WIDE && y.layout.offset.is_multiple_of(width) { width } else { 1 };
    let (name, start) = narrow(x.ty.shape.count().max(count) + 16);
    let mut body = format!("{start}const idx first = (idx){name} * {width};\n");
    body += &split(&y.ty.shape, if name == "i" { "first" } else { "(unsigned)first" }, "i");
    for d in 0..rank {
        let _ = writeln!(body, "idx j{d} = i{d} - ({});", lo[d]);
    }
    let each = |f: &dyn Fn(usize) -> String, with: &str| (0..rank).map(f).collect::<Vec<_>>().join(with);
    let inside = each(&|d| format!("j{d} >= 0 && j{d} < {}", x.ty.shape[d]), " && ");
    let at = each(&|d| format!("j{d} * {}", strides[d]), " + ");
    // From one element to the next, the innermost place that is not at its end moves on.
    let next = (1..rank).rev().fold(String::new(), |before, d| {
        let step = format!("if (++j{d} == {}) {{ j{d} = {};", y.ty.shape[d] as i64 - lo[d], -lo[d]);
        before + &step + " "
    });
    let next = match rank {
        0 => String::new(),
        _ => format!("{next}++j0; {}", "}".repeat(rank - 1)),
    };
    let (inside, at) = if rank == 0 { ("true", "0") } else { (&*inside, &*at) };
    let ty = stored(dtype);
    let _ = write!(
        body,
        "pack<{ty}, {width}> out;\n\
         #pragma unroll\n\
         for (int e = 0; e < {width}; e++) {{\n\
         if ({inside}) out.at[e] = x[{at}]; else out.at[e] = put_{dtype}({fill});\n\
         {next}\n}}\n\
         if (first + {width} <= {count}) *(pack<{ty}, {width}>*)(y + first) = out;\n\
         else for (int e = 0; first + e < {count}; e++) y[first + e] = out.at[e];\n}}\n"
    );
    Text::new().reads("x", x).writes("y", y).each(count.div_ceil(width), &body)
}

/// Class numbers as they are; one that is no class is reported.
fn check_class(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let (classes, ignored) = (c.attrs.int("classes").ok()?, c.attrs.int("ignored").ok()?);
    let body = format!("if (x[i] != {ignored}) checked(x[i], {classes}, report, launch);\ny[i] = x[i];\n");
    Text::new().reads("x", x).writes("y", y).reports().each(y.ty.shape.count(), &body)
}

/// Slices chosen along an axis by an index of any shape.
fn take(c: &Call) -> Option<Vec<Kernel>> {
    let (x, index, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let l = AxisSplit::new(&x.ty.shape, c.attrs.size("axis").ok()?);
    let n = index.ty.shape.count();
    let (w, ty) = wide(x, &[l.inner, x.layout.offset, y.layout.offset]);
    let (name, start) = narrow(x.ty.shape.count().max(y.ty.shape.count()));
    let body = format!(
        "{start}const idx k = {name} % {inner}u, r = {name} / {inner}u, o = r / {n}u;\n\
         const idx j = (idx)checked(index[r % {n}u], {size}, report, launch);\n\
         (({ty}*)y)[i] = ((const {ty}*)x)[(o * {size} + j) * {inner} + k];\n}}\n",
        inner = l.inner / w,
        size = l.size
    );
    let t = Text::new().reads("x", x).reads("index", index).writes("y", y).reports();
    t.each(y.ty.shape.count() / w, &body)
}

/// The place in `x` that element `i` of an index of the same rank points to, as `at`.
pub fn place(x: &Operand, index: &Operand, axis: usize) -> String {
    let strides = x.ty.shape.strides();
    let mut body = split(&index.ty.shape, "i", "i");
    let _ = writeln!(body, "idx at = checked(index[i], {}, report, launch) * {};", x.ty.shape[axis], strides[axis]);
    for d in (0..strides.len()).filter(|&d| d != axis) {
        let _ = writeln!(body, "at += i{d} * {};", strides[d]);
    }
    body
}

/// Kernels that copy a value to scratch space as f32, and a result from there.
pub fn through_f32(x: &Operand, y: &Operand) -> [Vec<Kernel>; 2] {
    let count = x.ty.shape.count();
    let widen =
        Text::new().reads("x", x).memory("wide", "float", Arg::Scratch(0)).each(count, "wide[i] = get(x[i]);\n");
    let narrow = format!("y[i] = put_{}(wide[i]);\n", y.ty.dtype);
    let narrow = Text::new().writes("y", y).memory("wide", "const float", Arg::Scratch(0)).each(count, &narrow);
    [widen, narrow].map(Option::unwrap_or_default)
}

/// Elements chosen along an axis by an index of the same rank.
fn gather(c: &Call) -> Option<Vec<Kernel>> {
    let (x, index, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let body = place(x, index, c.attrs.size("axis").ok()?) + "y[i] = x[at];\n";
    let t = Text::new().reads("x", x).reads("index", index).writes("y", y).reports();
    t.each(y.ty.shape.count(), &body)
}

/// Windows added up where they overlap.
fn fold(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let (axis, size, step) = (c.attrs.size("axis").ok()?, c.attrs.size("size").ok()?, c.attrs.size("step").ok()?);
    let l = AxisSplit::new(&y.ty.shape, axis);
    let windows = x.ty.shape[axis];
    let class = Class::of(y.ty.dtype).c();
    let body = format!(
        "const idx low = i % {inner}, p = i / {inner} % {length}, high = i / {inner} / {length};\n\
         {class} sum = 0;\n\
         idx w = p - {size} + 1;\n\
         w = w <= 0 ? 0 : (w + {step} - 1) / {step};\n\
         for (; w < {windows} && w * {step} <= p; w++)\n\
         sum = sum + get(x[((high * {windows} + w) * {inner} + low) * {size} + (p - w * {step})]);\n\
         y[i] = put_{}(sum);\n",
        y.ty.dtype,
        inner = l.inner,
        length = l.size
    );
    Text::new().reads("x", x).writes("y", y).each(y.ty.shape.count(), &body)
}

/// 0, 1, 2…
fn iota(c: &Call) -> Option<Vec<Kernel>> {
    let y = &c.outs[0];
    let class = Class::of(y.ty.dtype).c();
    Text::new().writes("y", y).each(y.ty.shape.count(), &format!("y[i] = put_{}(({class})i);\n", y.ty.dtype))
}

/// A draw's seed and counter as words.
fn draw_key(c: &Call) -> Option<Vec<Kernel>> {
    Text::new()
        .reads("key", &c.args[0])
        .writes("y", &c.outs[0])
        .each(4, "y[i] = (unsigned)(key[i / 2] >> i % 2 * 32);\n")
}

/// 32 random bits an element by Philox4x32-10, of the element's key and its place.
fn random_bits(c: &Call) -> Option<Vec<Kernel>> {
    let (key, y) = (&c.args[0], &c.outs[0]);
    let (width, lead) = key.ty.shape.split_last().map(|(w, lead)| (*w, lead.len()))?;
    let keys = key.ty.shape.count() / width;
    let each = y.ty.shape.count().checked_div(keys).unwrap_or(0);
    let row: usize = y.ty.shape.iter().skip(lead + 1).product();
    // Where rows of a larger draw come before, blocks of four need not begin with the result.
    let (before, shifted) = if width == 3 { (format!("key[3 * k + 2] * {row}ull"), 1) } else { ("0".to_string(), 0) };
    let blocks = (each.div_ceil(4) + shifted).max(1);
    let body = format!(
        "const idx k = i / {blocks}, b = i % {blocks};\n\
         const unsigned long long seed = key[{width} * k], counter = key[{width} * k + 1], before = {before};\n\
         const unsigned long long at = before / 4 + b;\n\
         unsigned w[4] = {{(unsigned)at, (unsigned)(at >> 32), (unsigned)counter, (unsigned)(counter >> 32)}};\n\
         philox(w, (unsigned)seed, (unsigned)(seed >> 32));\n\
         for (int e = 0; e < 4; e++) {{\n\
         const long long to = b * 4 + e - (long long)(before % 4);\n\
         if (to >= 0 && to < {each}) y[k * {each} + to] = w[e];\n\
         }}\n"
    );
    Text::new().reads("key", key).writes("y", y).each(if each == 0 { 0 } else { keys * blocks }, &body)
}
