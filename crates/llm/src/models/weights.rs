//! Where weights come from: a GGUF file or a folder of safetensors, both memory-mapped. Names are those of GGUF.

use super::names;
use super::packed::{is_on_host, placed};
use crate::gguf::{Format, Gguf, dequantize};
use ir::{Bytes, DType, Error, ErrorKind, ForeignMemory, Literal, Result, Shape};
use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tensor::{Tensor, Variable};

/// A weight: a constant of the programs that read it, or a variable that is learned.
#[derive(Clone, Debug)]
pub enum Weight {
    /// As it was read.
    Fixed(Tensor),
    /// 32-bit floats that training changes.
    Learned(Variable),
}

impl<T: Into<Tensor>> From<T> for Weight {
    fn from(t: T) -> Weight {
        Weight::Fixed(t.into())
    }
}

impl Weight {
    /// Its value now.
    pub fn tensor(&self) -> Tensor {
        match self {
            Weight::Fixed(t) => t.clone(),
            Weight::Learned(v) => v.tensor(),
        }
    }
    /// Makes it a variable, which is added to `to` by its name in GGUF.
    pub fn learn(&mut self, name: &str, to: &mut Vec<(String, Variable)>) -> Result<()> {
        let variable = match self {
            Weight::Learned(v) => v.clone(),
            Weight::Fixed(t) => Variable::new(name, t.cast(DType::F32).eval()?.clone())?,
        };
        *self = Weight::Learned(variable.clone());
        to.push((name.to_string(), variable));
        Ok(())
    }
}

/// A matrix `[out, in]` whose rows are stored in blocks, or as floats.
#[derive(Clone, Debug)]
pub enum Matrix {
    /// Floats of 32 or 16 bits.
    Dense(Weight),
    /// Rows of bytes.
    Blocks {
        /// `[out, bytes of a row]`.
        bytes: Tensor,
        /// How a row is stored.
        format: Format,
        /// Its weights.
        columns: usize,
    },
}

impl Matrix {
    /// A matrix of floats.
    pub fn dense(shape: impl Into<Shape>, data: &[f32]) -> Result<Matrix> {
        Ok(Matrix::Dense(Literal::new(shape, data)?.into()))
    }
    /// x Wᵀ. Blocks are multiplied as they are, with activations of 8 bits; where gradients are recorded, their floats
    /// are, in every layer.
    pub fn apply(&self, x: &Tensor) -> Tensor {
        match self {
            Matrix::Dense(w) => x.linear(&w.tensor().cast(x.dtype().unwrap_or(DType::F32)), None),
            Matrix::Blocks { bytes, format, .. } => {
                // Not asked of x: inside of a checkpoint, no argument is marked.
                match ir::is_grad_on() {
                    true => x.linear(&bytes.dequantize(*format, x.dtype().unwrap_or(DType::F32)), None),
                    false => x.quantized_matmul(bytes, *format, is_on_host()),
                }
            }
        }
    }
    /// Rows by number, as floats of that type.
    pub fn rows(&self, index: &Tensor, dtype: DType) -> Tensor {
        match self {
            Matrix::Dense(w) => w.tensor().embedding(index).cast(dtype),
            Matrix::Blocks { bytes, format, .. } => bytes.quantized_embedding(index, *format, dtype),
        }
    }
    /// In the memory of the device that computes.
    pub fn placed(self) -> Result<Matrix> {
        Ok(match self {
            Matrix::Dense(w) => Matrix::Dense(placed(&w.tensor()).eval()?.clone().into()),
            Matrix::Blocks { bytes, format, columns } => {
                Matrix::Blocks { bytes: placed(&bytes).eval()?.clone(), format, columns }
            }
        })
    }
    /// The sizes `[out, in]`.
    pub fn sizes(&self) -> Result<(usize, usize)> {
        Ok(match self {
            Matrix::Dense(w) => (w.tensor().shape()?[0], w.tensor().shape()?[1]),
            Matrix::Blocks { bytes, columns, .. } => (bytes.shape()?[0], *columns),
        })
    }
    /// Bytes it takes in memory.
    pub fn byte_count(&self) -> usize {
        let of = |t: &Tensor| t.value().map_or(0, |v| v.ty().shape.count() * v.ty().dtype.size());
        match self {
            Matrix::Dense(w) => of(&w.tensor()),
            Matrix::Blocks { bytes, .. } => of(bytes),
        }
    }
    /// Whether training changes it.
    pub fn is_learned(&self) -> bool {
        matches!(self, Matrix::Dense(Weight::Learned(_)))
    }
    /// Makes it a matrix of variables.
    pub fn learn(&mut self, name: &str, to: &mut Vec<(String, Variable)>) -> Result<()> {
        let mut weight = match self {
            Matrix::Dense(w) => w.clone(),
            Matrix::Blocks { .. } => self.floats().into(),
        };
        weight.learn(name, to)?;
        *self = Matrix::Dense(weight);
        Ok(())
    }
    /// The weights as 32-bit floats.
    pub fn floats(&self) -> Tensor {
        match self {
            Matrix::Dense(w) => w.tensor().cast(DType::F32),
            Matrix::Blocks { bytes, format, .. } => bytes.dequantize(*format, DType::F32),
        }
    }
}

/// Part of a mapped file, as memory of a tensor.
struct Part {
    map: Arc<Mmap>,
    start: usize,
    end: usize,
}
impl ForeignMemory for Part {
    fn bytes(&self) -> &[u8] {
        &self.map[self.start..self.end]
    }
}

/// Rows of bytes, or of floats, that lie in a mapped file. Floats that are not aligned there are copied.
fn mapped(map: &Arc<Mmap>, bytes: &[u8], rows: usize, dtype: DType) -> Result<Tensor> {
    let start = bytes.as_ptr().addr() - map.as_ptr().addr();
    let width = bytes.len().checked_div(rows * dtype.size()).unwrap_or(0);
    if !bytes.as_ptr().addr().is_multiple_of(dtype.size()) {
        return Ok(Literal::from_bytes(dtype, [rows, width], bytes)?.into());
    }
    let part = Part { map: map.clone(), start, end: start + bytes.len() };
    let memory = Arc::new(Bytes::foreign(Box::new(part)));
    Ok(Literal::from_buffer(dtype, Shape::new(&[rows, width]), memory).into())
}

/// The type of floats that are stored as they are.
fn dtype_of(format: Format) -> Option<DType> {
    match format {
        Format::F32 => Some(DType::F32),
        Format::F16 => Some(DType::F16),
        Format::BF16 => Some(DType::BF16),
        _ => None,
    }
}

/// Weights by GGUF's names (`blk.0.attn_q.weight`).
pub trait Source {
    /// Whether there is such a tensor.
    fn has(&self, name: &str) -> bool;
    /// A tensor as 32-bit floats.
    fn floats(&self, name: &str) -> Result<Literal>;
    /// A matrix as it is stored. A tensor with experts before rows is one matrix of all experts' rows.
    fn matrix(&self, name: &str) -> Result<Matrix>;
}

impl Source for Gguf {
    fn has(&self, name: &str) -> bool {
        self.tensors().contains_key(name)
    }
    fn floats(&self, name: &str) -> Result<Literal> {
        self.dequantized(name)
    }
    fn matrix(&self, name: &str) -> Result<Matrix> {
        let info = self.info(name)?;
        let columns = info.shape.last().copied().unwrap_or(1);
        let rows = info.shape.count().checked_div(columns).unwrap_or(0);
        let bytes = self.bytes(name)?;
        if let Some(dtype) = dtype_of(info.format) {
            return Ok(Matrix::Dense(mapped(self.map(), bytes, rows, dtype)?.into()));
        }
        Ok(Matrix::Blocks { bytes: mapped(self.map(), bytes, rows, DType::U8)?, format: info.format, columns })
    }
}

/// Where a tensor of a folder lies.
struct Entry {
    map: Arc<Mmap>,
    start: usize,
    end: usize,
    dtype: Dtype,
    shape: Vec<usize>,
}

/// The safetensors files of a folder.
pub struct Folder {
    tensors: BTreeMap<String, Entry>,
    names: names::Names,
}

impl Folder {
    /// Maps every safetensors file of a folder.
    pub fn open(path: &Path, architecture: &str) -> Result<Folder> {
        let io = |e: std::io::Error| Error::new(ErrorKind::Io, format!("{}: {e}", path.display()));
        let mut files: Vec<_> = std::fs::read_dir(path).map_err(io)?.filter_map(|e| Some(e.ok()?.path())).collect();
        files.retain(|f| f.extension().is_some_and(|e| e == "safetensors"));
        files.sort();
        let mut tensors = BTreeMap::new();
        for file in &files {
            entries(file, &mut tensors)
                .map_err(|e| Error::new(e.kind, format!("{}: {}", file.display(), e.message)))?;
        }
        if tensors.is_empty() {
            return Err(Error::format(format!("{}: there is no safetensors file", path.display())));
        }
        let names = names::Names::new(architecture, |n| tensors.contains_key(n))?;
        Ok(Folder { tensors, names })
    }
    fn of(e: &Entry) -> Result<(Format, &[u8])> {
        let format = match e.dtype {
            Dtype::F32 => Format::F32,
            Dtype::F16 => Format::F16,
            Dtype::BF16 => Format::BF16,
            other => return Err(Error::format(format!("weights of type {other:?} are not supported"))),
        };
        Ok((format, &e.map[e.start..e.end]))
    }
    fn stored(&self, own: &str) -> Result<Literal> {
        let e = self.tensors.get(own).ok_or_else(|| Error::format(format!("there is no tensor {own:?}")))?;
        let (format, bytes) = Folder::of(e)?;
        let mut out = vec![0.0f32; e.shape.iter().product()];
        dequantize(format, bytes, &mut out)?;
        Literal::new(Shape::new(&e.shape), &out)
    }
    /// Experts that are stored one by one, as one matrix.
    fn experts(&self, name: &str) -> Result<Option<Literal>> {
        let Some(pattern) = self.names.expert(name) else { return Ok(None) };
        let mut all: Vec<f32> = Vec::new();
        let (mut columns, mut count) = (0, 0);
        for e in 0.. {
            let own = pattern.replace("{e}", &e.to_string());
            if !self.tensors.contains_key(&own) {
                break;
            }
            let one = self.stored(&own)?;
            (columns, count) = (one.shape().last().copied().unwrap_or(1), e + 1);
            all.extend(one.to_vec::<f32>()?);
        }
        if count == 0 {
            return Err(Error::format(format!("there is no tensor {:?}", pattern.replace("{e}", "0"))));
        }
        Ok(Some(Literal::new([all.len() / columns.max(1), columns], &all)?))
    }
}

fn entries(file: &Path, tensors: &mut BTreeMap<String, Entry>) -> Result<()> {
    let io = |e: std::io::Error| Error::new(ErrorKind::Io, e.to_string());
    let map = Arc::new(super::map(&std::fs::File::open(file).map_err(io)?).map_err(io)?);
    let parsed = SafeTensors::deserialize(&map).map_err(|e| Error::format(e.to_string()))?;
    for (name, view) in parsed.tensors() {
        let start = view.data().as_ptr().addr() - map.as_ptr().addr();
        let end = start + view.data().len();
        let entry = Entry { map: map.clone(), start, end, dtype: view.dtype(), shape: view.shape().to_vec() };
        if tensors.insert(name.clone(), entry).is_some() {
            return Err(Error::format(format!("tensor {name:?} is in two files")));
        }
    }
    Ok(())
}

impl Source for Folder {
    fn has(&self, name: &str) -> bool {
        match self.names.expert(name) {
            Some(pattern) => self.tensors.contains_key(&pattern.replace("{e}", "0")),
            None => self.tensors.contains_key(&self.names.of(name)),
        }
    }
    fn floats(&self, name: &str) -> Result<Literal> {
        let x = self.stored(&self.names.of(name))?;
        let offset = self.names.norm_offset(name);
        if offset == 0.0 {
            return Ok(x);
        }
        Literal::new(x.shape().clone(), &x.to_vec::<f32>()?.iter().map(|w| w + offset).collect::<Vec<f32>>())
    }
    fn matrix(&self, name: &str) -> Result<Matrix> {
        if let Some(all) = self.experts(name)? {
            return Ok(Matrix::Dense(all.into()));
        }
        if self.names.is_transposed(name) {
            return Ok(Matrix::Dense(Tensor::from(self.floats(name)?).transpose(0, 1).eval()?.clone().into()));
        }
        let own = self.names.of(name);
        let e = self.tensors.get(&own).ok_or_else(|| Error::format(format!("there is no tensor {own:?}")))?;
        let (format, bytes) = Folder::of(e)?;
        let columns = e.shape.last().copied().unwrap_or(1);
        let rows = e.shape.iter().product::<usize>().checked_div(columns).unwrap_or(0);
        match dtype_of(format).filter(|_| self.names.norm_offset(name) == 0.0) {
            Some(dtype) => Ok(Matrix::Dense(mapped(&e.map, bytes, rows, dtype)?.into())),
            None => Ok(Matrix::Dense(self.floats(name)?.into())),
        }
    }
}
