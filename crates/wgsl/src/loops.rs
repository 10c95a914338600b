//! Loops as WGSL.
//!
//! | what a loop has | kernels |
//! |---|---|
//! | no reductions | a thread for each point |
//! | reductions along rows | a workgroup (short rows: a thread) for each row; it walks the row once for each reduction that depends on another, and computes again what it needs |
//! | reductions over rows, or over everything | the rows' reductions to scratch space; partial results; their combination; then what is stored for each point |
//!
//! Nothing is stored for a point before every reduction is done, so that a result may lie where an operand does.

use crate::element::{self, Class, Val, cast, constant, round, truth, wrap};
use crate::expression::{combined, write};
use crate::kernel::{Arg, Kernel, Text, has, index, split};
use ir::{DType, FlatNode, Graph, Meaning, Monoid, Out};
use passes::{Along, Loop, Step, Store};

/// Threads of a workgroup that reduces.
const THREADS: usize = 256;
/// Rows up to this length have one thread each.
const SHORT: usize = 32;
/// The most partial results of a reduction over everything.
const PARTIALS: usize = 256;
/// Threads that keep a device busy.
const BUSY: usize = 1 << 14;

/// The kernels of a loop and its scratch bytes; `None` if the device cannot compute a step.
pub fn lower(l: &Loop, graph: &Graph) -> Option<(Vec<Kernel>, usize)> {
    let mut b = Body { l, graph, scratch: 0, stats: vec![None; l.steps.len()] };
    for i in 0..l.steps.len() {
        Class::of(b.dtype(i))?;
    }
    if l.dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).is_none_or(|n| n >= 1 << 31) {
        return None;
    }
    let kernels = b.kernels()?;
    Some((kernels, b.scratch))
}

struct Body<'a> {
    l: &'a Loop,
    graph: &'a Graph,
    scratch: usize,
    /// Of row reductions: where their results lie in scratch space, for the kernels after the first.
    stats: Vec<Option<usize>>,
}

/// A reduction.
#[derive(Clone, Copy)]
struct Reduction {
    step: usize,
    arg: usize,
    monoid: Monoid,
    class: Class,
    dtype: DType,
}

impl Reduction {
    fn start(&self) -> String {
        let [least, greatest] = self.class.limits();
        match self.monoid {
            Monoid::Sum => self.class.int(0),
            Monoid::Prod => self.class.int(1),
            Monoid::Max => least,
            Monoid::Min => greatest,
        }
    }
    fn of(&self, a: &str, b: &str) -> String {
        combine(self.class, self.monoid, a, b)
    }
    /// The result as its type holds it.
    fn rounded(&self, text: &str) -> String {
        if self.class == Class::F32 {
            round(text.to_string(), self.dtype)
        } else {
            narrow(text, self.class, self.dtype)
        }
    }
    /// Combines `x{step}` of all lanes in `s{step}`; each has the result as `u{step}`.
    fn gather(&self, block: usize) -> String {
        let s = self.step;
        format!(
            "s{s}[lane] = x{s};\nworkgroupBarrier();\n\
             for (var d = {}u; d > 0u; d = d >> 1u) {{\n\
             if (lane < d) {{ s{s}[lane] = {}; }}\nworkgroupBarrier();\n}}\n\
             let u{s} = {};\nworkgroupBarrier();\n",
            block / 2,
            self.of(&format!("s{s}[lane]"), &format!("s{s}[lane + d]")),
            self.rounded(&format!("s{s}[0]")),
        )
    }
    fn shared(&self, block: usize) -> String {
        format!("var<workgroup> s{}: array<{}, {block}>;\n", self.step, self.class.ty())
    }
}

/// Two values of a monoid.
pub fn combine(class: Class, monoid: Monoid, a: &str, b: &str) -> String {
    match monoid {
        Monoid::Sum => combined(class, "+", a, b),
        Monoid::Prod => combined(class, "*", a, b),
        Monoid::Max => format!("fmax_nan_{}({a}, {b})", class.suffix()),
        Monoid::Min => format!("fmin_nan_{}({a}, {b})", class.suffix()),
    }
}

fn narrow(text: &str, class: Class, to: DType) -> String {
    if class == Class::I32 { wrap(text, to) } else { text.to_string() }
}

/// The value of an elementwise node; `None` if the device lacks a function of it.
pub fn apply(n: &FlatNode, args: &[Val]) -> Option<Val> {
    let Meaning::Scalar(s) = n.op.meaning else { return None };
    let dtype = n.outs[0].dtype;
    let done = |text: String| Some(Val { text, dtype });
    if s.out == Out::Cast {
        return done(cast(&args[0], dtype)?);
    }
    if s.code == "{0}" {
        return done(args[0].text.clone());
    }
    let of = args.last().map_or(dtype, |a| a.dtype);
    let is_float = s.out == Out::Float && Class::of(of)?.is_int();
    let class = if is_float { Class::F32 } else { Class::of(of)? };
    let as_float = |a: &Val| if is_float { cast(a, DType::F32) } else { Some(a.text.clone()) };
    let texts = args.iter().map(as_float).collect::<Option<Vec<String>>>()?;
    let condition = if s.out == Out::Select { Class::of(args[0].dtype)? } else { class };
    let (text, is_truth) = write(s.code, class, condition, &texts, &has)?;
    done(match (s.out, is_truth) {
        (Out::Bool, true) => format!("select(0, 1, {text})"),
        (Out::Bool, false) => format!("select(0, 1, {})", truth(&text, class)),
        (_, true) => {
            let one = Class::of(dtype)?;
            format!("select({}, {}, {text})", one.int(0), one.int(1))
        }
        (Out::Select, false) => text,
        _ if class == Class::F32 => round(text, dtype),
        _ => narrow(&text, class, dtype),
    })
}

impl<'a> Body<'a> {
    fn dtype(&self, step: usize) -> DType {
        match &self.l.steps[step] {
            Step::Load { root, .. } => self.graph.ty(*root).dtype,
            Step::Const(c) => c.dtype(),
            Step::Scalar { node, .. } | Step::Reduce { node, .. } => self.graph.nodes[*node as usize].outs[0].dtype,
        }
    }
    fn reduction(&self, step: usize) -> Option<Reduction> {
        let Step::Reduce { arg, monoid, .. } = self.l.steps[step] else { return None };
        let dtype = self.dtype(step);
        Some(Reduction { step, arg: arg as usize, monoid, class: Class::of(dtype)?, dtype })
    }
    /// The reductions of which `wants` holds: along, of one value a row, after.
    fn reductions(&self, wants: impl Fn(Along, bool, bool) -> bool) -> Vec<Reduction> {
        let is_it = |s: &Step| matches!(s, Step::Reduce { along, row, after, .. } if wants(*along, *row, *after));
        (0..self.l.steps.len()).filter(|&i| is_it(&self.l.steps[i])).filter_map(|i| self.reduction(i)).collect()
    }
    fn args(&self, step: usize) -> Vec<usize> {
        match &self.l.steps[step] {
            Step::Scalar { args, .. } => args.iter().map(|&a| a as usize).collect(),
            Step::Reduce { arg, .. } => vec![*arg as usize],
            Step::Load { .. } | Step::Const(_) => Vec::new(),
        }
    }
    fn dims(&self) -> (&'a [usize], &'a [usize]) {
        self.l.dims.split_at(self.l.dims.len() - self.l.inner)
    }
    /// Stores of values that exist inside the loop.
    fn stores(&self) -> Vec<&'a Store> {
        let is_after = |s: &&Store| matches!(self.l.steps[s.step as usize], Step::Reduce { after: true, .. });
        self.l.stores.iter().filter(|s| !is_after(s)).collect()
    }
    /// True if a store keeps one number a row.
    fn is_row_store(&self, s: &Store) -> bool {
        s.strides[self.dims().0.len()..].iter().all(|&k| k == 0)
    }
    fn reserve(&mut self, bytes: usize) -> usize {
        let at = self.scratch;
        self.scratch += bytes.next_multiple_of(passes::ALIGN);
        at
    }
    /// Stores what a reduction after the loop has left at a place of its result.
    fn put(&self, t: &mut Text, r: &Reduction, i: &str, value: &str) -> String {
        let stores = self.l.stores.iter().filter(|s| s.step as usize == r.step);
        stores.map(|s| t.param(Arg::Value(s.slot), self.graph.ty(s.slot).dtype, s.offset, true).put(i, value)).collect()
    }

    fn kernels(&mut self) -> Option<Vec<Kernel>> {
        let along_rows = self.reductions(|along, row, _| along == Along::Row && !row);
        let all: Vec<Reduction> = self.reductions(|along, row, _| along == Along::All || row);
        let columns = self.reductions(|along, row, _| along == Along::Column && !row);
        // A value of a row, reduced along the row, would be a product; no plan has one.
        if all.iter().chain(&columns).any(|r| matches!(self.l.steps[r.step], Step::Reduce { after: false, .. }))
            || !self.reductions(|along, row, _| along == Along::Row && row).is_empty()
        {
            return None;
        }
        if all.is_empty() && columns.is_empty() {
            return if along_rows.is_empty() { self.points() } else { self.rows(&along_rows, true) };
        }
        let mut kernels = Vec::new();
        if !along_rows.is_empty() {
            for r in self.reductions(|along, row, after| along == Along::Row && !row && !after) {
                let bytes = self.l.rows() * r.class.dtype().size();
                self.stats[r.step] = Some(self.reserve(bytes));
            }
            kernels.extend(self.rows(&along_rows, false)?);
        }
        for r in &columns {
            kernels.extend(self.column(r)?);
        }
        for r in &all {
            kernels.extend(self.all(r)?);
        }
        if !self.stores().is_empty() {
            kernels.extend(self.points()?);
        }
        Some(kernels)
    }

    /// The statements that compute the wanted steps at a place, and their values. `given` has names of reductions;
    /// others are read from scratch space.
    fn steps(
        &self,
        t: &mut Text,
        wanted: &[usize],
        at: &[String],
        given: &[usize],
    ) -> Option<(String, Vec<Option<Val>>)> {
        let mut need = vec![false; self.l.steps.len()];
        let mut open = wanted.to_vec();
        while let Some(i) = open.pop() {
            if !std::mem::replace(&mut need[i], true) && !matches!(self.l.steps[i], Step::Reduce { .. }) {
                open.extend(self.args(i));
            }
        }
        let mut vals: Vec<Option<Val>> = vec![None; self.l.steps.len()];
        let mut text = String::new();
        for i in (0..need.len()).filter(|&i| need[i]) {
            let dtype = self.dtype(i);
            let class = Class::of(dtype)?;
            let value = match &self.l.steps[i] {
                Step::Load { root, strides, offset } => {
                    t.param(Arg::Value(*root), dtype, 0, false).at(&index(strides, *offset, at))
                }
                Step::Const(c) => {
                    vals[i] = Some(Val { text: constant(c, class), dtype });
                    continue;
                }
                Step::Scalar { node, args, .. } => {
                    let args: Vec<Val> = args.iter().map(|&a| vals[a as usize].clone()).collect::<Option<_>>()?;
                    apply(&self.graph.nodes[*node as usize], &args)?.text
                }
                Step::Reduce { .. } if given.contains(&i) => {
                    vals[i] = Some(Val { text: format!("u{i}"), dtype });
                    continue;
                }
                Step::Reduce { .. } => t.scratch(self.stats[i]?, class, false).at("row"),
            };
            text += &format!("let t{i}: {} = {value};\n", class.ty());
            vals[i] = Some(Val { text: format!("t{i}"), dtype });
        }
        Some((text, vals))
    }

    /// Statements that store values of a place.
    fn store(&self, t: &mut Text, stores: &[&Store], vals: &[Option<Val>], at: &[String]) -> Option<String> {
        let mut text = String::new();
        for s in stores {
            let p = t.param(Arg::Value(s.slot), self.graph.ty(s.slot).dtype, 0, true);
            text += &p.put(&index(&s.strides, s.offset, at), &vals[s.step as usize].as_ref()?.text);
        }
        Some(text)
    }

    /// Names for the place of row `row` and column `col`.
    fn place(&self) -> (String, String, Vec<String>) {
        let (outer, inner) = self.dims();
        let (rows, mut at) = split(outer, "row", "r");
        let (columns, names) = split(inner, "col", "c");
        at.extend(names);
        (rows, columns, at)
    }

    /// A thread for each point.
    fn points(&self) -> Option<Vec<Kernel>> {
        let mut t = Text::new();
        let (rows, columns, at) = self.place();
        let stores = self.stores();
        let wanted: Vec<usize> = stores.iter().map(|s| s.step as usize).collect();
        let (steps, vals) = self.steps(&mut t, &wanted, &at, &[])?;
        let has_rows = self.l.steps.iter().any(|s| matches!(s, Step::Reduce { .. }));
        let (once, each): (Vec<&Store>, Vec<&Store>) =
            stores.into_iter().partition(|s| has_rows && self.is_row_store(s));
        let mut body = format!("let row = i / {0}u; let col = i % {0}u;\n{rows}{columns}{steps}", self.l.columns());
        body += &self.store(&mut t, &each, &vals, &at)?;
        if !once.is_empty() {
            body += &format!("if (col == 0u) {{\n{}}}\n", self.store(&mut t, &once, &vals, &at)?);
        }
        t.each(self.l.dims.iter().product(), &body)
    }

    /// A workgroup or a thread for each row. Without stores, what later steps use goes to scratch space.
    fn rows(&self, list: &[Reduction], with_stores: bool) -> Option<Vec<Kernel>> {
        let (rows, columns) = (self.l.rows(), self.l.columns());
        let is_short = columns <= SHORT || (rows >= BUSY && columns <= 8 * SHORT);
        let block = if is_short { 1 } else { columns.next_power_of_two().min(THREADS) };
        let mut t = Text::new();
        let (row_at, col_at, at) = self.place();
        let mut body = format!("let row = {};\n{row_at}", if is_short { "i" } else { "group" });
        let first = if is_short { "0u" } else { "lane" };
        let walk = |inner: String| {
            format!("for (var col = {first}; col < {columns}u; col = col + {block}u) {{\n{col_at}{inner}}}\n")
        };
        let mut done: Vec<usize> = Vec::new();
        while done.len() < list.len() {
            // Those whose operands need no reduction that is not done yet.
            let is_ready =
                |r: &&Reduction| !done.contains(&r.step) && self.behind(r.arg).iter().all(|d| done.contains(d));
            let now: Vec<Reduction> = list.iter().filter(is_ready).copied().collect();
            if now.is_empty() {
                return None;
            }
            let wanted: Vec<usize> = now.iter().map(|r| r.arg).collect();
            let (steps, vals) = self.steps(&mut t, &wanted, &at, &done)?;
            let mut inner = steps;
            for r in &now {
                body += &format!("var x{}: {} = {};\n", r.step, r.class.ty(), r.start());
                inner += &format!("x{0} = {1};\n", r.step, r.of(&format!("x{}", r.step), &self.of(r, &vals)?));
            }
            body += &walk(inner);
            for r in &now {
                if is_short {
                    body += &format!("let u{0} = {1};\n", r.step, r.rounded(&format!("x{}", r.step)));
                } else {
                    t.before += &r.shared(block);
                    body += &r.gather(block);
                }
                done.push(r.step);
            }
        }
        let mut last = String::new();
        for r in list {
            let is_after = matches!(self.l.steps[r.step], Step::Reduce { after: true, .. });
            let name = format!("u{}", r.step);
            if is_after {
                last += &self.put(&mut t, r, "row", &name);
            } else if let Some(at) = self.stats[r.step] {
                last += &t.scratch(at, r.class, true).put("row", &name);
            }
        }
        if with_stores {
            let (once, each): (Vec<&Store>, Vec<&Store>) =
                self.stores().into_iter().partition(|s| self.is_row_store(s));
            let steps_of = |s: &[&Store]| s.iter().map(|s| s.step as usize).collect::<Vec<_>>();
            // What a row keeps is computed before points are stored, which may be what it is computed from.
            let (steps, vals) = self.steps(&mut t, &steps_of(&once), &at, &done)?;
            body += &steps;
            if !each.is_empty() {
                let (steps, vals) = self.steps(&mut t, &steps_of(&each), &at, &done)?;
                let inner = steps + &self.store(&mut t, &each, &vals, &at)?;
                // Names of the row's own steps may come again inside.
                body += &walk(inner);
            }
            last += &self.store(&mut t, &once, &vals, &at)?;
        }
        if is_short {
            return t.each(rows, &(body + &last));
        }
        t.groups(rows, block, &format!("{body}if (lane == 0u) {{\n{last}}}\n"))
    }

    /// The row reductions that a step is computed from.
    fn behind(&self, step: usize) -> Vec<usize> {
        let (mut open, mut found) = (vec![step], Vec::new());
        while let Some(i) = open.pop() {
            match self.l.steps[i] {
                Step::Reduce { .. } => found.push(i),
                _ => open.extend(self.args(i)),
            }
        }
        found
    }

    /// The operand of a reduction in its class.
    fn of(&self, r: &Reduction, vals: &[Option<Val>]) -> Option<String> {
        let x = vals[r.arg].as_ref()?;
        if Class::of(x.dtype)? == r.class { Some(x.text.clone()) } else { element::cast(x, r.class.dtype()) }
    }

    /// All rows to one: a thread for each column of a chunk of rows, then one for each column.
    fn column(&mut self, r: &Reduction) -> Option<Vec<Kernel>> {
        let (rows, columns) = (self.l.rows(), self.l.columns());
        let chunks = (BUSY / columns).clamp(1, rows.div_ceil(16).max(1));
        let each = rows.div_ceil(chunks);
        let chunks = rows.div_ceil(each);
        let mut t = Text::new();
        let (row_at, col_at, at) = self.place();
        let (steps, vals) = self.steps(&mut t, &[r.arg], &at, &[])?;
        let mut body = format!(
            "let col = i % {columns}u; let chunk = i / {columns}u;\n{col_at}var x: {} = {};\n\
             for (var row = chunk * {each}u; row < min({rows}u, (chunk + 1u) * {each}u); row = row + 1u) {{\n\
             {row_at}{steps}x = {};\n}}\n",
            r.class.ty(),
            r.start(),
            r.of("x", &self.of(r, &vals)?)
        );
        if chunks == 1 {
            body += &format!("let y = {};\n", r.rounded("x"));
            body += &self.put(&mut t, r, "col", "y");
            return t.each(columns, &body);
        }
        let scratch = self.reserve(chunks * columns * r.class.dtype().size());
        body += &t.scratch(scratch, r.class, true).put("i", "x");
        let mut kernels = t.each(columns * chunks, &body)?;
        let mut t = Text::new();
        let part = t.scratch(scratch, r.class, false).at(&format!("c * {columns}u + i"));
        let mut body = format!(
            "var x: {} = {};\nfor (var c = 0u; c < {chunks}u; c = c + 1u) {{ x = {}; }}\nlet y = {};\n",
            r.class.ty(),
            r.start(),
            r.of("x", &part),
            r.rounded("x")
        );
        body += &self.put(&mut t, r, "i", "y");
        kernels.extend(t.each(columns, &body)?);
        Some(kernels)
    }

    /// Everything to one value: workgroups leave partial results, one combines them.
    fn all(&mut self, r: &Reduction) -> Option<Vec<Kernel>> {
        let is_row = matches!(self.l.steps[r.step], Step::Reduce { row: true, .. });
        let columns = if is_row { 1 } else { self.l.columns() };
        let points = self.l.rows() * columns;
        let groups = points.div_ceil(THREADS * 8).clamp(1, PARTIALS);
        let mut t = Text::new();
        let (row_at, col_at, at) = self.place();
        let (steps, vals) = self.steps(&mut t, &[r.arg], &at, &[])?;
        let place = if is_row {
            "let row = p; let col = 0u;".to_string()
        } else {
            format!("let row = p / {columns}u; let col = p % {columns}u;")
        };
        let s = r.step;
        let mut body = format!(
            "var x{s}: {} = {};\n\
             for (var p = group * {THREADS}u + lane; p < {points}u; p = p + {}u) {{\n{place}\n{row_at}{col_at}{steps}x{s} = {};\n}}\n{}",
            r.class.ty(),
            r.start(),
            THREADS * groups,
            r.of(&format!("x{s}"), &self.of(r, &vals)?),
            r.gather(THREADS)
        );
        t.before += &r.shared(THREADS);
        if groups == 1 {
            let last = self.put(&mut t, r, "0u", &format!("u{s}"));
            body += &format!("if (lane == 0u) {{\n{last}}}\n");
            return t.groups(1, THREADS, &body);
        }
        let scratch = self.reserve(groups * r.class.dtype().size());
        // Partial results are not rounded.
        let part = t.scratch(scratch, r.class, true).put("group", &format!("s{s}[0]"));
        body += &format!("if (lane == 0u) {{\n{part}}}\n");
        let mut kernels = t.groups(groups, THREADS, &body)?;
        let mut t = Text::new();
        let part = t.scratch(scratch, r.class, false).at("p");
        let mut body = format!(
            "var x{s}: {} = {};\nfor (var p = lane; p < {groups}u; p = p + {THREADS}u) {{ x{s} = {}; }}\n{}",
            r.class.ty(),
            r.start(),
            r.of(&format!("x{s}"), &part),
            r.gather(THREADS)
        );
        t.before += &r.shared(THREADS);
        let last = self.put(&mut t, r, "0u", &format!("u{s}"));
        body += &format!("if (lane == 0u) {{\n{last}}}\n");
        kernels.extend(t.groups(1, THREADS, &body)?);
        Some(kernels)
    }
}
