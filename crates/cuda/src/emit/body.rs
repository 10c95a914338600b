//! What the kernels of a loop have in common: parameters, levels, the text of steps.

use super::access::{self, How};
use super::scalar::{self, Class, Val};
use super::{Arg, Kernel};
use crate::claims::claim;
use ir::{DType, Graph, Monoid, Slot};
use passes::{Along, Loop, Step, Store};
use std::fmt::Write;

/// What a step's value varies along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Known when the kernel is written.
    Const,
    /// One number a row.
    Row,
    /// One number a point.
    Full,
}

/// A loop, or the part of it that one kernel computes.
pub struct Body<'a> {
    /// The loop.
    pub l: &'a Loop,
    /// The graph it is of.
    pub graph: &'a Graph,
    /// A result may lie where an operand does.
    pub in_place: bool,
    /// The steps that are computed.
    pub need: Vec<bool>,
    /// What each step varies along.
    pub level: Vec<Level>,
    /// Stores of values that exist inside the loop.
    pub stores: Vec<&'a Store>,
    /// Reductions whose result exists after the loop, with where it goes.
    pub after: Vec<(usize, Slot)>,
}

/// A reduction.
#[derive(Clone, Copy)]
pub struct Reduction {
    /// Which step.
    pub step: usize,
    /// The step of its operand.
    pub arg: usize,
    /// How.
    pub monoid: Monoid,
    /// Along what.
    pub along: Along,
    /// The operand is one number a row.
    pub row: bool,
    /// Its element type.
    pub dtype: DType,
}

impl Reduction {
    /// What it is computed with.
    pub fn class(&self) -> Class {
        Class::of(self.dtype)
    }
    /// The C type of its combination.
    pub fn op(&self) -> &'static str {
        match self.monoid {
            Monoid::Sum => "Sum",
            Monoid::Prod => "Prod",
            Monoid::Max => "Max",
            Monoid::Min => "Min",
        }
    }
    /// The value it starts from.
    pub fn start(&self) -> String {
        let class = self.class();
        match (self.monoid, class) {
            (Monoid::Sum, _) => scalar::float(class, 0.0),
            (Monoid::Prod, _) => scalar::float(class, 1.0),
            (Monoid::Max, Class::Int) => "(-9223372036854775807LL - 1)".to_string(),
            (Monoid::Min, Class::Int) => "9223372036854775807LL".to_string(),
            (Monoid::Max, Class::UInt) => scalar::float(class, 0.0),
            (Monoid::Min, Class::UInt) => "18446744073709551615ULL".to_string(),
            (Monoid::Max, _) => scalar::float(class, f64::NEG_INFINITY),
            (Monoid::Min, _) => scalar::float(class, f64::INFINITY),
        }
    }
}

impl<'a> Body<'a> {
    /// The part of a loop with the reductions over all of it that `wants` names, and with the
    /// plain stores if asked for.
    pub fn new(
        l: &'a Loop,
        graph: &'a Graph,
        in_place: bool,
        wants: impl Fn(Along) -> bool,
        with_stores: bool,
    ) -> Body<'a> {
        let is_after = |s: u32| matches!(l.steps[s as usize], Step::Reduce { after: true, .. });
        let stores: Vec<&Store> = l.stores.iter().filter(|s| with_stores && !is_after(s.step)).collect();
        let after: Vec<(usize, Slot)> = l
            .stores
            .iter()
            .filter(|s| matches!(l.steps[s.step as usize], Step::Reduce { after: true, along, .. } if wants(along)))
            .map(|s| (s.step as usize, s.slot))
            .collect();
        let mut need = vec![false; l.steps.len()];
        stores.iter().for_each(|s| need[s.step as usize] = true);
        after.iter().for_each(|&(s, _)| need[s] = true);
        for i in (0..l.steps.len()).rev().filter(|&i| need[i]).collect::<Vec<_>>() {
            mark(l, i, &mut need);
        }
        let mut b = Body { l, graph, in_place, need, level: Vec::new(), stores, after };
        for i in 0..l.steps.len() {
            let level = b.level_of(&l.steps[i]);
            b.level.push(level);
        }
        b
    }

    fn level_of(&self, s: &Step) -> Level {
        let outer = self.l.dims.len() - self.l.inner;
        match s {
            Step::Const(_) => Level::Const,
            Step::Load { strides, .. } if strides[outer..].iter().all(|&s| s == 0) => Level::Row,
            Step::Load { .. } => Level::Full,
            Step::Scalar { args, .. } => {
                args.iter().map(|&a| self.level[a as usize]).max().unwrap_or(Level::Row).max(Level::Row)
            }
            Step::Reduce { .. } => Level::Row,
        }
    }

    /// The element type of a step.
    pub fn dtype(&self, step: usize) -> DType {
        match &self.l.steps[step] {
            Step::Load { root, .. } => self.graph.ty(*root).dtype,
            Step::Const(c) => c.dtype(),
            Step::Scalar { node, .. } | Step::Reduce { node, .. } => self.graph.nodes[*node as usize].outs[0].dtype,
        }
    }
    /// The reduction that a step is.
    pub fn reduction(&self, step: usize) -> Option<Reduction> {
        let Step::Reduce { arg, monoid, along, row, .. } = self.l.steps[step] else { return None };
        Some(Reduction { step, arg: arg as usize, monoid, along, row, dtype: self.dtype(step) })
    }
    /// The reductions whose result exists after the loop.
    pub fn reductions(&self) -> impl Iterator<Item = (Reduction, Slot)> + '_ {
        self.after.iter().filter_map(|&(s, slot)| Some((self.reduction(s)?, slot)))
    }
    /// The steps a step uses.
    pub fn args(&self, step: usize) -> Vec<usize> {
        args(&self.l.steps[step])
    }
    /// The needed steps in order.
    pub fn steps(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.l.steps.len()).filter(|&i| self.need[i])
    }
    /// What a load gives at a place (and `v` elements further), where that can be said without
    /// memory: the numbers 0, 1, 2… are their own places.
    pub fn counted(&self, step: usize, at: &[String]) -> Option<String> {
        let Step::Load { root, strides, offset } = &self.l.steps[step] else { return None };
        if !self.is_counted(step) {
            return None;
        }
        let by = match strides.last() {
            None | Some(0) => String::new(),
            Some(&s) if s < 0 => format!(" + v * (idx){s}"),
            Some(s) => format!(" + v * {s}"),
        };
        let dtype = self.graph.ty(*root).dtype;
        let number = format!("({})(long long)({}{by})", Class::of(dtype).c(), access::index(strides, *offset, at));
        Some(super::partials::rounded(&number, dtype))
    }
    /// True for a load of the numbers 0, 1, 2….
    pub fn is_counted(&self, step: usize) -> bool {
        let Step::Load { root, .. } = self.l.steps[step] else { return false };
        claim(self.graph.node(root).op.name).is_some_and(|c| c.is_index)
    }
    /// True for a load of random bits that is computed from the draw's key, which is stored instead.
    pub fn is_drawn(&self, step: usize) -> bool {
        let Step::Load { root, .. } = self.l.steps[step] else { return false };
        claim(self.graph.node(root).op.name).is_some_and(|c| c.is_key)
    }
    /// The needed loads: step, strides, offset.
    pub fn loads(&self) -> impl Iterator<Item = (usize, &[isize], usize)> + '_ {
        self.steps().filter_map(|i| match &self.l.steps[i] {
            Step::Load { strides, offset, .. } => Some((i, strides.as_slice(), *offset)),
            _ => None,
        })
    }

    /// The sizes of the outer and of the inner dimensions.
    pub fn dims(&self) -> (&[usize], &[usize]) {
        self.l.dims.split_at(self.l.dims.len() - self.l.inner)
    }
    /// Elements a thread handles side by side.
    pub fn width(&self) -> usize {
        let is_read = |i: usize| !self.is_counted(i) && !self.is_drawn(i);
        let loads = self.loads().filter(|(i, ..)| is_read(*i)).map(|(i, s, _)| (s, self.dtype(i).size()));
        let stores = self.stores.iter().map(|s| (s.strides.as_slice(), self.graph.ty(s.slot).dtype.size()));
        access::width(self.l, &loads.chain(stores).collect::<Vec<_>>())
    }
    /// The type of positions: 32 bits where they suffice.
    pub fn idx(&self) -> &'static str {
        let mut most: usize = self.l.dims.iter().product();
        for (_, strides, offset) in self.loads() {
            let span: usize = strides.iter().zip(&self.l.dims).map(|(s, d)| s.unsigned_abs() * (d - 1)).sum();
            most = most.max(offset + span);
        }
        if most < i32::MAX as usize { "unsigned" } else { "unsigned long long" }
    }

    /// The value of a constant or of what is named so far.
    pub fn val(&self, step: usize, names: &[Option<String>]) -> Val {
        match &self.l.steps[step] {
            Step::Const(c) => scalar::constant(c),
            _ => {
                let text = names[step].clone().expect("a step is named before it is used");
                Val { text, dtype: self.dtype(step), number: None }
            }
        }
    }
    /// True for the quotient of each element of a row by a number that was reduced from the row.
    fn is_by_row(&self, n: &ir::FlatNode, args: &[u32]) -> bool {
        let is_reduced = |i: usize| !matches!(self.l.steps[i], Step::Load { .. }) && self.level[i] == Level::Row;
        let has_rows = || self.l.steps.iter().any(|s| matches!(s, Step::Reduce { after: false, .. }));
        let [x, by] = [0, 1].map(|i| args.get(i).map_or(0, |&a| a as usize));
        scalar::is(n, scalar::DIV) && self.level[x] == Level::Full && is_reduced(by) && has_rows()
    }
    /// A row's elements and the greatest of them, where the step is their difference.
    fn below_max(&self, step: usize) -> Option<[usize; 2]> {
        let Step::Scalar { node, args, .. } = &self.l.steps[step] else { return None };
        let [x, m] = args[..] else { return None };
        let of = |s: &Step| if let Step::Reduce { arg, monoid: Monoid::Max, .. } = s { Some(*arg) } else { None };
        let is_so =
            scalar::is(&self.graph.nodes[*node as usize], scalar::SUB) && of(&self.l.steps[m as usize]) == Some(x);
        (is_so && self.dtype(step) == DType::F32).then_some([x as usize, m as usize])
    }
    /// True if the elements of a value are computed from 16-bit floats.
    fn is_of_halves(&self, step: usize) -> bool {
        match &self.l.steps[step] {
            Step::Load { .. } => self.level[step] < Level::Full || matches!(self.dtype(step), DType::BF16 | DType::F16),
            Step::Const(_) | Step::Reduce { .. } => true,
            Step::Scalar { args, .. } => args.iter().all(|&a| self.is_of_halves(a as usize)),
        }
    }
    /// The statement that computes an elementwise step under a name of its own.
    pub fn compute(&self, step: usize, names: &mut [Option<String>], prefix: &str) -> String {
        let Step::Scalar { node, args, .. } = &self.l.steps[step] else { unreachable!("an elementwise step") };
        let vals: Vec<Val> = args.iter().map(|&a| self.val(a as usize, names)).collect();
        let n = &self.graph.nodes[*node as usize];
        let v = match vals.as_slice() {
            [x, by] if self.is_by_row(n, args) => scalar::quotient(n, x, by),
            [x] if self.is_of_halves(args[0] as usize) => {
                scalar::of_halves(n, x, self.below_max(args[0] as usize).map(|p| p.map(|a| self.val(a, names))))
            }
            _ => scalar::apply(n, &vals.iter().collect::<Vec<_>>()),
        };
        let is_used = self.steps().any(|s| self.args(s).contains(&step));
        let v = if is_used { scalar::used(v) } else { v };
        let name = format!("{prefix}{step}");
        let text = format!("const {} {name} = {};\n", Class::of(v.dtype).c(), v.text);
        names[step] = Some(name);
        text
    }
}

/// The steps a step uses.
fn args(step: &Step) -> Vec<usize> {
    match step {
        Step::Scalar { args, .. } => args.iter().map(|&a| a as usize).collect(),
        Step::Reduce { arg, .. } => vec![*arg as usize],
        Step::Load { .. } | Step::Const(_) => Vec::new(),
    }
}

/// Marks everything that step `i` needs.
fn mark(l: &Loop, i: usize, need: &mut [bool]) {
    let mut stack = vec![i];
    while let Some(i) = stack.pop() {
        need[i] = true;
        stack.extend(args(&l.steps[i]).into_iter().filter(|&a| !need[a]));
    }
}

/// A kernel being written.
pub struct Writer<'b, 'a> {
    /// What it computes.
    pub body: &'b Body<'a>,
    /// Its text after the signature.
    pub text: String,
    args: Vec<Arg>,
    params: Vec<String>,
}

impl<'b, 'a> Writer<'b, 'a> {
    /// An empty kernel.
    pub fn new(body: &'b Body<'a>) -> Writer<'b, 'a> {
        Writer { body, text: String::new(), args: Vec::new(), params: Vec::new() }
    }
    /// Appends text.
    pub fn put(&mut self, text: impl AsRef<str>) {
        self.text += text.as_ref();
    }
    fn param(&mut self, arg: Arg, ty: &str, is_written: bool) -> String {
        if let Some(k) = self.args.iter().position(|a| *a == arg) {
            return format!("p{k}");
        }
        let name = format!("p{}", self.args.len());
        let (constant, apart) =
            (if is_written { "" } else { "const " }, if self.body.in_place { "" } else { " __restrict__" });
        self.params.push(format!("{constant}{ty}*{apart} {name}"));
        self.args.push(arg);
        name
    }
    /// A parameter under a name of its own.
    pub fn given(&mut self, param: &str, arg: Arg) {
        self.params.push(param.to_string());
        self.args.push(arg);
    }
    /// The pointer to what a load reads.
    pub fn source(&mut self, step: usize) -> String {
        let Step::Load { root, .. } = self.body.l.steps[step] else { unreachable!("a load") };
        self.param(Arg::Value(root), scalar::stored(self.body.graph.ty(root).dtype), false)
    }
    /// The pointer to where a result goes.
    pub fn target(&mut self, slot: Slot) -> String {
        self.param(Arg::Value(slot), scalar::stored(self.body.graph.ty(slot).dtype), true)
    }
    /// The pointer to scratch space.
    pub fn scratch(&mut self, at: usize, class: Class) -> String {
        self.param(Arg::Scratch(at), class.c(), true)
    }

    /// Reads vectors of a load: `q{step}`, or `q{step}[k]` inside a loop over k.
    pub fn load(&mut self, step: usize, at: &[String], width: usize, k: &str) {
        self.load_as(&format!("q{step}{k}"), step, at, width);
    }
    /// The same under a name.
    pub fn load_as(&mut self, name: &str, step: usize, at: &[String], width: usize) {
        let Step::Load { strides, offset, .. } = &self.body.l.steps[step] else { unreachable!("a load") };
        let p = self.source(step);
        let ty = scalar::stored(self.body.dtype(step));
        let index = access::index(strides, *offset, at);
        let text = match access::how(strides, *offset, width) {
            How::Vector if self.body.is_drawn(step) && width.is_multiple_of(4) => (0..width / 4)
                .map(|n| format!("draw_four({p}, ({index}) / 4 + {n}, {name}.at + {});\n", 4 * n))
                .collect(),
            _ if self.body.is_drawn(step) => {
                let by = strides.last().copied().unwrap_or(0);
                let one = |v: usize| format!("{name}.at[{v}] = draw_one({p}, {index} + {});\n", by * v as isize);
                (0..width).map(one).collect()
            }
            How::Vector => format!("{name} = *(const pack<{ty}, {width}>*)({p} + ({index}));\n"),
            how => {
                let by = if let How::Apart(s) = how { s } else { 0 };
                (0..width)
                    .map(|v| match by * v as isize {
                        0 => format!("{name}.at[{v}] = {p}[{index}];\n"),
                        d if d < 0 => format!("{name}.at[{v}] = {p}[{index} + (idx){d}];\n"),
                        d => format!("{name}.at[{v}] = {p}[{index} + {d}];\n"),
                    })
                    .collect()
            }
        };
        self.put(text);
    }
    /// Reads a vector whose elements lie a few apart through all that lie between them, in aligned accesses of 16 bytes
    /// which other loads of the same value share; false where that cannot be.
    pub fn load_between(&mut self, step: usize, at: &[String], width: usize, read: &mut Vec<(Slot, usize)>) -> bool {
        let b = self.body;
        let Step::Load { root, strides, offset } = &b.l.steps[step] else { unreachable!("a load") };
        let How::Apart(by @ 2..=4) = access::how(strides, *offset, width) else { return false };
        let (by, dtype) = (by as usize, b.dtype(step));
        let (each, first) = (16 / dtype.size(), offset / by * by);
        let others = strides.iter().rev().skip(1);
        let is_even = |n: usize| n.is_multiple_of(each);
        let span: usize = strides.iter().zip(&b.l.dims).map(|(s, d)| s.unsigned_abs() * (d - 1)).sum();
        let is_aligned =
            is_even(width * by) && is_even(first) && others.clone().all(|s| *s >= 0 && is_even(*s as usize));
        if b.is_drawn(step) || !is_aligned || first + span + by > b.graph.ty(*root).shape.count() {
            return false;
        }
        // Loads that differ in their first element only.
        let alike = |(r, f): &(Slot, usize)| *r == *root && *f == first;
        let ty = scalar::stored(dtype);
        let name = match read.iter().position(alike) {
            Some(k) => format!("z{k}"),
            None => {
                let name = format!("z{}", read.len());
                read.push((*root, first));
                let (p, index) = (self.source(step), access::index(strides, first, at));
                self.put(format!("pack<{ty}, {each}> {name}[{}];\n", width * by / each));
                for k in 0..width * by / each {
                    self.put(format!("{name}[{k}] = *(const pack<{ty}, {each}>*)({p} + ({index} + {}));\n", k * each));
                }
                name
            }
        };
        for v in 0..width {
            let n = v * by + offset % by;
            self.put(format!("q{step}.at[{v}] = {name}[{}].at[{}];\n", n / each, n % each));
        }
        true
    }
    /// The statements that compute every step at one point; their names.
    pub fn steps_at(&mut self, at: &[String]) -> Vec<Option<String>> {
        self.steps_given(at, &[])
    }
    /// The same, where some of what is loaded has a name already.
    pub fn steps_given(&mut self, at: &[String], given: &[(usize, String)]) -> Vec<Option<String>> {
        let b = self.body;
        let mut names: Vec<Option<String>> = vec![None; b.l.steps.len()];
        self.put("const int v = 0;\n");
        for i in b.steps() {
            match &b.l.steps[i] {
                Step::Load { strides, offset, .. } => {
                    let known = given.iter().find(|(step, _)| *step == i).map(|(_, name)| name.clone());
                    let x = known.or_else(|| b.counted(i, at)).unwrap_or_else(|| {
                        let (p, place) = (self.source(i), access::index(strides, *offset, at));
                        if b.is_drawn(i) {
                            format!("get(draw_one({p}, {place}))")
                        } else {
                            format!("get({p}[{place}])")
                        }
                    });
                    self.put(format!("const {} t{i} = {x};\n", Class::of(b.dtype(i)).c()));
                    names[i] = Some(format!("t{i}"));
                }
                Step::Scalar { .. } => {
                    let text = b.compute(i, &mut names, "t");
                    self.put(text);
                }
                Step::Const(_) | Step::Reduce { .. } => {}
            }
        }
        names
    }
    /// The statement that puts a value into a vector that is stored later, or stores it at once.
    pub fn keep(&mut self, s: &Store, value: &Val, at: &[String], width: usize) {
        let dtype = self.body.graph.ty(s.slot).dtype;
        // A value of this type is one that it holds: its upper part is all there is.
        let put = if matches!(dtype, DType::BF16 | DType::F8E5M2) { "cut" } else { "put" };
        let x = format!("{put}_{dtype}({})", value.text);
        if access::how(&s.strides, 0, width) == How::Vector {
            self.put(format!("o{}.at[v] = {x};\n", s.step));
            return;
        }
        let p = self.target(s.slot);
        let index = access::index(&s.strides, 0, at);
        let by = s.strides.last().copied().unwrap_or(0);
        let by = if by < 0 { format!("(idx){by}") } else { by.to_string() };
        self.put(format!("{p}[{index} + v * {by}] = {x};\n"));
    }
    /// Declares the vectors that are stored whole.
    pub fn declare_kept(&mut self, stores: &[&Store], width: usize) {
        for s in stores.iter().filter(|s| access::how(&s.strides, 0, width) == How::Vector) {
            let ty = scalar::stored(self.body.graph.ty(s.slot).dtype);
            self.put(format!("pack<{ty}, {width}> o{};\n", s.step));
        }
    }
    /// Stores the vectors that are stored whole.
    pub fn store_kept(&mut self, stores: &[&Store], at: &[String], width: usize) {
        for s in stores.iter().filter(|s| access::how(&s.strides, 0, width) == How::Vector) {
            let p = self.target(s.slot);
            let ty = scalar::stored(self.body.graph.ty(s.slot).dtype);
            let index = access::index(&s.strides, 0, at);
            self.put(format!("*(pack<{ty}, {width}>*)({p} + ({index})) = o{};\n", s.step));
        }
    }
    /// Declares a reduction's accumulator.
    pub fn accumulator(&mut self, r: &Reduction) {
        self.put(format!("{} a{} = {};\n", r.class().c(), r.step, r.start()));
    }
    /// Combines the accumulators of a block's threads; thread 0 has the results as `g{step}`.
    pub fn gather(&mut self, list: &[Reduction], block: usize) {
        let warps = block.div_ceil(32);
        for r in list {
            let (s, c, op) = (r.step, r.class().c(), r.op());
            self.put(format!("__shared__ {c} s{s}[{warps}];\na{s} = across<{op}, 32>(a{s});\n"));
            self.put(format!("if (threadIdx.x % 32 == 0) s{s}[threadIdx.x / 32] = a{s};\n"));
        }
        self.put("__syncthreads();\n");
        for r in list {
            let (s, c, op) = (r.step, r.class().c(), r.op());
            self.put(format!("const {c} g{s} = gather<{op}, {warps}>(s{s});\n"));
        }
    }

    /// Its text, parameters and arguments, to be part of a larger kernel.
    pub fn parts(self) -> (String, Vec<String>, Vec<Arg>) {
        (self.text, self.params, self.args)
    }
    /// The finished kernel.
    pub fn finish(self, grid: usize, block: usize) -> Kernel {
        let mut source = String::new();
        let idx = self.body.idx();
        let _ = write!(
            source,
            "typedef {idx} idx;\nextern \"C\" __global__ void __launch_bounds__({block}) run({}) {{\n{}}}\n",
            self.params.join(", "),
            self.text
        );
        Kernel::new(source, grid, block, self.args)
    }
}
