//! Answers to inference over HTTP/1, as the bytes that are written.

use crate::failure::{Answered, Failure, Kind};
use crate::http::JSON_LENGTH;
use crate::packing;
use crate::rest::Encoded;
use axum::http::StatusCode;
use bytes::Bytes;
use std::io::{self, Write};
use std::time::SystemTime;

/// What an answer repeats of its request.
#[derive(Clone)]
pub(crate) struct Echo {
    /// The trace context.
    pub trace: String,
    /// The id that the client gave it.
    pub id: Option<Bytes>,
}

/// What is answered, without the headers that every answer has.
pub(crate) struct Reply {
    pub status: StatusCode,
    kind: &'static str,
    json_length: Option<usize>,
    packing: Option<&'static str>,
    retry_seconds: Option<u64>,
    body: Vec<u8>,
    tail: Vec<Bytes>,
}

impl Reply {
    /// The answer of a model, packed as the client accepts it.
    pub fn new(encoded: Encoded, accepts: Option<&str>) -> Answered<Reply> {
        let Encoded { mut body, mut tail, json_length } = encoded;
        let kind = if json_length.is_some() { "application/octet-stream" } else { "application/json" };
        let len = body.len() + tail.iter().map(Bytes::len).sum::<usize>();
        let packing = accepts.and_then(|a| packing::chosen(a, len));
        if let Some(name) = packing {
            let packed = packing::pack(name, &body, &tail);
            body = packed.map_err(|e| Failure::new(Kind::Internal, e.to_string()))?;
            tail.clear();
        }
        Ok(Reply { status: StatusCode::OK, kind, json_length, packing, retry_seconds: None, body, tail })
    }

    /// Its parts, in order: the head, the body, and large tensors where they lie.
    pub fn into_parts(self, echo: &Echo, is_kept: bool) -> io::Result<Vec<Bytes>> {
        let mut out = Vec::with_capacity(384);
        write!(out, "HTTP/1.1 {}\r\ncontent-type: {}\r\ntraceparent: {}\r\n", self.status, self.kind, echo.trace)?;
        if let Some(length) = self.json_length {
            write!(out, "{JSON_LENGTH}: {length}\r\n")?;
        }
        if let Some(name) = self.packing {
            write!(out, "content-encoding: {name}\r\n")?;
        }
        if let Some(seconds) = self.retry_seconds {
            write!(out, "retry-after: {seconds}\r\n")?;
        }
        if self.status == StatusCode::UNAUTHORIZED {
            out.extend_from_slice(b"www-authenticate: Bearer\r\n");
        }
        if let Some(id) = &echo.id {
            out.extend_from_slice(b"x-request-id: ");
            out.extend_from_slice(id);
            out.extend_from_slice(b"\r\n");
        }
        let len = self.body.len() + self.tail.iter().map(Bytes::len).sum::<usize>();
        finish(&mut out, len, is_kept)?;
        Ok([out.into(), self.body.into()].into_iter().chain(self.tail).collect())
    }
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Reply {
        let (status, kind, retry_seconds) = (failure.status(), "application/json", failure.retry_seconds);
        let body = failure.json().into_bytes();
        Reply { status, kind, json_length: None, packing: None, retry_seconds, body, tail: Vec::new() }
    }
}

/// The end of a head.
pub(crate) fn finish(out: &mut Vec<u8>, len: usize, is_kept: bool) -> io::Result<()> {
    let close = if is_kept { "" } else { "connection: close\r\n" };
    let date = httpdate::HttpDate::from(SystemTime::now());
    write!(out, "{close}content-length: {len}\r\ndate: {date}\r\n\r\n")
}
