//! Packed bodies: gzip and deflate.

use crate::failure::{Answered, Failure, Kind};
use bytes::Bytes;
use flate2::Compression;
use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use std::io::{self, Read, Write};

/// Answers shorter than this are sent as they are.
const COMPRESS_MIN: usize = 1024;

/// How an answer of so many bytes is packed for a client that accepts these (`Accept-Encoding`).
pub(crate) fn chosen(accepts: &str, len: usize) -> Option<&'static str> {
    let has = |name: &str| accepts.split(',').any(|e| e.trim().split(';').next() == Some(name));
    ["gzip", "deflate"].into_iter().find(|name| len >= COMPRESS_MIN && has(name))
}

/// The body of an answer, packed.
pub(crate) fn pack(name: &str, body: &[u8], tail: &[Bytes]) -> io::Result<Vec<u8>> {
    fn all(mut packer: impl Write, body: &[u8], tail: &[Bytes]) -> io::Result<()> {
        packer.write_all(body)?;
        tail.iter().try_for_each(|piece| packer.write_all(piece))
    }
    if name == "gzip" {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        all(&mut packer, body, tail)?;
        packer.finish()
    } else {
        let mut packer = ZlibEncoder::new(Vec::new(), Compression::fast());
        all(&mut packer, body, tail)?;
        packer.finish()
    }
}

/// The body of a request, unpacked as its header says, within a limit.
pub(crate) fn unpack(name: &[u8], packed: impl Read, limit: usize) -> Answered<Vec<u8>> {
    let all = |reader: &mut dyn Read| {
        let mut out = Vec::new();
        let read = reader.take(limit as u64 + 1).read_to_end(&mut out);
        read.map_err(|_| Failure::invalid("the body is not packed as its header says"))?;
        if out.len() > limit { Err(too_large(limit)) } else { Ok(out) }
    };
    match name {
        b"gzip" => all(&mut GzDecoder::new(packed)),
        b"deflate" => all(&mut ZlibDecoder::new(packed)),
        _ => Err(Failure::invalid("Content-Encoding must be gzip or deflate")),
    }
}

/// A body beyond the limit.
pub(crate) fn too_large(limit: usize) -> Failure {
    Failure::new(Kind::TooLarge, format!("the body is larger than {limit} bytes"))
}
