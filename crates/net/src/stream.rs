//! A TCP or Unix socket, plain or under TLS, or shared memory beside one, as one type.

use crate::Error;
use crate::address::is_loopback;
use crate::shared::Rings;
use crate::tls::Session;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, sendmsg, sockopt};
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// How long a reader watches for bytes before it sleeps: to be woken takes longer than most
/// answers do.
pub(crate) const WATCH: Duration = Duration::from_micros(50);
/// Bytes that mostly find room in a socket.
const SHORT_BYTES: usize = 16 << 10;
/// Readers that watch now, and how many may: a core each.
static WATCHERS: AtomicUsize = AtomicUsize::new(0);
/// How long a caller whose certificate was refused may take to hear of it.
const LINGER: Duration = Duration::from_millis(500);
static WATCHERS_MAX: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, |n| n.get()));

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

macro_rules! either {
    ($self:expr, $s:ident => $e:expr) => {
        match $self {
            Socket::Tcp($s) => $e,
            Socket::Unix($s) => $e,
        }
    };
}

impl Socket {
    /// Reads what is there; `WouldBlock` if nothing is.
    fn read_now(&self, into: &mut [u8]) -> io::Result<usize> {
        either!(self, s => rustix::net::recv(s, into, RecvFlags::DONTWAIT)).map(|(n, _)| n).map_err(io::Error::from)
    }
    fn read(&self, into: &mut [u8], until: Instant) -> io::Result<usize> {
        let left = left(until)?;
        either!(self, s => {
            s.set_read_timeout(Some(left))?;
            (&*s).read(into)
        })
    }
    /// Writes what there is room for; `WouldBlock` if there is none.
    fn write_now(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let (mut nothing, flags) = (SendAncillaryBuffer::default(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        either!(self, s => sendmsg(s, slices, &mut nothing, flags)).map_err(io::Error::from)
    }
    fn write(&self, slices: &[IoSlice<'_>], until: Instant) -> io::Result<usize> {
        // Mostly there is room, and to say how long to wait for it costs as much as a short message.
        if slices.iter().map(|s| s.len()).sum::<usize>() <= SHORT_BYTES {
            let written = self.write_now(slices);
            if !is_empty(&written) {
                return written;
            }
        }
        let left = left(until)?;
        either!(self, s => {
            s.set_write_timeout(Some(left))?;
            (&*s).write_vectored(slices)
        })
    }
}

/// Time left, or `WouldBlock`.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(left) }
}

/// A connected socket, and TLS over it or memory beside it if there is any.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    /// Who is at the other end of a TCP socket.
    peer: Option<SocketAddr>,
    tls: Option<Arc<Session>>,
    rings: Option<Rings>,
}

impl From<TcpStream> for Stream {
    fn from(s: TcpStream) -> Stream {
        Stream { peer: s.peer_addr().ok(), socket: Socket::Tcp(s), tls: None, rings: None }
    }
}
impl From<UnixStream> for Stream {
    fn from(s: UnixStream) -> Stream {
        Stream { socket: Socket::Unix(s), peer: None, tls: None, rings: None }
    }
}

impl Stream {
    /// From now on the bytes go through memory.
    pub fn share(&mut self, rings: Rings) {
        self.rings = Some(rings);
    }
    /// Does the TLS handshake; from now on the socket's bytes are encrypted.
    pub fn encrypt(&mut self, session: Session, until: Instant) -> io::Result<()> {
        let socket = &self.socket;
        let done = session
            .handshake(|b| socket.read(b, until), |b| socket.write(&[IoSlice::new(b)], until))
            .inspect_err(|_| self.linger(until));
        self.tls = Some(Arc::new(session));
        done
    }
    /// Waits a moment for the other end to go first: to close a socket with bytes unread would
    /// take back what was just said to it.
    fn linger(&self, until: Instant) {
        let until = until.min(Instant::now() + LINGER);
        let _ = either!(&self.socket, s => s.shutdown(Shutdown::Write));
        let mut waste = [0; 4096];
        while self.socket.read(&mut waste, until).is_ok_and(|n| n > 0) {}
    }
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }
    pub fn is_tcp(&self) -> bool {
        matches!(self.socket, Socket::Tcp(_))
    }
    pub fn is_shared(&self) -> bool {
        self.rings.is_some()
    }
    pub fn try_clone(&self) -> io::Result<Stream> {
        let socket = match &self.socket {
            Socket::Tcp(s) => Socket::Tcp(s.try_clone()?),
            Socket::Unix(s) => Socket::Unix(s.try_clone()?),
        };
        Ok(Stream { socket, peer: self.peer, tls: self.tls.clone(), rings: self.rings.clone() })
    }
    pub fn set_up(&self) -> io::Result<()> {
        if let Socket::Tcp(s) = &self.socket { s.set_nodelay(true) } else { Ok(()) }
    }
    /// From now on a network that delivers nothing for so long ends the connection, also while no thread
    /// says anything. Other sockets cannot be cut.
    pub fn detect_loss(&self, within: Duration) -> io::Result<()> {
        let Socket::Tcp(s) = &self.socket else { return Ok(()) };
        // The system probes in whole seconds: after a third of the time, and then each second.
        let within = within.max(Duration::from_secs(1));
        let idle = Duration::from_secs((within.as_secs() / 3).max(1));
        sockopt::set_tcp_user_timeout(s, u32::try_from(within.as_millis()).unwrap_or(u32::MAX))?;
        sockopt::set_tcp_keepidle(s, idle)?;
        sockopt::set_tcp_keepintvl(s, Duration::from_secs(1))?;
        sockopt::set_tcp_keepcnt(s, u32::try_from((within - idle).as_secs()).unwrap_or(127).clamp(1, 127))?;
        sockopt::set_socket_keepalive(s, true)?;
        Ok(())
    }
    /// An error of a read or write, with the other end's name if it is lost.
    pub fn error(&self, e: io::Error, doing: &'static str) -> Error {
        let is_cut = e.raw_os_error() == Some(rustix::io::Errno::TIMEDOUT.raw_os_error());
        match (self.peer, if is_cut { Error::Gone(e.to_string()) } else { Error::of(e, doing) }) {
            (Some(peer), Error::Gone(_)) if is_cut => {
                Error::Gone(format!("the network has delivered nothing to or from {peer}"))
            }
            (Some(peer), Error::Gone(why)) => Error::Gone(format!("{why} ({peer})")),
            (_, e) => e,
        }
    }
    /// What to say when nothing will come any more.
    pub fn ended(&self) -> Error {
        let peer = self.peer.map_or(String::new(), |p| format!(" ({p})"));
        Error::Gone(format!("it closed the connection{peer}"))
    }
    pub fn shutdown(&self) {
        if let Some(rings) = &self.rings {
            rings.close();
        }
        // It may be closed already, which is as good.
        let _ = either!(&self.socket, s => s.shutdown(Shutdown::Both));
    }
    /// True if the other end is on this machine.
    pub fn is_local(&self) -> bool {
        match &self.socket {
            Socket::Tcp(s) => s.peer_addr().is_ok_and(|a| is_loopback(a.ip())),
            Socket::Unix(_) => true,
        }
    }
    /// Reads what is there; `WouldBlock` if nothing is.
    pub fn read_now(&self, into: &mut [u8]) -> io::Result<usize> {
        match (&self.rings, &self.tls) {
            (Some(rings), _) => rings.read_now(into),
            (None, Some(tls)) => tls.read(into, |b| self.socket.read_now(b)),
            (None, None) => self.socket.read_now(into),
        }
    }
    /// Of a socket beside memory, on which nothing is said any more: whether the other end is gone.
    fn is_gone(&self) -> bool {
        if !self.is_shared() {
            return false;
        }
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        let peeked = either!(&self.socket, s => rustix::net::recv(s, &mut [0u8; 1], flags));
        !matches!(peeked, Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR))
    }
    /// Reads something; `WouldBlock` if nothing comes by then, 0 if nothing will come.
    pub fn read(&mut self, into: &mut [u8], until: Instant) -> io::Result<usize> {
        if until <= Instant::now() {
            return self.read_now(into);
        }
        let result = self.watch(|| self.read_now(into));
        if !is_empty(&result) {
            return result;
        }
        if let Some(rings) = &self.rings {
            return rings.read(|r| r.read_now(into), until, || self.is_gone());
        }
        match &self.tls {
            Some(tls) => tls.read(into, |b| self.socket.read(b, until)),
            None => self.socket.read(into, until),
        }
    }
    /// As [`Stream::read`], shown where it lies: at most this many bytes, of whole units. Only memory
    /// can be shown.
    pub fn show(&self, max: usize, unit: usize, to: &mut dyn FnMut(&[u8]), until: Instant) -> io::Result<usize> {
        let Some(rings) = &self.rings else { return Err(io::ErrorKind::Unsupported.into()) };
        let result = self.watch(|| rings.show_now(max, unit, to));
        if !is_empty(&result) {
            return result;
        }
        rings.read(|r| r.show_now(max, unit, to), until, || self.is_gone())
    }
    /// Of memory: bytes that wait to be read, and the first of them.
    pub fn peek(&self, first: &mut [u8]) -> usize {
        self.rings.as_ref().map_or(0, |r| r.peek(first))
    }
    /// Reads what comes within a moment; `WouldBlock` if nothing does.
    fn watch(&self, mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        let mut result = read();
        if !is_empty(&result) {
            return result;
        }
        if WATCHERS.fetch_add(1, Ordering::Relaxed) < *WATCHERS_MAX {
            let start = Instant::now();
            while is_empty(&result) && start.elapsed() < WATCH {
                // The sender may need this core.
                std::thread::yield_now();
                result = read();
            }
        }
        WATCHERS.fetch_sub(1, Ordering::Relaxed);
        result
    }
    /// Writes what there is room for; `WouldBlock` if there is none. What is encrypted and finds no
    /// room counts as written: it is [owed](Stream::owes).
    pub fn write_now(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match (&self.rings, &self.tls) {
            (Some(rings), _) => rings.write_now(slices),
            (None, Some(tls)) => tls.write_now(slices, |b| self.socket.write_now(&[IoSlice::new(b)])),
            (None, None) => self.socket.write_now(slices),
        }
    }
    /// True if not everything that counts as written is.
    pub fn owes(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.owes())
    }
    /// Writes what is owed.
    pub fn flush(&self, until: Instant) -> io::Result<()> {
        self.tls.as_ref().map_or(Ok(()), |tls| tls.flush(|b| self.socket.write(&[IoSlice::new(b)], until)))
    }
    /// Waits until there is something to read, or room to write to the other, or for a moment.
    pub fn wait_or(&self, other: &Stream, until: Instant) -> io::Result<()> {
        if self.is_shared() || other.is_shared() {
            if self.is_gone() || other.is_gone() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            // Memory does not wake a thread that waits for a socket too.
            std::thread::sleep(left(until)?.min(WATCH));
            return Ok(());
        }
        let left = Timespec::try_from(left(until)?).map_err(|_| io::ErrorKind::InvalidInput)?;
        let reader = either!(&self.socket, s => PollFd::new(s, PollFlags::IN));
        let writer = either!(&other.socket, s => PollFd::new(s, PollFlags::OUT));
        match poll(&mut [reader, writer], Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
    /// Writes something; `WouldBlock` if there is no room by then.
    pub fn write(&self, slices: &[IoSlice<'_>], until: Instant) -> io::Result<usize> {
        if let Some(rings) = &self.rings {
            return rings.write(slices, until, || self.is_gone());
        }
        match &self.tls {
            Some(tls) => tls.write(slices, |b| self.socket.write(&[IoSlice::new(b)], until)),
            None => self.socket.write(slices, until),
        }
    }
}

pub(crate) fn is_empty(r: &io::Result<usize>) -> bool {
    r.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
}
