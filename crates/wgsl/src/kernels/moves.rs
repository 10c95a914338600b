//! Kernels that move elements: concatenation, padding, choice by index; numbers from nothing.

use super::{Kernels, index_at, plain};
use crate::claims::{Call, Claim};
use crate::element::{Class, constant};
use crate::expression::combined;
use crate::kernel::{Kernel, Text, index, split};
use crate::loops::combine;
use ir::{AxisSplit, DType, Literal, Monoid};
use passes::Operand;

/// Kernels that move elements, and numbers from nothing.
pub static CLAIMS: &[Claim] = &[
    Claim { accepts: |_, _, _| true, ..Claim::new("concat", concat) },
    Claim::new("barrier", barrier),
    Claim::new("pad", pad),
    Claim { reported: Some("class"), ..Claim::new("check_class", check_class) },
    Claim::new("take", take),
    Claim::new("gather", gather),
    Claim::new("fold", fold),
    Claim::new("iota", iota),
    Claim::new("random_bits", random_bits),
];

/// Tensors one after the other along an axis, one kernel each; their elements may lie anywhere.
fn concat(c: &Call) -> Kernels {
    let axis = c.attrs.size("axis").ok()?;
    let y = &c.outs[0];
    let out = AxisSplit::new(&y.ty.shape, axis);
    let mut kernels = Vec::new();
    let mut at = 0;
    for a in c.args {
        let part = a.ty.shape[axis] * out.inner;
        let mut t = Text::new();
        let (from, to) = (
            t.reads_bits(&Operand { layout: ir::Layout { offset: 0, ..a.layout.clone() }, ..a.clone() }),
            t.writes_bits(y),
        );
        let (places, names) = split(&a.ty.shape, "i", "i");
        let source = index(&a.layout.strides, a.layout.offset, &names);
        let target = format!("i / {0}u * {1}u + {at}u + i % {0}u", part.max(1), out.size * out.inner);
        kernels.extend(t.each(part * out.outer, &format!("{places}{}", to.put(&target, &from.at(&source))))?);
        at += part;
    }
    plain(Some(kernels))
}

/// A value as it is.
pub fn copy(from: &Operand, to: &Operand) -> Option<Vec<Kernel>> {
    let mut t = Text::new();
    let (x, y) = (t.reads_bits(from), t.writes_bits(to));
    t.each(to.ty.shape.count(), &y.put("i", &x.at("i")))
}

/// Values as they are.
fn barrier(c: &Call) -> Kernels {
    let mut kernels = Vec::new();
    for (a, o) in c.args.iter().zip(c.outs) {
        kernels.extend(copy(a, o)?);
    }
    plain(Some(kernels))
}

/// A border of one value; negative widths crop.
fn pad(c: &Call) -> Kernels {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let lo = c.attrs.ints("lo").ok()?;
    let class = Class::of(y.ty.dtype)?;
    let strides = x.ty.shape.strides();
    let fill = constant(&Literal::scalar_f64(y.ty.dtype, c.attrs.float("value").ok()?), class);
    let mut t = Text::new();
    let (from, to) = (t.reads(x), t.writes(y));
    let (mut body, names) = split(&y.ty.shape, "i", "i");
    body += "var at = 0u; var inside = true;\n";
    for d in 0..lo.len() {
        body += &format!(
            "let j{d} = i32({}) - ({}); inside = inside && j{d} >= 0 && j{d} < {}; at = at + bitcast<u32>(j{d}) * {}u;\n",
            names[d], lo[d], x.ty.shape[d], strides[d]
        );
    }
    // Nothing may be read outside.
    body += &format!("var v: {} = {fill};\nif (inside) {{ v = {}; }}\n{}", class.ty(), from.at("at"), to.put("i", "v"));
    plain(t.each(y.ty.shape.count(), &body))
}

/// Class numbers as they are; one that is no class is reported.
fn check_class(c: &Call) -> Kernels {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let (classes, ignored) = (c.attrs.int("classes").ok()?, c.attrs.int("ignored").ok()?);
    let mut t = Text::new();
    let (from, to) = (t.reads(x), t.writes(y));
    t.reports();
    let body = format!(
        "let v = {};\nif (!eq_l(v, {})) {{ let place = checked(v, {classes}u); }}\n{}",
        index_at(&from, x, "i")?,
        Class::I64.int(ignored.into()),
        to.put("i", &from.at("i"))
    );
    plain(t.each(y.ty.shape.count(), &body))
}

/// Slices chosen along an axis by an index of any shape.
fn take(c: &Call) -> Kernels {
    let (x, indices, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let l = AxisSplit::new(&x.ty.shape, c.attrs.size("axis").ok()?);
    let n = indices.ty.shape.count().max(1);
    let mut t = Text::new();
    let (from, at, to) = (t.reads_bits(x), t.reads(indices), t.writes_bits(y));
    t.reports();
    let (inner, size) = (l.inner.max(1), l.size);
    let body = format!(
        "let k = i % {inner}u; let r = i / {inner}u; let o = r / {n}u;\nlet j = checked({}, {size}u);\n{}",
        index_at(&at, indices, &format!("r % {n}u"))?,
        to.put("i", &from.at(&format!("(o * {size}u + j) * {inner}u + k")))
    );
    plain(t.each(y.ty.shape.count(), &body))
}

/// The place in `x` that element `i` of an index of the same rank points to: statements that set `at`.
pub fn place(x: &Operand, indices: &Operand, element: &str, axis: usize) -> String {
    let strides = x.ty.shape.strides();
    let (mut body, names) = split(&indices.ty.shape, "i", "i");
    body += &format!("var at = checked({element}, {}u) * {}u;\n", x.ty.shape[axis], strides[axis]);
    for d in (0..strides.len()).filter(|&d| d != axis) {
        body += &format!("at = at + {} * {}u;\n", names[d], strides[d]);
    }
    body
}

/// Elements chosen along an axis by an index of the same rank.
fn gather(c: &Call) -> Kernels {
    let (x, indices, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let mut t = Text::new();
    let (from, at, to) = (t.reads_bits(x), t.reads(indices), t.writes_bits(y));
    t.reports();
    let body = place(x, indices, &index_at(&at, indices, "i")?, c.attrs.size("axis").ok()?);
    plain(t.each(y.ty.shape.count(), &(body + &to.put("i", &from.at("at")))))
}

/// Windows added up where they overlap.
fn fold(c: &Call) -> Kernels {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let (axis, size, step) = (c.attrs.size("axis").ok()?, c.attrs.size("size").ok()?, c.attrs.size("step").ok()?);
    let l = AxisSplit::new(&y.ty.shape, axis);
    let windows = x.ty.shape[axis];
    let class = Class::of(y.ty.dtype)?;
    let mut t = Text::new();
    let (from, to) = (t.reads(x), t.writes(y));
    let (inner, length) = (l.inner.max(1), l.size.max(1));
    let element = from.at(&format!("((high * {windows}u + w) * {inner}u + low) * {size}u + (p - w * {step}u)"));
    let sum = combine(class, Monoid::Sum, "sum", &element);
    let body = format!(
        "let low = i % {inner}u; let p = i / {inner}u % {length}u; let high = i / {inner}u / {length}u;\n\
         var sum: {} = {};\nvar w = 0u;\n\
         if (p + 1u > {size}u) {{ w = (p + 1u - {size}u + {step}u - 1u) / {step}u; }}\n\
         for (; w < {windows}u && w * {step}u <= p; w = w + 1u) {{ sum = {sum}; }}\n{}",
        class.ty(),
        class.int(0),
        to.put("i", &wrapped(class, y.ty.dtype, "sum"))
    );
    plain(t.each(y.ty.shape.count(), &body))
}

/// A sum as its type holds it.
pub fn wrapped(class: Class, dtype: DType, x: &str) -> String {
    if class == Class::I32 { crate::element::wrap(x, dtype) } else { x.to_string() }
}

/// 0, 1, 2…
fn iota(c: &Call) -> Kernels {
    let y = &c.outs[0];
    let number = crate::element::Val { text: "i".to_string(), dtype: DType::U32 };
    let value = crate::element::cast(&number, y.ty.dtype)?;
    let mut t = Text::new();
    let to = t.writes(y);
    plain(t.each(y.ty.shape.count(), &to.put("i", &value)))
}

/// 32 random bits an element by Philox4x32-10, of the element's key and its place.
fn random_bits(c: &Call) -> Kernels {
    let (key, y) = (&c.args[0], &c.outs[0]);
    if key.ty.dtype.size() != 8 || y.ty.dtype.size() != 4 {
        return None;
    }
    let (width, lead) = key.ty.shape.split_last().map(|(w, lead)| (*w, lead.len()))?;
    let keys = key.ty.shape.count() / width;
    let each = y.ty.shape.count().checked_div(keys).unwrap_or(0);
    let row: usize = y.ty.shape.iter().skip(lead + 1).product();
    let blocks = (each.div_ceil(4) + usize::from(width == 3)).max(1);
    let mut t = Text::new();
    let (from, to) = (t.reads_bits(key), t.writes_bits(y));
    let before = match width {
        3 => combined(Class::U64, "*", &from.at("3u * k + 2u"), &Class::U64.int(row as i128)),
        _ => Class::U64.int(0),
    };
    let body = format!(
        "let k = i / {blocks}u; let b = i % {blocks}u;\n\
         let seed = {}; let counter = {}; let before = {before};\n\
         let at = add_l(shr_words(before, 2u), vec2<u32>(b, 0u));\n\
         let w = philox(vec4<u32>(at, counter), seed);\n\
         for (var e = 0u; e < 4u; e = e + 1u) {{\n\
         let to = i32(b * 4u + e) - i32(before.x & 3u);\n\
         if (to >= 0 && to < {each}) {{ {} }}\n}}\n",
        from.at(&format!("{width}u * k")),
        from.at(&format!("{width}u * k + 1u")),
        to.put(&format!("k * {each}u + u32(to)"), "w[e]")
    );
    plain(t.each(if each == 0 { 0 } else { keys * blocks }, &body))
}
