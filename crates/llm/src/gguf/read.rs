//! Reading a file: header, metadata, where the tensors lie.

use ir::blocks::{Format, dequantize};
use ir::{DType, Error, ErrorKind, Literal, Result, Shape};
use memmap2::Mmap;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Dimensions a tensor has at most.
const RANK_MAX: u32 = 4;
/// Levels of arrays in arrays.
const NESTING_MAX: u32 = 4;

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer; every integer type of the file.
    Int(i64),
    /// An integer beyond the range of `i64`.
    Large(u64),
    /// A float.
    Float(f64),
    /// A flag.
    Bool(bool),
    /// Text. Vocabularies may hold bytes that are not UTF-8.
    Str(Vec<u8>),
    /// Values of one type.
    Array(Vec<Value>),
}

/// Where a tensor lies, and what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// Rows first, as everywhere in Talweg: the last dimension is contiguous.
    pub shape: Shape,
    /// How its weights are stored.
    pub format: Format,
    offset: usize,
    bytes: usize,
}

/// An open file.
pub struct Gguf {
    path: PathBuf,
    map: Arc<Mmap>,
    metadata: BTreeMap<String, Value>,
    tensors: BTreeMap<String, Info>,
}

impl Gguf {
    /// Maps a file and reads all but its weights.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf> {
        let path = path.as_ref().to_path_buf();
        let in_file = |kind: ErrorKind, e: String| Error::new(kind, format!("{}: {e}", path.display()));
        let file = File::open(&path).map_err(|e| in_file(ErrorKind::Io, e.to_string()))?;
        let map = Arc::new(crate::models::map(&file).map_err(|e| in_file(ErrorKind::Io, e.to_string()))?);
        let (metadata, tensors) = parse(&map).map_err(|e| in_file(e.kind, e.message))?;
        Ok(Gguf { path, map, metadata, tensors })
    }
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// The mapped file.
    pub(crate) fn map(&self) -> &Arc<Mmap> {
        &self.map
    }
    /// The metadata, by key.
    pub fn metadata(&self) -> &BTreeMap<String, Value> {
        &self.metadata
    }
    /// The tensors, by name.
    pub fn tensors(&self) -> &BTreeMap<String, Info> {
        &self.tensors
    }

    fn missing(&self, what: &str, key: &str) -> Error {
        Error::format(format!("{}: there is no {what} {key:?}", self.path.display()))
    }
    fn value(&self, key: &str) -> Result<&Value> {
        self.metadata.get(key).ok_or_else(|| self.missing("metadata", key))
    }
    fn typed<'a, T>(&'a self, key: &str, want: &str, f: impl FnOnce(&'a Value) -> Option<T>) -> Result<T> {
        let e = || Error::format(format!("{}: metadata {key:?} is not {want}", self.path.display()));
        f(self.value(key)?).ok_or_else(e)
    }
    /// A non-negative integer.
    pub fn size(&self, key: &str) -> Result<usize> {
        self.typed(key, "a size", |v| if let Value::Int(n) = v { usize::try_from(*n).ok() } else { None })
    }
    /// A number.
    pub fn float(&self, key: &str) -> Result<f64> {
        self.typed(key, "a number", |v| match v {
            Value::Float(x) => Some(*x),
            Value::Int(n) => Some(*n as f64),
            _ => None,
        })
    }
    /// A flag.
    pub fn bool(&self, key: &str) -> Result<bool> {
        self.typed(key, "a flag", |v| if let Value::Bool(b) = v { Some(*b) } else { None })
    }
    /// Text.
    pub fn str(&self, key: &str) -> Result<&str> {
        self.typed(key, "text", |v| if let Value::Str(s) = v { std::str::from_utf8(s).ok() } else { None })
    }
    /// An array.
    pub fn array(&self, key: &str) -> Result<&[Value]> {
        self.typed(key, "an array", |v| if let Value::Array(a) = v { Some(&a[..]) } else { None })
    }

    /// A tensor's shape and format.
    pub fn info(&self, name: &str) -> Result<&Info> {
        self.tensors.get(name).ok_or_else(|| self.missing("tensor", name))
    }
    /// A tensor's bytes, as they lie in the file.
    pub fn bytes(&self, name: &str) -> Result<&[u8]> {
        let info = self.info(name)?;
        Ok(&self.map[info.offset..info.offset + info.bytes])
    }
    /// A tensor as 32-bit floats.
    pub fn dequantized(&self, name: &str) -> Result<Literal> {
        let info = self.info(name)?;
        let mut out = vec![0.0f32; info.shape.count()];
        dequantize(info.format, self.bytes(name)?, &mut out)?;
        let literal = Literal::new(info.shape.clone(), &out)?;
        assert_eq!(literal.dtype(), DType::F32);
        Ok(literal)
    }
}

/// A place in the file.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

macro_rules! number {
    ($($name:ident: $t:ty),*) => {$(
        fn $name(&mut self) -> Result<$t> {
            let mut raw = [0; size_of::<$t>()];
            raw.copy_from_slice(self.take(size_of::<$t>())?);
            Ok(<$t>::from_le_bytes(raw))
        }
    )*};
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let left = self.bytes.len() - self.at;
        if n > left {
            return Err(Error::format(format!("the file ends at byte {}, {} too early", self.bytes.len(), n - left)));
        }
        self.at += n;
        Ok(&self.bytes[self.at - n..self.at])
    }
    number!(u16: u16, u32: u32, u64: u64, i16: i16, i32: i32, i64: i64, f32: f32, f64: f64);
    fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    /// A count of things that take at least `least` bytes each: more than the rest of the file holds is an error.
    fn count(&mut self, least: usize, what: &str) -> Result<usize> {
        let n = self.u64()?;
        let room = (self.bytes.len() - self.at) / least;
        match usize::try_from(n) {
            Ok(n) if n <= room => Ok(n),
            _ => Err(Error::format(format!("{n} {what} are announced, but the file has room for {room}"))),
        }
    }
    fn string(&mut self) -> Result<&'a [u8]> {
        let n = self.count(1, "bytes of text")?;
        self.take(n)
    }
    fn name(&mut self) -> Result<String> {
        let at = self.at;
        let bytes = self.string()?;
        let text = std::str::from_utf8(bytes).map_err(|e| Error::format(format!("the name at byte {at}: {e}")))?;
        Ok(text.to_string())
    }

    fn value(&mut self, kind: u32, depth: u32) -> Result<Value> {
        Ok(match kind {
            0 => Value::Int(self.u8()?.into()),
            1 => Value::Int((self.u8()? as i8).into()),
            2 => Value::Int(self.u16()?.into()),
            3 => Value::Int(self.i16()?.into()),
            4 => Value::Int(self.u32()?.into()),
            5 => Value::Int(self.i32()?.into()),
            6 => Value::Float(self.f32()?.into()),
            7 => Value::Bool(match self.u8()? {
                0 => false,
                1 => true,
                other => return Err(Error::format(format!("a flag is {other}"))),
            }),
            8 => Value::Str(self.string()?.to_vec()),
            9 if depth < NESTING_MAX => {
                let kind = self.u32()?;
                let n = self.count(least_bytes(kind), "elements")?;
                Value::Array((0..n).map(|_| self.value(kind, depth + 1)).collect::<Result<_>>()?)
            }
            9 => return Err(Error::format(format!("arrays are nested more than {NESTING_MAX} deep"))),
            10 => {
                let n = self.u64()?;
                i64::try_from(n).map_or(Value::Large(n), Value::Int)
            }
            11 => Value::Int(self.i64()?),
            12 => Value::Float(self.f64()?),
            other => return Err(Error::format(format!("metadata of type {other} is unknown"))),
        })
    }
}

/// The fewest bytes a value of a type takes.
fn least_bytes(kind: u32) -> usize {
    match kind {
        2 | 3 => 2,
        4..=6 => 4,
        8 | 10..=12 => 8,
        9 => 12,
        _ => 1,
    }
}

type Parsed = (BTreeMap<String, Value>, BTreeMap<String, Info>);

fn parse(bytes: &[u8]) -> Result<Parsed> {
    let mut r = Reader { bytes, at: 0 };
    if r.take(4)? != b"GGUF" {
        return Err(Error::format("is not a GGUF file"));
    }
    let version = r.u32()?;
    if !(2..=3).contains(&version) {
        return Err(Error::format(format!("is GGUF version {version}, but versions 2 and 3 are understood")));
    }
    let tensors = r.count(24, "tensors")?;
    let entries = r.count(13, "metadata entries")?;
    let mut metadata = BTreeMap::new();
    for _ in 0..entries {
        let key = r.name()?;
        let kind = r.u32()?;
        let value = r.value(kind, 0).map_err(|e| Error::format(format!("metadata {key:?}: {}", e.message)))?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(Error::format(format!("metadata {key:?} is there twice")));
        }
    }
    let mut found = BTreeMap::new();
    for _ in 0..tensors {
        let name = r.name()?;
        let info = info(&mut r).map_err(|e| Error::format(format!("tensor {name:?}: {}", e.message)))?;
        if found.insert(name.clone(), info).is_some() {
            return Err(Error::format(format!("tensor {name:?} is there twice")));
        }
    }
    let alignment = match metadata.get("general.alignment") {
        None => 32,
        Some(Value::Int(n)) if (1..=1 << 20).contains(n) => *n as usize,
        Some(v) => return Err(Error::format(format!("the alignment is {v:?}"))),
    };
    let data = r.at.next_multiple_of(alignment);
    for (name, info) in &mut found {
        let end = data.checked_add(info.offset).and_then(|at| at.checked_add(info.bytes));
        match end {
            Some(end) if end <= bytes.len() && info.offset.is_multiple_of(alignment) => info.offset += data,
            _ => return Err(Error::format(format!("tensor {name:?} does not lie in the file"))),
        }
    }
    Ok((metadata, found))
}

fn info(r: &mut Reader) -> Result<Info> {
    let rank = r.u32()?;
    if rank > RANK_MAX {
        return Err(Error::format(format!("has {rank} dimensions, but at most {RANK_MAX} are understood")));
    }
    let mut dims = Vec::new();
    for _ in 0..rank {
        let d = r.u64()?;
        dims.push(usize::try_from(d).map_err(|_| Error::format(format!("a dimension is {d}")))?);
    }
    let format = Format::of(r.u32()?)?;
    let offset = r.u64()?;
    let weights = dims.iter().try_fold(1usize, |a, &d| a.checked_mul(d));
    let weights = weights.ok_or_else(|| Error::format(format!("{dims:?} is too large")))?;
    // Blocks lie along the contiguous dimension, which comes first in the file.
    format.bytes(dims.first().copied().unwrap_or(1))?;
    let bytes = format.bytes(weights)?;
    dims.reverse();
    let offset = usize::try_from(offset).map_err(|_| Error::format(format!("the offset is {offset}")))?;
    Ok(Info { shape: dims.into_iter().collect(), format, offset, bytes })
}
