//! Attributes: the arguments of an op that are fixed when its node is made.

use crate::{Custom, DType, Error, Graph, Literal, PeersHandle, Result};
use smallvec::SmallVec;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One attribute's value.
#[derive(Clone, Debug)]
pub enum Attr {
    /// A flag.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number; compared and hashed by its bits.
    Float(f64),
    /// A word.
    Str(Arc<str>),
    /// A list of integers: axes, sizes, strides.
    Ints(SmallVec<[i64; 4]>),
    /// An element type.
    DType(DType),
    /// A constant tensor.
    Literal(Literal),
    /// A sub-graph, for control flow.
    Graph(Arc<Graph>),
    /// The rules of an op of the program's own. It lives in this process only: files cannot hold it.
    Custom(Custom),
    /// The ranks that a communication op exchanges with. It lives in this process only.
    Peers(PeersHandle),
}

/// What an attribute must be; the op table states it, the verifier and the parsers check it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrKind {
    /// [`Attr::Bool`]
    Bool,
    /// [`Attr::Int`]
    Int,
    /// [`Attr::Float`]
    Float,
    /// [`Attr::Str`]
    Str,
    /// [`Attr::Ints`]
    Ints,
    /// [`Attr::DType`]
    DType,
    /// [`Attr::Literal`]
    Literal,
    /// [`Attr::Graph`]
    Graph,
    /// [`Attr::Custom`]
    Custom,
    /// [`Attr::Peers`]
    Peers,
}

impl Attr {
    /// Which kind it is.
    pub fn kind(&self) -> AttrKind {
        match self {
            Attr::Bool(_) => AttrKind::Bool,
            Attr::Int(_) => AttrKind::Int,
            Attr::Float(_) => AttrKind::Float,
            Attr::Str(_) => AttrKind::Str,
            Attr::Ints(_) => AttrKind::Ints,
            Attr::DType(_) => AttrKind::DType,
            Attr::Literal(_) => AttrKind::Literal,
            Attr::Graph(_) => AttrKind::Graph,
            Attr::Custom(_) => AttrKind::Custom,
            Attr::Peers(_) => AttrKind::Peers,
        }
    }
}

/// Numbers are equal if their bits are: 0.0 and -0.0 are two constants, a NaN equals itself.
impl PartialEq for Attr {
    fn eq(&self, other: &Attr) -> bool {
        match (self, other) {
            (Attr::Bool(a), Attr::Bool(b)) => a == b,
            (Attr::Int(a), Attr::Int(b)) => a == b,
            (Attr::Float(a), Attr::Float(b)) => a.to_bits() == b.to_bits(),
            (Attr::Str(a), Attr::Str(b)) => a == b,
            (Attr::Ints(a), Attr::Ints(b)) => a == b,
            (Attr::DType(a), Attr::DType(b)) => a == b,
            (Attr::Literal(a), Attr::Literal(b)) => a == b,
            (Attr::Graph(a), Attr::Graph(b)) => a == b,
            (Attr::Custom(a), Attr::Custom(b)) => a == b,
            (Attr::Peers(a), Attr::Peers(b)) => a == b,
            _ => false,
        }
    }
}
impl Eq for Attr {}
impl Hash for Attr {
    fn hash<H: Hasher>(&self, h: &mut H) {
        std::mem::discriminant(self).hash(h);
        match self {
            Attr::Bool(x) => x.hash(h),
            Attr::Int(x) => x.hash(h),
            Attr::Float(x) => x.to_bits().hash(h),
            Attr::Str(x) => x.hash(h),
            Attr::Ints(x) => x.hash(h),
            Attr::DType(x) => x.hash(h),
            Attr::Literal(x) => (x.dtype(), x.shape(), x.bytes()).hash(h),
            Attr::Graph(x) => x.hash(h),
            Attr::Custom(x) => x.hash(h),
            Attr::Peers(x) => x.hash(h),
        }
    }
}
impl From<bool> for Attr {
    fn from(x: bool) -> Attr {
        Attr::Bool(x)
    }
}
impl From<i64> for Attr {
    fn from(x: i64) -> Attr {
        Attr::Int(x)
    }
}
impl From<usize> for Attr {
    fn from(x: usize) -> Attr {
        Attr::Int(x as i64)
    }
}
impl From<f64> for Attr {
    fn from(x: f64) -> Attr {
        Attr::Float(x)
    }
}
impl From<&str> for Attr {
    fn from(x: &str) -> Attr {
        Attr::Str(x.into())
    }
}
impl From<DType> for Attr {
    fn from(x: DType) -> Attr {
        Attr::DType(x)
    }
}
impl From<Literal> for Attr {
    fn from(x: Literal) -> Attr {
        Attr::Literal(x)
    }
}
impl From<Arc<Graph>> for Attr {
    fn from(x: Arc<Graph>) -> Attr {
        Attr::Graph(x)
    }
}
impl From<Custom> for Attr {
    fn from(x: Custom) -> Attr {
        Attr::Custom(x)
    }
}
impl From<PeersHandle> for Attr {
    fn from(x: PeersHandle) -> Attr {
        Attr::Peers(x)
    }
}
impl From<&[i64]> for Attr {
    fn from(x: &[i64]) -> Attr {
        Attr::Ints(SmallVec::from_slice(x))
    }
}
impl From<&[usize]> for Attr {
    fn from(x: &[usize]) -> Attr {
        Attr::Ints(x.iter().map(|&v| v as i64).collect())
    }
}
impl From<&crate::Shape> for Attr {
    fn from(x: &crate::Shape) -> Attr {
        Attr::from(x.dims())
    }
}
impl<T> From<&Vec<T>> for Attr
where
    for<'a> Attr: From<&'a [T]>,
{
    fn from(x: &Vec<T>) -> Attr {
        Attr::from(x.as_slice())
    }
}
impl<T, const N: usize> From<[T; N]> for Attr
where
    for<'a> Attr: From<&'a [T]>,
{
    fn from(x: [T; N]) -> Attr {
        Attr::from(x.as_slice())
    }
}

/// The attributes of a node: few, named, in the order of the op's row.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Attrs(SmallVec<[(&'static str, Attr); 2]>);

impl Attrs {
    /// None.
    pub fn new() -> Attrs {
        Attrs::default()
    }
    /// With one more.
    pub fn with(mut self, name: &'static str, value: impl Into<Attr>) -> Attrs {
        self.0.push((name, value.into()));
        self
    }
    /// With one replaced (or added).
    pub fn set(mut self, name: &'static str, value: impl Into<Attr>) -> Attrs {
        let value = value.into();
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some((_, v)) => *v = value,
            None => self.0.push((name, value)),
        }
        self
    }
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &(&'static str, Attr)> {
        self.0.iter()
    }
    /// One by name.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }
    fn bad<T>(&self, name: &str, want: &str) -> Result<T> {
        Err(Error::value(match self.get(name) {
            None => format!("attribute {name} is missing"),
            Some(a) => format!("attribute {name} must be {want}, not {a:?}"),
        }))
    }
    /// A flag.
    pub fn bool(&self, name: &str) -> Result<bool> {
        if let Some(Attr::Bool(x)) = self.get(name) { Ok(*x) } else { self.bad(name, "a flag") }
    }
    /// An integer.
    pub fn int(&self, name: &str) -> Result<i64> {
        if let Some(Attr::Int(x)) = self.get(name) { Ok(*x) } else { self.bad(name, "an integer") }
    }
    /// An integer that is not negative.
    pub fn size(&self, name: &str) -> Result<usize> {
        match self.get(name) {
            Some(Attr::Int(x)) if *x >= 0 => Ok(*x as usize),
            _ => self.bad(name, "an integer, 0 or more"),
        }
    }
    /// A number.
    pub fn float(&self, name: &str) -> Result<f64> {
        if let Some(Attr::Float(x)) = self.get(name) { Ok(*x) } else { self.bad(name, "a number") }
    }
    /// A word.
    pub fn str(&self, name: &str) -> Result<&str> {
        if let Some(Attr::Str(x)) = self.get(name) { Ok(x) } else { self.bad(name, "a word") }
    }
    /// A list of integers.
    pub fn ints(&self, name: &str) -> Result<&[i64]> {
        if let Some(Attr::Ints(x)) = self.get(name) { Ok(x) } else { self.bad(name, "a list of integers") }
    }
    /// A list of integers that are not negative.
    pub fn sizes(&self, name: &str) -> Result<SmallVec<[usize; 4]>> {
        match self.get(name) {
            Some(Attr::Ints(x)) if x.iter().all(|&v| v >= 0) => Ok(x.iter().map(|&v| v as usize).collect()),
            _ => self.bad(name, "a list of integers, 0 or more"),
        }
    }
    /// An element type.
    pub fn dtype(&self, name: &str) -> Result<DType> {
        if let Some(Attr::DType(x)) = self.get(name) { Ok(*x) } else { self.bad(name, "an element type") }
    }
    /// A constant.
    pub fn literal(&self, name: &str) -> Result<&Literal> {
        if let Some(Attr::Literal(x)) = self.get(name) { Ok(x) } else { self.bad(name, "a constant") }
    }
    /// A sub-graph.
    pub fn graph(&self, name: &str) -> Result<&Arc<Graph>> {
        if let Some(Attr::Graph(x)) = self.get(name) { Ok(x) } else { self.bad(name, "a graph") }
    }
    /// The ranks that a communication op exchanges with.
    pub fn peers(&self, name: &str) -> Result<&PeersHandle> {
        if let Some(Attr::Peers(x)) = self.get(name) { Ok(x) } else { self.bad(name, "a group of ranks") }
    }
    /// Rules of the program's own.
    pub fn custom(&self, name: &str) -> Result<&Custom> {
        if let Some(Attr::Custom(x)) = self.get(name) { Ok(x) } else { self.bad(name, "an op of the program's own") }
    }
}

impl fmt::Debug for Attrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(k, v)| (k, v))).finish()
    }
}
