//! What happens behind a product of few rows to each row of a block's columns by itself: loops that need nothing
//! else of the product (heads are transposed, keys and values put into caches), and the search for extremes.
//!
//! A warp has a row of the block's columns, two or four beside each other in each lane, and where a point looks at other
//! columns as well, the warp's memory has them all.

use super::{Chain, GROUP, Geometry, Part, Put, lines};
use crate::emit::access::{index, split};
use crate::emit::body::{Body, Writer};
use crate::emit::gemv::{Launch, taken};
use crate::emit::kernels::{Operand, place};
use crate::emit::scalar::stored;
use crate::emit::{Arg, Kernel, partials};
use passes::{Loop, Step};
use std::fmt::Write;

/// How a loop lies on a product.
#[derive(Debug, PartialEq)]
pub struct Local {
    /// The first of the columns that it takes, and how many.
    first: usize,
    each: usize,
    /// Its loads of the product, and whether a point's is the one it stands on.
    loads: Vec<(usize, bool)>,
    /// Columns of a block.
    lines: usize,
}

impl Local {
    /// How a loop lies on a product `y`, if a point needs nothing but what one block has of one row.
    pub fn new(l: &Loop, y: &Operand) -> Option<Local> {
        let [rows, columns] = *y.ty.shape.dims() else { return None };
        let points: usize = l.dims.iter().product();
        let each = points / rows;
        let lines = lines(y);
        let fits = points.is_multiple_of(rows) && each.is_multiple_of(GROUP);
        let is_plain = l.producer.is_none() && !l.steps.iter().any(|s| matches!(s, Step::Reduce { .. }));
        if !is_plain || !fits {
            return None;
        }
        let steps = taken(l, y.slot);
        let seen = steps.iter().map(|&step| columns_of(l, step, [rows, columns])).collect::<Option<Vec<_>>>()?;
        // The columns that the points stand on, if a load takes them as they lie.
        let stands = |row: &[usize], first: usize| row.iter().enumerate().all(|(n, at)| *at == first + n);
        let own = seen.iter().find(|row| stands(row, row[0]) && row[0].is_multiple_of(GROUP));
        let first = own.map_or(seen.first()?[0] / lines * lines, |row| row[0]);
        let is_near = |(n, at): (usize, &usize)| at / lines == (first + n) / lines;
        if !seen.iter().all(|row| row.iter().enumerate().all(is_near)) {
            return None;
        }
        let loads = steps.into_iter().zip(&seen).map(|(step, row)| (step, stands(row, first))).collect();
        Some(Local { first, each, loads, lines })
    }
    /// True if a point looks at other columns than its own.
    fn looks_around(&self) -> bool {
        self.loads.iter().any(|(_, is_own)| !is_own)
    }
}

/// The columns of the first row of a product that a load takes at each point, if it takes the same of each row.
fn columns_of(l: &Loop, step: usize, [rows, columns]: [usize; 2]) -> Option<Vec<usize>> {
    let Step::Load { strides, offset, .. } = &l.steps[step] else { return None };
    let mut left = rows;
    let (mut dims, mut steps) = (Vec::new(), Vec::new());
    for (&d, &s) in l.dims.iter().zip(strides) {
        // A dimension of rows, one of columns, or first the one and then the other.
        let of_rows = if left.is_multiple_of(d) { d } else { left };
        if !d.is_multiple_of(of_rows) {
            return None;
        }
        left /= of_rows;
        if of_rows > 1 && s * (d / of_rows) as isize != (columns * left) as isize {
            return None;
        }
        if d > of_rows {
            dims.push(d / of_rows);
            steps.push(s);
        }
    }
    let each: usize = dims.iter().product();
    let at = |mut n: usize| {
        let mut at = *offset as isize;
        for (d, s) in dims.iter().zip(&steps).rev() {
            at += (n % d) as isize * s;
            n /= d;
        }
        usize::try_from(at).ok().filter(|at| *at < columns)
    };
    (left == 1).then(|| (0..each).map(at).collect::<Option<_>>()).flatten()
}

/// Rows of a warp whose other operands are on their way before the sums are there.
const AHEAD: usize = 2;

/// What is done before the sums of a cluster's blocks are there, and what with them then.
pub struct Text {
    /// The first: asking for other operands.
    pub ahead: String,
    /// The second.
    pub result: String,
}

/// What is done with the sums of a block's share of the rows.
pub fn text(
    c: &Chain,
    parts: &[(&Part, Local)],
    s: &Geometry,
    element: &dyn Fn(&str, &str) -> String,
    out: &mut Launch,
) -> Text {
    let (share, count) = (s.share(), s.lines / 32);
    let looks_around = parts.iter().any(|(_, l)| l.looks_around());
    let each = share.div_ceil(s.warps());
    let texts: Vec<PartText> = parts.iter().enumerate().map(|(k, (p, l))| PartText::new(c, k, p, l, out)).collect();
    let (share, rows) = (format!("constexpr int SHARE = {share};\n"), rows(each, AHEAD));
    let asks = |which: &str| texts.iter().map(|t| t.ask(which)).collect::<String>();
    let is_ahead = each <= AHEAD && texts.iter().any(|t| t.asked.is_some());
    let structs = |count: &str| texts.iter().map(|t| t.declare(count)).collect::<String>();
    let (ahead, which) = match is_ahead {
        true => (format!("{share}{}{rows}{}}}\n", structs(&format!("[{each}][{count}]")), asks("[i]")), "[i]"),
        false => (share, ""),
    };
    let mut text = String::new();
    if looks_around {
        let _ = writeln!(text, "float* const beside = all + PADDED * WIDE + warp * 2 * LINES;");
    }
    text += &rows;
    if !is_ahead {
        text += &(structs(&format!("[{count}]")) + &asks(which));
    }
    text += &sums(c, count, element);
    if looks_around {
        // The row before may still be looked at, the one before that no more.
        let _ = write!(
            text,
            "float* const seen = beside + i % 2 * LINES;\n*(float{count}*)(seen + lane * {count}) = s;\n__syncwarp();\n"
        );
    }
    texts.iter().for_each(|t| text += &t.take(which));
    Text { ahead, result: text + "}\n" }
}

/// The beginning of a loop over the rows of a warp.
fn rows(each: usize, unroll: usize) -> String {
    format!(
        "#pragma unroll {unroll}\nfor (int i = 0; i < {each}; i++) {{\n\
         const int row = part * SHARE + i * WARPS + warp;\n\
         if (warp == WARPS || i * WARPS + warp >= SHARE || row >= ROWS) break;\n"
    )
}

/// The names of neighboring elements.
const NAMES: [&str; 4] = ["x", "y", "z", "w"];

/// So many elements `s.x`, `s.y`… of a row, from the column `at` on, as they are added up.
fn added(count: usize) -> String {
    let more: String = NAMES[..count].iter().map(|e| format!("s.{e} += more.{e};\n")).collect();
    let zeros = vec!["0"; count].join(", ");
    format!(
        "const float{count}* const from = (const float{count}*)(all + row * WIDE + lane * {count});\n\
         float{count} s = make_float{count}({zeros});\n\
         #pragma unroll\nfor (int k = 0; k < PARTS; k++) {{\n\
         const float{count} more = PARTS > 1 ? of_block(from, k) : *from;\n{more}}}\n\
         const int at = tile * LINES + lane * {count};\n"
    )
}

/// The same, rounded to the product's type.
fn sums(c: &Chain, count: usize, element: &dyn Fn(&str, &str) -> String) -> String {
    let mut text = added(count);
    for (k, e) in NAMES[..count].iter().enumerate() {
        let sum = element(&format!("s.{e}"), &format!("at + {k}"));
        let _ = writeln!(text, "s.{e} = {};", partials::rounded(&sum, c.y.ty.dtype));
    }
    text
}

/// The sums are the results.
pub fn whole(c: &Chain, s: &Geometry, element: &dyn Fn(&str, &str) -> String, out: &mut Launch) -> String {
    let (dtype, columns, count) = (c.y.ty.dtype, c.y.ty.shape[1], s.lines / 32);
    let ty = stored(dtype);
    out.param(&format!("{ty}*"), "y", Arg::Value(c.y.slot));
    let put = |(i, e): (usize, &&str)| {
        format!("to.at[{i}] = put_{dtype}({});\n", element(&format!("s.{e}"), &format!("at + {i}")))
    };
    let puts: String = NAMES[..count].iter().enumerate().map(put).collect();
    format!(
        "constexpr int SHARE = {share};\n{rows}{added}pack<{ty}, {count}> to;\n{puts}\
         *(pack<{ty}, {count}>*)(y + {offset} + row * (idx){columns} + at) = to;\n}}\n",
        share = s.share(),
        rows = rows(s.share().div_ceil(s.warps()), 4),
        added = added(count),
        offset = c.y.layout.offset,
    )
}

/// Keeps what wins in each row of a block: a number that is greater the better the element, and the sooner it
/// comes.
pub fn extreme(
    c: &Chain,
    s: &Geometry,
    is_least: bool,
    element: &dyn Fn(&str, &str) -> String,
    out: &mut Launch,
) -> String {
    let (tiles, share, count) = (c.y.ty.shape[1] / s.lines, s.share(), s.lines / 32);
    let ranks = |(k, e): (usize, &&str)| format!("best = max(best, rank<{is_least}>(s.{e}, at + {k}));\n");
    let ranks: String = NAMES[..count].iter().enumerate().map(ranks).collect();
    out.param("unsigned long long*", "found", Arg::Scratch(0));
    format!(
        "constexpr int SHARE = {share};\n{rows}{sums}\
         unsigned long long best = 0;\n{ranks}\
         best = across<Max, 32>(best);\n\
         if (lane == 0) found[row * {tiles} + tile] = best;\n}}\n",
        rows = rows(share.div_ceil(s.warps()), 4),
        sums = sums(c, count, element),
    )
}

/// The launch that finds the places `y` of the extremes among those of all blocks.
pub fn extremes(c: &Chain, y: &Operand) -> Kernel {
    const BLOCK: usize = 256;
    const WARPS: usize = BLOCK / 32;
    let (rows, tiles) = (c.y.ty.shape[0], c.y.ty.shape[1] / lines(c.y));
    let source = format!(
        "extern \"C\" __global__ void __launch_bounds__({BLOCK}) run(const unsigned long long* __restrict__ found, long long* __restrict__ y) {{\n\
         unsigned long long best = 0;\n\
         #pragma unroll 8\nfor (int k = threadIdx.x; k < {tiles}; k += {BLOCK}) best = max(best, found[blockIdx.x * {tiles} + k]);\n\
         __shared__ unsigned long long all[{WARPS}];\n\
         best = across<Max, 32>(best);\n\
         if (threadIdx.x % 32 == 0) all[threadIdx.x / 32] = best;\n__syncthreads();\n\
         if (threadIdx.x == 0) y[blockIdx.x] = 0xffffffffu - (unsigned)gather<Max, {WARPS}>(all);\n}}\n"
    );
    Kernel::new(source, rows, BLOCK, vec![Arg::Scratch(0), Arg::Value(y.slot)])
}

/// A loop at neighboring points.
struct PartText {
    /// Its number.
    k: usize,
    /// The condition that the block has columns of it, and the first of the points.
    begin: String,
    /// What is given to the functions that ask for operands and that use them.
    asked: Option<String>,
    used: String,
    looks_around: bool,
    /// Points of a lane.
    count: usize,
}

impl PartText {
    fn new(c: &Chain, k: usize, part: &Part, local: &Local, out: &mut Launch) -> PartText {
        let body = Body::new(part.l, c.graph, false, |_| true, true);
        let idx = match &part.put {
            Some(put) if put.y.ty.shape.count() >= i32::MAX as usize => "unsigned long long",
            _ => body.idx(),
        };
        let (fields, asks) = ask(&body, part, local, idx);
        let asked = (!fields.is_empty()).then(|| {
            let _ = writeln!(out.functions, "struct Beside{k} {{ {fields} }};");
            out.function(&format!("ask{k}"), &format!("const {idx} n, Beside{k}& to"), asks, None)
        });
        let mut head = format!("const {idx} n, const float s, const float* const seen");
        if asked.is_some() {
            let _ = write!(head, ", const Beside{k}& with");
        }
        let used = out.function(&format!("behind{k}"), &head, point(&body, part, local, idx), None);
        let (first, end, count) = (local.first, local.first + local.each, local.lines / 32);
        let at = format!("tile * LINES + lane * {count}");
        let when = match (first, local.each == c.y.ty.shape[1]) {
            (_, true) => String::new(),
            (0, _) => format!("if ({at} < {end}) "),
            _ => format!("if ({at} >= {first} && {at} < {end}) "),
        };
        let begin = format!("{when}{{\nconst {idx} n = row * ({idx}){} + ({at} - {first});\n", local.each);
        PartText { k, begin, asked, used, looks_around: local.looks_around(), count }
    }

    /// Room for operands.
    fn declare(&self, count: &str) -> String {
        let k = self.k;
        self.asked.as_ref().map_or(String::new(), |_| format!("Beside{k} beside{k}{count};\n"))
    }
    /// Asks for operands.
    fn ask(&self, which: &str) -> String {
        let (k, begin) = (self.k, &self.begin);
        self.asked.as_ref().map_or(String::new(), |call| {
            let each = |e: usize| format!("ask{k}(n + {e}, beside{k}{which}[{e}], {call});\n");
            format!("{begin}{}}}\n", (0..self.count).map(each).collect::<String>())
        })
    }
    /// Uses them, and the sums.
    fn take(&self, which: &str) -> String {
        let k = self.k;
        let mut text = self.begin.clone();
        let seen = if self.looks_around { "seen" } else { "nullptr" };
        for (e, part) in NAMES[..self.count].iter().enumerate() {
            let with = self.asked.as_ref().map_or(String::new(), |_| format!(", beside{k}{which}[{e}]"));
            let _ = writeln!(text, "behind{k}(n + {e}, s.{part}, {seen}{with}, {});", self.used);
        }
        text + "}\n"
    }
}

/// True for a load of something else than the product that is read from memory.
fn is_beside(b: &Body, local: &Local, step: usize) -> bool {
    let is_load = matches!(b.l.steps[step], Step::Load { .. });
    is_load && !b.is_counted(step) && !local.loads.iter().any(|(taken, _)| *taken == step)
}

/// The fields of a struct, and the function that reads them: what a loop needs at its point `n` beside the product.
fn ask<'b, 'a>(b: &'b Body<'a>, part: &Part, local: &Local, idx: &str) -> (String, Writer<'b, 'a>) {
    let (mut fields, mut w) = (String::new(), Writer::new(b));
    let (text, at) = split(&b.l.dims, "n", "n");
    w.put(format!("typedef {idx} idx;\n{text}\n"));
    for i in b.steps().filter(|&i| is_beside(b, local, i)) {
        let Step::Load { strides, offset, .. } = &b.l.steps[i] else { continue };
        let p = w.source(i);
        w.put(format!("to.q{i} = {p}[{}];\n", index(strides, *offset, &at)));
        let _ = write!(fields, "{} q{i}; ", stored(b.dtype(i)));
    }
    if let (Some(put), [s]) = (&part.put, &b.stores[..]) {
        let ty = stored(put.index.ty.dtype);
        let element = index(&s.strides, 0, &at);
        w.put(match put.axis {
            Some(_) => format!("to.place = index[{element}];\n"),
            None => format!("to.place = index[{} + ({element}) / {}];\n", put.index.layout.offset, slot_width(put)),
        });
        w.given(&format!("const {ty}* __restrict__ index"), Arg::Value(put.index.slot));
        let _ = write!(fields, "{ty} place; ");
    }
    (fields, w)
}

/// Elements of a KV cache's slot.
fn slot_width(put: &Put) -> usize {
    put.y.ty.shape[2] * put.y.ty.shape[3]
}

/// The function of a loop at its point `n`.
fn point<'b, 'a>(b: &'b Body<'a>, part: &Part, local: &Local, idx: &str) -> Writer<'b, 'a> {
    let mut w = Writer::new(b);
    let (text, at) = split(&b.l.dims, "n", "n");
    w.put(format!("typedef {idx} idx;\n{text}\n"));
    let taken = local.loads.iter().map(|&(step, is_own)| match &b.l.steps[step] {
        Step::Load { strides, offset, .. } if !is_own => {
            (step, format!("seen[({}) % {}u]", index(strides, *offset, &at), local.lines))
        }
        _ => (step, "s".to_string()),
    });
    let beside = b.steps().filter(|&i| is_beside(b, local, i)).map(|i| (i, format!("get(with.q{i})")));
    let names = w.steps_given(&at, &taken.chain(beside).collect::<Vec<_>>());
    for s in &b.stores {
        let (value, dtype) = (b.val(s.step as usize, &names).text, b.graph.ty(s.slot).dtype);
        let to = index(&s.strides, s.offset, &at);
        match &part.put {
            None => {
                let p = w.target(s.slot);
                w.put(format!("{p}[{to}] = put_{dtype}({value});\n"));
            }
            Some(put) => {
                w.given(&format!("{}* __restrict__ y", stored(put.y.ty.dtype)), Arg::Value(put.y.slot));
                let Some(axis) = put.axis else {
                    let (width, all) = (slot_width(put), put.y.ty.shape[0] * put.y.ty.shape[1]);
                    let (offset, into) = (put.y.layout.offset, put.y.ty.dtype);
                    w.put(format!(
                        "const long long slot = with.place;\n\
                         if (slot >= 0 && slot < {all}) y[{offset} + slot * {width} + ({to}) % {width}] = put_{into}({value});\n"
                    ));
                    continue;
                };
                let place = place(&put.y, &put.index, axis).replace("index[i]", "with.place");
                w.put(format!("const idx i = {to};\n{place}y[at] = put_{dtype}({value});\n"));
                w.given("Report* report", Arg::Report);
                w.given("long long launch", Arg::Launch);
            }
        }
    }
    w
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{DType, Layout, Slot, Type};

    /// How a loop with these loads lies on 8 rows of 384 columns.
    fn lies(dims: &[usize], loads: &[(&[isize], usize)]) -> Option<Local> {
        let (slot, ty) = (Slot::new(0, 0), Type::new(DType::BF16, [8, 384]));
        let y = Operand { slot, layout: Layout::contiguous(&ty.shape), ty };
        let load = |(strides, offset): &(&[isize], usize)| Step::Load {
            root: slot,
            strides: strides.iter().copied().collect(),
            offset: *offset,
        };
        let steps = loads.iter().map(load).collect();
        let l = Loop { dims: dims.to_vec(), inner: 1, steps, stores: Vec::new(), nodes: Vec::new(), producer: None };
        Local::new(&l, &y)
    }

    /// What is known of a loop on those rows, whose blocks have 128 columns.
    fn local(first: usize, each: usize, loads: &[(usize, bool)]) -> Option<Local> {
        Some(Local { first, each, loads: loads.to_vec(), lines: 128 })
    }

    #[test]
    fn whole_rows_and_parts_of_them_are_local() {
        assert_eq!(lies(&[8 * 384], &[(&[1], 0)]), local(0, 384, &[(0, true)]));
        assert_eq!(lies(&[8, 64], &[(&[384, 1], 128)]), local(128, 64, &[(0, true)]), "half of a block");
        assert_eq!(lies(&[8, 128], &[(&[384, 1], 64)]), local(64, 128, &[(0, true)]), "halves of two blocks");
        let rows = lies(&[4, 2, 128], &[(&[768, 384, 1], 0)]);
        assert_eq!(rows, local(0, 128, &[(0, true)]), "rows in two dimensions");
    }

    #[test]
    fn a_point_may_look_around_within_a_block() {
        let both = [(0, true), (1, false)];
        let halves: [(&[isize], usize); 2] = [(&[384, 64, 32, 1], 64), (&[384, 64, -32, 1], 96)];
        assert_eq!(lies(&[8, 4, 2, 32], &halves), local(64, 256, &both));
        let wide: [(&[isize], usize); 2] = [(&[384, 128, 64, 1], 128), (&[384, 128, -64, 1], 192)];
        assert_eq!(lies(&[8, 2, 2, 64], &wide), local(128, 256, &both), "heads of 128");
        let pairs: [(&[isize], usize); 2] = [(&[384, 2, 1], 0), (&[384, 2, -1], 1)];
        assert_eq!(lies(&[8, 128, 2], &pairs), local(0, 256, &both));
    }

    #[test]
    fn what_is_elsewhere_is_not_local() {
        assert_eq!(lies(&[8, 64], &[(&[384, 1], 96)]), None, "columns that begin within a group");
        assert_eq!(lies(&[8, 192], &[(&[384, 1], 0), (&[384, 1], 192)]), None, "the other half of the row");
        let across: [(&[isize], usize); 2] = [(&[384, 128, 64, 1], 64), (&[384, 128, -64, 1], 128)];
        assert_eq!(lies(&[8, 2, 2, 64], &across), None, "heads across blocks");
        assert_eq!(lies(&[8, 2, 128], &[(&[384, -128, 1], 128)]), None, "blocks the other way round");
        assert_eq!(lies(&[384, 8], &[(&[1, 384], 0)]), None, "column by column");
        assert_eq!(lies(&[8, 64], &[(&[0, 1], 0)]), None, "one row for all");
    }
}
