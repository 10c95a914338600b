//! Tensors in files: safetensors (several by name) and NumPy's npy (one).
//!
//! safetensors has no type for complex numbers of two f64. Such a tensor is stored as F64 with a
//! last dimension of size 2, the real and the imaginary part, and the metadata say so under
//! `complex128:` and its name. Who does not know of that reads the pairs.

use crate::blocks::BlockFile;
use ir::{DType, Error, ErrorKind, Literal, Result, Shape, Type};
use ops::Tensor;
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::path::Path;

/// An error that names the file.
fn in_file(path: &Path, kind: ErrorKind, e: impl std::fmt::Display) -> Error {
    Error::new(kind, format!("{}: {e}", path.display()))
}

/// What a type is in safetensors; pairs of f64 for complex numbers of them.
fn to_safetensors(d: DType) -> Dtype {
    match d {
        DType::Bool => Dtype::BOOL,
        DType::U8 => Dtype::U8,
        DType::I8 => Dtype::I8,
        DType::U16 => Dtype::U16,
        DType::I16 => Dtype::I16,
        DType::I32 => Dtype::I32,
        DType::U32 => Dtype::U32,
        DType::U64 => Dtype::U64,
        DType::I64 => Dtype::I64,
        DType::F8E4M3 => Dtype::F8_E4M3,
        DType::F8E5M2 => Dtype::F8_E5M2,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::F32 => Dtype::F32,
        DType::F64 | DType::C128 => Dtype::F64,
        DType::C64 => Dtype::C64,
    }
}
fn from_safetensors(d: Dtype) -> Option<DType> {
    DType::ALL.into_iter().find(|&o| o != DType::C128 && to_safetensors(o) == d)
}

/// Begins the keys of the metadata that name complex tensors stored as pairs.
const PAIRS: &str = "complex128:";
/// What the metadata say of such a tensor.
const PAIRS_NOTE: &str = "the last dimension holds real and imaginary parts";

/// Encodes named tensors and free-form metadata as safetensors.
pub fn encode(tensors: &BTreeMap<String, Literal>, metadata: &BTreeMap<String, String>) -> Result<Vec<u8>> {
    let file = Encoded::new(tensors, metadata)?;
    let mut out = Vec::with_capacity(file.bytes());
    file.write(&mut out).map_err(|e| Error::bug(format!("writing to memory: {e}")))?;
    Ok(out)
}

/// A safetensors file to be: its header, and the tensors where they are. Writing it copies nothing.
pub struct Encoded<'a> {
    header: Vec<u8>,
    tensors: Vec<&'a [u8]>,
}

impl<'a> Encoded<'a> {
    /// Of named tensors and free-form metadata.
    pub fn new(tensors: &'a BTreeMap<String, Literal>, metadata: &BTreeMap<String, String>) -> Result<Encoded<'a>> {
        let entry = |(name, l): (&String, &'a Literal)| (name.clone(), l.dtype(), l.shape().clone(), l.bytes());
        Encoded::of(tensors.iter().map(entry).collect(), metadata)
    }

    /// The same of names, types, shapes and bytes.
    pub fn of(
        tensors: Vec<(String, DType, Shape, &'a [u8])>,
        metadata: &BTreeMap<String, String>,
    ) -> Result<Encoded<'a>> {
        Encoded::aligned(tensors, metadata, 8)
    }

    /// The same; tensors whose length is a multiple of `alignment` begin at multiples of it, so that the file can be
    /// mapped.
    pub fn aligned(
        tensors: Vec<(String, DType, Shape, &'a [u8])>,
        metadata: &BTreeMap<String, String>,
        alignment: usize,
    ) -> Result<Encoded<'a>> {
        if let Some(key) = metadata.keys().find(|k| k.starts_with(PAIRS)) {
            return Err(Error::value(format!("metadata must not begin with {PAIRS}: {key}")));
        }
        let mut notes = metadata.clone();
        let mut sorted = Vec::with_capacity(tensors.len());
        for (name, dtype, mut shape, bytes) in tensors {
            if dtype == DType::C128 {
                shape.push(2);
                notes.insert(format!("{PAIRS}{name}"), PAIRS_NOTE.into());
            }
            sorted.push((to_safetensors(dtype), name, shape, bytes));
        }
        // Wider elements first, which keeps all of them aligned.
        let is_odd = |bytes: &[u8]| alignment > 8 && !bytes.len().is_multiple_of(alignment);
        sorted.sort_by(|a, b| b.0.cmp(&a.0).then(is_odd(a.3).cmp(&is_odd(b.3))).then(a.1.cmp(&b.1)));
        let (mut at, mut infos, mut tensors) = (0, Vec::new(), Vec::new());
        for (dtype, name, shape, bytes) in sorted {
            let info = TensorInfo { dtype, shape: shape.to_vec(), data_offsets: (at, at + bytes.len()) };
            at += bytes.len();
            infos.push((name, info));
            tensors.push(bytes);
        }
        let notes = (!notes.is_empty()).then(|| notes.into_iter().collect());
        let header = Metadata::new(notes, infos).map_err(|e| Error::bug(e.to_string()))?;
        let mut header = serde_json::to_vec(&header).map_err(|e| Error::format(e.to_string()))?;
        header.resize((8 + header.len()).next_multiple_of(alignment) - 8, b' ');
        Ok(Encoded { header, tensors })
    }

    /// How long the file will be.
    pub fn bytes(&self) -> usize {
        8 + self.header.len() + self.tensors.iter().map(|b| b.len()).sum::<usize>()
    }

    /// Writes the file; the same each time.
    pub fn write(&self, to: &mut dyn std::io::Write) -> std::io::Result<()> {
        to.write_all(&(self.header.len() as u64).to_le_bytes())?;
        to.write_all(&self.header)?;
        self.tensors.iter().try_for_each(|b| to.write_all(b))
    }
}

/// Decodes safetensors: tensors by name, and the metadata.
pub fn decode(bytes: &[u8]) -> Result<(BTreeMap<String, Literal>, BTreeMap<String, String>)> {
    decode_with(bytes, Literal::from_bytes)
}

/// The same, with the function that makes a value of a tensor's bytes: a mapped file need not be copied.
pub fn decode_with(
    bytes: &[u8],
    literal: impl Fn(DType, Shape, &[u8]) -> Result<Literal>,
) -> Result<(BTreeMap<String, Literal>, BTreeMap<String, String>)> {
    let fail = |e: safetensors::SafeTensorError| Error::format(format!("not a safetensors file: {e}"));
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(fail)?;
    let mut metadata: BTreeMap<String, String> =
        header.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
    let file = SafeTensors::deserialize(bytes).map_err(fail)?;
    let mut out = BTreeMap::new();
    for (name, view) in file.tensors() {
        let bad = |e: String| Error::format(format!("tensor {name}: {e}"));
        let dtype = from_safetensors(view.dtype()).ok_or_else(|| {
            Error::dtype(format!("tensor {name} has the type {:?}, which is not supported", view.dtype()))
        })?;
        let mut literal = literal(dtype, Shape::new(view.shape()), view.data()).map_err(|e| bad(e.message))?;
        if metadata.remove(&format!("{PAIRS}{name}")).is_some() {
            let (DType::F64, [shape @ .., 2]) = (dtype, view.shape()) else {
                return Err(bad(format!("pairs of f64 should be stored, not {dtype}{}", literal.shape())));
            };
            literal = literal.retyped(DType::C128, Shape::new(shape));
        }
        out.insert(name, literal);
    }
    Ok((out, metadata))
}

/// Type and first byte of a tensor in a file.
pub type Entry = (Type, u64);

/// What a safetensors file holds, from its header alone: where each tensor is, and the metadata. Complex numbers of two
/// f64 are what others see.
pub fn entries(file: &BlockFile) -> Result<(BTreeMap<String, Entry>, BTreeMap<String, String>)> {
    let bad = |e: String| in_file(file.path(), ErrorKind::Format, format!("not a safetensors file: {e}"));
    let mut size = [0; 8];
    file.read(0, &mut size)?;
    let size = u64::from_le_bytes(size);
    if size > HEADER_MAX {
        return Err(bad(format!("a header of {size} bytes")));
    }
    let mut header = vec![0; size as usize];
    file.read(8, &mut header)?;
    let header: Metadata = serde_json::from_slice(&header).map_err(|e| bad(e.to_string()))?;
    let mut out = BTreeMap::new();
    for (name, info) in header.tensors() {
        let dtype = from_safetensors(info.dtype).ok_or_else(|| bad(format!("{name} has the type {:?}", info.dtype)))?;
        let ty = Type::new(dtype, Shape::new(&info.shape));
        if ty.bytes() != info.data_offsets.1 - info.data_offsets.0 {
            return Err(bad(format!("{name} of type {ty} has other bytes")));
        }
        out.insert(name, (ty, 8 + size + info.data_offsets.0 as u64));
    }
    Ok((out, header.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect()))
}
/// As in the safetensors library.
const HEADER_MAX: u64 = 100_000_000;

/// Writes tensors by name to a safetensors file. The file appears whole or not at all.
///
/// ```
/// # use talweg_tensor::{Tensor, load, save};
/// # let dir = std::env::temp_dir().join(format!("talweg-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// let path = dir.join("weights.safetensors");
/// save(&path, &[("w", &Tensor::from([1.0f32, 2.0]))]).unwrap();
/// assert_eq!(load(&path).unwrap()["w"].to_vec::<f32>().unwrap(), [1.0, 2.0]);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// ```
pub fn save(path: impl AsRef<Path>, tensors: &[(&str, &Tensor)]) -> Result<()> {
    let path = path.as_ref();
    Tensor::eval_all(&tensors.iter().map(|(_, t)| *t).collect::<Vec<_>>())?;
    let mut map = BTreeMap::new();
    for (name, t) in tensors {
        if map.insert(name.to_string(), t.literal()?).is_some() {
            return Err(in_file(path, ErrorKind::Value, format!("two tensors have the name {name}")));
        }
    }
    write(path, &encode(&map, &BTreeMap::new())?)
}

/// Reads every tensor of a safetensors file.
pub fn load(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>> {
    let path = path.as_ref();
    let (tensors, _) = decode(&read(path)?).map_err(|e| in_file(path, e.kind, e.message))?;
    Ok(tensors.into_iter().map(|(k, v)| (k, Tensor::from(v))).collect())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| in_file(path, ErrorKind::Io, e))
}

/// Writes beside the target, flushes to the disk, then renames over it. On a mesh, rank 0 writes for all.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if crate::current_mesh()?.is_some_and(|m| m.rank > 0) {
        return Ok(());
    }
    use std::io::Write;
    let fail = |e: std::io::Error| in_file(path, ErrorKind::Io, e);
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = Path::new(&beside);
    let done = (|| {
        let mut f = std::fs::File::create(beside)?;
        f.write_all(bytes)?;
        f.sync_all()?;
        std::fs::rename(beside, path)
    })();
    if done.is_err() {
        // The half-written file is useless; the first error is the one to report.
        let _ = std::fs::remove_file(beside);
    }
    done.map_err(fail)
}

const NPY_MAGIC: &[u8] = b"\x93NUMPY";

fn npy_descr(d: DType) -> Option<&'static str> {
    Some(match d {
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::I8 => "|i1",
        DType::U16 => "<u2",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::C64 => "<c8",
        DType::C128 => "<c16",
        DType::BF16 | DType::F8E4M3 | DType::F8E5M2 => return None,
    })
}

/// Writes one tensor as a NumPy file. NumPy has neither bf16 nor fp8: cast them first.
pub fn save_npy(path: impl AsRef<Path>, tensor: &Tensor) -> Result<()> {
    let path = path.as_ref();
    let l = tensor.literal()?;
    let descr = npy_descr(l.dtype()).ok_or_else(|| {
        in_file(path, ErrorKind::DType, format!("NumPy files cannot hold {}; cast it first", l.dtype()))
    })?;
    let dims: Vec<String> = l.shape().iter().map(|d| d.to_string()).collect();
    let tuple = if dims.len() == 1 { format!("({},)", dims[0]) } else { format!("({})", dims.join(", ")) };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple}, }}");
    // Magic, version and length take 10 bytes; the data must begin at a multiple of 64.
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut out = NPY_MAGIC.to_vec();
    out.extend([1, 0]);
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(l.bytes());
    write(path, &out)
}

/// Reads a NumPy file.
pub fn load_npy(path: impl AsRef<Path>) -> Result<Tensor> {
    let path = path.as_ref();
    let bytes = read(path)?;
    parse_npy(&bytes).map(Tensor::from).map_err(|e| in_file(path, e.kind, e.message))
}

fn parse_npy(bytes: &[u8]) -> Result<Literal> {
    let fail = |e: &str| Error::format(format!("not a NumPy file that can be read: {e}"));
    let rest = bytes.strip_prefix(NPY_MAGIC).ok_or_else(|| fail("it does not begin with the NumPy mark"))?;
    let (&major, rest) = rest.split_first().ok_or_else(|| fail("it ends in the header"))?;
    let wide = if major == 1 { 2 } else { 4 };
    let size = rest.get(1..1 + wide).ok_or_else(|| fail("it ends in the header"))?;
    let size = size.iter().rev().fold(0usize, |n, &b| n << 8 | b as usize);
    let header = rest.get(1 + wide..1 + wide + size).ok_or_else(|| fail("it ends in the header"))?;
    let header = std::str::from_utf8(header).map_err(|_| fail("the header is not text"))?;
    let field = |name: &str| -> Result<&str> {
        let at = header.find(&format!("'{name}':")).ok_or_else(|| fail(&format!("the header has no {name}")))?;
        Ok(header[at + name.len() + 3..].trim_start())
    };
    let descr = field("descr")?.trim_start_matches('\'').split('\'').next().unwrap_or("");
    let dtype = DType::ALL
        .into_iter()
        .find(|&d| npy_descr(d).is_some_and(|n| n == descr || n.replace('|', "<") == descr))
        .ok_or_else(|| fail(&format!("the type {descr:?} is not supported")))?;
    let inside = field("shape")?.trim_start_matches('(').split(')').next().unwrap_or("");
    let dims = inside.split(',').map(str::trim).filter(|s| !s.is_empty());
    let dims: Vec<usize> =
        dims.map(|s| s.parse().map_err(|_| fail(&format!("bad size {s:?}")))).collect::<Result<_>>()?;
    let shape = Shape::new(&dims);
    let is_fortran = field("fortran_order")?.starts_with("True");
    let stored = if is_fortran { dims.iter().rev().copied().collect() } else { shape.clone() };
    let literal = Literal::from_bytes(dtype, stored, &rest[1 + wide + size..])?;
    if !is_fortran {
        return Ok(literal);
    }
    let mut layout = ir::Layout::contiguous(literal.shape());
    layout.strides.reverse();
    layout.shape = shape;
    Ok(literal.gather(&layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(header: &str, data: &[u8]) -> Vec<u8> {
        let mut out = NPY_MAGIC.to_vec();
        out.extend([1, 0]);
        out.extend((header.len() as u16).to_le_bytes());
        out.extend(header.as_bytes());
        out.extend(data);
        out
    }

    #[test]
    fn npy_in_c_and_fortran_order() {
        let c = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n", &[1, 2, 3, 4, 5, 6]);
        assert_eq!(parse_npy(&c).unwrap().to_i64(), [1, 2, 3, 4, 5, 6]);
        let f = npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", &[1, 4, 2, 5, 3, 6]);
        assert_eq!(parse_npy(&f).unwrap(), parse_npy(&c).unwrap());
    }

    #[test]
    fn broken_npy_is_refused() {
        let good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n", &[0; 4]);
        assert!(parse_npy(&good).is_ok());
        for cut in 0..good.len() {
            assert!(parse_npy(&good[..cut]).is_err(), "cut at {cut}");
        }
        let e = parse_npy(&npy("{'descr': '<U2', 'fortran_order': False, 'shape': (1,), }", &[0; 8])).unwrap_err();
        assert!(e.to_string().contains("<U2"), "{e}");
    }

    #[test]
    fn every_type_comes_back_from_safetensors() {
        let of = |d: DType| (d.name().to_string(), Literal::generate([2, 3], |i| i as i64).cast(d));
        let tensors: BTreeMap<String, Literal> = DType::ALL.into_iter().map(of).collect();
        let bytes = encode(&tensors, &BTreeMap::new()).unwrap();
        assert_eq!(decode(&bytes).unwrap().0, tensors);
        let file = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.tensor("f8e4m3").unwrap().dtype(), Dtype::F8_E4M3);
        assert_eq!(file.tensor("f8e5m2").unwrap().dtype(), Dtype::F8_E5M2);
    }

    #[test]
    fn wide_complex_numbers_are_stored_as_pairs() {
        let z = Literal::from_complex(DType::C128, [1, 2], &[ir::Complex::new(1.0, -2.0), ir::Complex::new(0.5, 3.0)]);
        let tensors = BTreeMap::from([("z".to_string(), z), ("x".to_string(), Literal::scalar_f64(DType::F64, 7.0))]);
        let metadata = BTreeMap::from([("step".to_string(), "3".to_string())]);
        let bytes = encode(&tensors, &metadata).unwrap();
        assert_eq!(decode(&bytes).unwrap(), (tensors, metadata.clone()));
        // What others see.
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let view = file.tensor("z").unwrap();
        assert_eq!((view.dtype(), view.shape()), (Dtype::F64, &[1, 2, 2][..]));
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let mut info = header.metadata().clone().unwrap();
        assert!(info.contains_key("complex128:z") && !info.contains_key("complex128:x"));
        // A note that does not fit its tensor.
        info.insert("complex128:x".to_string(), String::new());
        let tampered = safetensors::serialize(file.tensors(), Some(info)).unwrap();
        let e = decode(&tampered).unwrap_err().to_string();
        assert!(e.contains("tensor x: pairs of f64 should be stored, not f64[]"), "{e}");
        let reserved = BTreeMap::from([("complex128:y".to_string(), String::new())]);
        assert!(encode(&BTreeMap::new(), &reserved).is_err());
    }

    #[test]
    fn a_missing_file_is_named() {
        let e = load("no/such/file.safetensors").unwrap_err();
        assert!(e.to_string().contains("no/such/file.safetensors"), "{e}");
    }
}
