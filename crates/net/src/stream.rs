//! A TCP or Unix socket as one type.

use crate::address::is_loopback;
use rustix::net::RecvFlags;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

macro_rules! either {
    ($self:ident, $s:ident => $e:expr) => {
        match $self {
            Stream::Tcp($s) => $e,
            Stream::Unix($s) => $e,
        }
    };
}

impl Stream {
    pub fn try_clone(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(s) => Stream::Tcp(s.try_clone()?),
            Stream::Unix(s) => Stream::Unix(s.try_clone()?),
        })
    }
    /// Reads what is there; `WouldBlock` if nothing is.
    pub fn read_now(&self, b: &mut [u8]) -> io::Result<usize> {
        let read = either!(self, s => rustix::net::recv(s, b, RecvFlags::DONTWAIT));
        read.map(|(n, _)| n).map_err(io::Error::from)
    }
    pub fn set_read_timeout(&self, t: Duration) -> io::Result<()> {
        either!(self, s => s.set_read_timeout(Some(t)))
    }
    pub fn set_write_timeout(&self, t: Duration) -> io::Result<()> {
        either!(self, s => s.set_write_timeout(Some(t)))
    }
    pub fn shutdown(&self) {
        // It may be closed already, which is as good.
        let _ = either!(self, s => s.shutdown(Shutdown::Both));
    }
    /// True if the other end is on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Stream::Tcp(s) => s.peer_addr().is_ok_and(|a| is_loopback(a.ip())),
            Stream::Unix(_) => true,
        }
    }
}
impl Read for Stream {
    fn read(&mut self, b: &mut [u8]) -> io::Result<usize> {
        either!(self, s => s.read(b))
    }
}
impl Write for Stream {
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        either!(self, s => s.write(b))
    }
    fn write_vectored(&mut self, b: &[IoSlice<'_>]) -> io::Result<usize> {
        either!(self, s => s.write_vectored(b))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
