//! Requests to etcd's JSON gateway: HTTP/1.1 over TCP or TLS, one request at a time on a connection,
//! with a deadline on everything. It speaks no more of HTTP than the gateway does.

use super::tls::{Session, Tls};
use crate::{Error, Result};
use net::Address;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A line of an answer is shorter: values of the membership store are, and lists of them.
const ANSWER_MAX: usize = 512 << 20;
/// How long to wait for one member before the next is tried.
const CALLING: Duration = Duration::from_secs(2);

/// Variables that say who may speak to the cluster, and how.
pub(crate) const ETCD_VARS: [&str; 5] =
    ["TALWEG_ETCD_USER", "TALWEG_ETCD_PASSWORD", "TALWEG_ETCD_CA", "TALWEG_ETCD_CERT", "TALWEG_ETCD_KEY"];

/// Who may speak to the cluster, and how.
#[derive(Clone, Default)]
pub(crate) struct Access {
    /// Name and password.
    pub user: Option<(String, String)>,
    pub tls: Option<Tls>,
}

impl Access {
    /// From the environment: with an authority's certificate the cluster is spoken to under TLS.
    pub fn from_env(var: impl Fn(&str) -> Option<String>) -> Result<Access> {
        let [user, password, ca, cert, key] = ETCD_VARS.map(|name| var(name).filter(|v| !v.is_empty()));
        let user = match (user, password) {
            (Some(user), Some(password)) => Some((user, password)),
            (None, None) => None,
            _ => return Err(Error::value("TALWEG_ETCD_USER and TALWEG_ETCD_PASSWORD go together")),
        };
        let tls = match (ca, cert, key) {
            (Some(ca), None, None) => Some(Tls::load(&ca, None)?),
            (Some(ca), Some(cert), Some(key)) => Some(Tls::load(&ca, Some((&cert, &key)))?),
            (None, None, None) => None,
            _ => {
                let e = "TALWEG_ETCD_CERT and TALWEG_ETCD_KEY go together, and need TALWEG_ETCD_CA";
                return Err(Error::value(e));
            }
        };
        Ok(Access { user, tls })
    }
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<Session>),
}
impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(s) => s,
            Stream::Tls(s) => s.socket(),
        }
    }
}
impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(s) => s.read(into),
            Stream::Tls(s) => s.read(into),
        }
    }
}

/// What the cluster said to a request.
pub(crate) struct Response {
    pub status: u16,
    pub body: String,
}

/// A connection to a member of the cluster.
pub(crate) struct Http {
    host: String,
    stream: Stream,
    /// Bytes that were received and not yet taken, and how much of a body's chunk is still to come.
    came: Vec<u8>,
    chunk: usize,
}

fn late() -> io::Error {
    io::ErrorKind::TimedOut.into()
}
fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("etcd's answer is no HTTP: {what}"))
}

impl Http {
    /// Connects to a member, `host:port`.
    pub fn connect(member: &str, access: &Access, deadline: Instant) -> io::Result<Http> {
        let address: Address = member.parse().map_err(io::Error::other)?;
        let Address::Tcp(at) = address else { return Err(bad("a member is host:port")) };
        let left = deadline.saturating_duration_since(Instant::now()).min(CALLING);
        if left.is_zero() {
            return Err(late());
        }
        let socket = TcpStream::connect_timeout(&at, left)?;
        socket.set_nodelay(true)?;
        let stream = match &access.tls {
            None => Stream::Plain(socket),
            Some(tls) => {
                let name = member.rsplit_once(':').map_or(member, |(name, _)| name).trim_matches(['[', ']']);
                Stream::Tls(Box::new(tls.session(name, socket)?))
            }
        };
        Ok(Http { host: member.to_string(), stream, came: Vec::new(), chunk: 0 })
    }
    /// A handle that ends what waits on this connection.
    pub fn handle(&self) -> io::Result<TcpStream> {
        self.stream.socket().try_clone()
    }
    /// Sends a request and reads the whole answer.
    pub fn ask(&mut self, path: &str, token: &str, body: &str, deadline: Instant) -> io::Result<Response> {
        let (status, length) = self.begin(path, token, body, deadline)?;
        let mut out = Vec::new();
        match length {
            Some(n) => {
                self.fill(n, deadline)?;
                out.extend(self.came.drain(..n));
            }
            None => while self.piece(&mut out, deadline)? {},
        }
        let body = String::from_utf8(out).map_err(|_| bad("a body that is no text"))?;
        Ok(Response { status, body })
    }
    /// Sends a request whose answer is a line now and then.
    pub fn open(&mut self, path: &str, token: &str, body: &str, deadline: Instant) -> io::Result<u16> {
        self.begin(path, token, body, deadline).map(|(status, _)| status)
    }
    /// The next line of such an answer, whose beginning `line` may hold already; `TimedOut` if none is
    /// whole by then, and it can be asked again.
    pub fn line(&mut self, line: &mut Vec<u8>, deadline: Instant) -> io::Result<String> {
        loop {
            if let Some(end) = line.iter().position(|b| *b == b'\n') {
                let one: Vec<u8> = line.drain(..=end).collect();
                return String::from_utf8(one).map_err(|_| bad("a line that is no text"));
            }
            if !self.piece(line, deadline)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
    fn begin(&mut self, path: &str, token: &str, body: &str, deadline: Instant) -> io::Result<(u16, Option<usize>)> {
        let mut head = format!("POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n", self.host, body.len());
        if !token.is_empty() {
            head += &format!("Authorization: {token}\r\n");
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        let socket = self.stream.socket();
        socket.set_write_timeout(Some(left))?;
        // The handshake of TLS reads as well.
        socket.set_read_timeout(Some(left))?;
        let bytes = [head.as_bytes(), b"Content-Type: application/json\r\n\r\n", body.as_bytes()].concat();
        match &mut self.stream {
            Stream::Plain(s) => s.write_all(&bytes)?,
            Stream::Tls(s) => s.write_all(&bytes).and_then(|()| s.flush())?,
        }
        self.head(deadline)
    }
    /// Reads the lines before a body: the status, and the body's length unless it comes in chunks.
    fn head(&mut self, deadline: Instant) -> io::Result<(u16, Option<usize>)> {
        let first = self.text_line(deadline)?;
        let status = first.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(|| bad(&first))?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.text_line(deadline)?.to_ascii_lowercase();
            match line.split_once(':') {
                None if line.is_empty() => break,
                Some(("content-length", n)) => length = n.trim().parse().map_err(|_| bad(&line))?,
                Some(("transfer-encoding", how)) => chunked = how.trim() == "chunked",
                _ => {}
            }
        }
        self.chunk = 0;
        if length > ANSWER_MAX {
            return Err(bad("a body that is too long"));
        }
        Ok((status, (!chunked).then_some(length)))
    }
    /// Adds what has come of a chunked body; false at its end.
    fn piece(&mut self, out: &mut Vec<u8>, deadline: Instant) -> io::Result<bool> {
        if self.chunk == 0 {
            let line = self.text_line(deadline)?;
            let size = line.split(';').next().unwrap_or_default().trim();
            self.chunk = usize::from_str_radix(size, 16).map_err(|_| bad(&line))?;
            if self.chunk == 0 {
                self.text_line(deadline)?;
                return Ok(false);
            }
        }
        if out.len() + self.chunk > ANSWER_MAX {
            return Err(bad("a body that is too long"));
        }
        // The chunk with the end of its line, all at once: what was read stays if time runs out.
        self.fill(self.chunk + 2, deadline)?;
        out.extend(self.came.drain(..self.chunk));
        self.came.drain(..2);
        self.chunk = 0;
        Ok(true)
    }
    fn text_line(&mut self, deadline: Instant) -> io::Result<String> {
        loop {
            if let Some(end) = self.came.windows(2).position(|w| w == b"\r\n") {
                let line: Vec<u8> = self.came.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.came.len() > 64 << 10 {
                return Err(bad("a line that is too long"));
            }
            self.read(deadline)?;
        }
    }
    /// Reads until this many bytes are here.
    fn fill(&mut self, n: usize, deadline: Instant) -> io::Result<()> {
        while self.came.len() < n {
            self.read(deadline)?;
        }
        Ok(())
    }
    fn read(&mut self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        self.stream.socket().set_read_timeout(Some(left))?;
        let mut piece = [0; 16 << 10];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                self.came.extend_from_slice(&piece[..n]);
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Err(late()),
            Err(e) => Err(e),
        }
    }
}
