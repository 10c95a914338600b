//! Along an axis: indices of extremes, and cumulative ops. A thread has a lane; long lanes of sums have a workgroup.

use super::{Kernels, plain};
use crate::claims::{Call, Claim};
use crate::element::Class;
use crate::expression::compared;
use crate::kernel::Text;
use crate::kernels::moves::wrapped;
use crate::loops::combine;
use ir::{AxisSplit, Monoid};

/// Indices of extremes and cumulative ops.
pub static CLAIMS: &[Claim] = &[
    Claim::new("argmax", |c| extreme(c, ">")),
    Claim::new("argmin", |c| extreme(c, "<")),
    Claim::new("cumsum", |c| total(c, Some(Monoid::Sum))),
    Claim::new("cumprod", |c| total(c, Some(Monoid::Prod))),
    Claim::new("logcumsumexp", |c| total(c, None)),
    Claim::new("cummax", |c| running(c, ">=")),
    Claim::new("cummin", |c| running(c, "<=")),
];

const THREADS: usize = 64;

/// Whether `now` is better than `top`, where a NaN is best: by a comparison that a later element must pass.
fn better(class: Class, op: &str, now: &str, top: &str) -> String {
    let plain = compared(class, op, now, top);
    match class {
        Class::F32 => format!("(!is_nan_f({top}) && (is_nan_f({now}) || {plain}))"),
        _ => plain,
    }
}

/// The place of the greatest or least element: the first of equals, a NaN before all.
fn extreme(c: &Call, op: &str) -> Kernels {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let l = AxisSplit::new(&x.ty.shape, c.attrs.size("axis").ok()?);
    let class = Class::of(x.ty.dtype)?;
    let (inner, size) = (l.inner.max(1), l.size);
    let lanes = l.outer * l.inner;
    let mut t = Text::new();
    let (from, to) = (t.reads(x), t.writes(y));
    let element = from.at(&format!("base + k * {inner}u"));
    let walk = |lane: &str, first: &str, step: usize| {
        format!(
            "let base = {lane} / {inner}u * {}u + {lane} % {inner}u;\n\
             var best = min({first}, {}u);\nvar top = {};\n\
             for (var k = {first} + {step}u; k < {size}u; k = k + {step}u) {{\nlet now = {element};\n\
             if ({}) {{ best = k; top = now; }}\n}}\n",
            size * inner,
            size.max(1) - 1,
            from.at(&format!("base + min({first}, {}u) * {inner}u", size.max(1) - 1)),
            better(class, op, "now", "top")
        )
    };
    if size <= THREADS {
        return plain(t.each(lanes, &(walk("i", "0u", 1) + &to.put("i", "vec2<u32>(best, 0u)"))));
    }
    t.before += &format!(
        "var<workgroup> places: array<u32, {THREADS}>;\nvar<workgroup> tops: array<{}, {THREADS}>;\n",
        class.ty()
    );
    let is_better = better(class, op, "tops[k]", "top");
    let same = compared(class, "==", "tops[k]", "top");
    let both = if class == Class::F32 { format!("({same} || (is_nan_f(tops[k]) && is_nan_f(top)))") } else { same };
    let body = format!(
        "{}places[lane] = best; tops[lane] = top;\nworkgroupBarrier();\n\
         if (lane == 0u) {{\nfor (var k = 1u; k < {THREADS}u; k = k + 1u) {{\n\
         if ({is_better} || ({both} && places[k] < best)) {{ best = places[k]; top = tops[k]; }}\n}}\n{}}}\n",
        walk("group", "lane", THREADS),
        to.put("group", "vec2<u32>(best, 0u)")
    );
    plain(t.groups(lanes, THREADS, &body))
}

fn is_reverse(c: &Call) -> Option<bool> {
    if c.attrs.get("reverse").is_some() { c.attrs.bool("reverse").ok() } else { Some(false) }
}

/// The address of element `k` in the order of the scan.
fn address(l: &AxisSplit, is_reverse: bool, k: &str) -> String {
    let at = if is_reverse { format!("({}u - {k})", l.size.max(1) - 1) } else { k.to_string() };
    format!("base + {at} * {}u", l.inner.max(1))
}

/// Sums, products, or logarithms of sums of exponentials (`None`) so far.
fn total(c: &Call, monoid: Option<Monoid>) -> Kernels {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let l = AxisSplit::new(&x.ty.shape, c.attrs.size("axis").ok()?);
    let class = Class::of(y.ty.dtype)?;
    if Class::of(x.ty.dtype)? != class {
        return None;
    }
    let is_reverse = is_reverse(c)?;
    let mut t = Text::new();
    let (from, to) = (t.reads(x), t.writes(y));
    if monoid.is_none() {
        t.before += "fn log_add(a: f32, b: f32) -> f32 {\n\
            if (is_nan_f(a) || is_nan_f(b)) { return nan_f(); }\n\
            let low = min(a, b); let high = max(a, b);\n\
            if (is_inf_f(low) && low == high) { return low; }\n\
            return high + log1p_f(exp_f(low - high));\n}\n";
    }
    let of = |a: &str, b: &str| match monoid {
        Some(m) => combine(class, m, a, b),
        None => format!("log_add({a}, {b})"),
    };
    let (inner, size) = (l.inner.max(1), l.size);
    let lanes = l.outer * l.inner;
    let base = |lane: &str| format!("let base = {lane} / {inner}u * {}u + {lane} % {inner}u;\n", size * inner);
    if size <= 2 * THREADS || lanes >= 1024 {
        let body = format!(
            "{}var now = {};\n{}for (var k = 1u; k < {size}u; k = k + 1u) {{\nnow = {};\n{}}}\n",
            base("i"),
            from.at(&address(&l, is_reverse, "0u")),
            to.put(&address(&l, is_reverse, "0u"), &wrapped(class, y.ty.dtype, "now")),
            of("now", &from.at(&address(&l, is_reverse, "k"))),
            to.put(&address(&l, is_reverse, "k"), &wrapped(class, y.ty.dtype, "now"))
        );
        return plain(t.each(if size == 0 { 0 } else { lanes }, &body));
    }
    // A thread scans a stretch, after the totals of the stretches before it are combined.
    let each = size.div_ceil(THREADS);
    let used = size.div_ceil(each);
    t.before += &format!("var<workgroup> totals: array<{}, {THREADS}>;\n", class.ty());
    let element = from.at(&address(&l, is_reverse, "k"));
    let body = format!(
        "{}let first = lane * {each}u; let end = min(first + {each}u, {size}u);\n\
         if (lane < {used}u) {{\nvar sum = {};\n\
         for (var k = first + 1u; k < end; k = k + 1u) {{ sum = {}; }}\ntotals[lane] = sum;\n}}\nworkgroupBarrier();\n\
         if (lane < {used}u) {{\nvar now = {};\n\
         if (lane > 0u) {{\nvar before = totals[0];\nfor (var b = 1u; b < lane; b = b + 1u) {{ before = {}; }}\nnow = {};\n}}\n{}\
         for (var k = first + 1u; k < end; k = k + 1u) {{\nnow = {};\n{}}}\n}}\n",
        base("group"),
        from.at(&address(&l, is_reverse, "first")),
        of("sum", &element),
        from.at(&address(&l, is_reverse, "first")),
        of("before", "totals[b]"),
        of("before", "now"),
        to.put(&address(&l, is_reverse, "first"), &wrapped(class, y.ty.dtype, "now")),
        of("now", &element),
        to.put(&address(&l, is_reverse, "k"), &wrapped(class, y.ty.dtype, "now"))
    );
    plain(t.groups(lanes, THREADS, &body))
}

/// The extreme so far and its index: the last of equals; a NaN stays.
fn running(c: &Call, op: &str) -> Kernels {
    let (x, y, places) = (&c.args[0], &c.outs[0], &c.outs[1]);
    let l = AxisSplit::new(&x.ty.shape, c.attrs.size("axis").ok()?);
    let class = Class::of(x.ty.dtype)?;
    let is_reverse = is_reverse(c)?;
    let mut t = Text::new();
    let (from, to, at) = (t.reads(x), t.writes(y), t.writes(places));
    let (inner, size) = (l.inner.max(1), l.size);
    let wins = match class {
        Class::F32 => format!("(is_nan_f(own) || {})", compared(class, op, "own", "now")),
        _ => compared(class, op, "own", "now"),
    };
    let k = address(&l, is_reverse, "k");
    let body = format!(
        "let base = i / {inner}u * {}u + i % {inner}u;\nvar now = {}; var best = 0u;\n\
         for (var k = 0u; k < {size}u; k = k + 1u) {{\nlet own = {};\nif (k == 0u || {wins}) {{ now = own; best = k; }}\n{}{}}}\n",
        size * inner,
        from.at(&address(&l, is_reverse, "0u")),
        from.at(&k),
        to.put(&k, "now"),
        at.put(&k, "vec2<u32>(best, 0u)")
    );
    plain(t.each(if size == 0 { 0 } else { l.outer * l.inner }, &body))
}
