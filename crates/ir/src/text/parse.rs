//! Reading the text form. Whatever comes, the answer is a graph that keeps the rules or an error
//! that names the line, the column and what was expected.

use super::VERSION;
use super::lex::{Lexer, Spot, Token};
use crate::verify::{DEPTH_MAX, is_sound};
use crate::{
    Attr, AttrKind, Attrs, CONST, DType, Element, FlatNode, Graph, INPUT, Literal, Op, Result, Shape, Site, Slot, Type,
    Types, with_dtype,
};
use crate::{f8e4m3, f8e5m2};
use half::{bf16, f16};
use smallvec::SmallVec;
use std::fmt::Display;
use std::sync::Arc;

/// Finds a row by name.
pub type Find<'a> = &'a dyn Fn(&str) -> Option<&'static Op>;

impl Graph {
    /// Reads the text form. `find` gives the row of an op's name.
    ///
    /// ```
    /// # use talweg_ir::Graph;
    /// let text = "talweg graph 1\n%0 = const [1.5, nan] : f32[2]\nreturn %0\n";
    /// assert_eq!(Graph::parse(text, &|_| None).unwrap().to_string(), text);
    /// let e = Graph::parse("talweg graph 1\n%0 = cosnt [1.5]", &|_| None).unwrap_err();
    /// assert_eq!(e.message, "line 2, column 6: there is no op named `cosnt`");
    /// ```
    pub fn parse(text: &str, find: Find) -> Result<Graph> {
        let mut p = Parser::new(text, find)?;
        p.keyword("talweg")?;
        p.keyword("graph")?;
        let at = p.at;
        let version = p.number::<u32>("a version")?;
        if version != VERSION {
            return Err(at.error(format!("the text has version {version}, but only version {VERSION} is understood")));
        }
        let graph = p.graph(0)?;
        p.comments()?;
        match &p.token {
            Token::End => Ok(graph),
            _ => Err(p.expected("the end of the text after `return`")),
        }
    }
}

struct Parser<'a, 'f> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    at: Spot,
    /// Where the word before started.
    before: Spot,
    find: Find<'f>,
}

impl<'a, 'f> Parser<'a, 'f> {
    fn new(text: &'a str, find: Find<'f>) -> Result<Parser<'a, 'f>> {
        let mut lexer = Lexer::new(text);
        let (token, at) = lexer.next()?;
        let mut p = Parser { lexer, token, at, before: at, find };
        p.comments()?;
        Ok(p)
    }
    fn step(&mut self) -> Result<Token<'a>> {
        let (token, at) = self.lexer.next()?;
        self.before = std::mem::replace(&mut self.at, at);
        Ok(std::mem::replace(&mut self.token, token))
    }
    fn comments(&mut self) -> Result<()> {
        while matches!(self.token, Token::Comment(_)) {
            self.step()?;
        }
        Ok(())
    }
    fn expected(&self, what: impl Display) -> crate::Error {
        self.at.error(format!("expected {what}, found {}", self.token.show()))
    }
    fn is_mark(&self, c: char) -> bool {
        self.token == Token::Mark(c)
    }
    fn mark(&mut self, c: char) -> Result<()> {
        if !self.is_mark(c) {
            return Err(self.expected(format!("`{c}`")));
        }
        self.step().map(drop)
    }
    fn keyword(&mut self, word: &str) -> Result<()> {
        if self.token != Token::Word(word) {
            return Err(self.expected(format!("`{word}`")));
        }
        self.step().map(drop)
    }
    fn word(&mut self, what: &str) -> Result<&'a str> {
        let Token::Word(w) = self.token else { return Err(self.expected(what)) };
        self.step()?;
        Ok(w)
    }
    fn string(&mut self, what: &str) -> Result<String> {
        if !matches!(self.token, Token::Str(_)) {
            return Err(self.expected(what));
        }
        match self.step()? {
            Token::Str(s) => Ok(s),
            _ => Err(crate::Error::bug("looked at above")),
        }
    }
    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T> {
        let parsed = if let Token::Number(n) = self.token { n.parse().ok() } else { None };
        let Some(x) = parsed else { return Err(self.expected(what)) };
        self.step()?;
        Ok(x)
    }
    /// Items with commas between them up to a closing mark, which is taken too.
    fn until<T>(&mut self, close: char, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut out = Vec::new();
        if !self.is_mark(close) {
            out.push(one(self)?);
            while self.is_mark(',') {
                self.step()?;
                out.push(one(self)?);
            }
        }
        if !self.is_mark(close) {
            return Err(self.expected(format!("`,` or `{close}`")));
        }
        self.step()?;
        Ok(out)
    }

    /// Nodes up to and with the `return`.
    fn graph(&mut self, depth: usize) -> Result<Graph> {
        let mut g = Graph::new();
        loop {
            self.comments()?;
            match self.token {
                Token::Slot(n, 0) if n as usize == g.nodes.len() => self.node(&mut g, depth)?,
                Token::Word("return") => break,
                _ => return Err(self.expected(format!("`%{} = …` or `return`", g.nodes.len()))),
            }
        }
        self.step()?;
        g.outputs = self.slots(&g)?;
        Ok(g)
    }

    /// Values with commas between them, or none.
    fn slots(&mut self, g: &Graph) -> Result<Vec<Slot>> {
        let mut out = Vec::new();
        if matches!(self.token, Token::Slot(..)) {
            out.push(self.slot(g)?);
            while self.is_mark(',') {
                self.step()?;
                out.push(self.slot(g)?);
            }
        }
        Ok(out)
    }

    fn slot(&mut self, g: &Graph) -> Result<Slot> {
        let Token::Slot(node, out) = self.token else { return Err(self.expected("a value such as `%0`")) };
        match g.nodes.get(node as usize) {
            None => return Err(self.expected("a value defined above")),
            Some(n) if out as usize >= n.outs.len() => {
                let e = format!("expected one of the {} outputs of %{node}, found `%{node}.{out}`", n.outs.len());
                return Err(self.at.error(e));
            }
            Some(_) => {}
        }
        self.step()?;
        Ok(Slot { node, out })
    }

    fn node(&mut self, g: &mut Graph, depth: usize) -> Result<()> {
        let start = self.at;
        self.step()?;
        self.mark('=')?;
        let op = self.op()?;
        let inputs = self.slots(g)?.into();
        let (attrs, outs) = if op == &INPUT && matches!(self.token, Token::Str(_)) {
            let name = self.string("a name")?;
            let outs = self.types()?;
            let t = outs.first().ok_or_else(|| start.error("an input has one type"))?;
            (Attrs::new().with("dtype", t.dtype).with("shape", &t.shape).with("name", name.as_str()), outs)
        } else if op == &CONST && self.is_mark('[') {
            self.constant()?
        } else {
            (self.attrs(op, depth)?, self.types()?)
        };
        let site = self.site()?;
        if op == &INPUT {
            g.inputs.push(g.nodes.len() as u32);
        }
        g.nodes.push(FlatNode { op, inputs, attrs, outs, site });
        checked(g, depth).map_err(|e| start.error(e))
    }

    fn op(&mut self) -> Result<&'static Op> {
        let at = self.at;
        let name = self.word("the name of an op")?;
        let own = [&INPUT, &CONST].into_iter().find(|o| o.name == name);
        own.or_else(|| (self.find)(name)).ok_or_else(|| at.error(format!("there is no op named `{name}`")))
    }

    /// `[elements] : type` of a constant.
    fn constant(&mut self) -> Result<(Attrs, Types)> {
        let at = self.at;
        self.step()?;
        let words = self.until(']', Self::element)?;
        let outs = self.types()?;
        let [t] = outs.as_slice() else { return Err(at.error("a constant has one type")) };
        let value = literal(t, &words)?.ok_or_else(|| at.error(wrong_count(t, words.len())))?;
        Ok((Attrs::new().with("value", value), outs))
    }

    fn attrs(&mut self, op: &'static Op, depth: usize) -> Result<Attrs> {
        if !self.is_mark('{') {
            return Ok(Attrs::new());
        }
        self.step()?;
        let mut out = Attrs::new();
        self.until('}', |p| {
            let at = p.at;
            let name = p.word("the name of an attribute")?;
            let Some((name, kind)) = op.attrs.iter().find(|(n, _)| *n == name) else {
                let known: Vec<&str> = op.attrs.iter().map(|(n, _)| *n).collect();
                let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
                return Err(at.error(format!("{} has no attribute `{name}`; it has {known}", op.name)));
            };
            if out.get(name).is_some() {
                return Err(at.error(format!("attribute {name} is given twice")));
            }
            p.mark(':')?;
            let value = p.attr(*kind, depth)?;
            out = std::mem::take(&mut out).with(name, value);
            Ok(())
        })?;
        Ok(out)
    }

    fn attr(&mut self, kind: AttrKind, depth: usize) -> Result<Attr> {
        Ok(match kind {
            AttrKind::Bool => match self.token {
                Token::Word(w @ ("true" | "false")) => {
                    self.step()?;
                    Attr::Bool(w == "true")
                }
                _ => return Err(self.expected("`true` or `false`")),
            },
            AttrKind::Int => Attr::Int(self.number("an integer")?),
            AttrKind::Float => {
                let (word, at) = self.element()?;
                Attr::Float(number(&word).ok_or_else(|| at.error(format!("expected a number, found {}", word.show())))?)
            }
            AttrKind::Str => Attr::from(self.string("a quoted string")?.as_str()),
            AttrKind::Ints => {
                self.mark('[')?;
                Attr::Ints(self.until(']', |p| p.number("an integer"))?.into())
            }
            AttrKind::DType => Attr::DType(self.dtype()?),
            AttrKind::Literal => {
                let t = self.ty()?;
                let at = self.at;
                self.mark('[')?;
                let words = self.until(']', Self::element)?;
                Attr::Literal(literal(&t, &words)?.ok_or_else(|| at.error(wrong_count(&t, words.len())))?)
            }
            AttrKind::Peers => return Err(self.expected("ranks that a process exchanges with, not a file")),
            AttrKind::Custom => return Err(self.expected("an op that is defined in a process, not in a file")),
            AttrKind::Graph => {
                if depth >= DEPTH_MAX {
                    return Err(self.at.error(format!("sub-graphs are nested more than {DEPTH_MAX} deep")));
                }
                self.keyword("graph")?;
                self.mark('{')?;
                let g = self.graph(depth + 1)?;
                self.comments()?;
                self.mark('}')?;
                Attr::Graph(Arc::new(g))
            }
        })
    }

    fn dtype(&mut self) -> Result<DType> {
        let found = if let Token::Word(w) = self.token { DType::ALL.into_iter().find(|d| d.name() == w) } else { None };
        let Some(d) = found else { return Err(self.expected("an element type such as `f32`")) };
        self.step()?;
        Ok(d)
    }
    fn ty(&mut self) -> Result<Type> {
        let at = self.at;
        let dtype = self.dtype()?;
        self.mark('[')?;
        let shape: Shape = self.until(']', |p| p.number::<usize>("a size"))?.into();
        let t = Type { dtype, shape };
        is_sound(&t).map_err(|e| at.error(e))?;
        Ok(t)
    }
    fn types(&mut self) -> Result<Types> {
        self.mark(':')?;
        if self.is_mark('(') {
            self.step()?;
            return Ok(self.until(')', Self::ty)?.into());
        }
        Ok(SmallVec::from_iter([self.ty()?]))
    }

    /// One element of a constant, as it stands.
    fn element(&mut self) -> Result<(Word<'a>, Spot)> {
        let at = self.at;
        let word = match self.token {
            Token::Number(n) => Word::Text(n),
            Token::Word(w @ ("inf" | "nan" | "true" | "false")) => Word::Text(w),
            _ => return Err(self.expected("a number, `inf`, `nan`, `true` or `false`")),
        };
        self.step()?;
        if word == Word::Text("nan") && self.is_mark('(') {
            self.step()?;
            let bits = match self.token {
                Token::Number(n) => n.strip_prefix("0x").and_then(|n| u64::from_str_radix(n, 16).ok()),
                _ => None,
            };
            let bits = bits.ok_or_else(|| self.expected("the bits of a NaN such as `0x7fc00001`"))?;
            self.step()?;
            self.mark(')')?;
            return Ok((Word::Bits(bits), at));
        }
        Ok((word, at))
    }

    /// The user's line, if the node names one.
    fn site(&mut self) -> Result<Site> {
        let Token::Comment(text) = self.token else { return Ok(Site::UNKNOWN) };
        if self.before.line != self.at.line {
            return Ok(Site::UNKNOWN);
        }
        let site = read_site(text);
        self.step()?;
        Ok(site.unwrap_or(Site::UNKNOWN))
    }
}

fn wrong_count(t: &Type, n: usize) -> String {
    format!("expected {} elements for {t}, found {n}", t.paired().shape.count())
}

/// Checks the last node. A type rule that fails on arguments its author did not foresee must not
/// take the reader down with it.
pub(crate) fn checked(g: &Graph, depth: usize) -> Result<(), String> {
    let last = g.nodes.len() - 1;
    let check = std::panic::AssertUnwindSafe(|| g.verify_node(last, depth));
    match std::panic::catch_unwind(check) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(format!("{}: {}", g.nodes[last].op.name, e.message)),
        Err(_) => Err(format!("{}: the type rule of the op panicked", g.nodes[last].op.name)),
    }
}

/// `file:line:column`, `file:line`, the file quoted where it has odd characters.
fn read_site(text: &str) -> Option<Site> {
    let (file, rest) = if text.starts_with('"') {
        let mut lexer = Lexer::new(text);
        let Ok((Token::Str(file), _)) = lexer.next() else { return None };
        let Ok((Token::Mark(':'), _)) = lexer.next() else { return None };
        (file, text.rsplit('"').next()?.strip_prefix(':')?)
    } else {
        let (file, rest) = text.split_once(':')?;
        (file.to_string(), rest)
    };
    let (line, column) = rest.split_once(':').unwrap_or((rest, "0"));
    Some(Site::new(crate::site::intern(&file)?, line.parse().ok()?, column.parse().ok()?))
}

/// An element before its type is known.
#[derive(Clone, PartialEq, Debug)]
enum Word<'a> {
    Text(&'a str),
    /// A NaN with these bits.
    Bits(u64),
}
impl Word<'_> {
    fn show(&self) -> String {
        match self {
            Word::Text(t) => format!("`{t}`"),
            Word::Bits(b) => format!("`nan({b:#x})`"),
        }
    }
}

fn number(w: &Word) -> Option<f64> {
    match w {
        Word::Text("nan") => Some(f64::NAN),
        Word::Text(t @ ("inf" | "-inf")) => t.parse().ok(),
        // Rust reads words such as `infinity` too; the form has one spelling.
        Word::Text(t) if t.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c)) => t.parse().ok(),
        Word::Text(_) => None,
        Word::Bits(b) => Some(f64::from_bits(*b)).filter(|x| x.is_nan()),
    }
}

/// The constant of that type; `None` if the count is another.
fn literal(t: &Type, words: &[(Word, Spot)]) -> Result<Option<Literal>> {
    if t.dtype.is_complex() {
        let pairs = literal(&t.paired(), words)?;
        return Ok(pairs.map(|l| l.retyped(t.dtype, t.shape.clone())));
    }
    if t.shape.count() != words.len() {
        return Ok(None);
    }
    let size = t.dtype.size();
    let mut bytes = Vec::with_capacity(words.len() * size);
    for (w, at) in words {
        let bits = element_bits(t.dtype, w)
            .ok_or_else(|| at.error(format!("expected an element of type {}, found {}", t.dtype, w.show())))?;
        bytes.extend_from_slice(&bits.to_le_bytes()[..size]);
    }
    Literal::from_bytes(t.dtype, t.shape.clone(), &bytes).map(Some)
}

fn element_bits(d: DType, w: &Word) -> Option<u64> {
    let Word::Text(t) = *w else {
        let Word::Bits(b) = *w else { return None };
        let is_nan = match d {
            DType::F64 => f64::from_bits(b).is_nan(),
            DType::F32 => u32::try_from(b).is_ok_and(|b| f32::from_bits(b).is_nan()),
            DType::F16 => u16::try_from(b).is_ok_and(|b| f16::from_bits(b).is_nan()),
            DType::BF16 => u16::try_from(b).is_ok_and(|b| bf16::from_bits(b).is_nan()),
            DType::F8E4M3 => u8::try_from(b).is_ok_and(|b| f8e4m3::from_bits(b).to_f32().is_nan()),
            DType::F8E5M2 => u8::try_from(b).is_ok_and(|b| f8e5m2::from_bits(b).to_f32().is_nan()),
            _ => false,
        };
        return is_nan.then_some(b);
    };
    let single = || if t == "nan" { Some(f32::NAN) } else { number(w).and_then(|_| t.parse().ok()) };
    match d {
        DType::Bool => (t == "true").then_some(1).or((t == "false").then_some(0)),
        DType::F64 => number(w).map(f64::to_bits),
        DType::F32 => single().map(|x| x.to_bits() as u64),
        DType::F16 if t == "nan" => Some(f16::NAN.to_bits() as u64),
        DType::BF16 if t == "nan" => Some(bf16::NAN.to_bits() as u64),
        DType::F8E4M3 => single().map(|x| f8e4m3::from_f32(x).to_bits() as u64),
        DType::F8E5M2 => single().map(|x| f8e5m2::from_f32(x).to_bits() as u64),
        DType::F16 => single().map(|x| f16::from_f32(x).to_bits() as u64),
        DType::BF16 => single().map(|x| bf16::from_f32(x).to_bits() as u64),
        _ => {
            let x: i128 = t.parse().ok()?;
            let fits = with_dtype!(d, T => <T as Element>::from_int(x).to_int() == x);
            fits.then_some(x as u64)
        }
    }
}
