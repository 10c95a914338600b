//! Weights where they lie in their file: large ones are mapped, small ones are copied. Processes that serve the same
//! model share the pages, and what is never read is never loaded after its hash was checked.

use ir::{Bytes, DType, ForeignMemory, Literal, Result, Shape};
use memmap2::Mmap;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Mapped tensors begin on a cache line, as those in memory do.
const ALIGNMENT: usize = 64;
/// Smaller tensors are copied.
const MAP_MIN: usize = 1 << 16;

/// A safetensors file whose tensors can be mapped.
pub fn encode(weights: &BTreeMap<String, Literal>) -> Result<Vec<u8>> {
    let tensor = |(name, l): (&String, &'_ Literal)| (name.clone(), l.dtype(), l.shape().clone());
    let rows = weights.iter().map(|w| {
        let (name, dtype, shape) = tensor(w);
        (name, dtype, shape, w.1.bytes())
    });
    let file = tensor::files::Encoded::aligned(rows.collect(), &BTreeMap::new(), ALIGNMENT)?;
    let mut out = Vec::with_capacity(file.bytes());
    file.write(&mut out).map_err(|e| ir::Error::bug(format!("writing to memory: {e}")))?;
    Ok(out)
}

/// Maps a file.
pub fn open(path: &Path) -> std::io::Result<Arc<Mmap>> {
    map(&File::open(path)?)
}

/// Maps an open file.
pub fn map(file: &File) -> std::io::Result<Arc<Mmap>> {
    // SAFETY: the mapping is read-only. An exported model is replaced by renaming its directory, which leaves the file
    // of a mapping as it is. A process that truncates it instead ends this one with SIGBUS, as with any mapped file.
    #[allow(unsafe_code)]
    unsafe { Mmap::map(file) }.map(Arc::new)
}

/// Part of a mapped file.
struct Part(Arc<Mmap>, Range<usize>);

impl ForeignMemory for Part {
    fn bytes(&self) -> &[u8] {
        &self.0[self.1.clone()]
    }
}

/// The tensors of a mapped file, by name.
pub fn decode(map: &Arc<Mmap>) -> Result<BTreeMap<String, Literal>> {
    let literal = |dtype: DType, shape: Shape, bytes: &[u8]| {
        let is_mapped = bytes.len() >= MAP_MIN
            && bytes.as_ptr().addr().is_multiple_of(ALIGNMENT)
            && dtype != DType::Bool
            && shape.count().checked_mul(dtype.size()) == Some(bytes.len());
        if !is_mapped {
            return Literal::from_bytes(dtype, shape, bytes);
        }
        let first = bytes.as_ptr().addr() - map.as_ptr().addr();
        let part = Part(map.clone(), first..first + bytes.len());
        Ok(Literal::from_buffer(dtype, shape, Arc::new(Bytes::foreign(Box::new(part)))))
    };
    tensor::files::decode_with(map, literal).map(|(tensors, _)| tensors)
}
