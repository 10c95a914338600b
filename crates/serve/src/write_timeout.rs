//! A stream whose writes fail when the client reads nothing for too long. Without it, such a client would keep a connection
//! and the memory of its answer for ever.

use crate::stamped::Arrival;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// A stream with a limit for the time without progress in writing.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    /// Runs while the socket takes no more bytes.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    /// Wraps a stream.
    pub fn new(stream: S, limit: Duration) -> WriteTimeout<S> {
        WriteTimeout { stream, limit, waiting: None }
    }
    /// What a write returned, or the error of one that takes too long.
    fn checked<T>(&mut self, cx: &mut Context<'_>, wrote: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.waiting = None;
            return wrote;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: Arrival> Arrival for WriteTimeout<S> {
    fn arrived_us(&self) -> Option<u64> {
        self.stream.arrived_us()
    }
    fn socket(&self) -> Option<Arc<TcpStream>> {
        self.stream.socket()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, to)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, from);
        self.checked(cx, wrote)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.checked(cx, flushed)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.checked(cx, closed)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, from);
        self.checked(cx, wrote)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test]
    async fn a_reader_that_stops_ends_the_connection_and_a_slow_one_does_not() {
        let (near, _unread) = duplex(8);
        let mut near = WriteTimeout::new(near, Duration::from_millis(50));
        near.write_all(&[1; 8]).await.unwrap();
        assert_eq!(near.write_all(&[2; 8]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let (near, mut slow) = duplex(8);
        let mut near = WriteTimeout::new(near, Duration::from_secs(60));
        let writing = tokio::spawn(async move { near.write_all(&[3; 64]).await.map(|()| near) });
        let mut bytes = [0; 64];
        for byte in &mut bytes {
            tokio::task::yield_now().await;
            *byte = slow.read_u8().await.unwrap();
        }
        assert!(writing.await.unwrap().is_ok() && bytes == [3; 64]);
    }
}
