//! Kernels that combine elements at places of an index. A thread has a lane and walks it in the index's order, so that
//! which of equal places wins and how sums are rounded does not change.

use super::moves::{copy, place, wrapped};
use super::{Kernels, index_at, plain};
use crate::claims::{Call, Claim};
use crate::element::Class;
use crate::kernel::Text;
use crate::loops::combine;
use ir::{AxisSplit, Monoid};

/// Scatters.
pub static CLAIMS: &[Claim] = &[
    Claim::new("scatter", |c| scatter(c, None, true)),
    Claim::new("scatter_add", |c| scatter(c, Some(Monoid::Sum), true)),
    Claim::new("scatter_reduce", |c| {
        let monoid = match c.attrs.str("reduce").ok()? {
            "max" => Monoid::Max,
            "min" => Monoid::Min,
            _ => Monoid::Prod,
        };
        scatter(c, Some(monoid), c.attrs.bool("include_self").ok()?)
    }),
    Claim::new("index_add", index_add),
    Claim::new("ravel_index", ravel_index),
];

/// Elements put or combined at places. `keeps`: what is there counts too.
fn scatter(c: &Call, monoid: Option<Monoid>, keeps: bool) -> Kernels {
    let (x, index, src, y) = (&c.args[0], &c.args[1], &c.args[2], &c.outs[0]);
    let axis = c.attrs.size("axis").ok()?;
    let mut kernels = copy(x, y)?;
    let l = AxisSplit::new(&index.ty.shape, axis);
    let (inner, size) = (l.inner.max(1), l.size);
    let mut t = Text::new();
    let (at, from, to) = match monoid {
        None => (t.reads(index), t.reads_bits(src), t.writes_bits(y)),
        Some(_) => (t.reads(index), t.reads(src), t.writes(y)),
    };
    t.reports();
    let put = to.put("at", &from.at("i"));
    let store = match monoid {
        None => put.clone(),
        Some(m) => {
            let class = Class::of(y.ty.dtype)?;
            let sum = combine(class, m, &to.at("at"), &from.at("i"));
            format!("let sum = {};\n{}", wrapped(class, y.ty.dtype, &sum), to.put("at", "sum"))
        }
    };
    let fresh = if keeps {
        store
    } else {
        // The first value of a place replaces what is there if no earlier index is the same.
        let earlier =
            index_at(&at, index, &format!("(lane_of / {inner}u * {size}u + b) * {inner}u + lane_of % {inner}u"))?;
        format!(
            "var fresh = true;\nfor (var b = 0u; b < k && fresh; b = b + 1u) {{ fresh = !eq_l({earlier}, {}); }}\n\
             if (fresh) {{ {put} }} else {{ {store} }}\n",
            index_at(&at, index, "i")?
        )
    };
    let body = format!(
        "let lane_of = i;\nfor (var k = 0u; k < {size}u; k = k + 1u) {{\n\
         let i = (lane_of / {inner}u * {size}u + k) * {inner}u + lane_of % {inner}u;\n{}{fresh}}}\n",
        place(x, index, &index_at(&at, index, "i")?, axis)
    );
    let lanes = if index.ty.shape.count() == 0 { 0 } else { l.outer * l.inner };
    kernels.extend(t.each(lanes, &body)?);
    plain(Some(kernels))
}

/// Slices added at places along an axis.
fn index_add(c: &Call) -> Kernels {
    let (x, index, src, y) = (&c.args[0], &c.args[1], &c.args[2], &c.outs[0]);
    let l = AxisSplit::new(&x.ty.shape, c.attrs.size("axis").ok()?);
    let (n, inner, size) = (index.ty.shape.count(), l.inner.max(1), l.size);
    let class = Class::of(y.ty.dtype)?;
    let mut kernels = copy(x, y)?;
    let mut t = Text::new();
    let (at, from, to) = (t.reads(index), t.reads(src), t.writes(y));
    t.reports();
    let sum = combine(class, Monoid::Sum, &to.at("at"), &from.at(&format!("(o * {n}u + k) * {inner}u + e")));
    let body = format!(
        "let o = i / {inner}u; let e = i % {inner}u;\nfor (var k = 0u; k < {n}u; k = k + 1u) {{\n\
         let at = (o * {size}u + checked({}, {size}u)) * {inner}u + e;\nlet sum = {};\n{}}}\n",
        index_at(&at, index, "k")?,
        wrapped(class, y.ty.dtype, &sum),
        to.put("at", "sum")
    );
    kernels.extend(t.each(if n == 0 { 0 } else { l.outer * l.inner }, &body)?);
    plain(Some(kernels))
}

/// Indices along several axes as indices of the flattened axes.
fn ravel_index(c: &Call) -> Kernels {
    let (sizes, y) = (c.attrs.sizes("sizes").ok()?, &c.outs[0]);
    let (mut body, names) = crate::kernel::split(&y.ty.shape, "i", "i");
    body += "var at = 0u;\n";
    let mut t = Text::new();
    let rank = y.ty.shape.rank();
    for (k, (a, n)) in c.args.iter().zip(&sizes).enumerate() {
        let p = t.reads(a);
        let (shape, strides) = (&a.ty.shape, a.ty.shape.strides());
        let steps: Vec<isize> = (0..shape.rank()).map(|d| if shape[d] > 1 { strides[d] } else { 0 }).collect();
        let from = crate::kernel::index(&steps, 0, &names[rank - shape.rank()..]);
        let size = Class::I64.int(*n as i128);
        body += &format!(
            "let j{k} = {};\nat = at * {n}u + checked(select(j{k}, add_l(j{k}, {size}), is_neg_l(j{k})), {n}u);\n",
            index_at(&p, a, &from)?
        );
    }
    t.reports();
    let to = t.writes(y);
    plain(t.each(y.ty.shape.count(), &(body + &to.put("i", "vec2<u32>(at, 0u)"))))
}
