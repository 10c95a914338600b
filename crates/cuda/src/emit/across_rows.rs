//! Reductions whose rows lie across memory, such as a sum over a middle axis: neighboring threads have neighboring rows,
//! so that what they read lies side by side, and a few threads share a row. Very short rows have a thread each.
//!
//! The steps fall into the same phases as those of [`super::rows`]; each phase reads again what it needs.

use super::access::{index, split};
use super::body::{Body, Level, Reduction, Writer};
use super::rows::{must_hold, phases};
use super::scalar::{self, Class};
use super::{Lowered, partials};
use passes::{Step, Store};

/// Threads of a block, and of one whose rows are few.
const THREADS: usize = 256;
const THREADS_FEW: usize = 1024;
/// Blocks that keep a GPU busy.
const BLOCKS: usize = 264;
/// Rows side by side.
const ACROSS: usize = 32;
/// Rows of so many elements at most have a thread each.
const SHORT: usize = 32;
/// Elements of a row that a thread has on their way.
const AHEAD: usize = 8;

/// How threads are spread over rows.
#[derive(Clone, Copy)]
struct Spread {
    /// Neighboring rows of a thread.
    width: usize,
    /// Threads side by side.
    across: usize,
    /// Threads of a row.
    height: usize,
}

/// What is read at every point, and not computed.
fn full_loads<'b>(b: &'b Body) -> impl Iterator<Item = (usize, &'b [isize], usize)> {
    b.loads().filter(|(i, ..)| b.level[*i] == Level::Full && !b.is_counted(*i))
}

/// The step of an access from a row to the next.
fn apart(b: &Body, strides: &[isize]) -> isize {
    let outer = b.dims().0.len();
    if outer == 0 { 0 } else { strides[outer - 1] }
}

/// How a loop's rows are spread; `None` for a loop whose rows lie along memory.
fn spread(b: &Body) -> Option<Spread> {
    let (outer, inner) = b.dims();
    let (rows, columns) = (b.l.rows(), b.l.columns());
    let last = *outer.last()?;
    if b.reductions().next().is_some() || must_hold(b, &phases(b)) || full_loads(b).next().is_none() {
        return None;
    }
    let along = |s: &[isize]| s[outer.len()..].last().copied().unwrap_or(0);
    let is_across = |s: &[isize]| apart(b, s) == 1 && along(s) != 1;
    // A window of an image: its rows are short, and the next window begins a few elements further.
    let is_window = |s: &[isize]| (1..=if inner.len() > 1 { 8 } else { 4 }).contains(&apart(b, s));
    if columns <= SHORT && rows >= 1 << 14 && full_loads(b).all(|(_, s, _)| is_across(s) || is_window(s)) {
        return Some(Spread { width: 1, across: THREADS, height: 1 });
    }
    if last < 8 || columns < 8 || !full_loads(b).all(|(_, s, _)| is_across(s) || apart(b, s) == 0 && along(s) != 1) {
        return None;
    }
    if !full_loads(b).any(|(_, s, _)| is_across(s)) {
        return None;
    }
    let across = last.next_power_of_two().min(ACROSS);
    let is_counted = b.loads().any(|(i, ..)| b.is_counted(i));
    let size = full_loads(b).map(|(i, ..)| b.dtype(i).size()).max().unwrap_or(4);
    let mut width = if is_counted { 1 } else { (16 / size).clamp(1, 8) };
    let blocks = |width: usize| rows.div_ceil(width * across);
    while width > 1 && (!last.is_multiple_of(width) || blocks(width) < BLOCKS) {
        width /= 2;
    }
    let threads = if blocks(width) < BLOCKS && columns >= THREADS_FEW / across { THREADS_FEW } else { THREADS };
    let height = (threads / across).min(columns.next_power_of_two());
    Some(Spread { width, across, height })
}

/// Writes the kernel of a loop whose rows lie across memory; false for other loops.
pub fn lower(b: &Body, out: &mut Lowered) -> bool {
    let Some(s) = spread(b) else { return false };
    let mut a = Across { w: Writer::new(b), b, usable: phases(b), s, names: vec![None; b.l.steps.len()] };
    a.begin();
    let count = b.steps().map(|i| a.usable[i]).max().unwrap_or(0) + 1;
    (0..count).for_each(|phase| a.phase(phase));
    let grid = b.l.rows().div_ceil(s.width * s.across);
    out.kernels.push(a.w.finish(grid, s.across * s.height));
    true
}

struct Across<'b, 'a> {
    w: Writer<'b, 'a>,
    b: &'b Body<'a>,
    usable: Vec<usize>,
    s: Spread,
    names: Vec<Option<String>>,
}

impl Across<'_, '_> {
    /// The names of the place of a row, and of an element of it.
    fn at(&self) -> Vec<String> {
        let (outer, inner) = self.b.dims();
        let mut at = split(outer, "row", "r").1;
        at.extend(split(inner, "c", "c").1);
        at
    }

    /// The thread's rows, and what each has one of.
    fn begin(&mut self) {
        let (b, Spread { width, across, .. }) = (self.b, self.s);
        let total = b.l.rows();
        self.w.put(format!("const int x = threadIdx.x % {across}, y = threadIdx.x / {across};\n"));
        self.w.put(format!("const idx first = ((idx)blockIdx.x * {across} + x) * {width};\n"));
        // Threads beyond the last row work on it too, and store nothing.
        self.w.put(format!("const bool live = first < {total}u;\n"));
        self.w.put(format!("const idx row = live ? first : {}u;\n", total - width));
        self.w.put(split(b.dims().0, "row", "r").0 + "\n");
        let at: Vec<String> = split(b.dims().0, "row", "r").1;
        for i in b.steps().filter(|&i| b.level[i] == Level::Row && matches!(b.l.steps[i], Step::Load { .. })) {
            let Step::Load { strides, offset, .. } = &b.l.steps[i] else { continue };
            let class = Class::of(b.dtype(i)).c();
            let place = at.iter().cloned().chain(vec!["0".to_string(); b.dims().1.len()]).collect::<Vec<_>>();
            let x = b.counted(i, &place).unwrap_or_else(|| {
                let p = self.w.source(i);
                format!("get({p}[{} + v * {}])", index(strides, *offset, &place), step(apart(b, strides)))
            });
            self.w.put(format!(
                "{class} u{i}[{width}];\n#pragma unroll\nfor (int v = 0; v < {width}; v++) u{i}[v] = {x};\n"
            ));
            self.names[i] = Some(format!("u{i}[v]"));
        }
    }

    fn phase(&mut self, phase: usize) {
        let (b, width) = (self.b, self.s.width);
        for i in b.steps().filter(|&i| self.usable[i] == phase && b.level[i] == Level::Row).collect::<Vec<_>>() {
            if matches!(b.l.steps[i], Step::Scalar { .. }) {
                let text = b.compute(i, &mut self.names, "t");
                let class = Class::of(b.dtype(i)).c();
                self.w.put(format!("{class} u{i}[{width}];\n#pragma unroll\nfor (int v = 0; v < {width}; v++) {{\n"));
                self.w.put(format!("{text}u{i}[v] = t{i};\n}}\n"));
                self.names[i] = Some(format!("u{i}[v]"));
            }
        }
        self.row_stores(phase);
        let is_now =
            |i: &usize| matches!(b.l.steps[*i], Step::Reduce { after: false, .. }) && self.usable[*i] == phase + 1;
        let inner: Vec<Reduction> = b.steps().filter(is_now).filter_map(|i| b.reduction(i)).collect();
        self.walk(phase, &inner);
        self.reduce(&inner);
    }

    fn is_row_store(&self, s: &Store) -> bool {
        s.strides[self.b.dims().0.len()..].iter().all(|&k| k == 0)
    }

    /// Stores values of one number a row.
    fn row_stores(&mut self, phase: usize) {
        let b = self.b;
        let at = split(b.dims().0, "row", "r").1;
        let is_now = |s: &&&Store| self.is_row_store(s) && self.usable[s.step as usize] == phase;
        for s in b.stores.iter().filter(is_now).copied().collect::<Vec<_>>() {
            let place = index(&s.strides[..at.len()], 0, &at);
            let (p, value) = (self.w.target(s.slot), b.val(s.step as usize, &self.names).text);
            self.w.put(format!(
                "if (live && y == 0)\n#pragma unroll\nfor (int v = 0; v < {}; v++) {p}[{place} + v * {}] = put_{}({value});\n",
                self.s.width,
                step(apart(b, &s.strides)),
                b.graph.ty(s.slot).dtype
            ));
        }
    }

    /// The full values that some steps are computed from, in order.
    fn behind(&self, mut wanted: Vec<usize>) -> Vec<usize> {
        let mut seen = vec![false; self.b.l.steps.len()];
        while let Some(i) = wanted.pop() {
            if self.b.level[i] == Level::Full && !std::mem::replace(&mut seen[i], true) {
                wanted.extend(self.b.args(i));
            }
        }
        (0..seen.len()).filter(|&i| seen[i]).collect()
    }

    /// One walk over the thread's part of its rows: what the phase stores and reduces.
    fn walk(&mut self, phase: usize, inner: &[Reduction]) {
        let (b, Spread { width, height, .. }) = (self.b, self.s);
        let is_now = |s: &&&Store| !self.is_row_store(s) && self.usable[s.step as usize] == phase;
        let stores: Vec<&Store> = b.stores.iter().filter(is_now).copied().collect();
        if inner.is_empty() && stores.is_empty() {
            return;
        }
        for r in inner {
            let start = vec![r.start(); width].join(", ");
            self.w.put(format!("{} x{}[{width}] = {{{start}}};\n", r.class().c(), r.step));
        }
        let steps = self.behind(stores.iter().map(|s| s.step as usize).chain(inner.iter().map(|r| r.arg)).collect());
        let columns = b.l.columns();
        // What is stored may lie where something is read: one element after the other.
        let unroll = if stores.is_empty() || !b.in_place { AHEAD.min(columns.div_ceil(height)) } else { 1 };
        self.w.put(format!("#pragma unroll {unroll}\nfor (idx c = y; c < {columns}u; c += {height}u) {{\n"));
        self.w.put(split(b.dims().1, "c", "c").0 + "\n");
        let at = self.at();
        let mut names = self.names.clone();
        for &i in &steps {
            if matches!(b.l.steps[i], Step::Load { .. }) && !b.is_counted(i) {
                self.load(i, &at);
                names[i] = Some(format!("item(q{i}, v)"));
            }
        }
        self.w.put(format!("#pragma unroll\nfor (int v = 0; v < {width}; v++) {{\n"));
        for &i in &steps {
            if matches!(b.l.steps[i], Step::Scalar { .. }) {
                let text = b.compute(i, &mut names, "t");
                self.w.put(text);
            } else if let Some(x) = b.counted(i, &at) {
                names[i] = Some(x);
            }
        }
        for r in inner {
            let x = b.val(r.arg, &names).text;
            self.w.put(format!("x{0}[v] = {1}::of(x{0}[v], {x});\n", r.step, r.op()));
        }
        for s in stores {
            let (p, value) = (self.w.target(s.slot), b.val(s.step as usize, &names).text);
            let (dtype, by) = (b.graph.ty(s.slot).dtype, step(apart(b, &s.strides)));
            self.w.put(format!("if (live) {p}[{} + v * {by}] = put_{dtype}({value});\n", index(&s.strides, 0, &at)));
        }
        self.w.put("}\n}\n");
    }

    /// Reads an element of each of the thread's rows.
    fn load(&mut self, i: usize, at: &[String]) {
        let (b, width) = (self.b, self.s.width);
        let Step::Load { strides, offset, .. } = &b.l.steps[i] else { return };
        let (p, ty, place) = (self.w.source(i), scalar::stored(b.dtype(i)), index(strides, *offset, at));
        let outer = b.dims().0.len();
        let is_even = |n: usize| n.is_multiple_of(width);
        let others = strides.iter().enumerate().filter(|(d, _)| *d + 1 != outer);
        let is_aligned = is_even(*offset) && others.into_iter().all(|(_, s)| is_even(s.unsigned_abs()));
        self.w.put(format!("pack<{ty}, {width}> q{i};\n"));
        if apart(b, strides) == 1 && is_aligned {
            self.w.put(format!("q{i} = *(const pack<{ty}, {width}>*)({p} + ({place}));\n"));
        } else {
            let by = step(apart(b, strides));
            self.w.put(format!(
                "#pragma unroll\nfor (int v = 0; v < {width}; v++) q{i}.at[v] = {p}[{place} + v * {by}];\n"
            ));
        }
    }

    /// Combines what the threads of a row have; every thread gets the results as `u{step}`.
    fn reduce(&mut self, inner: &[Reduction]) {
        let Spread { width, across, height } = self.s;
        let wide = across * width;
        for r in inner {
            let (s, c, op) = (r.step, r.class().c(), r.op());
            self.w.put(format!("{c} u{s}[{width}];\n"));
            if height > 1 {
                self.w.put(format!(
                    "__shared__ {c} s{s}[{height}][{wide}];\n\
                     #pragma unroll\nfor (int v = 0; v < {width}; v++) s{s}[y][x * {width} + v] = x{s}[v];\n\
                     __syncthreads();\n\
                     for (int i = threadIdx.x; i < {wide}; i += {threads}) {{\n{c} sum = s{s}[0][i];\n\
                     #pragma unroll\nfor (int k = 1; k < {height}; k++) sum = {op}::of(sum, s{s}[k][i]);\n\
                     s{s}[0][i] = sum;\n}}\n__syncthreads();\n\
                     #pragma unroll\nfor (int v = 0; v < {width}; v++) x{s}[v] = s{s}[0][x * {width} + v];\n",
                    threads = across * height,
                ));
            }
            let x = partials::rounded(&format!("x{s}[v]"), r.dtype);
            self.w.put(format!("#pragma unroll\nfor (int v = 0; v < {width}; v++) u{s}[v] = {x};\n"));
            self.names[s] = Some(format!("u{s}[v]"));
        }
    }
}

/// A step as C.
fn step(by: isize) -> String {
    if by < 0 { format!("(idx){by}") } else { by.to_string() }
}
