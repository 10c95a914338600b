//! Kernels that search: bisection in sorted sequences, and the places of true elements.

use super::{Kernels, plain};
use crate::claims::{Call, Claim};
use crate::element::{Class, truth};
use crate::expression::compared;
use crate::kernel::Text;

/// Searches.
pub static CLAIMS: &[Claim] = &[Claim::new("searchsorted", searchsorted), Claim::new("flat_nonzero", flat_nonzero)];

/// How many elements of an ascending sequence come before each value. NaN is greatest.
fn searchsorted(c: &Call) -> Kernels {
    let (sorted, values, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let (s, v) = (&sorted.ty.shape, &values.ty.shape);
    let n = *s.last()?;
    let each = if s.rank() == 1 { v.count() } else { *v.last()? }.max(1);
    let class = Class::of(sorted.ty.dtype)?;
    let is_right = c.attrs.bool("right").ok()?;
    let nan = |x: &str| if class.is_int() { "false".to_string() } else { format!("is_nan_f({x})") };
    let before = match is_right {
        true => format!("({} || {})", compared(class, "<=", "now", "own"), nan("own")),
        false => format!("({} || ({} && !{}))", compared(class, "<", "now", "own"), nan("own"), nan("now")),
    };
    let mut t = Text::new();
    let (list, own, to) = (t.reads(sorted), t.reads(values), t.writes(y));
    let body = format!(
        "let own = {};\nlet row = i / {each}u * {n}u;\nvar low = 0u; var high = {n}u;\n\
         while (low < high) {{\nlet middle = (low + high) / 2u;\nlet now = {};\n\
         if ({before}) {{ low = middle + 1u; }} else {{ high = middle; }}\n}}\n{}",
        own.at("i"),
        list.at("row + middle"),
        to.put("i", "vec2<u32>(low, 0u)")
    );
    plain(t.each(v.count(), &body))
}

/// Threads that look for true elements.
const THREADS: usize = 256;

/// The indices of true elements: a workgroup counts them by thread, adds the counts up, and writes.
fn flat_nonzero(c: &Call) -> Kernels {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let (n, size) = (x.ty.shape.count(), y.ty.shape.count());
    let fill = Class::I64.int(c.attrs.int("fill").ok()?.into());
    let class = Class::of(x.ty.dtype)?;
    let each = n.div_ceil(THREADS);
    let mut t = Text::new();
    let (from, to) = (t.reads(x), t.writes(y));
    t.before += &format!("var<workgroup> counts: array<u32, {THREADS}>;\n");
    let is_true = truth(&from.at("p"), class);
    let body = format!(
        "let first = lane * {each}u; let end = min(first + {each}u, {n}u);\nvar own = 0u;\n\
         for (var p = first; p < end; p = p + 1u) {{ if ({is_true}) {{ own = own + 1u; }} }}\n\
         counts[lane] = own;\nworkgroupBarrier();\n\
         var at = 0u; var all = 0u;\n\
         for (var k = 0u; k < {THREADS}u; k = k + 1u) {{ if (k < lane) {{ at = at + counts[k]; }} all = all + counts[k]; }}\n\
         for (var p = first; p < end; p = p + 1u) {{ if ({is_true}) {{\nif (at < {size}u) {{ {} }}\nat = at + 1u;\n}} }}\n\
         for (var p = all + lane; p < {size}u; p = p + {THREADS}u) {{ {} }}\n",
        to.put("at", "vec2<u32>(p, 0u)"),
        to.put("p", &fill)
    );
    plain(t.groups(1, THREADS, &body))
}
