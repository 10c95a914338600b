//! Loops without rows: every thread takes a few neighboring points.

use super::access::split;
use super::body::{Body, Reduction, Writer};
use super::scalar;
use super::{Lowered, PARTIALS_MAX, SMALL, partials};
use passes::Step;

/// Threads of a block.
pub const BLOCK: usize = 256;

/// The text of a loop that reduces nothing, and its blocks.
pub fn plain<'b, 'a>(b: &'b Body<'a>) -> (Writer<'b, 'a>, usize) {
    let width = b.width();
    let count = b.l.dims.iter().product::<usize>() / width;
    let mut w = Writer::new(b);
    w.put(format!("typedef {} idx;\n", b.idx()));
    w.put(format!("const idx t = (idx)blockIdx.x * {BLOCK} + threadIdx.x;\nif (t >= {count}u) return;\n"));
    let (text, at) = split(&b.l.dims, &if width > 1 { format!("(t * {width})") } else { "t".into() }, "i");
    w.put(text + "\n");
    element(&mut w, b, &at, width, |_, _| {});
    (w, count.div_ceil(BLOCK))
}

/// Writes the kernel of a loop that reduces nothing, or everything to one number.
pub fn lower(b: &Body, out: &mut Lowered) {
    let width = b.width();
    let count = b.l.dims.iter().product::<usize>() / width;
    let reductions: Vec<Reduction> = b.reductions().map(|(r, _)| r).collect();
    let (grid, block) = match reductions.is_empty() {
        true => (count.div_ceil(BLOCK), BLOCK),
        false if count * width <= SMALL => (1, count.div_ceil(4).next_multiple_of(32).min(1024)),
        false => (count.div_ceil(BLOCK * 4).clamp(1, PARTIALS_MAX), BLOCK),
    };
    let mut w = Writer::new(b);
    reductions.iter().for_each(|r| w.accumulator(r));
    w.put(format!("const idx first = (idx)blockIdx.x * {block} + threadIdx.x;\n"));
    w.put(match reductions.is_empty() {
        true => format!("if (first < {count}u) {{\nconst idx t = first;\n"),
        false => format!("for (idx t = first; t < {count}u; t += {}u) {{\n", grid * block),
    });
    let (text, at) = split(&b.l.dims, &if width > 1 { format!("(t * {width})") } else { "t".into() }, "i");
    w.put(text + "\n");
    element(&mut w, b, &at, width, |w, names| {
        for r in &reductions {
            let x = b.val(r.arg, names).text;
            w.put(format!("a{0} = {1}::of(a{0}, {x});\n", r.step, r.op()));
        }
    });
    w.put("}\n");
    partials::blocks(&mut w, b, &reductions, grid, block, out);
    out.kernels.push(w.finish(grid, block));
}

/// Everything at one vector of points: loads, steps, what `and` adds, stores.
pub fn element(w: &mut Writer, b: &Body, at: &[String], width: usize, and: impl Fn(&mut Writer, &[Option<String>])) {
    let loads: Vec<usize> = b.loads().map(|(i, ..)| i).filter(|&i| !b.is_counted(i)).collect();
    let mut read = Vec::new();
    for &i in &loads {
        w.put(format!("pack<{}, {width}> q{i};\n", scalar::stored(b.dtype(i))));
        if !(is_alike(b, &loads) && w.load_between(i, at, width, &mut read)) {
            w.load(i, at, width, "");
        }
    }
    loaded(w, b, at, width, and);
}

/// True if all loads have the same strides where they have elements of a vector apart.
fn is_alike(b: &Body, loads: &[usize]) -> bool {
    let strides = |i: usize| if let Step::Load { strides, .. } = &b.l.steps[i] { strides.as_slice() } else { &[] };
    let mut apart = loads.iter().map(|&i| strides(i)).filter(|s| s.last().is_some_and(|&s| s > 1));
    apart.next().is_none_or(|first| apart.all(|s| s == first))
}

/// The same behind the loads, which are there as `q{step}`.
pub fn loaded(w: &mut Writer, b: &Body, at: &[String], width: usize, and: impl Fn(&mut Writer, &[Option<String>])) {
    w.declare_kept(&b.stores, width);
    w.put(format!("#pragma unroll\nfor (int v = 0; v < {width}; v++) {{\n"));
    let mut names: Vec<Option<String>> = vec![None; b.l.steps.len()];
    for i in b.steps() {
        match &b.l.steps[i] {
            Step::Load { .. } => {
                let x = b.counted(i, at).unwrap_or_else(|| format!("item(q{i}, v)"));
                w.put(format!("const {} t{i} = {x};\n", scalar::Class::of(b.dtype(i)).c()));
                names[i] = Some(format!("t{i}"));
            }
            Step::Scalar { .. } => {
                let text = b.compute(i, &mut names, "t");
                w.put(text);
            }
            Step::Const(_) | Step::Reduce { .. } => {}
        }
    }
    and(w, &names);
    for s in &b.stores {
        let value = b.val(s.step as usize, &names);
        w.keep(s, &value, at, width);
    }
    w.put("}\n");
    w.store_kept(&b.stores, at, width);
}
