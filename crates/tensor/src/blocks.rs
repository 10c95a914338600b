//! Values in blocks, by global index: which rank of a mesh has which block of a value, and values that lie in files.
//!
//! A file does not know what mesh it was written on. A reader of a range of a value takes the blocks that overlap, one
//! at a time.

use ir::{Buffer, DType, Error, ErrorKind, Literal, Result, Shape, Storage, Type};
use parking_lot::Mutex;
use std::any::Any;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The elements of a block, in each dimension.
pub type Ranges = Vec<Range<usize>>;

/// A value that ranks of a mesh hold in blocks.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// The whole value.
    pub ty: Type,
    /// Every block, and the first rank that has it.
    pub all: Vec<(usize, Ranges)>,
    /// This rank's block, if it is the first that has it.
    pub mine: Option<Literal>,
}

/// A file that blocks lie in.
#[derive(Debug)]
pub struct BlockFile {
    path: PathBuf,
    bytes: Mutex<Bytes>,
}
#[derive(Debug)]
enum Bytes {
    File(File),
    /// Of a place that is no folder.
    Memory(Vec<u8>),
}

impl BlockFile {
    /// Opens a file; it may be removed while it is in use.
    pub fn open(path: &Path) -> Result<Arc<BlockFile>> {
        let file = File::open(path).map_err(|e| Error::new(ErrorKind::Io, format!("{}: {e}", path.display())))?;
        Ok(Arc::new(BlockFile { path: path.to_path_buf(), bytes: Mutex::new(Bytes::File(file)) }))
    }
    /// The content of a file of that name.
    pub fn of(path: &Path, content: Vec<u8>) -> Arc<BlockFile> {
        Arc::new(BlockFile { path: path.to_path_buf(), bytes: Mutex::new(Bytes::Memory(content)) })
    }
    /// Fills `into` with what begins at a byte.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let read = match &mut *self.bytes.lock() {
            Bytes::File(f) => f.seek(SeekFrom::Start(at)).and_then(|_| f.read_exact(into)),
            Bytes::Memory(all) => {
                let found = all.get(at as usize..).and_then(|b| b.get(..into.len()));
                found.map(|b| into.copy_from_slice(b)).ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
            }
        };
        read.map_err(|e| Error::new(ErrorKind::Io, format!("{}: {e}", self.path.display())))
    }
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A block in a file.
#[derive(Clone, Debug)]
pub struct FileBlock {
    /// Its elements.
    pub ranges: Ranges,
    /// The file.
    pub file: Arc<BlockFile>,
    /// Its first byte there.
    pub offset: u64,
}

/// A value in files. Reading a range of it takes memory for that range and for one block.
#[derive(Clone, Debug)]
pub struct OnDisk {
    ty: Type,
    blocks: Vec<FileBlock>,
}

impl OnDisk {
    /// From blocks that do not overlap; an error if they are not all of the value.
    pub fn new(ty: Type, blocks: Vec<FileBlock>) -> Result<OnDisk> {
        let dims = &ty.shape;
        let fits = |r: &Ranges| r.len() == dims.rank() && r.iter().zip(dims.iter()).all(|(r, n)| r.end <= *n);
        let count = |r: &Ranges| r.iter().map(Range::len).product::<usize>();
        let found: usize = blocks.iter().map(|b| count(&b.ranges)).sum();
        if !blocks.iter().all(|b| fits(&b.ranges)) || found != ty.shape.count() {
            return Err(Error::format(format!("the blocks of a value of type {ty} have {found} elements")));
        }
        Ok(OnDisk { ty, blocks })
    }
    /// The type of the whole value.
    pub fn ty(&self) -> &Type {
        &self.ty
    }
    /// The value as one that was computed: it is read where it is used, by each rank of a mesh what it needs.
    pub fn buffer(self: &Arc<Self>) -> Buffer {
        Buffer::Device(self.clone())
    }
    /// A range of it.
    pub fn range(&self, want: &[Range<usize>]) -> Result<Literal> {
        let shape: Shape = want.iter().map(Range::len).collect();
        let mut out = Literal::zeros(self.ty.dtype, shape);
        let size = self.ty.dtype.size();
        let data = out.buffer_mut().ok_or_else(|| Error::bug("new, but shared"))?;
        for b in &self.blocks {
            let meet = |(a, b): (&Range<usize>, &Range<usize>)| a.start.max(b.start)..a.end.min(b.end);
            let common: Ranges = want.iter().zip(&b.ranges).map(meet).collect();
            if common.iter().any(|r| r.start >= r.end) {
                continue;
            }
            let (from, to) = (Rows::of(&b.ranges, &common), Rows::of(want, &common));
            let (first, last) = (from.at(&from.first), from.at(&from.last) + 1);
            let mut bytes = vec![0; (last - first) * size];
            b.file.read(b.offset + (first * size) as u64, &mut bytes)?;
            let row = common.last().map_or(1, Range::len) * size;
            each_row(&common, |i| {
                let (source, target) = ((from.row(i) - first) * size, to.row(i) * size);
                data[target..][..row].copy_from_slice(&bytes[source..][..row]);
            });
        }
        Ok(out)
    }
    /// All of it.
    pub fn whole(&self) -> Result<Literal> {
        self.range(&self.ty.shape.iter().map(|n| 0..*n).collect::<Ranges>())
    }
}

/// Offsets of elements within a block.
struct Rows {
    strides: Vec<usize>,
    first: Vec<usize>,
    last: Vec<usize>,
}
impl Rows {
    fn of(block: &[Range<usize>], part: &[Range<usize>]) -> Rows {
        let mut strides = vec![1; block.len()];
        (1..block.len()).rev().for_each(|i| strides[i - 1] = strides[i] * block[i].len());
        let first: Vec<usize> = block.iter().zip(part).map(|(b, p)| p.start - b.start).collect();
        let last = first.iter().zip(part).map(|(f, p)| f + p.len() - 1).collect();
        Rows { strides, first, last }
    }
    fn at(&self, index: &[usize]) -> usize {
        index.iter().zip(&self.strides).map(|(i, s)| i * s).sum()
    }
    /// Where the row begins that is so far from the first.
    fn row(&self, index: &[usize]) -> usize {
        self.at(&self.first) + self.at(index)
    }
}

/// Every index but for the last dimension's, which is 0.
fn each_row(ranges: &[Range<usize>], mut f: impl FnMut(&[usize])) {
    let mut index = vec![0; ranges.len()];
    loop {
        f(&index);
        let outer = ranges.len().saturating_sub(1);
        let Some(d) = (0..outer).rev().find(|&d| index[d] + 1 < ranges[d].len()) else { return };
        index[d] += 1;
        index[d + 1..].fill(0);
    }
}

impl Storage for OnDisk {
    fn device(&self) -> &str {
        "file"
    }
    fn read(&self) -> Result<Literal> {
        self.whole()
    }
    fn retyped(&self, ty: Type) -> Arc<dyn Storage> {
        let blocks = self.blocks.clone();
        Arc::new(OnDisk { ty, blocks })
    }
    fn is_spread(&self) -> bool {
        true
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// How a value is written in blocks: its type, and the file and the ranges of each block.
pub fn encode_layout(ty: &Type, blocks: &[(usize, Ranges)]) -> String {
    let sizes = |list: Vec<String>| list.join(" ");
    let shape = sizes(ty.shape.iter().map(|n| n.to_string()).collect());
    let block = |(file, ranges): &(usize, Ranges)| {
        format!("|{file}:{}", sizes(ranges.iter().map(|r| format!("{}-{}", r.start, r.end)).collect()))
    };
    format!("{}|{shape}{}", ty.dtype.name(), blocks.iter().map(block).collect::<String>())
}

/// What [`encode_layout`] wrote.
pub fn decode_layout(text: &str) -> Option<(Type, Vec<(usize, Ranges)>)> {
    let mut parts = text.split('|');
    let (name, shape) = (parts.next()?, parts.next()?);
    let dtype = DType::ALL.into_iter().find(|d| d.name() == name)?;
    let words = |text: &str| text.split(' ').filter(|w| !w.is_empty()).map(str::to_string).collect::<Vec<_>>();
    let shape: Vec<usize> = words(shape).iter().map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let range = |w: &String| {
        let (a, b) = w.split_once('-')?;
        let r: Range<usize> = a.parse().ok()?..b.parse().ok()?;
        (r.start <= r.end).then_some(r)
    };
    let block = |text: &str| {
        let (file, ranges) = text.split_once(':')?;
        Some((file.parse().ok()?, words(ranges).iter().map(range).collect::<Option<_>>()?))
    };
    Some((Type::new(dtype, Shape::from(shape.as_slice())), parts.map(block).collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_is_read_from_any_blocks() {
        let whole = Literal::generate([5, 4, 3], |i| i as i32);
        let ranges: [Range<usize>; 3] = [0..5, 0..4, 0..3];
        // Three cuts of the first dimension, two of the last.
        let mut blocks = Vec::new();
        for rows in [0..2, 2..4, 4..5] {
            for last in [0..2, 2..3] {
                let block = vec![rows.clone(), 0..4, last];
                let one = OnDisk::new(
                    Type::new(DType::I32, [5, 4, 3]),
                    vec![FileBlock {
                        ranges: ranges.to_vec(),
                        file: BlockFile::of(Path::new("a"), whole.bytes().to_vec()),
                        offset: 0,
                    }],
                );
                let bytes = one.unwrap().range(&block).unwrap().bytes().to_vec();
                let file = BlockFile::of(Path::new("b"), [vec![7; 3], bytes].concat());
                blocks.push(FileBlock { ranges: block, file, offset: 3 });
            }
        }
        let cut = OnDisk::new(Type::new(DType::I32, [5, 4, 3]), blocks.clone()).unwrap();
        assert_eq!(cut.whole().unwrap(), whole);
        let want = cut.range(&[1..5, 2..3, 1..3]).unwrap();
        let at = |i: usize, k: usize| (12 * i + 3 * 2 + k) as i64;
        assert_eq!(want.to_i64(), (1..5).flat_map(|i| [at(i, 1), at(i, 2)]).collect::<Vec<_>>());
        assert!(OnDisk::new(Type::new(DType::I32, [5, 4, 3]), blocks[1..].to_vec()).is_err());
    }

    #[test]
    fn layouts_are_text() {
        let ty = Type::new(DType::BF16, [6, 4]);
        let blocks = vec![(0, vec![0..3, 0..4]), (2, vec![3..6, 0..4])];
        assert_eq!(decode_layout(&encode_layout(&ty, &blocks)), Some((ty, blocks)));
        let scalar = (Type::new(DType::F32, ()), vec![(1, vec![])]);
        assert_eq!(decode_layout(&encode_layout(&scalar.0, &scalar.1)), Some(scalar));
        for bad in ["", "f32", "f99|1|0:0-1", "f32|1|0:1-0", "f32|1|x:0-1"] {
            assert_eq!(decode_layout(bad), None, "{bad}");
        }
    }
}
