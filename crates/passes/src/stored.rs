//! The binary form of a plan: what a program made for one model holds, so that it needs neither the op table nor the
//! passes.
//!
//! ```text
//! magic   8 bytes
//! length  8 bytes: of the head
//! head    the plan; numbers are LEB128, signed ones folded to unsigned first
//! data    constants, each on a boundary of 64 bytes, used where they lie
//! ```
//! Rows lose what only compilers need: a row that was read has a name, its kind and its text. Reader and writer are of
//! one version; a file is not for exchange.

use crate::{ALIGN, Location};
use crate::{Along, Fused, Loop, MemoryPlan, Plan, Producer, Region, ResultBuffer, Source, Step, Store, View};
use ir::{
    Attr, Attrs, Bytes, CONST, Cost, DType, Error, FlatNode, ForeignMemory, Graph, INPUT, Layout, Literal, Meaning,
    Monoid, Op, Out, Result, Scalar, Shape, Site, Slot, Type,
};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"TALWPLN1";
const HEADER: usize = 16;
/// Shorter constants stand in the head.
const INLINE_MAX: usize = 63;

const OUTS: [Out; 5] = [Out::Same, Out::Float, Out::Bool, Out::Cast, Out::Select];
const COSTS: [Cost; 5] = [Cost::Instruction, Cost::Short, Cost::Division, Cost::Function, Cost::Special];
const MONOIDS: [Monoid; 4] = [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min];
const ALONG: [Along; 3] = [Along::Row, Along::Column, Along::All];

fn number<T: PartialEq>(all: &[T], x: &T) -> u64 {
    all.iter().position(|y| y == x).unwrap_or_default() as u64
}

/// Writes the binary form.
#[derive(Default)]
pub struct Writer {
    head: Vec<u8>,
    data: Vec<u8>,
}

/// Reads it. The bytes live as long as the program, and begin on a boundary of 64 bytes.
pub struct Reader {
    head: &'static [u8],
    data: &'static [u8],
}

impl Plan {
    /// Writes the plan. Fails for what only lives in a process: control flow, ops of the program's own.
    pub fn write(&self, w: &mut Writer) -> Result<()> {
        let graph = &self.fused.graph;
        let mut rows: Vec<&'static Op> = Vec::new();
        for n in &graph.nodes {
            if !rows.contains(&n.op) {
                rows.push(n.op);
            }
        }
        w.list(&rows, |w, op| {
            w.row(op);
            Ok(())
        })?;
        w.list(&graph.nodes, |w, n| {
            w.size(rows.iter().position(|r| *r == n.op).unwrap_or_default());
            let attrs: Vec<_> = n.attrs.iter().collect();
            w.list(&attrs, |w, (name, a)| w.attr(name, a).map_err(|e| e.in_op(n.op.name).at(n.site)))?;
            w.list(&n.outs, Writer::ty)
        })?;
        w.list(&graph.inputs, |w, i| w.put(*i as usize))?;
        w.list(&graph.outputs, Writer::slot)?;
        w.list(&self.fused.views, |w, views| w.list(views, Writer::view))?;
        w.list(&self.fused.regions, Writer::region)?;
        w.list(&self.fused.waves, |w, wave| w.put(wave.end))?;
        self.memory.write(w)?;
        w.list(&self.results, |w, (source, ty)| {
            let (tag, k) = match *source {
                Source::Input(k) => (0, k),
                Source::Constant(k) => (1, k),
                Source::Buffer(k) => (2, k),
                Source::Empty => (3, 0),
            };
            w.size(tag);
            w.size(k);
            w.ty(ty)
        })?;
        w.put(self.commit)
    }

    /// Reads a plan.
    pub fn read_from(r: &mut Reader) -> Result<Plan> {
        let rows: Vec<&'static Op> = r.list(Reader::row)?;
        let mut start = 0;
        let nodes = r.list(|r| {
            let op = *r.one_of(&rows)?;
            let mut attrs = Attrs::new();
            for (name, a) in r.list(Reader::attr)? {
                attrs = attrs.with(name, a);
            }
            Ok(FlatNode {
                op,
                inputs: Default::default(),
                attrs,
                outs: r.list(Reader::ty)?.into(),
                site: Site::UNKNOWN,
            })
        })?;
        let inputs = r.list(|r| Ok(r.size()? as u32))?;
        let graph = Graph { nodes, inputs, outputs: r.list(Reader::slot)?, updates: Vec::new() };
        let views = r.list(|r| Ok(r.list(Reader::view)?.into()))?;
        let regions = r.list(Reader::region)?;
        let waves = r.list(|r| {
            let end = r.size()?;
            Ok(std::mem::replace(&mut start, end)..end)
        })?;
        let memory = MemoryPlan::read_from(r)?;
        let results = r.list(|r| {
            let (tag, k) = (r.size()?, r.size()?);
            let source = match tag {
                0 => Source::Input(k),
                1 => Source::Constant(k),
                2 => Source::Buffer(k),
                _ => Source::Empty,
            };
            Ok((source, r.ty()?))
        })?;
        let commit = r.size()?;
        let barrier = vec![None; graph.nodes.len()];
        let inputs = graph.inputs.iter().map(|&i| graph.nodes[i as usize].outs[0].clone()).collect();
        let constant = |(i, n): (usize, &FlatNode)| {
            matches!(n.op.meaning, Meaning::Const).then(|| n.attrs.literal("value").ok().map(|c| (i, c.clone())))?
        };
        let constants = graph.nodes.iter().enumerate().filter_map(constant).collect();
        let flops = vec![0; regions.len()];
        let fused = Fused { graph, views, barrier, regions, waves };
        Ok(Plan { fused, memory, inputs, constants, results, commit, flops })
    }
}

impl Writer {
    /// The bytes, padded to a multiple of 64.
    pub fn finish(self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&(self.head.len() as u64).to_le_bytes());
        out.extend_from_slice(&self.head);
        out.resize(out.len().next_multiple_of(ALIGN), 0);
        out.extend_from_slice(&self.data);
        out.resize(out.len().next_multiple_of(ALIGN), 0);
        out
    }
    fn u64(&mut self, mut x: u64) {
        while x >= 0x80 {
            self.head.push(x as u8 | 0x80);
            x >>= 7;
        }
        self.head.push(x as u8);
    }
    /// A number.
    pub fn size(&mut self, x: usize) {
        self.u64(x as u64);
    }
    fn put(&mut self, x: usize) -> Result<()> {
        self.size(x);
        Ok(())
    }
    fn i64(&mut self, x: i64) {
        self.u64((x << 1 ^ x >> 63) as u64);
    }
    /// Text.
    pub fn text(&mut self, s: &str) {
        self.size(s.len());
        self.head.extend_from_slice(s.as_bytes());
    }
    /// A count and as many items.
    pub fn list<T>(&mut self, items: &[T], mut one: impl FnMut(&mut Writer, &T) -> Result<()>) -> Result<()> {
        self.size(items.len());
        items.iter().try_for_each(|x| one(self, x))
    }
    fn dtype(&mut self, d: DType) {
        self.u64(number(&DType::ALL, &d));
    }
    fn sizes(&mut self, s: &[usize]) {
        self.size(s.len());
        s.iter().for_each(|&d| self.size(d));
    }
    fn strides(&mut self, s: &[isize]) {
        self.size(s.len());
        s.iter().for_each(|&d| self.i64(d as i64));
    }
    fn ty(&mut self, t: &Type) -> Result<()> {
        self.dtype(t.dtype);
        self.sizes(&t.shape);
        Ok(())
    }
    fn slot(&mut self, s: &Slot) -> Result<()> {
        self.size(s.node as usize);
        self.put(s.out as usize)
    }
    fn view(&mut self, v: &View) -> Result<()> {
        self.slot(&v.root)?;
        self.sizes(&v.layout.shape);
        self.strides(&v.layout.strides);
        self.put(v.layout.offset)
    }
    fn literal(&mut self, l: &Literal) -> Result<()> {
        self.ty(&Type::new(l.dtype(), l.shape().clone()))?;
        if l.bytes().len() <= INLINE_MAX {
            self.head.extend_from_slice(l.bytes());
            return Ok(());
        }
        self.data.resize(self.data.len().next_multiple_of(ALIGN), 0);
        self.size(self.data.len());
        self.data.extend_from_slice(l.bytes());
        Ok(())
    }
    fn attr(&mut self, name: &str, a: &Attr) -> Result<()> {
        self.text(name);
        let tag = |w: &mut Writer, t: usize| w.size(t);
        match a {
            Attr::Bool(x) => {
                tag(self, 0);
                self.size(usize::from(*x));
            }
            Attr::Int(x) => {
                tag(self, 1);
                self.i64(*x);
            }
            Attr::Float(x) => {
                tag(self, 2);
                self.head.extend_from_slice(&x.to_bits().to_le_bytes());
            }
            Attr::Str(x) => {
                tag(self, 3);
                self.text(x);
            }
            Attr::Ints(x) => {
                tag(self, 4);
                self.size(x.len());
                x.iter().for_each(|&v| self.i64(v));
            }
            Attr::DType(x) => {
                tag(self, 5);
                self.dtype(*x);
            }
            Attr::Literal(x) => {
                tag(self, 6);
                self.literal(x)?;
            }
            Attr::Graph(_) | Attr::Custom(_) | Attr::Peers(_) => {
                return Err(Error::value("control flow and ops of the program's own cannot be built into a program"));
            }
        }
        Ok(())
    }
    fn row(&mut self, op: &Op) {
        self.text(op.name);
        match op.meaning {
            Meaning::Input => self.size(0),
            Meaning::Const => self.size(1),
            Meaning::Scalar(s) => {
                self.size(2);
                self.size(s.arity);
                self.u64(number(&OUTS, &s.out));
                self.text(s.code);
                self.u64(number(&COSTS, &s.cost));
            }
            Meaning::Reduce(m) => {
                self.size(3);
                self.u64(number(&MONOIDS, &m));
            }
            _ => self.size(4),
        }
    }
    fn region(&mut self, r: &Region) -> Result<()> {
        match r {
            Region::Call { node, args, outs } => {
                self.size(0);
                self.size(*node);
                self.list(args, Writer::view)?;
                self.list(outs, Writer::view)
            }
            Region::Loop(l) => {
                self.size(1);
                self.sizes(&l.dims);
                self.size(l.inner);
                self.list(&l.steps, Writer::step)?;
                self.list(&l.stores, |w, s| {
                    w.slot(&s.slot)?;
                    w.size(s.step as usize);
                    w.strides(&s.strides);
                    w.put(s.offset)
                })?;
                self.list(&l.nodes, |w, n| w.put(*n as usize))?;
                self.list(l.producer.as_slice(), |w, p| {
                    w.size(p.node);
                    w.list(&p.args, Writer::view)
                })
            }
        }
    }
    fn step(&mut self, s: &Step) -> Result<()> {
        match s {
            Step::Load { root, strides, offset } => {
                self.size(0);
                self.slot(root)?;
                self.strides(strides);
                self.size(*offset);
            }
            Step::Const(c) => {
                self.size(1);
                self.literal(c)?;
            }
            Step::Scalar { node, args, row } => {
                self.size(2);
                self.size(*node as usize);
                self.list(args, |w, a| w.put(*a as usize))?;
                self.size(usize::from(*row));
            }
            Step::Reduce { node, monoid, arg, row, along, after } => {
                self.size(3);
                self.size(*node as usize);
                self.u64(number(&MONOIDS, monoid));
                self.size(*arg as usize);
                self.size(usize::from(*row));
                self.u64(number(&ALONG, along));
                self.size(usize::from(*after));
            }
        }
        Ok(())
    }
}

/// Constants are used where they lie in the program.
struct Part(&'static [u8]);
impl ForeignMemory for Part {
    fn bytes(&self) -> &[u8] {
        self.0
    }
}

fn cut() -> Error {
    Error::format("the plan in this program is cut off or of another version")
}

impl Reader {
    /// From the bytes that [`Writer::finish`] has made.
    pub fn new(bytes: &'static [u8]) -> Result<Reader> {
        if bytes.len() < HEADER || &bytes[..8] != MAGIC || !bytes.as_ptr().addr().is_multiple_of(ALIGN) {
            return Err(cut());
        }
        let length = u64::from_le_bytes(std::array::from_fn(|i| bytes[8 + i])) as usize;
        let end = length.checked_add(HEADER).filter(|e| *e <= bytes.len()).ok_or_else(cut)?;
        let data = bytes.get(end.next_multiple_of(ALIGN)..).unwrap_or_default();
        Ok(Reader { head: &bytes[HEADER..end], data })
    }
    fn take(&mut self, n: usize) -> Result<&'static [u8]> {
        let (taken, rest) = self.head.split_at_checked(n).ok_or_else(cut)?;
        self.head = rest;
        Ok(taken)
    }
    fn u64(&mut self) -> Result<u64> {
        let mut x = 0;
        for shift in (0..64).step_by(7) {
            let b = self.take(1)?[0];
            x |= u64::from(b & 0x7f) << shift;
            if b < 0x80 {
                return Ok(x);
            }
        }
        Err(cut())
    }
    /// A number.
    pub fn size(&mut self) -> Result<usize> {
        usize::try_from(self.u64()?).map_err(|_| cut())
    }
    fn flag(&mut self) -> Result<bool> {
        Ok(self.u64()? != 0)
    }
    fn u32(&mut self) -> Result<u32> {
        u32::try_from(self.u64()?).map_err(|_| cut())
    }
    fn i64(&mut self) -> Result<i64> {
        let x = self.u64()?;
        Ok((x >> 1) as i64 ^ -((x & 1) as i64))
    }
    /// Text.
    pub fn text(&mut self) -> Result<&'static str> {
        let n = self.size()?;
        std::str::from_utf8(self.take(n)?).map_err(|_| cut())
    }
    /// A count and as many items.
    pub fn list<T>(&mut self, mut one: impl FnMut(&mut Reader) -> Result<T>) -> Result<Vec<T>> {
        let n = self.size()?;
        if n > self.head.len() {
            return Err(cut());
        }
        (0..n).map(|_| one(self)).collect()
    }
    fn one_of<'a, T>(&mut self, all: &'a [T]) -> Result<&'a T> {
        let i = self.size()?;
        all.get(i).ok_or_else(cut)
    }
    fn sizes(&mut self) -> Result<Shape> {
        Ok(self.list(Reader::size)?.into())
    }
    fn strides<C: FromIterator<isize>>(&mut self) -> Result<C> {
        Ok(self.list(|r| Ok(r.i64()? as isize))?.into_iter().collect())
    }
    fn ty(&mut self) -> Result<Type> {
        let dtype = *self.one_of(&DType::ALL)?;
        Ok(Type { dtype, shape: self.sizes()? })
    }
    fn slot(&mut self) -> Result<Slot> {
        Ok(Slot { node: self.u32()?, out: self.u32()? })
    }
    fn view(&mut self) -> Result<View> {
        let root = self.slot()?;
        Ok(View { root, layout: Layout { shape: self.sizes()?, strides: self.strides()?, offset: self.size()? } })
    }
    fn literal(&mut self) -> Result<Literal> {
        let t = self.ty()?;
        let n = t.bytes();
        let bytes = if n <= INLINE_MAX {
            Bytes::copy_of(self.take(n)?)
        } else {
            let at = self.size()?;
            let part = at.checked_add(n).and_then(|end| self.data.get(at..end)).ok_or_else(cut)?;
            Bytes::foreign(Box::new(Part(part)))
        };
        Ok(Literal::from_buffer(t.dtype, t.shape, Arc::new(bytes)))
    }
    fn attr(&mut self) -> Result<(&'static str, Attr)> {
        let name = self.text()?;
        let value = match self.size()? {
            0 => Attr::Bool(self.flag()?),
            1 => Attr::Int(self.i64()?),
            2 => {
                let b = self.take(8)?;
                Attr::Float(f64::from_bits(u64::from_le_bytes(std::array::from_fn(|i| b[i]))))
            }
            3 => Attr::Str(self.text()?.into()),
            4 => Attr::Ints(self.list(Reader::i64)?.into()),
            5 => Attr::DType(*self.one_of(&DType::ALL)?),
            6 => Attr::Literal(self.literal()?),
            _ => return Err(cut()),
        };
        Ok((name, value))
    }
    fn row(&mut self) -> Result<&'static Op> {
        let name = self.text()?;
        let meaning = match self.size()? {
            0 => return Ok(&INPUT),
            1 => return Ok(&CONST),
            2 => {
                let (arity, out) = (self.size()?, *self.one_of(&OUTS)?);
                let (code, cost) = (self.text()?, *self.one_of(&COSTS)?);
                let float = |_: &[f64]| ir::unlinked("an op without a vector loop");
                Meaning::Scalar(Scalar { arity, out, code, cost, float, ..Scalar::DEFAULT })
            }
            3 => Meaning::Reduce(*self.one_of(&MONOIDS)?),
            _ => Meaning::Kernel(|_, _| ir::unlinked("the reference of a kernel")),
        };
        // One for each op of a program, which lives as long.
        Ok(Box::leak(Box::new(Op { name, meaning, ..Op::DEFAULT })))
    }
    fn region(&mut self) -> Result<Region> {
        if self.size()? == 0 {
            let (node, args) = (self.size()?, self.list(Reader::view)?);
            return Ok(Region::Call { node, args, outs: self.list(Reader::view)? });
        }
        let (dims, inner) = (self.list(Reader::size)?, self.size()?);
        let steps = self.list(Reader::step)?;
        let stores =
            self.list(|r| Ok(Store { slot: r.slot()?, step: r.u32()?, strides: r.strides()?, offset: r.size()? }))?;
        let nodes = self.list(Reader::u32)?;
        let producer = self.list(|r| Ok(Producer { node: r.size()?, args: r.list(Reader::view)? }))?.pop();
        Ok(Region::Loop(Loop { dims, inner, steps, stores, nodes, producer }))
    }
    fn step(&mut self) -> Result<Step> {
        Ok(match self.size()? {
            0 => Step::Load { root: self.slot()?, strides: self.strides()?, offset: self.size()? },
            1 => Step::Const(self.literal()?),
            2 => Step::Scalar { node: self.u32()?, args: self.list(Reader::u32)?.into(), row: self.flag()? },
            3 => Step::Reduce {
                node: self.u32()?,
                monoid: *self.one_of(&MONOIDS)?,
                arg: self.u32()?,
                row: self.flag()?,
                along: *self.one_of(&ALONG)?,
                after: self.flag()?,
            },
            _ => return Err(cut()),
        })
    }
}

impl MemoryPlan {
    fn write(&self, w: &mut Writer) -> Result<()> {
        w.list(self.locations(), |w, node| {
            w.list(node, |w, l| {
                let (tag, k) = match *l {
                    Location::Nowhere => (0, 0),
                    Location::Input(k) => (1, k),
                    Location::Const(k) => (2, k),
                    Location::Arena(k) => (3, k),
                    Location::Result(k) => (4, k),
                };
                w.size(tag);
                w.put(k)
            })
        })?;
        // Inputs of such a program are the caller's: no result takes over their memory.
        w.list(&self.buffers, |w, b| {
            w.slot(&b.slot)?;
            w.put(b.bytes)
        })?;
        w.list(&self.scratch, |w, s| w.put(*s))?;
        w.put(self.arena_bytes)
    }
    fn read_from(r: &mut Reader) -> Result<MemoryPlan> {
        let locations = r.list(|r| {
            let node = r.list(|r| {
                let (tag, k) = (r.size()?, r.size()?);
                Ok(match tag {
                    0 => Location::Nowhere,
                    1 => Location::Input(k),
                    2 => Location::Const(k),
                    3 => Location::Arena(k),
                    _ => Location::Result(k),
                })
            })?;
            Ok(node.into())
        })?;
        let buffers = r.list(|r| Ok(ResultBuffer { slot: r.slot()?, bytes: r.size()?, donor: None }))?;
        let scratch = r.list(Reader::size)?;
        Ok(MemoryPlan::placed(locations, buffers, scratch, r.size()?))
    }
}
