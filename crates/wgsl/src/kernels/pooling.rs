//! Max pooling.

use super::{Kernels, plain};
use crate::claims::{Call, Claim};
use crate::element::Class;
use crate::expression::compared;
use crate::kernel::{Text, split};

/// Pooling.
pub static CLAIMS: &[Claim] = &[Claim::new("max_pool_index", max_pool_index)];

/// Where the greatest element of each window is: the first of equals, a NaN before all.
fn max_pool_index(c: &Call) -> Kernels {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let sizes = |name: &str| c.attrs.sizes(name).ok();
    let (window, stride, lo, dilation) = (sizes("window")?, sizes("stride")?, sizes("padding_lo")?, sizes("dilation")?);
    let (xs, ys) = (&x.ty.shape[2..], &y.ty.shape[2..]);
    let (plane, out): (usize, usize) = (xs.iter().product(), ys.iter().product());
    let class = Class::of(x.ty.dtype)?;
    let mut t = Text::new();
    let (from, to) = (t.reads(x), t.writes(y));
    let mut body = split(ys, &format!("(i % {}u)", out.max(1)), "q").0;
    body += &format!(
        "let base = i / {}u * {plane}u;\nvar best = 0u; var has = false;\nvar top: {} = {};\n",
        out.max(1),
        class.ty(),
        class.int(0)
    );
    for d in 0..window.len() {
        body += &format!(
            "for (var k{d} = 0u; k{d} < {}u; k{d} = k{d} + 1u) {{\nlet x{d} = i32(q{d} * {}u + k{d} * {}u) - {};\nif (x{d} < 0 || x{d} >= {}) {{ continue; }}\n",
            window[d], stride[d], dilation[d], lo[d], xs[d]
        );
    }
    let at = (0..xs.len()).fold("0u".to_string(), |s, d| format!("({s} * {}u + u32(x{d}))", xs[d]));
    let greater = compared(class, ">", "v", "top");
    let wins = if class == Class::F32 { format!("({greater} || (is_nan_f(v) && !is_nan_f(top)))") } else { greater };
    body += &format!(
        "let at = {at};\nlet v = {};\nif (!has || {wins}) {{ best = at; top = v; has = true; }}\n{}{}",
        from.at("base + at"),
        "}".repeat(window.len()),
        to.put("i", "vec2<u32>(best, 0u)")
    );
    plain(t.each(y.ty.shape.count(), &body))
}
