//! Writes the tile program of a loop: values, instructions, registers.

use super::access::{Access, Spot, join};
use super::code::{self, Expr, Whole};
use super::combine::{self, Wide};
use super::functions::{self, Binary, EQUAL, MUL, POW, RECIP, has_loop, simple};
use super::lane::{self, F1, Lane, is_narrow};
use super::plan::Plan;
use super::visit::visit;
use super::{Accumulator, Ahead, Arg, Function, Gather, Home, Instr, Span, Tiles, Val};
use ir::{DType, FlatNode, Graph, Literal, Meaning, Out, Slot};
use passes::{Along, Loop, Step, Store};
use smallvec::SmallVec;

/// Where stored values are.
pub struct Homes<'a> {
    /// Of each stored value.
    pub spot: &'a dyn Fn(Slot) -> Spot,
    /// The value whose memory another may take over when the loop runs.
    pub donor: &'a dyn Fn(Slot) -> Option<Slot>,
}

/// The walk of a load or store.
fn access(l: &Loop, strides: &[isize], offset: usize, dtype: DType, spot: Spot) -> Access {
    let size = dtype.size();
    let outer = l.dims.len() - l.inner;
    Access {
        spot: Spot { offset: spot.offset + offset * size, ..spot },
        size,
        outer: join(&l.dims[..outer], &strides[..outer], size),
        inner: join(&l.dims[outer..], &strides[outer..], size),
    }
}

fn is_after(l: &Loop, step: u32) -> bool {
    matches!(l.steps[step as usize], Step::Reduce { after: true, .. })
}

/// The cut of a loop.
pub fn plan(l: &Loop, graph: &Graph) -> Plan {
    let nowhere = Spot { base: 0, offset: 0 };
    let loads = l.steps.iter().filter_map(|s| match s {
        Step::Load { root, strides, offset } => Some(access(l, strides, *offset, graph.ty(*root).dtype, nowhere)),
        _ => None,
    });
    let stores = l.stores.iter().filter(|s| !is_after(l, s.step));
    let stores = stores.map(|s| access(l, &s.strides, s.offset, graph.ty(s.slot).dtype, nowhere));
    let all: Vec<Access> = loads.chain(stores).collect();
    Plan::new(l, graph, &all)
}

fn gather(along: Along, row: bool) -> Gather {
    match (along, row) {
        (Along::Row, _) => Gather::Rows,
        (Along::Column, false) => Gather::Columns,
        (Along::All, _) => Gather::Points,
        (Along::Column, true) => Gather::RowValues,
    }
}

fn partial_bytes(plan: &Plan, how: Gather) -> usize {
    8 * match how {
        Gather::Rows => plan.rows * plan.across,
        Gather::Columns => plan.columns * plan.down,
        Gather::Points | Gather::RowValues => plan.tasks(),
    }
}

/// Bytes of the arena a loop wants for partial results of its reductions.
pub fn scratch_bytes(l: &Loop, plan: &Plan) -> usize {
    let bytes = |s: &Step| match s {
        Step::Reduce { along, row, after: true, .. } => partial_bytes(plan, gather(*along, *row)),
        _ => 0,
    };
    l.steps.iter().map(bytes).sum()
}

/// Writes the program of a loop.
pub fn emit(l: &Loop, graph: &Graph, plan: Plan, homes: &Homes, partials: Spot) -> Tiles {
    let mut e = Emitter {
        l,
        graph,
        plan,
        homes,
        values: Vec::new(),
        consts: Vec::new(),
        instrs: Vec::new(),
        accumulators: Vec::new(),
        partial_bytes: 0,
        at: Vec::new(),
        uses: uses(l),
        arena: partials.base as usize,
    };
    for s in &l.steps {
        let computed = e.step(s);
        e.at.push(computed);
    }
    e.join();
    e.stores();
    e.finish(partials)
}

/// What becomes of a step's value: a step computes with it, it is stored.
#[derive(Clone, Copy, Default)]
struct Uses {
    is_read: bool,
    is_stored: bool,
}

/// The uses of each step's value.
fn uses(l: &Loop) -> Vec<Uses> {
    let mut uses = vec![Uses::default(); l.steps.len()];
    for s in &l.steps {
        let read: &[u32] = match s {
            Step::Scalar { args, .. } => args,
            Step::Reduce { arg, .. } => std::slice::from_ref(arg),
            Step::Load { .. } | Step::Const(_) => &[],
        };
        read.iter().for_each(|&a| uses[a as usize].is_read = true);
    }
    l.stores.iter().for_each(|s| uses[s.step as usize].is_stored = true);
    uses
}

/// A value under construction.
struct Value {
    span: Span,
    lane: Lane,
    home: Place,
}

enum Place {
    Scratch,
    Const(usize),
    Memory(Access),
}

/// A step's value: as it is computed with, and as it is stored where that differs.
#[derive(Clone, Copy)]
struct Computed {
    val: Val,
    half: Option<Val>,
}

struct Emitter<'a> {
    l: &'a Loop,
    graph: &'a Graph,
    plan: Plan,
    homes: &'a Homes<'a>,
    values: Vec<Value>,
    consts: Vec<u64>,
    instrs: Vec<Instr>,
    accumulators: Vec<Accumulator>,
    partial_bytes: usize,
    at: Vec<Computed>,
    uses: Vec<Uses>,
    /// The arena's base.
    arena: usize,
}

impl Emitter<'_> {
    fn value(&mut self, span: Span, lane: Lane) -> Val {
        self.values.push(Value { span, lane, home: Place::Scratch });
        (self.values.len() - 1) as Val
    }
    fn arg(&self, val: Val) -> Arg {
        let v = &self.values[val as usize];
        Arg { val, span: v.span, size: v.lane.size() as u8 }
    }
    fn lane(&self, val: Val) -> Lane {
        self.values[val as usize].lane
    }
    fn span(&self, val: Val) -> Span {
        self.values[val as usize].span
    }

    fn step(&mut self, step: &Step) -> Computed {
        match step {
            Step::Load { root, strides, offset } => {
                let dtype = self.graph.ty(*root).dtype;
                let a = access(self.l, strides, *offset, dtype, (self.homes.spot)(*root));
                self.load(a, dtype)
            }
            Step::Const(c) => Computed { val: self.constant(c), half: None },
            Step::Scalar { node, args, .. } => {
                let n = &self.graph.nodes[*node as usize];
                if let Some(computed) = self.stored_scalar(n, args) {
                    return computed;
                }
                let args: SmallVec<[Val; 3]> = args.iter().map(|&a| self.at[a as usize].val).collect();
                let val = self.scalar(n, &args);
                self.round(val, n.outs[0].dtype)
            }
            Step::Reduce { node, monoid, arg, row, along, after } => {
                let n = &self.graph.nodes[*node as usize];
                let mut x = self.at[*arg as usize].val;
                let rows = Span { by_column: false, ..self.all() };
                let full = if *row { rows } else { self.all() };
                if self.span(x) != full {
                    x = self.expand(x, full);
                }
                if !after {
                    let y = self.value(rows, self.lane(x));
                    let f = combine::row(*monoid, self.lane(x));
                    self.instrs.push(Instr::Rows { monoid: *monoid, f, x: self.arg(x), y });
                    return self.round(y, n.outs[0].dtype);
                }
                let how = gather(*along, *row);
                let out = (self.homes.spot)(Slot::new(*node as usize, 0));
                let wide = Wide::new(*monoid, self.lane(x));
                let dtype = n.outs[0].dtype;
                self.instrs.push(Instr::Accumulate { to: self.accumulators.len(), x });
                self.accumulators.push(Accumulator { wide, how, offset: self.partial_bytes, dtype, out });
                self.partial_bytes += partial_bytes(&self.plan, how);
                Computed { val: x, half: None }
            }
        }
    }

    /// A value in memory, as it lies there where that is how tiles lie.
    fn load(&mut self, a: Access, dtype: DType) -> Computed {
        let span = Span::of(&a);
        let raw = self.value(span, Lane::stored(dtype));
        if a.is_dense(self.plan.h, self.plan.w, self.plan.columns) {
            self.values[raw as usize].home = Place::Memory(a);
        } else {
            self.instrs.push(Instr::Read { access: a, dtype, y: raw });
        }
        if !is_narrow(dtype) {
            return Computed { val: raw, half: None };
        }
        if !self.uses[self.at.len()].is_read {
            return Computed { val: raw, half: Some(raw) };
        }
        let val = self.unary(lane::widen(dtype), raw, Lane::F32);
        Computed { val, half: Some(raw) }
    }

    fn constant(&mut self, c: &Literal) -> Val {
        let lane = Lane::of(c.dtype());
        let c = c.cast(lane.dtype());
        let mut bytes = [0u8; 8];
        bytes[..c.bytes().len()].copy_from_slice(c.bytes());
        let k = self.consts.len();
        self.consts.push(u64::from_ne_bytes(bytes));
        self.values.push(Value { span: Span::ONE, lane, home: Place::Const(k) });
        (self.values.len() - 1) as Val
    }

    fn number(&mut self, lane: Lane, x: f64) -> Val {
        self.constant(&Literal::scalar_f64(lane.dtype(), x))
    }

    /// Rounds a result to what its type can hold.
    fn round(&mut self, val: Val, dtype: DType) -> Computed {
        if !is_narrow(dtype) || self.lane(val) != Lane::F32 {
            return Computed { val, half: None };
        }
        // In one pass where it is not stored, and not back where nothing computes with it.
        let Uses { is_read, is_stored } = self.uses[self.at.len()];
        if !is_stored {
            return Computed { val: self.unary(lane::round(dtype), val, Lane::F32), half: None };
        }
        let half = self.unary(lane::narrow(dtype), val, Lane::stored(dtype));
        let val = if is_read { self.unary(lane::widen(dtype), half, Lane::F32) } else { half };
        Computed { val, half: Some(half) }
    }

    fn unary(&mut self, f: F1, x: Val, to: Lane) -> Val {
        let span = self.span(x);
        let y = self.value(span, to);
        self.instrs.push(Instr::Unary { f, x, y, span });
        y
    }
    fn binary(&mut self, code: &'static str, f: Binary, a: Val, b: Val, to: Lane) -> Val {
        let y = self.value(self.span(a).or(self.span(b)), to);
        self.instrs.push(Instr::Binary { code, f, a: self.arg(a), b: self.arg(b), y: self.arg(y) });
        y
    }
    fn cast(&mut self, x: Val, to: Lane) -> Val {
        match lane::cast(self.lane(x), to) {
            Some(f) => self.unary(f, x, to),
            None => x,
        }
    }
    fn expand(&mut self, x: Val, span: Span) -> Val {
        let y = self.value(span, self.lane(x));
        self.instrs.push(Instr::Expand { x: self.arg(x), y: self.arg(y) });
        y
    }
    /// What a value that differs at every point varies along.
    fn all(&self) -> Span {
        Span { by_row: self.l.dims.len() > self.l.inner, by_column: self.l.inner > 0 }
    }

    /// An elementwise node of floats of 16 bits in one pass over them as they are stored, which also rounds. Where
    /// another node needs `f32`, it is widened; such a pass is dropped again if none does.
    fn stored_scalar(&mut self, n: &FlatNode, args: &[u32]) -> Option<Computed> {
        let Meaning::Scalar(s) = n.op.meaning else { return None };
        let dtype = self.graph.ty(*n.inputs.last()?).dtype;
        let lane = Lane::stored(dtype);
        if lane != Lane::Half {
            return None;
        }
        let is_float = matches!(s.out, Out::Same | Out::Float) && n.outs[0].dtype == dtype;
        let y = match (s.out, args.len()) {
            (_, 1) if is_float => {
                let (f, x) = (functions::stored_unary(s.code, dtype)?, self.half(args[0])?);
                self.unary(f, x, lane)
            }
            (_, 2) if is_float => self.stored_binary(functions::stored_binary(s.code, dtype)?, args, lane)?,
            (Out::Bool, 2) => {
                let val = self.stored_binary(functions::stored_compare(s.code, dtype)?, args, Lane::Bool)?;
                return Some(Computed { val, half: None });
            }
            (Out::Select, 3) => {
                let (a, b) = (self.half_or_number(args[1], dtype)?, self.half_or_number(args[2], dtype)?);
                let c = self.at[args[0] as usize].val;
                self.select(c, a, b)
            }
            _ => return None,
        };
        let is_read = self.uses[self.at.len()].is_read;
        let val = if is_read { self.unary(lane::widen(dtype), y, Lane::F32) } else { y };
        Some(Computed { val, half: Some(y) })
    }

    /// A step's value as floats of 16 bits.
    fn half(&self, step: u32) -> Option<Val> {
        self.at[step as usize].half.filter(|&h| self.lane(h) == Lane::Half)
    }

    /// A number that is the same everywhere, as `f32`.
    fn half_number(&self, step: u32) -> Option<Val> {
        let val = self.at[step as usize].val;
        let is_one = matches!(self.values[val as usize].home, Place::Const(_)) && self.lane(val) == Lane::F32;
        is_one.then_some(val)
    }

    /// A step's value as floats of 16 bits, also where it is a number.
    fn half_or_number(&mut self, step: u32, dtype: DType) -> Option<Val> {
        if let Some(h) = self.half(step) {
            return Some(h);
        }
        let val = self.half_number(step)?;
        let Place::Const(k) = self.values[val as usize].home else { return None };
        let bits = Literal::scalar_f64(dtype, f32::from_bits(self.consts[k] as u32) as f64);
        let mut bytes = [0u8; 8];
        bytes[..2].copy_from_slice(bits.bytes());
        self.consts.push(u64::from_ne_bytes(bytes));
        self.values.push(Value {
            span: Span::ONE,
            lane: Lane::stored(dtype),
            home: Place::Const(self.consts.len() - 1),
        });
        Some((self.values.len() - 1) as Val)
    }

    fn stored_binary(&mut self, f: Binary, args: &[u32], to: Lane) -> Option<Val> {
        match (self.half(args[0]), self.half(args[1])) {
            (Some(a), Some(b)) => Some(self.binary("", Binary::plain(f.vv), a, b, to)),
            (Some(a), None) if self.span(a) != Span::ONE => {
                let b = self.half_number(args[1])?;
                Some(self.binary("", f, a, b, to))
            }
            (None, Some(b)) if self.span(b) != Span::ONE => {
                let a = self.half_number(args[0])?;
                Some(self.binary("", f, a, b, to))
            }
            _ => None,
        }
    }

    /// An elementwise node: the vector loops of the C text in its row. Text with unknown functions is computed number
    /// by number with the function in the row.
    fn scalar(&mut self, n: &FlatNode, args: &[Val]) -> Val {
        let Meaning::Scalar(s) = n.op.meaning else { unreachable!("loops hold elementwise nodes and reductions") };
        let out = Lane::of(n.outs[0].dtype);
        let lane = args.last().map_or(out, |&a| self.lane(a));
        match (s.out, args) {
            (Out::Cast, &[x]) => return self.cast(x, out),
            (Out::Select, &[c, a, b]) => return self.select(c, a, b),
            (Out::Same, &[x]) if s.code == "{0}" => return x,
            (Out::Same, &[x, p]) if s.code == POW => {
                if let Some(y) = self.power(x, p) {
                    return y;
                }
            }
            _ => {}
        }
        // Functions of integers that give floats are computed in `f64`, other functions of bool as integers.
        let work = match lane {
            _ if s.out == Out::Float && out == Lane::F32 && lane != Lane::F32 => Lane::F64,
            Lane::Bool if !has_loop(s.code, Lane::Bool, s.out) => Lane::I32,
            _ => lane,
        };
        let cast: SmallVec<[Val; 3]> = args.iter().map(|&a| self.cast(a, work)).collect();
        let done = self.apply(s.code, &cast).or_else(|| {
            let e = code::parse(s.code).filter(|_| !matches!(work, Lane::Bool))?;
            self.expression(&e, &cast, work)
        });
        match done {
            Some(y) => self.cast(y, out),
            None => self.each(&s, lane, args, out),
        }
    }

    /// A function or operator that has a loop.
    fn apply(&mut self, code: &str, args: &[Val]) -> Option<Val> {
        let lane = self.lane(*args.last()?);
        match *args {
            [x] => {
                if let Some(f) = functions::test(code, lane) {
                    return Some(self.unary(f, x, Lane::Bool));
                }
                if let Some(f) = functions::unary(code, lane) {
                    return Some(self.unary(f, x, lane));
                }
                let is_int = !matches!(lane, Lane::F32 | Lane::F64);
                match Whole::of(code).filter(|_| is_int)? {
                    Whole::Same => Some(x),
                    Whole::Compared(code) => self.apply(code, &[x, x]),
                    Whole::IsZero => {
                        let zero = self.number(lane, 0.0);
                        self.apply(EQUAL, &[x, zero])
                    }
                }
            }
            [a, b] => {
                if let Some(f) = functions::compare(code, lane) {
                    return Some(self.binary("", f, a, b, Lane::Bool));
                }
                let f = functions::binary(code, lane)?;
                Some(self.binary(simple(code), f, a, b, lane))
            }
            _ => None,
        }
    }

    /// An expression of functions and operators that have loops.
    fn expression(&mut self, e: &Expr, args: &[Val], lane: Lane) -> Option<Val> {
        match e {
            Expr::Arg(i) => args.get(*i).copied(),
            Expr::Number(x) => Some(self.number(lane, *x)),
            Expr::Apply(code, parts) => {
                let vals: SmallVec<[Val; 3]> =
                    parts.iter().map(|p| self.expression(p, args, lane)).collect::<Option<_>>()?;
                self.apply(code, &vals)
            }
            Expr::Select(parts) => {
                let [c, a, b] = &**parts;
                let c = self.expression(c, args, lane)?;
                let c = self.cast(c, Lane::Bool);
                let (a, b) = (self.expression(a, args, lane)?, self.expression(b, args, lane)?);
                (self.lane(a) == self.lane(b)).then(|| self.select(c, a, b))
            }
        }
    }

    fn select(&mut self, c: Val, a: Val, b: Val) -> Val {
        let (span, lane) = (self.span(c).or(self.span(a)).or(self.span(b)), self.lane(a));
        let y = self.value(span, lane);
        let [c, a, b, ya] = [c, a, b, y].map(|v| self.arg(v));
        self.instrs.push(Instr::Select { f: lane::select(lane), c, a, b, y: ya });
        y
    }

    /// Powers with small constant exponents are products.
    fn power(&mut self, x: Val, p: Val) -> Option<Val> {
        let lane = self.lane(x);
        let Place::Const(k) = self.values[p as usize].home else { return None };
        let is_float = matches!(lane, Lane::F32 | Lane::F64);
        let p = match lane {
            Lane::F32 => f32::from_bits(self.consts[k] as u32) as f64,
            Lane::F64 => f64::from_bits(self.consts[k]),
            _ => self.consts[k] as f64,
        };
        match p {
            1.0 => Some(x),
            2.0 => self.apply(MUL, &[x, x]),
            3.0 => self.apply(MUL, &[x, x]).and_then(|y| self.apply(MUL, &[y, x])),
            -1.0 if is_float => self.apply(RECIP, &[x]),
            _ => None,
        }
    }

    fn each(&mut self, s: &ir::Scalar, lane: Lane, args: &[Val], out: Lane) -> Val {
        let is_float = matches!(lane, Lane::F32 | Lane::F64) || s.out == Out::Float;
        let f = match s.int {
            Some(f) if !is_float => Function::Int(f),
            _ => Function::Float(s.float),
        };
        let span = args.iter().fold(Span::ONE, |sp, &a| sp.or(self.span(a)));
        let y = self.value(span, out);
        let args = args.iter().map(|&a| (self.arg(a), self.lane(a))).collect();
        self.instrs.push(Instr::Each { f, args, y: self.arg(y), to: out });
        y
    }

    fn join(&mut self) {
        let mut kept = vec![false; self.values.len()];
        // What a reduction over the whole loop stores are its accumulators, not the value it takes.
        for s in self.l.stores.iter().filter(|s| !is_after(self.l, s.step)) {
            let c = self.at[s.step as usize];
            kept[c.half.unwrap_or(c.val) as usize] = true;
        }
        self.drop_unused(&kept);
        let (values, accumulators) = (&self.values, &self.accumulators);
        let is_of_columns = |a: usize| accumulators[a].how == Gather::Columns;
        super::peephole::join(&mut self.instrs, |v| values[v as usize].lane, |v| kept[v as usize], is_of_columns);
    }

    /// Drops conversions that nothing reads.
    fn drop_unused(&mut self, kept: &[bool]) {
        let mut is_read = kept.to_vec();
        let mut drops = vec![false; self.instrs.len()];
        for (i, instr) in self.instrs.iter().enumerate().rev() {
            drops[i] = matches!(instr, Instr::Unary { y, .. } if !is_read[*y as usize]);
            if !drops[i] {
                visit(instr, |v, is_result| is_read[v as usize] |= !is_result);
            }
        }
        let mut drops = drops.into_iter();
        self.instrs.retain(|_| !drops.next().unwrap_or(false));
    }

    /// Writes what is kept: computed where it is kept if memory lies as tiles do, else copied when
    /// all is computed.
    fn stores(&mut self) {
        let kept: Vec<&Store> = self.l.stores.iter().filter(|s| !is_after(self.l, s.step)).collect();
        let replaced: Vec<Option<Slot>> = kept.iter().map(|s| self.replaced(s.slot)).collect();
        let tiles: Vec<(Access, Val, bool)> = kept.iter().map(|s| self.stored(s, &replaced)).collect();
        let any_loaded = tiles.iter().any(|t| t.2);
        let mut bound: Vec<Val> = Vec::new();
        for ((a, x, _), old) in tiles.into_iter().zip(replaced) {
            let is_own = matches!(self.values[x as usize].home, Place::Scratch) && !bound.contains(&x);
            let is_free = match old {
                None => true,
                Some(root) => !any_loaded && self.is_read_before(root, x),
            };
            if is_own && is_free && a.is_dense(self.plan.h, self.plan.w, self.plan.columns) {
                self.values[x as usize].home = Place::Memory(a);
                bound.push(x);
            } else {
                self.instrs.push(Instr::Write { access: a, x });
            }
        }
    }

    /// The loaded value whose memory a stored one takes over, or may take over.
    fn replaced(&self, slot: Slot) -> Option<Slot> {
        let (spot, donor) = ((self.homes.spot)(slot), (self.homes.donor)(slot));
        self.l.steps.iter().find_map(|s| match s {
            Step::Load { root, .. } if (self.homes.spot)(*root) == spot || Some(*root) == donor => Some(*root),
            _ => None,
        })
    }

    /// A store's walk, the tile that is written, and whether that is still a load's memory.
    fn stored(&mut self, s: &Store, replaced: &[Option<Slot>]) -> (Access, Val, bool) {
        let dtype = self.graph.ty(s.slot).dtype;
        let a = access(self.l, &s.strides, s.offset, dtype, (self.homes.spot)(s.slot));
        let c = self.at[s.step as usize];
        let mut x = match c.half {
            Some(h) => h,
            None if is_narrow(dtype) => self.unary(lane::narrow(dtype), c.val, Lane::stored(dtype)),
            None => c.val,
        };
        let is_loaded = matches!(self.values[x as usize].home, Place::Memory(_));
        // What is still in memory must be saved before another store replaces it.
        let must_save = is_loaded && replaced.iter().any(Option::is_some);
        if self.span(x) != Span::of(&a) || must_save {
            x = self.expand(x, Span::of(&a));
        }
        (a, x, is_loaded)
    }

    /// True if nothing reads the memory of `root` after the instruction that computes `x`, which
    /// may itself read it element by element.
    fn is_read_before(&self, root: Slot, x: Val) -> bool {
        let spot = (self.homes.spot)(root);
        let is_root = |a: &Access| a.spot.base == spot.base && (spot.base as usize != self.arena || a.spot == spot);
        let mut made = None;
        let mut read = None;
        for (i, instr) in self.instrs.iter().enumerate() {
            visit(instr, |v, is_result| {
                if is_result && v == x {
                    made = Some(i);
                }
                if !is_result && matches!(&self.values[v as usize].home, Place::Memory(a) if is_root(a)) {
                    read = Some(i);
                }
            });
            if let Instr::Read { access, .. } | Instr::ReadSum { access, .. } | Instr::AccumulateRead { access, .. } =
                instr
                && is_root(access)
            {
                // Copied before anything else happens to it, but not elementwise with a result.
                read = Some(i);
            }
        }
        let is_elementwise = |i: usize| {
            matches!(
                self.instrs[i],
                Instr::Unary { .. }
                    | Instr::Binary { .. }
                    | Instr::Chain { .. }
                    | Instr::Triple { .. }
                    | Instr::Select { .. }
                    | Instr::Each { .. }
            )
        };
        match (made, read) {
            (Some(m), Some(r)) => r < m || (r == m && is_elementwise(m)),
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// Gives scratch values their place: one that is not used any more makes room for the next.
    fn finish(mut self, partials: Spot) -> Tiles {
        // Writes come last, in case they replace something that is read.
        let (writes, mut instrs): (Vec<Instr>, Vec<Instr>) =
            self.instrs.drain(..).partition(|i| matches!(i, Instr::Write { .. }));
        instrs.extend(writes);
        let mut last = vec![0usize; self.values.len()];
        for (i, instr) in instrs.iter().enumerate() {
            visit(instr, |v, _| last[v as usize] = i);
        }
        let (h, w) = (self.plan.h, self.plan.w);
        let mut offsets = vec![usize::MAX; self.values.len()];
        let mut free: Vec<(usize, usize)> = Vec::new();
        let mut end = 0;
        for (i, instr) in instrs.iter().enumerate() {
            let mut made: SmallVec<[Val; 1]> = SmallVec::new();
            let mut used: SmallVec<[Val; 4]> = SmallVec::new();
            visit(instr, |v, is_result| if is_result { made.push(v) } else { used.push(v) });
            let bytes = |v: Val| {
                let x = &self.values[v as usize];
                (x.span.count(h, w) * x.lane.size()).next_multiple_of(64)
            };
            let mut release: SmallVec<[Val; 4]> = SmallVec::new();
            for &v in &used {
                if last[v as usize] == i && offsets[v as usize] != usize::MAX && !release.contains(&v) {
                    release.push(v);
                }
            }
            // Same-size elementwise loops may write over an operand that is not needed again.
            let over = matches!(
                instr,
                Instr::Unary { .. } | Instr::Binary { .. } | Instr::Chain { .. } | Instr::Triple { .. }
            );
            let is_alike = |v: Val, y: Val| {
                let (a, b) = (&self.values[v as usize], &self.values[y as usize]);
                a.span == b.span && a.lane.size() == b.lane.size()
            };
            for &y in &made {
                if !matches!(self.values[y as usize].home, Place::Scratch) {
                    continue;
                }
                let need = bytes(y);
                if over && let Some(k) = release.iter().position(|&v| is_alike(v, y)) {
                    let v = release.remove(k);
                    offsets[y as usize] = offsets[v as usize];
                    continue;
                }
                let found = free.iter().position(|&(size, _)| size == need);
                offsets[y as usize] = match found {
                    Some(k) => free.swap_remove(k).1,
                    None => {
                        end += need;
                        end - need
                    }
                };
                if last[y as usize] <= i {
                    release.push(y);
                }
            }
            for v in release {
                free.push((bytes(v), offsets[v as usize]));
            }
        }
        let ahead = self.ahead(&instrs);
        let homes = self.values.into_iter().zip(offsets).map(|(v, at)| match v.home {
            Place::Scratch => Home::Scratch(if at == usize::MAX { 0 } else { at }),
            Place::Const(k) => Home::Const(k),
            Place::Memory(a) => Home::Memory(a),
        });
        Tiles {
            plan: self.plan,
            homes: homes.collect(),
            consts: self.consts,
            instrs,
            accumulators: self.accumulators,
            ahead,
            partials,
            scratch: end,
        }
    }

    /// The memory that tiles read and write in place, where a loop takes several passes over more of it than caches hold:
    /// between its passes, a processor does not look ahead far enough by itself.
    fn ahead(&self, instrs: &[Instr]) -> Vec<Ahead> {
        let in_memory = |v: &&Value| matches!(v.home, Place::Memory(_)) && v.span == self.all();
        let bytes: usize = self.values.iter().filter(in_memory).map(|v| v.lane.size()).sum();
        if instrs.len() < 2 || bytes * self.plan.rows * self.plan.columns < AHEAD_MIN {
            return Vec::new();
        }
        let mut is_written = vec![false; self.values.len()];
        instrs.iter().for_each(|i| visit(i, |v, is_result| is_written[v as usize] |= is_result));
        let values = self.values.iter().zip(is_written).filter(|(v, _)| in_memory(v));
        values
            .filter_map(|(v, is_written)| match &v.home {
                Place::Memory(access) => Some(Ahead { access: access.clone(), span: v.span, is_written }),
                _ => None,
            })
            .collect()
    }
}

/// Bytes of a loop's operands and results from which on they do not fit the second-level cache.
const AHEAD_MIN: usize = 1 << 21;
