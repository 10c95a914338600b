//! A TCP or Unix socket, or shared memory beside one, as one type.

use crate::address::is_loopback;
use crate::shared::Rings;
use rustix::net::RecvFlags;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a reader watches for bytes before it sleeps: to be woken takes longer than most
/// answers do.
pub(crate) const WATCH: Duration = Duration::from_micros(50);
/// Readers that watch now, and how many may: a core each.
static WATCHERS: AtomicUsize = AtomicUsize::new(0);
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

/// A connected socket, and the memory beside it if there is any.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    rings: Option<Rings>,
}

impl From<TcpStream> for Stream {
    fn from(s: TcpStream) -> Stream {
        Stream { socket: Socket::Tcp(s), rings: None }
    }
}
impl From<UnixStream> for Stream {
    fn from(s: UnixStream) -> Stream {
        Stream { socket: Socket::Unix(s), rings: None }
    }
}

impl Stream {
    /// From now on the bytes go through memory.
    pub fn share(&mut self, rings: Rings) {
        self.rings = Some(rings);
    }
    pub fn is_shared(&self) -> bool {
        self.rings.is_some()
    }
    pub fn try_clone(&self) -> io::Result<Stream> {
        let socket = match &self.socket {
            Socket::Tcp(s) => Socket::Tcp(s.try_clone()?),
            Socket::Unix(s) => Socket::Unix(s.try_clone()?),
        };
        Ok(Stream { socket, rings: self.rings.clone() })
    }
    pub fn set_up(&self) -> io::Result<()> {
        if let Socket::Tcp(s) = &self.socket { s.set_nodelay(true) } else { Ok(()) }
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
    fn read_now(&self, into: &mut [u8]) -> io::Result<usize> {
        match &self.rings {
            Some(rings) => rings.read_now(into),
            None => {
                let read = either!(&self.socket, s => rustix::net::recv(s, into, RecvFlags::DONTWAIT));
                read.map(|(n, _)| n).map_err(io::Error::from)
            }
        }
    }
    /// Of a socket beside memory, on which nothing is said any more: whether the other end is gone.
    fn is_gone(&self) -> bool {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        let peeked = either!(&self.socket, s => rustix::net::recv(s, &mut [0u8; 1], flags));
        !matches!(peeked, Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR))
    }
    /// Reads something; `WouldBlock` if nothing comes by then, 0 if nothing will come.
    pub fn read(&mut self, into: &mut [u8], until: Instant) -> io::Result<usize> {
        if until <= Instant::now() {
            return self.read_now(into);
        }
        let result = self.watch(into);
        if !is_empty(&result) {
            return result;
        }
        if let Some(rings) = &self.rings {
            return rings.read(into, until, || self.is_gone());
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        either!(&mut self.socket, s => {
            s.set_read_timeout(Some(left))?;
            s.read(into)
        })
    }
    /// Reads what comes within a moment; `WouldBlock` if nothing does.
    fn watch(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut result = self.read_now(into);
        if !is_empty(&result) {
            return result;
        }
        if WATCHERS.fetch_add(1, Ordering::Relaxed) < *WATCHERS_MAX {
            let start = Instant::now();
            while is_empty(&result) && start.elapsed() < WATCH {
                // Whoever is to send may need this core.
                std::thread::yield_now();
                result = self.read_now(into);
            }
        }
        WATCHERS.fetch_sub(1, Ordering::Relaxed);
        result
    }
    /// Writes something; `WouldBlock` if there is no room by then.
    pub fn write(&mut self, slices: &[IoSlice<'_>], until: Instant) -> io::Result<usize> {
        if let Some(rings) = &self.rings {
            return rings.write(slices, until, || self.is_gone());
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        either!(&mut self.socket, s => {
            s.set_write_timeout(Some(left))?;
            s.write_vectored(slices)
        })
    }
}

fn is_empty(r: &io::Result<usize>) -> bool {
    r.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
}
