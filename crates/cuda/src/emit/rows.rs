//! Loops whose steps use reductions of their rows: a group of threads keeps a row in registers,
//! so that softmax and the norms read it once.
//!
//! The steps fall into *phases*: what a reduction gives is used only in a later phase. Inside a
//! phase every thread walks its part of the row once. Of rows too long for that, each phase reads
//! again what it needs, which is still in the cache, and computes it again. A block that works on many
//! rows, one after the other, has them brought to shared memory.

use super::access::split;
use super::body::{Body, Level, Reduction, Writer};
use super::geometry::{Geometry, LANES_MAX};
use super::prefetch::{self, Ahead};
use super::scalar::{self, Class};
use super::{Lowered, partials};
use ir::{DType, Monoid, Slot};
use passes::{Along, Step, Store};

/// Registers of a thread that its part of the row may take.
const HELD_MAX: usize = 32;
/// Elements of a thread beyond which values are computed again rather than kept.
const KEPT_MAX: usize = 16;

/// The first generation of GPUs with clusters, and the most blocks of one.
const CLUSTERS_FROM: u32 = 9;
const CLUSTER_MAX: usize = 8;

/// Bytes that are asked for at once.
const LINE: usize = 128;

/// The phase of each step: when it is computed, and from when on it can be used.
pub fn phases(b: &Body) -> Vec<usize> {
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
fn held(b: &Body, s: &Geometry) -> usize {
    let full = b.loads().filter(|(i, ..)| b.level[*i] == Level::Full && !b.is_counted(*i));
    full.map(|(i, ..)| (s.each * s.width * b.dtype(i).size()).div_ceil(4)).sum()
}

/// True if something is written over what a later phase reads.
pub fn must_hold(b: &Body, usable: &[usize]) -> bool {
    let last = b.steps().map(|i| when(b, usable, i)).max().unwrap_or(0);
    b.in_place && b.stores.iter().any(|s| usable[s.step as usize] < last)
}

/// Writes the kernel.
pub fn lower(b: &Body, major: u32, out: &mut Lowered) {
    let reductions: Vec<Reduction> = b.reductions().map(|(r, _)| r).collect();
    let mut r = Rows::new(b, &reductions, Geometry::new(b, !reductions.is_empty()), None);
    r.stage(&reductions, major);
    r.spread(&reductions, major);
    r.phases(&reductions);
    r.end(&reductions, out);
    let Rows { w, geometry, ahead, is_long, cluster, .. } = r;
    let mut kernel = w.finish(geometry.grid, geometry.block() / cluster);
    if cluster > 1 {
        kernel.spread_over_clusters(cluster);
    }
    if let Some(ahead) = ahead {
        kernel.shared = ahead.bytes() as u32;
        if is_long {
            // One block has the multiprocessor, and all of its registers.
            kernel.hold(1);
        }
    }
    out.kernels.push(kernel);
}

/// The text of a loop of one row that every block of a larger kernel computes for itself: it stores
/// `own`, and where `is_first` holds the loop's other results.
pub fn inside<'b, 'a>(b: &'b Body<'a>, own: Slot, block: usize) -> Writer<'b, 'a> {
    let mut r = Rows::new(b, &[], Geometry::inside(b, block), Some(own));
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
    geometry: Geometry,
    /// Values are computed again in each phase.
    is_long: bool,
    /// What is read is kept.
    is_held: bool,
    names: Vec<Option<String>>,
    /// What every block stores, where all have the same row.
    own: Option<Slot>,
    /// Rows in shared memory.
    ahead: Option<Ahead>,
    /// Blocks of a row, which see each other's shared memory.
    cluster: usize,
}

/// A walk over the row: what is computed in it.
struct Walk<'r> {
    phase: usize,
    /// The full values that it needs.
    again: Vec<usize>,
    /// The elementwise steps that are its own.
    steps: Vec<usize>,
    /// Reductions of the row, and of all rows.
    inner: &'r [Reduction],
    sums: Vec<Reduction>,
    /// What is stored, and when.
    parts: [(&'static str, Vec<&'r Store>); 2],
}

impl<'b, 'a> Rows<'b, 'a> {
    fn new(b: &'b Body<'a>, reductions: &[Reduction], geometry: Geometry, own: Option<Slot>) -> Rows<'b, 'a> {
        let usable = phases(b);
        let mut crossing = crossing(b, &usable);
        let is_long = geometry.each * geometry.width > KEPT_MAX;
        if is_long {
            crossing.fill(false);
        }
        // Sums of columns are kept in registers, which only loops written out can choose among.
        let has_columns = reductions.iter().any(|r| r.along == Along::Column && !r.row);
        let is_held = !is_long || has_columns || must_hold(b, &usable) || held(b, &geometry) <= HELD_MAX;
        let names = vec![None; b.l.steps.len()];
        Rows { w: Writer::new(b), b, usable, crossing, geometry, is_long, is_held, names, own, ahead: None, cluster: 1 }
    }

    /// Decides whether rows are brought to shared memory ahead of time: where a block has many that are long,
    /// or leaves the sums of their columns.
    fn stage(&mut self, reductions: &[Reduction], major: u32) {
        let Geometry { lanes, rows, grid, .. } = self.geometry;
        let has_columns = reductions.iter().any(|r| r.along == Along::Column && !r.row);
        let is_long = self.is_long && lanes == LANES_MAX && !has_columns;
        let is_short = !self.is_long && has_columns && lanes > 32 && rows == 1;
        let grid = if is_long { prefetch::BLOCKS } else { grid };
        if (is_long || is_short) && self.b.l.rows() >= 4 * grid {
            self.ahead = Ahead::new(self.b, major, grid.div_ceil(prefetch::BLOCKS));
        }
        if self.ahead.is_some() {
            self.is_held = false;
            self.geometry.grid = grid;
            if is_short {
                self.geometry.widen(self.b.l.columns());
            }
        }
    }

    /// Gives each of the rows that a block would read several times a cluster of blocks, which keeps it in registers.
    fn spread(&mut self, reductions: &[Reduction], major: u32) {
        let Geometry { width, lanes, .. } = self.geometry;
        let (rows, vectors) = (self.b.l.rows(), self.b.l.columns() / width);
        let is_slow = self.is_long && lanes == LANES_MAX && self.ahead.is_none() && self.own.is_none();
        if major < CLUSTERS_FROM || !is_slow || !reductions.is_empty() {
            return;
        }
        let fits = |n: &usize| vectors.div_ceil(LANES_MAX * n) * width <= KEPT_MAX;
        let Some(least) = [2, 4, CLUSTER_MAX].into_iter().find(fits) else { return };
        let cluster = if rows * least < prefetch::BLOCKS { CLUSTER_MAX } else { least };
        let (lanes, each) = (LANES_MAX * cluster, vectors.div_ceil(LANES_MAX * cluster));
        let geometry = Geometry { width, lanes, each, rows: 1, grid: rows * cluster };
        let body = self.b;
        if held(body, &geometry) <= HELD_MAX {
            *self = Rows { cluster, ..Rows::new(body, reductions, geometry, None) };
        }
    }

    /// True for a load that is the same in all of a block's rows and kept for them.
    fn is_kept(&self, step: usize) -> bool {
        !self.is_long && self.ahead.is_some() && !self.b.is_counted(step) && prefetch::is_same(self.b, step)
    }
    /// Reads what all rows have in common, and what each has one of for the first of them.
    fn begin_ahead(&mut self) {
        let Some(ahead) = &self.ahead else { return };
        ahead.begin(&mut self.w, self.b, self.geometry.grid);
        let width = self.geometry.width;
        let b = self.b;
        if !self.is_long {
            for i in b.loads().map(|(i, ..)| i).filter(|&i| b.level[i] == Level::Row && !b.is_counted(i)) {
                self.w.put(format!("{} w{i};\n", Class::of(b.dtype(i)).c()));
            }
            self.w.put("{\n");
            self.numbers("(idx)blockIdx.x");
            self.w.put("}\n");
        }
        let is_kept = |&i: &usize| b.level[i] == Level::Full && self.is_kept(i);
        let kept: Vec<usize> = b.loads().map(|(i, ..)| i).filter(is_kept).collect();
        if kept.is_empty() {
            return;
        }
        for &i in &kept {
            self.w.put(format!("pack<{}, {width}> q{i}[{}];\n", scalar::stored(b.dtype(i)), self.geometry.each));
        }
        let (text, _) = split(b.dims().0, "0", "r");
        self.w.put(format!("{{\n{text}\n"));
        let at = self.open();
        kept.into_iter().for_each(|i| self.w.load(i, &at, width, "[k]"));
        self.close();
        self.w.put("}\n");
    }

    /// Reads what a row has one of, as `w{step}`.
    fn numbers(&mut self, row: &str) {
        let b = self.b;
        let (text, at) = split(b.dims().0, row, "n");
        let at = full_at(&at, b.dims().1.len(), "0");
        self.w.put(text + "\n");
        for i in b.loads().map(|(i, ..)| i).filter(|&i| b.level[i] == Level::Row && !b.is_counted(i)) {
            let x = number(&mut self.w, i, &at);
            self.w.put(format!("w{i} = {x};\n"));
        }
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
        let s = &self.geometry;
        s.each * s.lanes * s.width != self.b.l.columns()
    }
    /// True if some groups have no row.
    fn has_idle(&self) -> bool {
        !self.b.l.rows().is_multiple_of(self.geometry.rows)
    }

    /// Accumulators, the loop over rows, what is read once a row.
    fn begin(&mut self, reductions: &[Reduction]) {
        let (b, w) = (self.b, &mut self.w);
        let Geometry { width, lanes, each, rows, grid } = self.geometry;
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
        let cluster = self.cluster;
        w.put(match cluster {
            1 => format!("const int lane = threadIdx.x % {lanes}, group = threadIdx.x / {lanes};\n"),
            n => format!("const int lane = threadIdx.x + blockIdx.x % {n} * {LANES_MAX}, group = 0;\n"),
        });
        self.begin_ahead();
        let is_ahead = self.ahead.is_some() && !self.is_long;
        let w = &mut self.w;
        let total = b.l.rows();
        let start = match self.own {
            Some(_) => "0".to_string(),
            None if cluster > 1 => format!("blockIdx.x / {cluster}u"),
            None => format!("blockIdx.x * {rows}u"),
        };
        w.put(format!("for (idx first = {start}; first < {total}u; first += {}u) {{\n", grid * rows / cluster));
        let idle = !total.is_multiple_of(rows);
        if idle {
            w.put(format!("const bool live = first + group < {total}u;\n"));
            w.put(format!("const idx row = live ? first + group : {total}u - 1;\n"));
        } else {
            w.put("const idx row = first + group;\n");
        }
        if let Some(ahead) = &self.ahead {
            ahead.next(w, b, grid);
        }
        let (text, at) = split(b.dims().0, "row", "r");
        w.put(text + "\n");
        let at = full_at(&at, b.dims().1.len(), "0");
        for i in b.steps().filter(|&i| b.level[i] == Level::Row && matches!(b.l.steps[i], Step::Load { .. })) {
            let x = b.counted(i, &at).unwrap_or_else(|| if is_ahead { format!("w{i}") } else { number(w, i, &at) });
            w.put(format!("const {} u{i} = {x};\n", Class::of(b.dtype(i)).c()));
            self.names[i] = Some(format!("u{i}"));
        }
        if is_ahead {
            w.put(format!("const idx ahead = first + {grid}u;\nif (ahead < {total}u) {{\n"));
            self.numbers("ahead");
            self.w.put("}\n");
        }
        let w = &mut self.w;
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
        let Geometry { width, lanes, each, rows, grid } = self.geometry;
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
        if step >= total || loads.is_empty() || self.ahead.is_some() {
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
        let Geometry { width, lanes, each, .. } = self.geometry;
        let unroll = if self.is_held || !self.is_long { "" } else { " 4" };
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
                self.w.load(i, &at, self.geometry.width, "[k]");
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
        let width = self.geometry.width;
        let mut steps: Vec<usize> = b
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
        let used = stores.iter().map(|s| s.step as usize).chain(sums.iter().chain(inner).map(|r| r.arg));
        let again = if self.is_long {
            // What later walks need they compute themselves.
            let again = self.behind(used.collect());
            steps.retain(|i| again.contains(i));
            again
        } else {
            self.behind(used.chain(steps.iter().copied()).collect())
        };
        let pairs = self.pairs(inner).filter(|_| stores.is_empty() && sums.is_empty());
        if let Some((step, _)) = pairs {
            self.w.put(format!("unsigned w{step} = 0xff80ff80u;\n"));
        }
        let at = self.open();
        if !self.is_held {
            self.read(&again, &at);
        }
        self.w.declare_kept(&stores, width);
        let (own, others): (Vec<&Store>, Vec<&Store>) =
            stores.into_iter().partition(|s| self.own.is_none_or(|own| own == s.slot));
        let live = if self.has_idle() { "if (live) " } else { "" };
        let parts = [(live, own), (if self.own.is_some() { "if (is_first) " } else { live }, others)];
        let walk = Walk { phase, again, steps, inner, sums, parts };
        match (self.meeting(&walk, &at), pairs) {
            (None, Some((step, load))) => self.w.put(format!(
                "#pragma unroll\nfor (int v = 0; v < {}; v++) w{step} = max_pairs(w{step}, q{load}.words[v]);\n",
                width / 2
            )),
            (None, None) => self.elements(&walk, &at, None),
            (Some((step, is_here)), _) => {
                // Almost everywhere the row's number is not among the places: nothing is compared there.
                self.w.put(format!("if ({is_here}) {{\n"));
                self.elements(&walk, &at, None);
                self.w.put("} else {\n");
                self.elements(&walk, &at, Some(step));
                self.w.put("}\n");
            }
        }
        let parts = walk.parts;
        for (when, stores) in parts.iter().filter(|(_, stores)| !stores.is_empty()) {
            self.w.put(format!("{when}{{\n"));
            self.w.store_kept(stores, &at, width);
            self.w.put("}\n");
        }
        self.close();
        if let Some((step, _)) = pairs {
            self.w.put(format!("x{step} = Max::of(low_bf16(w{step}), high_bf16(w{step}));\n"));
        }
    }

    /// Reads a vector of what some steps are, where it is not kept.
    fn read(&mut self, steps: &[usize], at: &[String]) {
        let (b, width) = (self.b, self.geometry.width);
        let is_read = |i: usize| matches!(b.l.steps[i], Step::Load { .. }) && !b.is_counted(i) && !self.is_kept(i);
        for i in steps.iter().copied().filter(|&i| is_read(i)).collect::<Vec<_>>() {
            let ty = scalar::stored(b.dtype(i));
            self.w.put(format!("pack<{ty}, {width}> q{i};\n"));
            match self.ahead.as_ref().and_then(|a| a.start(i)) {
                Some(start) => {
                    let at = format!("now + {start} + c * {}", b.dtype(i).size());
                    self.w.put(format!("q{i} = *(const pack<{ty}, {width}>*)({at});\n"));
                }
                None => self.w.load(i, at, width, ""),
            }
        }
    }

    /// The only reduction of a walk and what it is of, if it is the greatest of 16-bit numbers in shared memory:
    /// they are compared two at a time.
    fn pairs(&self, inner: &[Reduction]) -> Option<(usize, usize)> {
        let (b, [r]) = (self.b, inner) else { return None };
        let load = match &b.l.steps[r.arg] {
            Step::Scalar { node, args, .. } if scalar::is_cast(&b.graph.nodes[*node as usize]) => args[0] as usize,
            _ => r.arg,
        };
        let is_there = self.ahead.as_ref().is_some_and(|a| a.start(load).is_some());
        let is_fit =
            self.is_long && r.monoid == Monoid::Max && r.dtype == DType::F32 && self.geometry.width.is_multiple_of(2);
        (is_there && is_fit && b.dtype(load) == DType::BF16).then_some((r.step, load))
    }

    /// A comparison of a walk of one number of the row with the places of a vector, and whether it is among them.
    fn meeting(&self, walk: &Walk, at: &[String]) -> Option<(usize, String)> {
        let b = self.b;
        if !self.is_long {
            return None;
        }
        walk.again.iter().chain(&walk.steps).find_map(|&i| {
            let Step::Scalar { node, args, .. } = &b.l.steps[i] else { return None };
            let [x, y] = args[..] else { return None };
            let is_place = |s: u32| {
                let Step::Load { strides, .. } = &b.l.steps[s as usize] else { return false };
                b.is_counted(s as usize) && strides.last() == Some(&1) && Class::of(b.dtype(s as usize)).is_int()
            };
            let (number, place) = if is_place(y) { (x as usize, y) } else { (y as usize, x) };
            if !scalar::is(&b.graph.nodes[*node as usize], scalar::EQUAL)
                || !is_place(place)
                || b.level[number] != Level::Row
            {
                return None;
            }
            let Step::Load { strides, offset, .. } = &b.l.steps[place as usize] else { return None };
            let first = super::access::index(strides, *offset, at);
            let number = b.val(number, &self.names).text;
            // What only looks alike is compared after all.
            Some((i, format!("(idx){number} - ({first}) < {}u", self.geometry.width)))
        })
    }

    /// An elementwise step of a walk.
    fn step(&mut self, step: usize, never: Option<usize>, names: &mut [Option<String>]) {
        if Some(step) == never {
            self.w.put(format!("const long long t{step} = 0;\n"));
            names[step] = Some(format!("t{step}"));
        } else {
            let text = self.b.compute(step, names, "t");
            self.w.put(text);
        }
    }

    /// The elements of a vector in a walk; `never`: a comparison that does not hold for any of them.
    fn elements(&mut self, walk: &Walk, at: &[String], never: Option<usize>) {
        let (b, width, phase) = (self.b, self.geometry.width, walk.phase);
        self.w.put(format!("#pragma unroll\nfor (int v = 0; v < {width}; v++) {{\n"));
        let mut names = self.names.clone();
        let k = |i: usize| if self.is_held || self.is_kept(i) { "[k]" } else { "" };
        for i in b.steps().filter(|&i| b.level[i] == Level::Full) {
            let is_load = matches!(b.l.steps[i], Step::Load { .. });
            if let Some(x) = b.counted(i, at) {
                names[i] = Some(x);
            } else if is_load && self.usable[i] <= phase {
                names[i] = Some(format!("item(q{i}{}, v)", k(i)));
            } else if self.crossing[i] && self.usable[i] < phase {
                names[i] = Some(format!("v{i}[k][v]"));
            }
        }
        let is_again = |i: &usize| matches!(b.l.steps[*i], Step::Scalar { .. }) && self.usable[*i] < phase;
        let again: Vec<usize> = walk.again.iter().copied().filter(|i| self.is_long && is_again(i)).collect();
        for i in again {
            self.step(i, never, &mut names);
        }
        for &i in &walk.steps {
            self.step(i, never, &mut names);
            if self.crossing[i] {
                self.w.put(format!("v{i}[k][v] = t{i};\n"));
            }
        }
        for r in walk.inner {
            let x = b.val(r.arg, &names).text;
            self.w.put(format!("x{0} = {1}::of(x{0}, {x});\n", r.step, r.op()));
        }
        let live = if self.has_idle() { "if (live) " } else { "" };
        for r in &walk.sums {
            let x = b.val(r.arg, &names).text;
            let to = if r.along == Along::Column { format!("a{}[k][v]", r.step) } else { format!("a{}", r.step) };
            self.w.put(format!("{live}{to} = {}::of({to}, {x});\n", r.op()));
        }
        for (when, stores) in walk.parts.iter().filter(|(_, stores)| !stores.is_empty()) {
            self.w.put(format!("{when}{{\n"));
            for s in stores {
                let value = b.val(s.step as usize, &names);
                self.w.keep(s, &value, at, width);
            }
            self.w.put("}\n");
        }
        self.w.put("}\n");
    }

    /// Combines what the threads of a row have; every thread gets the results as `u{step}`.
    fn reduce(&mut self, inner: &[Reduction]) {
        if self.cluster > 1 {
            return self.reduce_cluster(inner);
        }
        let lanes = self.geometry.lanes;
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
            let x = partials::rounded(&x, r.dtype);
            self.w.put(format!("const {} u{s} = {x};\n", r.class().c()));
            self.names[s] = Some(format!("u{s}"));
        }
    }

    /// The same where the threads are those of a cluster of blocks.
    fn reduce_cluster(&mut self, inner: &[Reduction]) {
        if inner.is_empty() {
            return;
        }
        for r in inner {
            let (s, c, op) = (r.step, r.class().c(), r.op());
            self.w.put(format!(
                "__shared__ {c} s{s}[32], b{s};\nx{s} = across<{op}, 32>(x{s});\n\
                 if (threadIdx.x % 32 == 0) s{s}[threadIdx.x / 32] = x{s};\n"
            ));
        }
        self.w.put("__syncthreads();\n");
        for r in inner {
            let (s, op) = (r.step, r.op());
            self.w.put(format!("x{s} = gather<{op}, 32>(s{s});\nif (threadIdx.x == 0) b{s} = x{s};\n"));
        }
        self.w.put("sync_cluster();\n");
        for r in inner {
            let (s, c, op) = (r.step, r.class().c(), r.op());
            let x = partials::rounded(&format!("x{s}"), r.dtype);
            self.w.put(format!(
                "x{s} = of_block(&b{s}, 0);\n\
                 #pragma unroll\nfor (int n = 1; n < {}; n++) x{s} = {op}::of(x{s}, of_block(&b{s}, n));\n\
                 const {c} u{s} = {x};\n",
                self.cluster
            ));
            self.names[s] = Some(format!("u{s}"));
        }
    }

    /// Ends the loop over rows and leaves what was combined over all of them.
    fn end(&mut self, reductions: &[Reduction], out: &mut Lowered) {
        let Geometry { width, lanes, each, rows, grid } = self.geometry;
        let block = self.geometry.block();
        let (b, columns) = (self.b, self.b.l.columns());
        if self.cluster > 1 {
            self.w.put("leave_cluster();\n");
        } else if lanes > 32 && grid < b.l.rows() {
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
                (partials::partial(&mut self.w, &r, slot, 1, grid, columns, out), "sum".to_string())
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
        partials::blocks(&mut self.w, b, &whole, grid, block, out);
    }
}

/// One number that is read.
fn number(w: &mut Writer, step: usize, at: &[String]) -> String {
    let Step::Load { strides, offset, .. } = &w.body.l.steps[step] else { unreachable!("a load") };
    format!("get({}[{}])", w.source(step), super::access::index(strides, *offset, at))
}

/// Names for every dimension: the outer ones, and one name for all inner ones.
fn full_at(outer: &[String], inner: usize, name: &str) -> Vec<String> {
    outer.iter().cloned().chain(std::iter::repeat_n(name.to_string(), inner)).collect()
}
