//! IDX: the file format of the MNIST family, plain or gzipped.
//!
//! Two zero bytes, a type code, the number of axes, the sizes (big-endian
//! `u32`), then the elements (big-endian, row-major).

use std::io::{BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::array::Array;
use crate::error::{Error, Result};
use ir::DType;

/// Reads an IDX file; gzip is recognized by its first bytes.
///
/// # Errors
/// If the file cannot be read, is no IDX file, or is shorter or longer than its
/// header says.
pub fn read(path: impl AsRef<Path>) -> Result<Array> {
    let path = path.as_ref();
    let failed = |error| Error::io("read", path, error);
    let mut file = BufReader::new(std::fs::File::open(path).map_err(failed)?);
    let zipped = std::io::BufRead::fill_buf(&mut file).map_err(failed)?.starts_with(&[0x1f, 0x8b]);
    if zipped { parse(path, MultiGzDecoder::new(file)) } else { parse(path, file) }
}

/// Reads IDX from anything; `path` is for messages.
///
/// # Errors
/// As [`read`].
pub fn parse(path: impl AsRef<Path>, mut reader: impl Read) -> Result<Array> {
    let path = path.as_ref();
    let mut magic = [0; 4];
    exact(path, &mut reader, &mut magic)?;
    let [0, 0, code, axes] = magic else {
        return Err(Error::format(path, format!("expected an IDX file (starting 00 00), found {magic:02x?}")));
    };
    let size_bytes = match code {
        0x08 | 0x09 => 1,
        0x0b => 2,
        0x0c | 0x0d => 4,
        0x0e => 8,
        _ => return Err(Error::format(path, format!("unknown IDX element type {code:#04x}"))),
    };
    let mut shape = Vec::with_capacity(usize::from(axes));
    for _ in 0..axes {
        let mut size = [0; 4];
        exact(path, &mut reader, &mut size)?;
        shape.push(u32::from_be_bytes(size) as usize);
    }
    let count = shape.iter().try_fold(size_bytes, |n: usize, size| n.checked_mul(*size));
    let count = count.ok_or_else(|| Error::format(path, format!("sizes {shape:?} are too large")))?;

    // Nothing is allocated on the header's word alone: a lying header costs as
    // much memory as there are bytes.
    let mut bytes = Vec::new();
    reader
        .take((count as u64).saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| Error::io("read", path, error))?;
    if bytes.len() != count {
        let came = if bytes.len() > count { "more".to_owned() } else { bytes.len().to_string() };
        return Err(Error::format(path, format!("expected {count} bytes for sizes {shape:?}, found {came}")));
    }
    array(code, bytes, &shape)
}

fn exact(path: &Path, reader: &mut impl Read, bytes: &mut [u8]) -> Result<()> {
    reader.read_exact(bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::format(path, "the IDX header is cut short"),
        _ => Error::io("read", path, error),
    })
}

/// Big-endian bytes of a known type code as an array.
fn array(code: u8, bytes: Vec<u8>, shape: &[usize]) -> Result<Array> {
    macro_rules! big_endian {
        ($type:ty) => {
            Array::new(
                bytes
                    .as_chunks::<{ size_of::<$type>() }>()
                    .0
                    .iter()
                    .map(|b| <$type>::from_be_bytes(*b))
                    .collect::<Vec<$type>>(),
                shape,
            )
        };
    }
    match code {
        0x08 => Array::new(bytes, shape),
        0x09 => big_endian!(i8),
        0x0b => big_endian!(i16),
        0x0c => big_endian!(i32),
        0x0d => big_endian!(f32),
        _ => big_endian!(f64),
    }
}

/// The bytes of an IDX file.
///
/// # Errors
/// If the format has no such element type (`bool`, `i64`) or the sizes do not
/// fit into its header.
pub fn encode(array: &Array) -> Result<Vec<u8>> {
    macro_rules! big_endian {
        ($code:literal, $type:ty) => {
            ($code, array.values::<$type>()?.iter().flat_map(|x| x.to_be_bytes()).collect::<Vec<u8>>())
        };
    }
    let (code, elements) = match array.dtype() {
        DType::U8 => (0x08, array.values::<u8>()?.to_vec()),
        DType::I8 => big_endian!(0x09, i8),
        DType::I16 => big_endian!(0x0b, i16),
        DType::I32 => big_endian!(0x0c, i32),
        DType::F32 => big_endian!(0x0d, f32),
        DType::F64 => big_endian!(0x0e, f64),
        other => return Err(Error::mismatch(format!("IDX has no element type {other}"))),
    };
    let axes = u8::try_from(array.shape().len()).ok();
    let sizes: Option<Vec<u32>> = array.shape().iter().map(|size| u32::try_from(*size).ok()).collect();
    let (Some(axes), Some(sizes)) = (axes, sizes) else {
        return Err(Error::mismatch(format!("shape {:?} does not fit into IDX", array.shape())));
    };
    let mut bytes = vec![0, 0, code, axes];
    bytes.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend(elements);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn message(bytes: &[u8]) -> String {
        parse("f.idx", bytes).unwrap_err().to_string()
    }

    #[test]
    fn every_kind_comes_back() {
        let arrays = [
            Array::new(vec![1u8, 2, 3, 4, 5, 255], &[2, 3]).unwrap(),
            Array::vector(vec![-1i8, 2]),
            Array::vector(vec![-300i16, 2]),
            Array::vector(vec![i32::MIN, 2]),
            Array::vector(vec![1.5f32, -0.0]),
            Array::vector(vec![1e300, 2.0]),
        ];
        for array in arrays {
            assert_eq!(parse("f.idx", &encode(&array).unwrap()[..]).unwrap(), array);
        }
        assert!(encode(&Array::scalar(1i64)).unwrap_err().to_string().contains("i64"));
    }

    #[test]
    fn gzip_is_recognized() {
        let array = Array::vector(vec![1u8, 2, 3]);
        let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        zip.write_all(&encode(&array).unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.gz");
        let mut bytes = zip.finish().unwrap();
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read(&path).unwrap(), array);

        bytes.truncate(bytes.len() - 6);
        std::fs::write(&path, &bytes).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("f.gz"), "{error}");
    }

    #[test]
    fn broken_files() {
        assert_eq!(message(b"\x00\x00"), "f.idx: the IDX header is cut short");
        assert_eq!(message(b"\x00\x00\x08\x01\x00"), "f.idx: the IDX header is cut short");
        assert_eq!(message(b"PNG!"), "f.idx: expected an IDX file (starting 00 00), found [50, 4e, 47, 21]");
        assert_eq!(message(b"\x00\x00\x07\x01\x00\x00\x00\x01x"), "f.idx: unknown IDX element type 0x07");
        assert_eq!(message(b"\x00\x00\x08\x01\x00\x00\x00\x03ab"), "f.idx: expected 3 bytes for sizes [3], found 2");
        assert_eq!(message(b"\x00\x00\x08\x01\x00\x00\x00\x01ab"), "f.idx: expected 1 bytes for sizes [1], found more");
        // A header that claims exabytes costs nothing.
        let huge = [&b"\x00\x00\x08\x02"[..], &[0x3f; 8]].concat();
        assert!(message(&huge).contains("found 0"), "{}", message(&huge));
        let overflow = [&b"\x00\x00\x0e\x03"[..], &[0xff; 12]].concat();
        assert!(message(&overflow).contains("too large"));
    }
}
