//! The stream of a connection that hyper serves. Bytes that were read before come first, and the connection is polled
//! whenever something arrives.
//!
//! hyper 1.12 stops reading at times. A read finds nothing, and hyper notes that it will be woken. It is woken, but goes on
//! with bytes that it had buffered, so it neither reads nor forgets the note. When it then expects the next request, it
//! relies on a wake-up that is over. The client waits for an answer, the server for the client, and not even a client that
//! goes away is noticed. It takes a body that is not read or a second request in the same packet. [`Attending`] reads a
//! little whenever hyper has not, so a wake-up is always due.

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are read ahead at most.
const AHEAD: usize = 1 << 10;

struct State<S> {
    stream: S,
    /// Bytes to read before those of the stream.
    before: Bytes,
    /// Whether the stream has ended after them, and whether the connection knows it.
    is_ended: bool,
    is_end_read: bool,
    /// Whether the last read in this poll of the connection found nothing: the stream wakes it then.
    is_waiting: bool,
    /// Whether bytes before the stream were read in this poll of the connection.
    has_read: bool,
    /// Whether the connection is polled once more because it has left bytes, or the end, unread.
    is_nudged: bool,
}

impl<S: AsyncRead + Unpin> State<S> {
    /// Sees to it that the task is woken when something can be read. A connection that leaves bytes where they are is
    /// polled once more, and then not until something else happens: it may not want them yet.
    fn attend(&mut self, cx: &mut Context<'_>) {
        if self.is_waiting {
            return;
        }
        if !self.before.is_empty() || self.is_ended && !self.is_end_read {
            self.is_nudged = !self.has_read && !self.is_nudged;
            if self.has_read || self.is_nudged {
                cx.waker().wake_by_ref();
            }
            return;
        }
        if self.is_ended {
            return;
        }
        let mut bytes = [0; AHEAD];
        let mut to = ReadBuf::new(&mut bytes);
        match Pin::new(&mut self.stream).poll_read(cx, &mut to) {
            Poll::Pending => return,
            Poll::Ready(Ok(())) if !to.filled().is_empty() => self.before = Bytes::copy_from_slice(to.filled()),
            // After an error there is nothing to read either.
            Poll::Ready(_) => self.is_ended = true,
        }
        self.is_nudged = false;
        cx.waker().wake_by_ref();
    }
}

/// A stream that is read ahead where its connection does not read.
pub(crate) struct Attended<S>(Arc<Mutex<State<S>>>);

impl<S: AsyncRead + Unpin> Attended<S> {
    /// A stream with bytes before it.
    pub fn new(before: Bytes, stream: S) -> Attended<S> {
        let (is_ended, is_end_read, is_waiting, has_read, is_nudged) = (false, false, false, false, false);
        let state = State { stream, before, is_ended, is_end_read, is_waiting, has_read, is_nudged };
        Attended(Arc::new(Mutex::new(state)))
    }
    /// The connection that `serve` makes of this stream.
    pub fn serve<C: Future>(self, serve: impl FnOnce(Attended<S>) -> C) -> Attending<C, S> {
        let state = self.0.clone();
        Attending { connection: Box::pin(serve(self)), state }
    }
}

/// A connection over an [`Attended`] stream.
pub(crate) struct Attending<C, S> {
    connection: Pin<Box<C>>,
    state: Arc<Mutex<State<S>>>,
}

impl<C: Future, S: AsyncRead + Unpin> Future for Attending<C, S> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        // What woke the task may have been the wake-up that an earlier read has asked for.
        let mut state = self.state.lock();
        (state.is_waiting, state.has_read) = (false, false);
        drop(state);
        let polled = self.connection.as_mut().poll(cx);
        if polled.is_pending() {
            self.state.lock().attend(cx);
        }
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Attended<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        if !state.before.is_empty() {
            let len = state.before.len().min(to.remaining());
            to.put_slice(&state.before[..len]);
            state.before.advance(len);
            (state.has_read, state.is_nudged) = (true, false);
            return Poll::Ready(Ok(()));
        }
        if state.is_ended {
            state.is_end_read = true;
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut state.stream).poll_read(cx, to);
        state.is_waiting = read.is_pending();
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Attended<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.lock().stream).poll_write(cx, from)
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_shutdown(cx)
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.lock().stream).poll_write_vectored(cx, from)
    }
    fn is_write_vectored(&self) -> bool {
        self.0.lock().stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test]
    async fn bytes_come_in_order_and_the_end_after_them() {
        let (near, mut far) = duplex(64);
        far.write_all(b"cdef").await.unwrap();
        drop(far);
        let mut text = String::new();
        Attended::new(Bytes::from_static(b"ab"), near).read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "abcdef");
    }

    /// A connection that reads only every other time that it is polled, as hyper does, and is woken nevertheless.
    #[tokio::test]
    async fn a_connection_that_does_not_read_is_polled_again() {
        let (near, mut far) = duplex(4);
        let connection = |mut stream: Attended<_>| {
            let (mut polls, mut got) = (0, Vec::new());
            std::future::poll_fn(move |cx| {
                polls += 1;
                if polls % 2 == 1 {
                    return Poll::Pending;
                }
                let mut bytes = [0; 3];
                let mut to = ReadBuf::new(&mut bytes);
                match Pin::new(&mut stream).poll_read(cx, &mut to) {
                    Poll::Ready(Ok(())) if to.filled().is_empty() => return Poll::Ready(std::mem::take(&mut got)),
                    Poll::Ready(_) => got.extend_from_slice(to.filled()),
                    Poll::Pending => {}
                }
                Poll::Pending
            })
        };
        let serving = tokio::spawn(Attended::new(Bytes::from_static(b"01"), near).serve(connection));
        let exchange = async {
            for piece in [&b"23"[..], b"456789", b"a"] {
                far.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            drop(far);
            serving.await.unwrap()
        };
        let got = tokio::time::timeout(std::time::Duration::from_secs(20), exchange).await;
        assert_eq!(got.unwrap(), b"0123456789a");
    }
}
