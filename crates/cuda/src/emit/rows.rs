//! Loops whose steps use reductions of their rows: a group of threads keeps a row in registers,
//! so that softmax and the norms read it once.
//!
//! The steps fall into *phases*: what a reduction gives is used only in a later phase. Inside a
//! phase every thread walks its part of the row once. Of rows too long for that, each phase reads
//! again what it needs, which is still in the cache, and computes it again; where two such rows fit
//! into shared memory, a block works on one there while the next is on its way.

use super::access::split;
use super::body::{Body, Level, Reduction, Writer};
use super::scalar::{self, Class};
use super::{Lowered, PARTIALS_MAX, finish};
use ir::{Shape, Slot};
use passes::{Along, Step, Store};

/// Threads of a block that handles several rows.
const BLOCK: usize = 256;
/// Threads of a row at most.
const LANES_MAX: usize = 1024;
/// Vectors of a row that a thread should have, and rows that do not keep the device busy.
const EACH: usize = 4;
const ROWS_FEW: usize = 256;
/// Registers of a thread that its part of the row may take.
const HELD_MAX: usize = 32;
/// Elements of a thread beyond which values are computed again rather than kept.
const KEPT_MAX: usize = 16;

/// Bytes that are asked for at once.
const LINE: usize = 128;

/// Shared memory for the rows that a block reads, the one it is busy with and the next; the first
/// generation of GPUs that has so much and brings it there by itself; blocks that run at once then.
const STAGED_MAX: usize = 224 << 10;
const STAGED_FROM: u32 = 9;
const STAGED_BLOCKS: usize = 132;

/// How a row is spread over threads.
struct Spread {
    /// Elements side by side in a thread.
    width: usize,
    /// Threads a row has.
    lanes: usize,
    /// Vectors a thread has.
    each: usize,
    /// Rows a block handles at once.
    rows: usize,
    /// Blocks.
    grid: usize,
}

impl Spread {
    fn new(b: &Body, is_partial: bool) -> Spread {
        let mut width = b.width();
        // Short rows: a thread each rather than a vector each.
        while width > 1 && b.l.columns() / width < 8 {
            width /= 2;
        }
        let vectors = b.l.columns() / width;
        // Few rows leave threads idle: they get more of them.
        let each = if b.l.rows() <= ROWS_FEW { 1 } else { EACH };
        let lanes = if vectors <= 32 * each {
            vectors.next_power_of_two().min(32)
        } else {
            vectors.div_ceil(each).next_multiple_of(32).min(LANES_MAX)
        };
        let each = vectors.div_ceil(lanes);
        // What is small is reduced by one block: another launch takes longer.
        let is_small = is_partial && lanes <= 32 && each * width <= 4 && b.l.rows() * b.l.columns() <= super::SMALL;
        let rows = match lanes {
            _ if is_small => (1024 / lanes).min(b.l.rows().next_power_of_two().max(32 / lanes)),
            1..=32 => BLOCK / lanes,
            _ => 1,
        };
        let blocks = b.l.rows().div_ceil(rows);
        let grid = if is_small { 1 } else { blocks.min(if is_partial { PARTIALS_MAX } else { usize::MAX }) };
        Spread { width, lanes, each, rows, grid }
    }
    /// One row that every block of so many threads has.
    fn inside(b: &Body, block: usize) -> Spread {
        let columns = b.l.columns();
        let mut width = 8;
        while width > 1 && (!columns.is_multiple_of(width) || columns / width < block / 2) {
            width /= 2;
        }
        Spread { width, lanes: block, each: (columns / width).div_ceil(block), rows: 1, grid: 1 }
    }
    fn block(&self) -> usize {
        self.lanes * self.rows
    }
}

/// The phase of each step: when it is computed, and from when on it can be used.
fn phases(b: &Body) -> Vec<usize> {
    let mut usable = vec![0; b.l.steps.len()];
    for i in b.steps() {
        let from = b.args(i).iter().map(|&a| usable[a]).max().unwrap_or(0);
        usable[i] = from + usize::from(matches!(b.l.steps[i], Step::Reduce { after: false, .. }));
    }
    // A load is read when it is first used, unless its memory may be written meanwhile.
    for (i, ..) in b.loads() {
        let users = b.steps().filter(|&u| b.args(u).contains(&i)).map(|u| when(b, &usable, u));
        let stored = b.stores.iter().any(|s| s.step as usize == i);
        usable[i] = if b.in_place || stored { 0 } else { users.min().unwrap_or(0) };
    }
    usable
}

/// The phase in which a step is computed.
fn when(b: &Body, usable: &[usize], step: usize) -> usize {
    usable[step] - usize::from(matches!(b.l.steps[step], Step::Reduce { after: false, .. }))
}

/// Full values that a later phase uses.
fn crossing(b: &Body, usable: &[usize]) -> Vec<bool> {
    let mut out = vec![false; b.l.steps.len()];
    for u in b.steps() {
        for a in b.args(u) {
            out[a] |= b.level[a] == Level::Full && when(b, usable, u) > usable[a];
        }
    }
    out
}

/// Registers that a thread's part of what is read takes.
fn held(b: &Body, s: &Spread) -> usize {
    let full = b.loads().filter(|(i, ..)| b.level[*i] == Level::Full && !b.is_counted(*i));
    full.map(|(i, ..)| (s.each * s.width * b.dtype(i).size()).div_ceil(4)).sum()
}

/// True if something is written over what a later phase reads.
fn must_hold(b: &Body, usable: &[usize]) -> bool {
    let last = b.steps().map(|i| when(b, usable, i)).max().unwrap_or(0);
    b.in_place && b.stores.iter().any(|s| usable[s.step as usize] < last)
}

/// Writes the kernel.
pub fn lower(b: &Body, major: u32, out: &mut Lowered) {
    let reductions: Vec<Reduction> = b.reductions().map(|(r, _)| r).collect();
    let mut r = Rows::new(b, &reductions, Spread::new(b, !reductions.is_empty()), None);
    r.stage(&reductions, major);
    r.phases(&reductions);
    r.end(&reductions, out);
    let Rows { w, spread, staged, .. } = r;
    let mut kernel = w.finish(spread.grid, spread.block());
    if let Some(last) = staged.last() {
        kernel.shared = 2 * last.end as u32;
        // One block has the multiprocessor, and all of its registers.
        kernel.hold(1);
    }
    out.kernels.push(kernel);
}

/// The text of a loop of one row that every block of a larger kernel computes for itself: it stores
/// `own`, and where `is_first` holds the loop's other results.
pub fn inside<'b, 'a>(b: &'b Body<'a>, own: Slot, block: usize) -> Writer<'b, 'a> {
    let mut r = Rows::new(b, &[], Spread::inside(b, block), Some(own));
    r.w.put(format!("typedef {} idx;\n", b.idx()));
    r.phases(&[]);
    r.w.put("}\n");
    r.w
}

struct Rows<'b, 'a> {
    w: Writer<'b, 'a>,
    b: &'b Body<'a>,
    usable: Vec<usize>,
    crossing: Vec<bool>,
    spread: Spread,
    /// Values are computed again in each phase.
    is_long: bool,
    /// What is read is kept.
    is_held: bool,
    names: Vec<Option<String>>,
    /// What every block stores, where all have the same row.
    own: Option<Slot>,
    /// Loads whose rows lie in shared memory.
    staged: Vec<Staged>,
}

/// A load whose rows lie in shared memory, in these bytes of each of two parts.
struct Staged {
    step: usize,
    start: usize,
    end: usize,
}

impl<'b, 'a> Rows<'b, 'a> {
    fn new(b: &'b Body<'a>, reductions: &[Reduction], spread: Spread, own: Option<Slot>) -> Rows<'b, 'a> {
        let usable = phases(b);
        let mut crossing = crossing(b, &usable);
        let is_long = spread.each * spread.width > KEPT_MAX;
        if is_long {
            crossing.fill(false);
        }
        // Sums of columns are kept in registers, which only loops written out can choose among.
        let has_columns = reductions.iter().any(|r| r.along == Along::Column && !r.row);
        let is_held = !is_long || has_columns || must_hold(b, &usable) || held(b, &spread) <= HELD_MAX;
        let names = vec![None; b.l.steps.len()];
        Rows { w: Writer::new(b), b, usable, crossing, spread, is_long, is_held, names, own, staged: Vec::new() }
    }

    /// Decides whether rows are brought to shared memory ahead of time.
    fn stage(&mut self, reductions: &[Reduction], major: u32) {
        let (b, spread) = (self.b, &self.spread);
        let has_columns = reductions.iter().any(|r| r.along == Along::Column && !r.row);
        let is_fit = self.is_long && spread.lanes == LANES_MAX && b.l.rows() >= 4 * STAGED_BLOCKS && !has_columns;
        if major < STAGED_FROM || !is_fit {
            return;
        }
        let (outer, inner) = b.dims();
        let whole = Shape::new(inner).strides();
        let mut end = 0;
        let mut staged = Vec::new();
        for (step, strides, offset) in b.loads().filter(|(i, ..)| b.level[*i] == Level::Full && !b.is_counted(*i)) {
            let size = b.dtype(step).size();
            let is_whole = |n: usize| (n * size).is_multiple_of(16);
            let is_line = strides[outer.len()..].iter().zip(&whole).all(|(a, b)| a == b);
            let is_apart = strides[..outer.len()].iter().all(|&s| s > 0 && is_whole(s.unsigned_abs()));
            if !is_line || !is_apart || !is_whole(offset) || !is_whole(b.l.columns()) {
                return;
            }
            let start = end;
            end += b.l.columns() * size;
            staged.push(Staged { step, start, end });
        }
        if 2 * end <= STAGED_MAX && end > 0 {
            self.staged = staged;
            self.is_held = false;
            self.spread.grid = STAGED_BLOCKS;
        }
    }

    /// Brings the block's first rows to shared memory.
    fn begin_staged(&mut self) {
        let Some(bytes) = self.staged.last().map(|s| s.end) else { return };
        let (b, outer) = (self.b, self.b.dims().0);
        let (text, at) = split(outer, "row", "r");
        let mut copies = String::new();
        for s in &self.staged {
            let Step::Load { strides, offset, .. } = &b.l.steps[s.step] else { continue };
            let (p, index) = (self.w.source(s.step), super::access::index(&strides[..outer.len()], *offset, &at));
            let (start, size) = (s.start, s.end - s.start);
            copies += &format!("bring(staged + part * {bytes} + {start}, {p} + ({index}), {size}, &ready[part]);\n");
        }
        self.w.put(format!(
            "extern __shared__ __align__(128) char staged[];\n__shared__ unsigned long long ready[2];\n\
             const auto stage = [&](idx row, int part) {{\n{text}\nbarrier_expect(&ready[part], {bytes});\n{copies}}};\n\
             if (threadIdx.x == 0) {{\nbarrier_begin(&ready[0]);\nbarrier_begin(&ready[1]);\nstage(blockIdx.x, 0);\n}}\n\
             __syncthreads();\nint turn = 0;\n"
        ));
    }

    /// Waits for the row, having asked for the next one.
    fn next_staged(&mut self) {
        let (Some(bytes), step) = (self.staged.last().map(|s| s.end), self.spread.grid) else { return };
        let total = self.b.l.rows();
        self.w.put(format!(
            "if (threadIdx.x == 0 && first + {step}u < {total}u) stage(first + {step}u, 1 - turn % 2);\n\
             barrier_wait(&ready[turn % 2], turn / 2 % 2);\n\
             const char* now = staged + turn % 2 * {bytes};\nturn++;\n"
        ));
    }

    /// Everything but the end of the loop over rows.
    fn phases(&mut self, reductions: &[Reduction]) {
        self.begin(reductions);
        let phases = self.b.steps().map(|i| self.usable[i]).max().unwrap_or(0) + 1;
        for phase in 0..phases {
            self.phase(phase, reductions);
        }
    }

    /// True if some threads have no vector at the end of a row.
    fn is_ragged(&self) -> bool {
        let s = &self.spread;
        s.each * s.lanes * s.width != self.b.l.columns()
    }
    /// True if some groups have no row.
    fn has_idle(&self) -> bool {
        !self.b.l.rows().is_multiple_of(self.spread.rows)
    }

    /// Accumulators, the loop over rows, what is read once a row.
    fn begin(&mut self, reductions: &[Reduction]) {
        let (b, w) = (self.b, &mut self.w);
        let Spread { width, lanes, each, rows, grid } = self.spread;
        for r in reductions {
            if r.along == Along::Column && !r.row {
                w.put(format!("{} a{}[{each}][{width}];\n", r.class().c(), r.step));
                w.put(format!(
                    "#pragma unroll\nfor (int i = 0; i < {}; i++) (&a{}[0][0])[i] = {};\n",
                    each * width,
                    r.step,
                    r.start()
                ));
            } else {
                w.accumulator(r);
            }
        }
        w.put(format!("const int lane = threadIdx.x % {lanes}, group = threadIdx.x / {lanes};\n"));
        self.begin_staged();
        let w = &mut self.w;
        let total = b.l.rows();
        let start = if self.own.is_some() { "0".to_string() } else { format!("blockIdx.x * {rows}u") };
        w.put(format!("for (idx first = {start}; first < {total}u; first += {}u) {{\n", grid * rows));
        let idle = !total.is_multiple_of(rows);
        if idle {
            w.put(format!("const bool live = first + group < {total}u;\n"));
            w.put(format!("const idx row = live ? first + group : {total}u - 1;\n"));
        } else {
            w.put("const idx row = first + group;\n");
        }
        self.next_staged();
        let w = &mut self.w;
        let (text, at) = split(b.dims().0, "row", "r");
        w.put(text + "\n");
        let at = full_at(&at, b.dims().1.len(), "0");
        for i in b.steps().filter(|&i| b.level[i] == Level::Row) {
            let Step::Load { strides, offset, .. } = &b.l.steps[i] else { continue };
            let x = b.counted(i, &at).unwrap_or_else(|| {
                let p = w.source(i);
                format!("get({p}[{}])", super::access::index(strides, *offset, &at))
            });
            w.put(format!("const {} u{i} = {x};\n", Class::of(b.dtype(i)).c()));
            self.names[i] = Some(format!("u{i}"));
        }
        for i in b.steps().filter(|&i| b.level[i] == Level::Full) {
            if matches!(b.l.steps[i], Step::Load { .. }) {
                if self.is_held && !b.is_counted(i) {
                    w.put(format!("pack<{}, {width}> q{i}[{each}];\n", scalar::stored(b.dtype(i))));
                }
            } else if self.crossing[i] {
                w.put(format!("{} v{i}[{each}][{width}];\n", Class::of(b.dtype(i)).c()));
            }
        }
    }

    /// Asks for what the block's next rows read, while it is busy with these.
    fn ask_ahead(&mut self) {
        let Spread { width, lanes, each, rows, grid } = self.spread;
        let (b, total, step) = (self.b, self.b.l.rows(), grid * rows);
        let columns = b.l.columns();
        let is_line = |i: &usize| match &b.l.steps[*i] {
            Step::Load { strides, offset, .. } => {
                let outer = b.dims().0.len();
                let is_far = strides[..outer].iter().any(|&s| s != 0);
                is_far && !b.is_counted(*i) && super::access::how(strides, *offset, width) == super::access::How::Vector
            }
            _ => false,
        };
        let loads: Vec<usize> = b.steps().filter(|i| b.level[*i] == Level::Full).filter(is_line).collect();
        if step >= total || loads.is_empty() || !self.staged.is_empty() {
            return;
        }
        self.w.put(format!("const idx ahead = first + group + {step}u;\nif (ahead < {total}u) {{\n"));
        let (text, mut at) = split(b.dims().0, "ahead", "n");
        let (inner, names) = split(b.dims().1, "c", "c");
        at.extend(names);
        self.w.put(text + "\n#pragma unroll\n");
        self.w.put(format!(
            "for (int k = 0; k < {each}; k++) {{\nconst idx c = (idx)(k * {lanes} + lane) * {width};\n{inner}\n"
        ));
        for i in loads {
            let Step::Load { strides, offset, .. } = &b.l.steps[i] else { continue };
            // One thread for each line.
            let apart = (LINE / (width * b.dtype(i).size())).max(1);
            let (p, index) = (self.w.source(i), super::access::index(strides, *offset, &at));
            self.w.put(format!("if (lane % {apart} == 0 && c < {columns}u) ask_for({p} + ({index}));\n"));
        }
        self.w.put("}\n}\n");
    }

    /// Opens a loop over the thread's vectors; the names of the place in each dimension.
    fn open(&mut self) -> Vec<String> {
        let Spread { width, lanes, each, .. } = self.spread;
        let unroll = if self.is_held { "" } else { " 4" };
        self.w.put(format!("#pragma unroll{unroll}\nfor (int k = 0; k < {each}; k++) {{\n"));
        self.w.put(format!("const idx c = (idx)(k * {lanes} + lane) * {width};\n"));
        if self.is_ragged() {
            self.w.put(format!("if (c < {}u) {{\n", self.b.l.columns()));
        }
        let (text, inner) = split(self.b.dims().1, "c", "c");
        self.w.put(text + "\n");
        let (_, mut at) = split(self.b.dims().0, "row", "r");
        at.extend(inner);
        at
    }
    fn close(&mut self) {
        self.w.put(if self.is_ragged() { "}\n}\n" } else { "}\n" });
    }

    fn phase(&mut self, phase: usize, reductions: &[Reduction]) {
        let b = self.b;
        if phase == 1 {
            self.ask_ahead();
        }
        for i in b.steps().filter(|&i| self.usable[i] == phase && b.level[i] == Level::Row) {
            if matches!(b.l.steps[i], Step::Scalar { .. }) {
                let text = b.compute(i, &mut self.names, "u");
                self.w.put(text);
            }
        }
        self.row_results(phase, reductions);
        let is_now = |i: &usize| b.level[*i] == Level::Full && self.usable[*i] == phase && !b.is_counted(*i);
        let loads: Vec<usize> = b.loads().map(|(i, ..)| i).filter(is_now).collect();
        if self.is_held && !loads.is_empty() {
            let at = self.open();
            for i in loads {
                self.w.load(i, &at, self.spread.width, "[k]");
            }
            self.close();
        }
        let inner: Vec<Reduction> = b
            .steps()
            .filter(|&i| matches!(b.l.steps[i], Step::Reduce { after: false, .. }) && self.usable[i] == phase + 1)
            .filter_map(|i| b.reduction(i))
            .collect();
        self.walk(phase, &inner, reductions);
        self.reduce(&inner);
    }

    /// Values of one number a row: kept, or added to what is reduced over all rows.
    fn row_results(&mut self, phase: usize, reductions: &[Reduction]) {
        let b = self.b;
        let outer = b.dims().0.len();
        let live = if self.has_idle() { "live && " } else { "" };
        let one = if self.own.is_some() { "is_first && " } else { "" };
        let is_now = |s: &&&Store| self.is_row_store(s) && self.usable[s.step as usize] == phase;
        let stores: Vec<&Store> = b.stores.iter().filter(is_now).copied().collect();
        for s in stores {
            let (_, at) = split(b.dims().0, "row", "r");
            let index = super::access::index(&s.strides[..outer], 0, &at);
            let p = self.w.target(s.slot);
            let value = b.val(s.step as usize, &self.names).text;
            let dtype = b.graph.ty(s.slot).dtype;
            self.w.put(format!("if ({live}{one}lane == 0) {p}[{index}] = put_{dtype}({value});\n"));
        }
        for r in reductions.iter().filter(|r| r.row && self.usable[r.step] == phase) {
            let x = b.val(r.arg, &self.names).text;
            self.w.put(format!("if ({live}lane == 0) a{0} = {1}::of(a{0}, {x});\n", r.step, r.op()));
        }
    }
    /// True if a store keeps one number a row.
    fn is_row_store(&self, s: &Store) -> bool {
        let outer = self.b.dims().0.len();
        s.strides[outer..].iter().all(|&k| k == 0)
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

    /// One walk over the row: the phase's elementwise steps, stores and accumulations.
    fn walk(&mut self, phase: usize, inner: &[Reduction], reductions: &[Reduction]) {
        let b = self.b;
        let width = self.spread.width;
        let steps: Vec<usize> = b
            .steps()
            .filter(|&i| {
                matches!(b.l.steps[i], Step::Scalar { .. }) && b.level[i] == Level::Full && self.usable[i] == phase
            })
            .collect();
        let stores: Vec<&Store> = b
            .stores
            .iter()
            .copied()
            .filter(|s| !self.is_row_store(s) && self.usable[s.step as usize] == phase)
            .collect();
        let sums: Vec<Reduction> =
            reductions.iter().copied().filter(|r| !r.row && self.usable[r.step] == phase).collect();
        if steps.is_empty() && stores.is_empty() && sums.is_empty() && inner.is_empty() {
            return;
        }
        for r in inner {
            self.w.put(format!("{} x{} = {};\n", r.class().c(), r.step, r.start()));
        }
        let wanted = steps.iter().copied().chain(stores.iter().map(|s| s.step as usize));
        let wanted = wanted.chain(sums.iter().chain(inner).map(|r| r.arg)).collect();
        let again = self.behind(wanted);
        let at = self.open();
        if !self.is_held {
            for &i in again.iter().filter(|&&i| matches!(b.l.steps[i], Step::Load { .. }) && !b.is_counted(i)) {
                let ty = scalar::stored(b.dtype(i));
                self.w.put(format!("pack<{ty}, {width}> q{i};\n"));
                match self.staged.iter().find(|s| s.step == i) {
                    Some(s) => {
                        let at = format!("now + {} + c * {}", s.start, b.dtype(i).size());
                        self.w.put(format!("q{i} = *(const pack<{ty}, {width}>*)({at});\n"));
                    }
                    None => self.w.load(i, &at, width, ""),
                }
            }
        }
        self.w.declare_kept(&stores, width);
        self.w.put(format!("#pragma unroll\nfor (int v = 0; v < {width}; v++) {{\n"));
        let mut names = self.names.clone();
        let k = if self.is_held { "[k]" } else { "" };
        for i in b.steps().filter(|&i| b.level[i] == Level::Full) {
            let is_load = matches!(b.l.steps[i], Step::Load { .. });
            if let Some(x) = b.counted(i, &at) {
                names[i] = Some(x);
            } else if is_load && self.usable[i] <= phase {
                names[i] = Some(format!("get(q{i}{k}.at[v])"));
            } else if self.crossing[i] && self.usable[i] < phase {
                names[i] = Some(format!("v{i}[k][v]"));
            }
        }
        let earlier = |i: &usize| matches!(b.l.steps[*i], Step::Scalar { .. }) && self.usable[*i] < phase;
        for i in again.into_iter().filter(|i| self.is_long && earlier(i)) {
            let text = b.compute(i, &mut names, "t");
            self.w.put(text);
        }
        for &i in &steps {
            let text = b.compute(i, &mut names, "t");
            self.w.put(text);
            if self.crossing[i] {
                self.w.put(format!("v{i}[k][v] = t{i};\n"));
            }
        }
        for r in inner {
            let x = b.val(r.arg, &names).text;
            self.w.put(format!("x{0} = {1}::of(x{0}, {x});\n", r.step, r.op()));
        }
        let live = if self.has_idle() { "if (live) " } else { "" };
        for r in &sums {
            let x = b.val(r.arg, &names).text;
            let to = if r.along == Along::Column { format!("a{}[k][v]", r.step) } else { format!("a{}", r.step) };
            self.w.put(format!("{live}{to} = {}::of({to}, {x});\n", r.op()));
        }
        let (own, others): (Vec<&Store>, Vec<&Store>) =
            stores.into_iter().partition(|s| self.own.is_none_or(|own| own == s.slot));
        let parts = [(live, own), (if self.own.is_some() { "if (is_first) " } else { live }, others)];
        for (when, stores) in parts.iter().filter(|(_, stores)| !stores.is_empty()) {
            self.w.put(format!("{when}{{\n"));
            for s in stores {
                let value = b.val(s.step as usize, &names);
                self.w.keep(s, &value, &at, width);
            }
            self.w.put("}\n");
        }
        self.w.put("}\n");
        for (when, stores) in parts.iter().filter(|(_, stores)| !stores.is_empty()) {
            self.w.put(format!("{when}{{\n"));
            self.w.store_kept(stores, &at, width);
            self.w.put("}\n");
        }
        self.close();
    }

    /// Combines what the threads of a row have; every thread gets the results as `u{step}`.
    fn reduce(&mut self, inner: &[Reduction]) {
        let lanes = self.spread.lanes;
        let warps = lanes / 32;
        for r in inner {
            let (s, op) = (r.step, r.op());
            let n = lanes.min(32);
            self.w.put(format!("x{s} = across<{op}, {n}>(x{s});\n"));
            if lanes > 32 {
                self.w.put(format!("__shared__ {} s{s}[{warps}];\n", r.class().c()));
                self.w.put(format!("if (lane % 32 == 0) s{s}[lane / 32] = x{s};\n"));
            }
        }
        if lanes > 32 && !inner.is_empty() {
            self.w.put("__syncthreads();\n");
        }
        for r in inner {
            let (s, op) = (r.step, r.op());
            let x = if lanes > 32 { format!("gather<{op}, {warps}>(s{s})") } else { format!("x{s}") };
            let x = finish::rounded(&x, r.dtype);
            self.w.put(format!("const {} u{s} = {x};\n", r.class().c()));
            self.names[s] = Some(format!("u{s}"));
        }
    }

    /// Ends the loop over rows and leaves what was combined over all of them.
    fn end(&mut self, reductions: &[Reduction], out: &mut Lowered) {
        let Spread { width, lanes, each, rows, grid } = self.spread;
        let block = self.spread.block();
        let (b, columns) = (self.b, self.b.l.columns());
        if lanes > 32 && grid < b.l.rows() {
            // The next row must not write shared memory that is still being read.
            self.w.put("__syncthreads();\n");
        }
        self.w.put("}\n");
        let wide = each * lanes * width;
        let mut down: Vec<(Reduction, Slot)> =
            b.reductions().filter(|(r, _)| r.along == Along::Column && !r.row).collect();
        down.sort_by_key(|(r, _)| r.step);
        if rows > 1 && !down.is_empty() {
            let most = down.iter().map(|(r, _)| r.class().size()).max().unwrap_or(8);
            self.w.put(format!("__shared__ alignas(8) char shared[{}];\n", rows * wide * most));
        }
        for (r, slot) in down {
            let (s, c, op) = (r.step, r.class().c(), r.op());
            let (p, value) = if grid == 1 {
                (self.w.target(slot), format!("put_{}(sum)", r.dtype))
            } else {
                (finish::partial(&mut self.w, &r, slot, 1, grid, columns, out), "sum".to_string())
            };
            if rows == 1 {
                let value = value.replace("sum", &format!("a{s}[k][v]"));
                self.w.put(format!(
                    "#pragma unroll\nfor (int k = 0; k < {each}; k++)\n#pragma unroll\nfor (int v = 0; v < {width}; v++) {{\n\
                     const int at = (k * {lanes} + lane) * {width} + v;\n\
                     if (at < {columns}) {p}[(idx)blockIdx.x * {columns}u + at] = {value};\n}}\n"
                ));
                continue;
            }
            self.w.put(format!(
                "{c} (*z{s})[{wide}] = ({c} (*)[{wide}])shared;\n\
                 #pragma unroll\nfor (int k = 0; k < {each}; k++)\n#pragma unroll\nfor (int v = 0; v < {width}; v++)\n\
                 z{s}[group][(k * {lanes} + lane) * {width} + v] = a{s}[k][v];\n\
                 __syncthreads();\n\
                 for (int i = threadIdx.x; i < {columns}; i += {block}) {{\n{c} sum = z{s}[0][i];\n\
                 for (int k = 1; k < {rows}; k++) sum = {op}::of(sum, z{s}[k][i]);\n\
                 {p}[(idx)blockIdx.x * {columns}u + i] = {value};\n}}\n__syncthreads();\n"
            ));
        }
        let whole: Vec<Reduction> = reductions.iter().copied().filter(|r| r.along == Along::All || r.row).collect();
        finish::blocks(&mut self.w, b, &whole, grid, block, out);
    }
}

/// Names for every dimension: the outer ones, and one name for all inner ones.
fn full_at(outer: &[String], inner: usize, name: &str) -> Vec<String> {
    outer.iter().cloned().chain(std::iter::repeat_n(name.to_string(), inner)).collect()
}
