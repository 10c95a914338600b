//! Sockets that tell when bytes came. While a server has more to do than its threads can, requests wait in their sockets,
//! where no thread sees them. The system notes when they arrive (`SO_TIMESTAMPNS`) and says so with what is read.

#![allow(unsafe_code)]

use crate::served::now_us;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};
#[cfg(target_os = "linux")]
use std::{mem::size_of, os::fd::AsRawFd};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A connection that may tell when the bytes came that were read last.
pub(crate) trait Arrival {
    /// When they came, on the clock of [`now_us`]; `None` if that is not known.
    fn arrived_us(&self) -> Option<u64>;
    /// The socket, if bytes are sent as they are.
    fn socket(&self) -> Option<Arc<TcpStream>> {
        None
    }
}

/// A stream of which nothing is known.
pub(crate) struct Plain<S>(pub S);

impl<S> Arrival for Plain<S> {
    fn arrived_us(&self) -> Option<u64> {
        None
    }
}

impl<S: Arrival> Arrival for TlsStream<S> {
    fn arrived_us(&self) -> Option<u64> {
        self.get_ref().0.arrived_us()
    }
}

/// A TCP connection whose reads are stamped, where the system does that.
pub(crate) struct Stamped {
    stream: Arc<TcpStream>,
    is_stamping: bool,
    arrived_us: Option<u64>,
}

/// Room for the control messages of a read: one stamp, aligned as the system wants it.
#[cfg(target_os = "linux")]
#[repr(C, align(8))]
struct Control([u8; 64]);

/// A stamp older than this is that of another clock.
const AGE_MAX: Duration = Duration::from_secs(60);

impl Stamped {
    /// Asks the system for stamps.
    pub fn new(stream: TcpStream) -> Stamped {
        let is_stamping = ask_for_stamps(&stream);
        Stamped { stream: Arc::new(stream), is_stamping, arrived_us: None }
    }
}

/// Whether reads of this socket are stamped from now on.
#[cfg(target_os = "linux")]
fn ask_for_stamps(stream: &TcpStream) -> bool {
    let is_on: libc::c_int = 1;
    // SAFETY: the descriptor is open as long as `stream`, and the option is an int that lives through the call.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const is_on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn ask_for_stamps(_: &TcpStream) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn receive(_: &TcpStream, _: &mut [MaybeUninit<u8>]) -> io::Result<(usize, Option<u64>)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Reads into `to`; returns how many bytes, and when the last of them came.
#[cfg(target_os = "linux")]
fn receive(stream: &TcpStream, to: &mut [MaybeUninit<u8>]) -> io::Result<(usize, Option<u64>)> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    // SAFETY: all zeros are a message without an address, parts and control messages.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control.0).cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: the descriptor is open as long as `stream`; the message points to `to` and `control`, which live through the
    // call, with their lengths.
    let read = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, 0) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    let mut stamp = None;
    // SAFETY: the system has filled in `message`, and its control messages lie in `control`. Each is read where the macros
    // of the system say that it begins; a stamp of this kind is a `timespec`, which need not be aligned.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(&raw const message);
        while !at.is_null() {
            if (*at).cmsg_level == libc::SOL_SOCKET && (*at).cmsg_type == libc::SCM_TIMESTAMPNS {
                stamp = Some(libc::CMSG_DATA(at).cast::<libc::timespec>().read_unaligned());
            }
            at = libc::CMSG_NXTHDR(&raw const message, at);
        }
    }
    Ok((read, stamp.and_then(|t| ours(t.tv_sec as u64, t.tv_nsec as u32))))
}

/// A time of the system's clock on ours; `None` if it is not in the recent past.
fn ours(seconds: u64, nanoseconds: u32) -> Option<u64> {
    let stamp = SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))?;
    let age = SystemTime::now().duration_since(stamp).ok().filter(|age| *age < AGE_MAX)?;
    Some(now_us().saturating_sub(age.as_micros() as u64).max(1))
}

impl Arrival for Stamped {
    fn arrived_us(&self) -> Option<u64> {
        self.arrived_us
    }
    fn socket(&self) -> Option<Arc<TcpStream>> {
        Some(self.stream.clone())
    }
}

impl AsyncRead for Stamped {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            ready!(this.stream.poll_read_ready(cx))?;
            if !this.is_stamping {
                match this.stream.try_read(to.initialize_unfilled()) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                    read => return Poll::Ready(read.map(|n| to.advance(n))),
                }
            }
            // SAFETY: nothing that is initialized is made uninitialized: the system writes bytes.
            let room = unsafe { to.unfilled_mut() };
            let len = room.len();
            let mut got = None;
            let tried = this.stream.try_io(Interest::READABLE, || {
                let (read, arrived_us) = receive(&this.stream, room)?;
                got = Some((read, arrived_us));
                // The socket is empty then: the next read waits for the system instead of asking it.
                if (1..len).contains(&read) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            if let Some((read, arrived_us)) = got {
                // SAFETY: the system has written so many bytes there.
                unsafe { to.assume_init(read) };
                to.advance(read);
                this.arrived_us = arrived_us;
                return Poll::Ready(Ok(()));
            }
            match tried {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                tried => return Poll::Ready(tried),
            }
        }
    }
}

impl Stamped {
    /// What `write` returns once the socket takes bytes.
    fn poll_with(
        &self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            match write(&self.stream) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_with(cx, |stream| stream.try_write(from))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(rustix::net::shutdown(&*self.stream, rustix::net::Shutdown::Write).map_err(io::Error::from))
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(cx, |stream| stream.try_write_vectored(from))
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Plain<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, from)
    }
    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Plain<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn bytes_that_waited_in_the_socket_are_known_to_have() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut near = Stamped::new(listener.accept().await.unwrap().0);
        // The kernel begins to stamp packets some time after a socket has asked for it.
        let mut is_known = false;
        for _ in 0..100 {
            let before = now_us();
            far.write_all(&[7; 5000]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(30)).await;
            let mut got = Vec::new();
            while got.len() < 5000 {
                assert!(near.read_buf(&mut got).await.unwrap() > 0);
            }
            assert!(got == [7; 5000]);
            if let Some(arrived) = near.arrived_us() {
                assert!((before.saturating_sub(2_000)..=now_us() - 20_000).contains(&arrived), "{before}, {arrived}");
                is_known = true;
                break;
            }
        }
        assert_eq!(is_known, cfg!(target_os = "linux"));
        drop(far);
        assert_eq!(near.read_buf(&mut Vec::new()).await.unwrap(), 0);
    }

    #[test]
    fn times_of_another_clock_are_no_stamps() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert_eq!((ours(0, 0), ours(now + 100, 0), ours(now - 1000, 0)), (None, None, None));
        assert!(ours(now - 1, 0).is_some());
    }
}
