//! Sorting along an axis: short lanes by counting, longer ones by a bitonic network over keys and places in scratch
//! space. Keys are bits in the order of the numbers; equal keys are ordered by place, so the sort is stable.

use super::{Kernels, plain};
use crate::claims::{Call, Claim};
use crate::element::Class;
use crate::expression::compared;
use crate::kernel::{Ptr, Text};
use ir::AxisSplit;
use passes::{ALIGN, Operand};

/// Sorting.
pub static CLAIMS: &[Claim] = &[Claim::new("sort", sort)];

/// Elements of a lane that are counted.
const COUNTED_MAX: usize = 128;

/// The key of an element and its class.
fn key(x: &Operand, from: &Ptr, i: &str, descending: bool) -> Option<(String, Class)> {
    let (class, element) = (Class::of(x.ty.dtype)?, from.at(i));
    let (text, class) = match class {
        Class::F32 => (format!("sort_key_f({element})"), Class::U32),
        Class::I32 => (format!("(bitcast<u32>({element}) ^ 0x80000000u)"), Class::U32),
        Class::U32 => (element, Class::U32),
        Class::I64 => (format!("({element} ^ vec2<u32>(0u, 0x80000000u))"), Class::U64),
        Class::U64 => (element, Class::U64),
    };
    Some((if descending { format!("(~{text})") } else { text }, class))
}

/// The elements in order and where they came from.
fn sort(c: &Call) -> Kernels {
    let (x, y, places) = (&c.args[0], &c.outs[0], &c.outs[1]);
    let l = AxisSplit::new(&x.ty.shape, c.attrs.size("axis").ok()?);
    let descending = c.attrs.bool("descending").ok()?;
    if l.size > COUNTED_MAX {
        return bitonic(c, &l, descending);
    }
    let (inner, size) = (l.inner.max(1), l.size.max(1));
    let mut t = Text::new();
    let (from, bits, to, at) = (t.reads(x), t.reads_bits(x), t.writes_bits(y), t.writes(places));
    let (own, class) = key(x, &from, "i", descending)?;
    let (other, _) = key(x, &from, &format!("base + j * {inner}u"), descending)?;
    let body = format!(
        "let k = i / {inner}u % {size}u; let base = i / {lane}u * {lane}u + i % {inner}u;\nlet own = {own};\nvar rank = 0u;\n\
         for (var j = 0u; j < {size}u; j = j + 1u) {{\nlet other = {other};\n\
         if ({} || ({} && j < k)) {{ rank = rank + 1u; }}\n}}\n{}{}",
        compared(class, "<", "other", "own"),
        compared(class, "==", "other", "own"),
        to.put(&format!("base + rank * {inner}u"), &bits.at("i")),
        at.put(&format!("base + rank * {inner}u"), "vec2<u32>(k, 0u)"),
        lane = size * inner,
    );
    plain(t.each(x.ty.shape.count(), &body))
}

fn bitonic(c: &Call, l: &AxisSplit, descending: bool) -> Kernels {
    let (x, y, places) = (&c.args[0], &c.outs[0], &c.outs[1]);
    let (inner, size, lanes) = (l.inner.max(1), l.size, l.outer * l.inner);
    let padded = size.next_power_of_two();
    let count = lanes.checked_mul(padded).filter(|&n| n < 1 << 30)?;
    let class = key(x, &Text::new().reads(x), "0u", descending)?.1;
    let ids_at = (count * class.dtype().size()).next_multiple_of(ALIGN);
    let base = format!("let base = lane_of / {inner}u * {}u + lane_of % {inner}u;\n", size * inner);

    let mut t = Text::new();
    let (from, keys, ids) = (t.reads(x), t.scratch(0, class, true), t.scratch(ids_at, Class::U32, true));
    let (own, _) = key(x, &from, &format!("base + p * {inner}u"), descending)?;
    let begin = format!(
        "let lane_of = i / {padded}u; let p = i % {padded}u;\n{base}var v = {};\nif (p < {size}u) {{ v = {own}; }}\n{}{}",
        class.limits()[1],
        keys.put("i", "v"),
        ids.put("i", "p")
    );
    let mut kernels = t.each(count, &begin)?;

    let mut t = Text::new();
    let (keys, ids) = (t.scratch(0, class, true), t.scratch(ids_at, Class::U32, true));
    // A pair of a stage: the block of 2^k elements it sorts, and the distance 2^j.
    let step = format!(
        "let k = 1u << (P.head.w >> 8u); let j = 1u << (P.head.w & 255u);\n\
         let a = (i / j) * 2u * j + i % j; let b = a + j;\n\
         let ka = {}; let kb = {}; let ia = {}; let ib = {};\n\
         let is_up = ((a & {}u) & k) == 0u;\n\
         let is_less = {} || ({} && ib < ia);\n\
         if (is_less == is_up) {{\n{}{}{}{}}}\n",
        keys.at("a"),
        keys.at("b"),
        ids.at("a"),
        ids.at("b"),
        padded - 1,
        compared(class, "<", "kb", "ka"),
        compared(class, "==", "ka", "kb"),
        keys.put("a", "kb"),
        keys.put("b", "ka"),
        ids.put("a", "ib"),
        ids.put("b", "ia"),
    );
    let pass = t.each(count / 2, &step)?;
    for k in 1..=padded.trailing_zeros() {
        for j in (0..k).rev() {
            kernels.extend(pass.iter().cloned().map(|mut p| {
                p.number = k << 8 | j;
                p
            }));
        }
    }

    let mut t = Text::new();
    let (bits, ids, to, at) =
        (t.reads_bits(x), t.scratch(ids_at, Class::U32, false), t.writes_bits(y), t.writes(places));
    let end = format!(
        "let lane_of = i / {size}u; let p = i % {size}u;\n{base}let id = {};\n{}{}",
        ids.at(&format!("lane_of * {padded}u + p")),
        to.put(&format!("base + p * {inner}u"), &bits.at(&format!("base + id * {inner}u"))),
        at.put(&format!("base + p * {inner}u"), "vec2<u32>(id, 0u)")
    );
    kernels.extend(t.each(lanes * size, &end)?);
    Some((kernels, ids_at + 4 * count))
}
