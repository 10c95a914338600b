//! Sums over rows: blocks of 32 columns (or vectors of them) by 8 rows walk down the
//! rows; where there are fewer columns, blocks are narrower and higher. What the next rows hold is on
//! its way while these are added.

use super::access::split;
use super::body::{Body, Reduction, Writer};
use super::pointwise::loaded;
use super::{Lowered, PARTIALS_MAX, partials, prefetch, scalar};
use passes::Along;

/// Columns, or vectors of columns, a block has side by side at most.
const ACROSS_MAX: usize = 32;
/// Threads of a block, where there are many rows, and where one block takes all.
const THREADS: usize = 256;
const THREADS_FEW: usize = 1024;
/// So many rows at most are few.
const FEW: usize = 256;
/// Bytes that a thread should have on their way, and rows it takes at once at most.
const AHEAD: usize = 32;
const AHEAD_ROWS: usize = 4;

/// Writes the kernel of a loop whose rows are combined to one.
pub fn lower(b: &Body, out: &mut Lowered) {
    let inner = b.dims().1;
    let width = b.width();
    let (rows, columns) = (b.l.rows(), b.l.columns());
    let across = (columns / width).next_power_of_two().clamp(1, ACROSS_MAX);
    let tiles = (columns / width).div_ceil(across);
    let is_few = rows <= FEW && b.after.len() <= 2;
    let height = if is_few { THREADS_FEW / ACROSS_MAX } else { THREADS / across };
    let parts = if is_few { 1 } else { PARTIALS_MAX.div_ceil(tiles).clamp(1, rows.div_ceil(height * 4)) };
    let (down, whole): (Vec<Reduction>, Vec<Reduction>) =
        b.reductions().map(|(r, _)| r).partition(|r| r.along == Along::Column);
    let mut w = Writer::new(b);
    whole.iter().for_each(|r| w.accumulator(r));
    for r in &down {
        let start = vec![r.start(); width].join(", ");
        w.put(format!("{} a{}[{width}] = {{{start}}};\n", r.class().c(), r.step));
    }
    w.put(format!("const idx tile = blockIdx.x % {tiles}u, part = blockIdx.x / {tiles}u;\n"));
    w.put(format!("const int x = threadIdx.x % {across}, y = threadIdx.x / {across};\n"));
    w.put(format!("const idx column = (tile * {across} + x) * {width};\n"));
    let (text, names) = split(inner, "column", "c");
    w.put(text + "\n");
    w.put(format!("if (column < {columns}u) {{\n"));
    walk(&mut w, b, &names, [height, parts, width], |w, names| {
        for r in &down {
            let x = b.val(r.arg, names).text;
            w.put(format!("a{0}[v] = {1}::of(a{0}[v], {x});\n", r.step, r.op()));
        }
        for r in &whole {
            let x = b.val(r.arg, names).text;
            w.put(format!("a{0} = {1}::of(a{0}, {x});\n", r.step, r.op()));
        }
    });
    w.put("}\n");
    for (r, slot) in b.reductions().filter(|(r, _)| r.along == Along::Column) {
        let (s, c, op) = (r.step, r.class().c(), r.op());
        let (p, value) = if parts == 1 {
            (w.target(slot), format!("put_{}(sum)", r.dtype))
        } else {
            (partials::partial(&mut w, &r, slot, 1, parts, columns, out), "sum".to_string())
        };
        w.put(format!(
            "__shared__ {c} s{s}[{height}][{wide}];\n\
             #pragma unroll\nfor (int v = 0; v < {width}; v++) s{s}[y][x * {width} + v] = a{s}[v];\n\
             __syncthreads();\n\
             for (int i = threadIdx.x; i < {wide}; i += {block}) {{\n\
             const idx at = tile * {wide} + i;\n{c} sum = s{s}[0][i];\n\
             for (int k = 1; k < {height}; k++) sum = {op}::of(sum, s{s}[k][i]);\n\
             if (at < {columns}u) {p}[part * {columns}u + at] = {value};\n}}\n",
            wide = across * width,
            block = across * height,
        ));
    }
    partials::blocks(&mut w, b, &whole, parts * tiles, across * height, out);
    let mut kernel = w.finish(parts * tiles, across * height);
    if parts > 1 {
        // As many as there are run at once.
        kernel.hold(PARTIALS_MAX / prefetch::BLOCKS);
    }
    out.kernels.push(kernel);
}

/// The way of a thread down the rows, which all parts take together, `height` rows each at a time: a few
/// are loaded before the ones loaded last are used.
fn walk(
    w: &mut Writer,
    b: &Body,
    columns: &[String],
    [height, parts, width]: [usize; 3],
    and: impl Fn(&mut Writer, &[Option<String>]),
) {
    let (outer, rows, step) = (b.dims().0, b.l.rows(), height * parts);
    let is_far = |strides: &[isize]| strides[..outer.len()].iter().any(|&s| s != 0);
    let (far, same): (Vec<_>, Vec<_>) = b.loads().filter(|(i, ..)| !b.is_counted(*i)).partition(|(_, s, _)| is_far(s));
    let place = |prefix: &str, row: &str| {
        let (text, mut at) = split(outer, row, prefix);
        at.extend(columns.iter().cloned());
        (text + "\n", at)
    };
    let bytes: usize = far.iter().map(|&(i, ..)| width * b.dtype(i).size()).sum();
    let deep = (AHEAD / bytes.max(1)).clamp(1, AHEAD_ROWS);
    let stored = |i: usize| scalar::stored(b.dtype(i));
    let (text, at) = place("s", "0");
    w.put(text);
    for &(i, ..) in &same {
        w.put(format!("pack<{}, {width}> q{i};\n", stored(i)));
        w.load(i, &at, width, "");
    }
    far.iter().for_each(|&(i, ..)| w.put(format!("pack<{}, {width}> n{i}[{deep}];\n", stored(i))));
    let load = |w: &mut Writer, from: &str| {
        let (text, at) = place("m", "next");
        w.put(format!(
            "#pragma unroll\nfor (int k = 0; k < {deep}; k++) {{\nconst idx next = {from} + k * {step};\nif (next < {rows}u) {{\n{text}"
        ));
        far.iter().for_each(|&(i, ..)| w.load_as(&format!("n{i}[k]"), i, &at, width));
        w.put("}\n}\n");
    };
    w.put(format!("idx first = part * {height} + y;\n"));
    load(w, "first");
    w.put(format!("for (; first < {rows}u; first += {}) {{\n", deep * step));
    for &(i, ..) in &far {
        w.put(format!(
            "pack<{}, {width}> g{i}[{deep}];\n#pragma unroll\nfor (int k = 0; k < {deep}; k++) g{i}[k] = n{i}[k];\n",
            stored(i)
        ));
    }
    load(w, &format!("first + {}", deep * step));
    w.put(format!("#pragma unroll\nfor (int k = 0; k < {deep}; k++) {{\nconst idx row = first + k * {step};\n"));
    w.put(format!("if (row < {rows}u) {{\n"));
    far.iter().for_each(|&(i, ..)| w.put(format!("const pack<{}, {width}> q{i} = g{i}[k];\n", stored(i))));
    let (text, at) = place("r", "row");
    w.put(text);
    loaded(w, b, &at, width, and);
    w.put("}\n}\n}\n");
}
