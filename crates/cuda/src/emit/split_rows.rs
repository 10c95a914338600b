//! Rows too long to be kept: each block reduces a stretch of one row.

use super::access::split;
use super::body::{Body, Reduction, Writer};
use super::pointwise::element;
use super::{Lowered, PARTIALS_MAX, partials};
use passes::Along;

const BLOCK: usize = 256;

/// Writes the kernel of a loop whose rows are reduced to results that exist after it.
pub fn lower(b: &Body, out: &mut Lowered) {
    let (outer, inner) = b.dims();
    let width = b.width();
    let (rows, columns) = (b.l.rows(), b.l.columns() / width);
    // Stretches of a row, as many as keep the device busy.
    let parts = (PARTIALS_MAX / rows.max(1)).clamp(1, columns.div_ceil(BLOCK * 2));
    let stretch = columns.div_ceil(parts);
    let parts = columns.div_ceil(stretch);
    let all: Vec<Reduction> = b.reductions().map(|(r, _)| r).collect();
    let mut w = Writer::new(b);
    all.iter().for_each(|r| w.accumulator(r));
    w.put(format!("const idx row = blockIdx.x / {parts}u, part = blockIdx.x % {parts}u;\n"));
    let (text, mut at) = split(outer, "row", "r");
    w.put(text + "\n");
    w.put(format!("const idx end = min((part + 1) * {stretch}u, (idx){columns}u);\n"));
    w.put(format!("for (idx j = part * {stretch}u + threadIdx.x; j < end; j += {BLOCK}u) {{\n"));
    let (text, names) = split(inner, &if width > 1 { format!("(j * {width})") } else { "j".into() }, "c");
    w.put(text + "\n");
    at.extend(names);
    element(&mut w, b, &at, width, |w, names| {
        for r in &all {
            let x = b.val(r.arg, names).text;
            w.put(format!("a{0} = {1}::of(a{0}, {x});\n", r.step, r.op()));
        }
    });
    w.put("}\n");
    w.gather(&all, BLOCK);
    for (r, slot) in b.reductions() {
        let (outer, parts) = if r.along == Along::All { (1, rows * parts) } else { (rows, parts) };
        if parts == 1 {
            let p = w.target(slot);
            w.put(format!("if (threadIdx.x == 0) {p}[row] = put_{}(g{});\n", r.dtype, r.step));
        } else {
            let p = partials::partial(&mut w, &r, slot, outer, parts, 1, out);
            w.put(format!("if (threadIdx.x == 0) {p}[blockIdx.x] = g{};\n", r.step));
        }
    }
    out.kernels.push(w.finish(rows * parts, BLOCK));
}
