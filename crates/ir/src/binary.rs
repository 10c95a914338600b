//! The binary form of a flat graph: compact, versioned, checked.
//!
//! ```text
//! magic    8 bytes: 0x89 "TALWG" 0x0d 0x0a (a transfer that changes line ends is noticed)
//! version  2 bytes
//! length   8 bytes: of the payload
//! payload  words (op names, attribute names, strings, files), then the graph
//! checksum 8 bytes: FNV-1a of the payload
//! ```
//! Numbers in the payload are LEB128; signed ones are folded to unsigned first. A value is named
//! by how many nodes lie between it and its user. Whatever comes, the reader answers with a graph
//! that keeps the rules or an error, and asks for no more memory than the bytes justify.

use crate::text::{Find, checked};
use crate::verify::{DEPTH_MAX, is_sound};
use crate::{
    Attr, AttrKind, Attrs, CONST, DType, Error, FlatNode, Graph, INPUT, Literal, Result, Shape, Site, Slot, Type, Types,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const MAGIC: [u8; 8] = [0x89, b'T', b'A', b'L', b'W', b'G', b'\r', b'\n'];
const VERSION: u16 = 1;
const HEADER: usize = 8 + 2 + 8;

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ b as u64).wrapping_mul(0x0100_0000_01b3))
}

impl Graph {
    /// The binary form; [`Graph::from_bytes`] reads it back.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::default();
        w.graph(self);
        let mut words: Vec<(&str, usize)> = w.words.iter().map(|(&s, &i)| (s, i)).collect();
        words.sort_by_key(|(_, i)| *i);
        let mut payload = Writer::default();
        payload.size(words.len());
        for (s, _) in words {
            payload.size(s.len());
            payload.out.extend_from_slice(s.as_bytes());
        }
        payload.out.extend_from_slice(&w.out);
        let payload = payload.out;
        let mut out = Vec::with_capacity(HEADER + payload.len() + 8);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        out.extend_from_slice(&payload);
        out.extend_from_slice(&checksum(&payload).to_le_bytes());
        out
    }

    /// Reads the binary form. `find` gives the row of an op's name.
    ///
    /// ```
    /// # use talweg_ir::{DType, Graph, Site, Type};
    /// let mut g = Graph::new();
    /// let x = g.input("x", &Type::new(DType::F32, [2]), Site::UNKNOWN);
    /// g.outputs.push(x);
    /// let bytes = g.to_bytes();
    /// assert_eq!(Graph::from_bytes(&bytes, &|_| None).unwrap(), g);
    /// assert!(Graph::from_bytes(&bytes[..9], &|_| None).is_err());
    /// ```
    pub fn from_bytes(bytes: &[u8], find: Find) -> Result<Graph> {
        if bytes.len() < HEADER + 8 || bytes[..8] != MAGIC {
            return Err(Error::format("expected a graph in binary form, found something else"));
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version != VERSION {
            let e = format!("the graph has version {version}, but only version {VERSION} is understood");
            return Err(Error::format(e));
        }
        let eight = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let payload = &bytes[HEADER..bytes.len() - 8];
        if eight(10) != payload.len() as u64 {
            let e = format!("expected a payload of {} bytes, found {}", eight(10), payload.len());
            return Err(Error::format(e));
        }
        if eight(bytes.len() - 8) != checksum(payload) {
            return Err(Error::format("the checksum does not fit: the bytes were changed"));
        }
        let mut r = Reader { bytes: payload, at: 0, words: Vec::new(), find };
        r.words = r.many(|r| {
            let n = r.size()?;
            std::str::from_utf8(r.take(n)?).map_err(|_| r.bad("a word is not UTF-8"))
        })?;
        let graph = r.graph(0)?;
        if r.at != r.bytes.len() {
            return Err(r.bad("bytes are left over after the graph"));
        }
        Ok(graph)
    }
}

#[derive(Default)]
struct Writer<'a> {
    out: Vec<u8>,
    words: BTreeMap<&'a str, usize>,
}

impl<'a> Writer<'a> {
    fn u64(&mut self, mut x: u64) {
        while x >= 0x80 {
            self.out.push(x as u8 | 0x80);
            x >>= 7;
        }
        self.out.push(x as u8);
    }
    fn size(&mut self, x: usize) {
        self.u64(x as u64);
    }
    /// Small numbers of either sign stay small.
    fn i64(&mut self, x: i64) {
        self.u64((x << 1 ^ x >> 63) as u64);
    }
    fn word(&mut self, s: &'a str) {
        let next = self.words.len();
        let i = *self.words.entry(s).or_insert(next);
        self.size(i);
    }
    fn ty(&mut self, dtype: DType, shape: &Shape) {
        self.out.push(code(dtype));
        self.size(shape.rank());
        shape.iter().for_each(|&d| self.size(d));
    }
    fn literal(&mut self, l: &Literal) {
        self.ty(l.dtype(), l.shape());
        self.out.extend_from_slice(l.bytes());
    }
    fn graph(&mut self, g: &'a Graph) {
        self.size(g.nodes.len());
        for (i, n) in g.nodes.iter().enumerate() {
            self.node(i, n);
        }
        self.size(g.outputs.len());
        for s in &g.outputs {
            self.u64(s.node as u64);
            self.u64(s.out as u64);
        }
    }
    fn node(&mut self, i: usize, n: &'a FlatNode) {
        self.word(n.op.name);
        self.size(n.inputs.len());
        for s in &n.inputs {
            self.u64((i as u64).wrapping_sub(1 + s.node as u64));
            self.u64(s.out as u64);
        }
        self.size(n.attrs.iter().count());
        for (name, a) in n.attrs.iter() {
            self.word(name);
            self.attr(a);
        }
        self.size(n.outs.len());
        n.outs.iter().for_each(|t| self.ty(t.dtype, &t.shape));
        if n.site == Site::UNKNOWN {
            return self.size(0);
        }
        self.u64(1 + n.site.line as u64);
        self.u64(n.site.column as u64);
        self.word(n.site.file);
    }
    fn attr(&mut self, a: &'a Attr) {
        match a {
            Attr::Bool(x) => self.out.push(*x as u8),
            Attr::Int(x) => self.i64(*x),
            Attr::Float(x) => self.out.extend_from_slice(&x.to_bits().to_le_bytes()),
            Attr::Str(x) => self.word(x),
            Attr::Ints(x) => {
                self.size(x.len());
                x.iter().for_each(|&v| self.i64(v));
            }
            Attr::DType(x) => self.out.push(code(*x)),
            Attr::Literal(x) => self.literal(x),
            Attr::Graph(g) => self.graph(g),
            // The reader refuses it: the rules are in this process.
            Attr::Custom(c) => self.word(c.0.name()),
            Attr::Peers(_) => self.word("ranks"),
        }
    }
}

/// The number of an element type in files; never reused for another.
fn code(d: DType) -> u8 {
    match d {
        DType::Bool => 0,
        DType::U8 => 1,
        DType::I8 => 2,
        DType::I32 => 3,
        DType::U32 => 4,
        DType::I64 => 5,
        DType::F16 => 6,
        DType::BF16 => 7,
        DType::F32 => 8,
        DType::F64 => 9,
        DType::U16 => 10,
        DType::I16 => 11,
        DType::U64 => 12,
        DType::C64 => 13,
        DType::C128 => 14,
        DType::F8E4M3 => 15,
        DType::F8E5M2 => 16,
    }
}

struct Reader<'a, 'f> {
    bytes: &'a [u8],
    at: usize,
    words: Vec<&'a str>,
    find: Find<'f>,
}

impl<'a> Reader<'a, '_> {
    fn bad(&self, what: impl std::fmt::Display) -> Error {
        Error::format(format!("byte {}: {what}", HEADER + self.at))
    }
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let rest = self.bytes.len() - self.at;
        if n > rest {
            return Err(self.bad(format!("expected {n} more bytes, found {rest}")));
        }
        self.at += n;
        Ok(&self.bytes[self.at - n..self.at])
    }
    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }
    fn u64(&mut self) -> Result<u64> {
        let mut x = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            let part = (b & 0x7f) as u64;
            if shift == 63 && part > 1 {
                break;
            }
            x |= part << shift;
            if b < 0x80 {
                return Ok(x);
            }
        }
        Err(self.bad("expected a number of at most 64 bits"))
    }
    fn u32(&mut self) -> Result<u32> {
        let x = self.u64()?;
        u32::try_from(x).map_err(|_| self.bad(format!("expected a number of at most 32 bits, found {x}")))
    }
    fn size(&mut self) -> Result<usize> {
        let x = self.u64()?;
        usize::try_from(x).map_err(|_| self.bad(format!("{x} is too large for a size here")))
    }
    fn i64(&mut self) -> Result<i64> {
        let x = self.u64()?;
        Ok((x >> 1) as i64 ^ -((x & 1) as i64))
    }
    /// A count and as many items. Each takes at least a byte, so a count beyond the rest is a lie.
    fn many<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let n = self.size()?;
        let rest = self.bytes.len() - self.at;
        if n > rest {
            return Err(self.bad(format!("{n} items are announced, but {rest} bytes are left")));
        }
        // Items may be larger than their bytes: grow as they come.
        let mut out = Vec::with_capacity(n.min(64));
        for _ in 0..n {
            out.push(one(self)?);
        }
        Ok(out)
    }
    fn word(&mut self) -> Result<&'a str> {
        let i = self.size()?;
        let n = self.words.len();
        self.words.get(i).copied().ok_or_else(|| self.bad(format!("word {i} is used, but there are {n}")))
    }
    fn dtype(&mut self) -> Result<DType> {
        let b = self.byte()?;
        DType::ALL.into_iter().find(|d| code(*d) == b).ok_or_else(|| self.bad(format!("{b} is no element type")))
    }
    fn ty(&mut self) -> Result<Type> {
        let dtype = self.dtype()?;
        let t = Type { dtype, shape: self.many(Self::size)?.into() };
        is_sound(&t).map_err(|e| self.bad(e))?;
        Ok(t)
    }

    fn graph(&mut self, depth: usize) -> Result<Graph> {
        if depth > DEPTH_MAX {
            return Err(self.bad(format!("sub-graphs are nested more than {DEPTH_MAX} deep")));
        }
        let mut g = Graph::new();
        self.many(|r| r.node(&mut g, depth))?;
        g.outputs = self.many(|r| Ok(Slot { node: r.u32()?, out: r.u32()? }))?;
        g.verify_outputs().map_err(|e| self.bad(e.message))?;
        Ok(g)
    }
    fn node(&mut self, g: &mut Graph, depth: usize) -> Result<()> {
        let name = self.word()?;
        let own = [&INPUT, &CONST].into_iter().find(|o| o.name == name);
        let op = own.or_else(|| (self.find)(name)).ok_or_else(|| self.bad(format!("there is no op named {name:?}")))?;
        let i = g.nodes.len() as u64;
        let inputs = self.many(|r| {
            let back = r.u64()?;
            let node = i.checked_sub(1).and_then(|i| i.checked_sub(back));
            let node = node.ok_or_else(|| r.bad("a node uses a value that does not come before it"))?;
            Ok(Slot { node: node as u32, out: r.u32()? })
        })?;
        let mut attrs = Attrs::new();
        self.many(|r| {
            let name = r.word()?;
            let row = op.attrs.iter().find(|(n, _)| *n == name);
            let (name, kind) = row.ok_or_else(|| r.bad(format!("{} has no attribute {name:?}", op.name)))?;
            if attrs.get(name).is_some() {
                return Err(r.bad(format!("attribute {name} of {} is given twice", op.name)));
            }
            let value = r.attr(*kind, depth)?;
            attrs = std::mem::take(&mut attrs).with(name, value);
            Ok(())
        })?;
        let outs: Types = self.many(Self::ty)?.into();
        let site = self.site()?;
        if op == &INPUT {
            g.inputs.push(g.nodes.len() as u32);
        }
        g.nodes.push(FlatNode { op, inputs: inputs.into(), attrs, outs, site });
        checked(g, depth).map_err(|e| self.bad(e))
    }
    fn site(&mut self) -> Result<Site> {
        let Some(line) = self.u64()?.checked_sub(1) else { return Ok(Site::UNKNOWN) };
        let line = u32::try_from(line).map_err(|_| self.bad("a line beyond 32 bits"))?;
        let column = self.u32()?;
        let file = self.word()?;
        Ok(crate::site::intern(file).map_or(Site::UNKNOWN, |file| Site::new(file, line, column)))
    }
    fn attr(&mut self, kind: AttrKind, depth: usize) -> Result<Attr> {
        Ok(match kind {
            AttrKind::Bool => match self.byte()? {
                b @ 0..=1 => Attr::Bool(b == 1),
                b => return Err(self.bad(format!("expected a flag, 0 or 1, found {b}"))),
            },
            AttrKind::Int => Attr::Int(self.i64()?),
            AttrKind::Float => {
                let b = self.take(8)?;
                Attr::Float(f64::from_bits(u64::from_le_bytes(std::array::from_fn(|i| b[i]))))
            }
            AttrKind::Str => Attr::from(self.word()?),
            AttrKind::Ints => Attr::Ints(self.many(Self::i64)?.into()),
            AttrKind::DType => Attr::DType(self.dtype()?),
            AttrKind::Literal => {
                let t = self.ty()?;
                let bytes = self.take(t.bytes())?;
                Attr::Literal(Literal::from_bytes(t.dtype, t.shape, bytes).map_err(|e| self.bad(e.message))?)
            }
            AttrKind::Graph => Attr::Graph(Arc::new(self.graph(depth + 1)?)),
            AttrKind::Peers => return Err(self.bad("ranks that a process exchanges with, not a file")),
            AttrKind::Custom => return Err(self.bad("an op that is defined in a process, not in a file")),
        })
    }
}
