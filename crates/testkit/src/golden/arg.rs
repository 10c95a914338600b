//! PyTorch's argument tree.

use ops::DType;
use serde_json::Value as Json;

/// One argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// A tensor, by its key.
    Tensor(String),
    /// An integer.
    Int(i64),
    /// A number; infinities and NaN included.
    Float(f64),
    /// A flag.
    Bool(bool),
    /// Python's `None`.
    None,
    /// A word.
    Str(String),
    /// A list.
    List(Vec<Arg>),
    /// A tuple.
    Tuple(Vec<Arg>),
    /// A slice: start, stop, step.
    Slice([Option<i64>; 3]),
    /// `...` in an index.
    Ellipsis,
    /// An element type.
    DType(DType),
    /// A complex number.
    Complex(f64, f64),
}

impl Arg {
    /// From JSON; the error says what was not understood.
    pub fn parse(j: &Json) -> Result<Arg, String> {
        match j {
            Json::Null => Ok(Arg::None),
            Json::Bool(b) => Ok(Arg::Bool(*b)),
            Json::String(s) => Ok(Arg::Str(s.clone())),
            Json::Array(a) => Ok(Arg::List(Arg::parse_all(a)?)),
            Json::Number(n) => match (n.as_i64(), n.as_f64()) {
                (Some(i), _) => Ok(Arg::Int(i)),
                (None, Some(f)) => Ok(Arg::Float(f)),
                _ => Err(format!("number {n}")),
            },
            Json::Object(o) => match o.iter().next().map(|(k, v)| (k.as_str(), v)) {
                Some(("t", Json::String(key))) => Ok(Arg::Tensor(key.clone())),
                Some(("tuple", Json::Array(a))) => Ok(Arg::Tuple(Arg::parse_all(a)?)),
                Some(("slice", Json::Array(a))) if a.len() == 3 => {
                    Ok(Arg::Slice(std::array::from_fn(|i| a[i].as_i64())))
                }
                Some(("ellipsis", _)) => Ok(Arg::Ellipsis),
                Some(("dtype", Json::String(d))) => DType::parse(d).map(Arg::DType).ok_or(format!("dtype {d}")),
                Some(("f", Json::String(f))) => f.parse().map(Arg::Float).map_err(|_| format!("float {f}")),
                Some(("complex", Json::Array(a))) if a.len() == 2 => match (a[0].as_f64(), a[1].as_f64()) {
                    (Some(re), Some(im)) => Ok(Arg::Complex(re, im)),
                    _ => Err(format!("complex {a:?}")),
                },
                _ => Err(format!("argument {j}")),
            },
        }
    }
    pub(super) fn parse_all(a: &[Json]) -> Result<Vec<Arg>, String> {
        a.iter().map(Arg::parse).collect()
    }
    /// The members of a list or tuple.
    pub fn items(&self) -> Option<&[Arg]> {
        if let Arg::List(a) | Arg::Tuple(a) = self { Some(a) } else { None }
    }
    /// An integer (a flag counts as 0 or 1).
    pub fn int(&self) -> Option<i64> {
        match self {
            Arg::Int(i) => Some(*i),
            Arg::Bool(b) => Some(*b as i64),
            _ => None,
        }
    }
    /// A number.
    pub fn float(&self) -> Option<f64> {
        match self {
            Arg::Float(f) => Some(*f),
            _ => self.int().map(|i| i as f64),
        }
    }
    /// Integers; a single one is a list of one.
    pub fn ints(&self) -> Option<Vec<i64>> {
        match self.items() {
            Some(items) => items.iter().map(Arg::int).collect(),
            None => self.int().map(|i| vec![i]),
        }
    }
}

/// Where an argument may stand: at a position (0 is the input), under a name, or either.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub(super) position: Option<usize>,
    pub(super) name: Option<&'static str>,
}
impl From<usize> for Place {
    fn from(position: usize) -> Place {
        Place { position: Some(position), name: None }
    }
}
impl From<&'static str> for Place {
    fn from(name: &'static str) -> Place {
        Place { position: None, name: Some(name) }
    }
}
impl From<(usize, &'static str)> for Place {
    fn from((position, name): (usize, &'static str)) -> Place {
        Place { position: Some(position), name: Some(name) }
    }
}
