//! HTTP/1 connections. What a server is busy with, inference over REST, is read and answered here. A body is read into
//! the memory that a program reads, an answer is written from the memory that a program wrote, and a refusal leaves before
//! the body of its request is read. `GET` goes through the routes. Everything else (HTTP/2, other methods, chunked or packed
//! bodies, `Expect`) is hyper's from the first byte of such a request on, with the rest of the connection.

use crate::answer::Answer;
use crate::app::App;
use crate::direct::{Direct, Sent, write_now};
use crate::failure::{Answered, Failure};
use crate::guard::{Seen, traceparent};
use crate::head::{ACCEPT_ENCODING, HEADERS_MAX, Head, Parsed, Place, REQUEST_ID, TRACEPARENT, Target, parse};
use crate::http::{DISCARD_MAX, DISCARD_TIMEOUT, patiently};
use crate::input::Pieces;
use crate::reply::{Echo, Reply, finish};
use crate::repository::Selector;
use crate::rest::{self, Encoded, Wanted};
use crate::served::{Served, now_us};
use crate::stamped::Arrival;
use crate::ticket::{Counted, Ticket};
use crate::{listen, packing};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use bytes::{Buf, Bytes, BytesMut};
use std::future::Future;
use std::io::{self, Write};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tower::ServiceExt;

/// Bytes that are read at once at least.
const READ_MIN: usize = 8 << 10;
/// Requests up to this size are read at once, with their head. The tensors of larger ones are read to where they are used.
const READ_MAX: usize = 64 << 10;
/// The engine is told when so many bytes of a tensor are missing: they take about as long as waking it.
const SOON: usize = 256 << 10;
/// Bytes of further requests that are kept while one is being answered.
const AHEAD_MAX: usize = 64 << 10;
/// How long a connection that is being closed is read.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// How a connection ended for this module.
pub(crate) enum End {
    /// It is closed.
    Closed,
    /// Hyper goes on, beginning with these bytes.
    Other(Bytes),
}

/// What becomes of a request for inference that is not refused.
enum Output {
    /// The client is gone.
    Gone,
    /// The engine has written the answer.
    Sent(Sent),
    /// An answer to be written.
    Encoded(Encoded, Counted),
}

/// A connection that is read here.
pub(crate) struct Connection<'a, S> {
    stream: &'a mut S,
    app: &'a Arc<App>,
    router: &'a Router,
    stopped: watch::Receiver<bool>,
    buffer: BytesMut,
    /// Bytes to read at once: what the last request took.
    read_len: usize,
    /// Bytes of the body of this request that are still to be read; `None` if that is unknown.
    unread: Option<usize>,
    /// When the bytes came that were read last, if that is known. What a client sends before it has the answer to an earlier
    /// request counts from that answer on.
    arrived_us: Option<u64>,
}

impl<'a, S: AsyncRead + AsyncWrite + Arrival + Unpin> Connection<'a, S> {
    /// A connection; it is drained when `stopped` turns true.
    pub fn new(stream: &'a mut S, app: &'a Arc<App>, router: &'a Router, stopped: watch::Receiver<bool>) -> Self {
        let buffer = BytesMut::with_capacity(READ_MIN);
        Connection { stream, app, router, stopped, buffer, read_len: READ_MIN, unread: Some(0), arrived_us: None }
    }

    /// Answers requests until one is not for this module. A client that goes away is no failure of the server.
    pub async fn run(mut self) -> End {
        loop {
            let head = match self.head().await {
                Ok(Parsed::Request(head)) => head,
                Ok(_) => return End::Other(self.buffer.freeze()),
                Err(_) => return End::Closed,
            };
            let total = head.len.saturating_add(head.content_length);
            let done = match &head.target {
                Target::Get => match self.request(&head) {
                    Some(request) => self.get(&head, request).await,
                    None => return End::Other(self.buffer.freeze()),
                },
                Target::Infer { name, version } => self.infer(&head, *name, *version).await,
            };
            if !matches!(done, Ok(true)) {
                self.close().await;
                return End::Closed;
            }
            self.read_len = if total > READ_MAX { READ_MIN } else { total.next_power_of_two().max(READ_MIN) };
            if total > READ_MAX {
                // An idle connection holds no memory of a large request.
                self.buffer = BytesMut::from(&self.buffer[..]);
            }
        }
    }

    /// Reads a head. An error is the end: the client is gone or too slow, or the server is told to end.
    async fn head(&mut self) -> io::Result<Parsed> {
        let mut limit = tokio::time::Instant::now() + listen::HEAD_TIMEOUT;
        let mut has_begun = false;
        let began_us = now_us();
        loop {
            if !self.buffer.is_empty() {
                match parse(&self.buffer) {
                    Parsed::Partial => {}
                    parsed => return Ok(parsed),
                }
                if !std::mem::replace(&mut has_begun, true) {
                    limit = tokio::time::Instant::now() + self.app.options.head_timeout;
                }
            }
            self.buffer.reserve(self.read_len);
            let is_idle = self.buffer.is_empty();
            let read = tokio::time::timeout_at(limit, self.stream.read_buf(&mut self.buffer));
            let read = tokio::select! {
                biased;
                read = read => read?,
                _ = self.stopped.wait_for(|is_stopped| *is_stopped), if is_idle => Ok(0),
            };
            if read? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.arrived_us = self.stream.arrived_us().map(|us| us.max(began_us));
        }
    }

    /// A request without a body, for the routes; `None` if it is not well formed.
    fn request(&self, head: &Head) -> Option<Request<Body>> {
        let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut slots);
        parsed.parse(&self.buffer[..head.len]).ok()?;
        let mut request = Request::builder().method("GET").uri(head.path.of(&self.buffer));
        for header in parsed.headers.iter() {
            request = request.header(header.name, header.value);
        }
        request.body(Body::empty()).ok()
    }

    /// Answers a request through the routes; returns whether the connection stays open.
    async fn get(&mut self, head: &Head, request: Request<Body>) -> io::Result<bool> {
        self.buffer.advance(head.len);
        let Ok(response) = self.router.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.map_err(io::Error::other)?;
        let is_kept = self.is_kept(head);
        let mut out = Vec::with_capacity(512);
        write!(out, "HTTP/1.1 {}\r\n", parts.status)?;
        for (name, value) in parts.headers.iter().filter(|(name, _)| **name != axum::http::header::CONTENT_LENGTH) {
            write!(out, "{name}: ")?;
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        finish(&mut out, body.len(), is_kept)?;
        self.write(Bytes::from(out).chain(body)).await?;
        Ok(is_kept)
    }

    fn is_kept(&self, head: &Head) -> bool {
        head.is_kept && !*self.stopped.borrow()
    }

    /// Answers a request for inference; returns whether the connection stays open.
    async fn infer(&mut self, head: &Head, name: Place, version: Option<Place>) -> io::Result<bool> {
        let began = Instant::now();
        let app = self.app;
        let bytes = self.buffer.split_to(head.len);
        self.unread = Some(head.content_length);
        let keys = app.options.keys.as_ref();
        let client = keys.map(|keys| keys.check_text(|name| head.named(&bytes, name))).transpose();
        let accepts = head.text(&bytes, ACCEPT_ENCODING);
        let id = head.raw(&bytes, REQUEST_ID).map(Bytes::copy_from_slice);
        let echo = Echo { trace: traceparent(head.text(&bytes, TRACEPARENT)), id };
        let answered = match &client {
            Ok(_) => {
                let (name, version) = (name.text(&bytes), version.map(|v| v.text(&bytes)));
                self.answer(head, accepts.is_none().then_some(&echo), name, version).await
            }
            Err(failure) => Err(failure.clone()),
        };
        let client = client.ok().flatten();
        let seen = |status| {
            Seen { route: head.route(), method: "POST", client, status, trace: &echo.trace, began }.record(app);
        };
        let (encoded, counted) = match answered {
            Ok(Output::Gone) => return Ok(false),
            Ok(Output::Sent(sent)) => {
                seen(StatusCode::OK.as_u16());
                for piece in sent.rest {
                    self.write(piece).await?;
                }
                return Ok(sent.is_kept);
            }
            Ok(Output::Encoded(encoded, counted)) => (Ok(encoded), Some(counted)),
            Err(failure) => (Err(failure), None),
        };
        let reply = encoded.and_then(|e| Reply::new(e, accepts)).unwrap_or_else(Reply::from);
        let is_kept = self.is_kept(head) && self.unread.is_some_and(|n| n <= DISCARD_MAX);
        seen(reply.status.as_u16());
        self.send(reply.into_parts(&echo, is_kept)?, counted).await?;
        Ok(is_kept && self.discard().await.is_ok())
    }

    /// The answer of a model. With `echo`, the engine may write it.
    async fn answer(
        &mut self,
        head: &Head,
        echo: Option<&Echo>,
        name: &str,
        version: Option<&str>,
    ) -> Answered<Output> {
        let app = self.app;
        let selector = Selector::parse(version)?;
        let served = match app.repository.find(name, &selector)? {
            Some(served) => served,
            None => app.find(name, &selector).await?,
        };
        if head.content_length > app.options.body_max {
            return Err(packing::too_large(app.options.body_max));
        }
        // Numbers as text say little about how many there are.
        let bytes = head.json_length.map_or(0, |json| head.content_length - json);
        let ticket = app.reserve(&served, bytes, self.arrived_us.take())?;
        let (body, ticket) = self.body(head, &served, ticket).await?;
        let (query, wanted) = rest::decode(&served, body, head.json_length, &app.regions)?;
        let wanted = Arc::new(wanted);
        let echo = echo.filter(|_| ticket.as_ref().is_some_and(|ticket| app.is_alone(ticket)));
        let direct = echo.and_then(|echo| self.direct(head, echo, &served, &wanted));
        let answered = self.unless_gone(app.infer(&served, query, ticket, direct)).await;
        let Some(answer) = answered else { return Ok(Output::Gone) };
        let (answer, counted) = answer?;
        match answer.sent {
            Some(sent) => Ok(Output::Sent(sent)),
            None => Ok(Output::Encoded(rest::encode(&served, &answer, &wanted)?, counted)),
        }
    }

    /// How the engine can write the answer to a request by itself.
    fn direct(&self, head: &Head, echo: &Echo, served: &Arc<Served>, wanted: &Arc<Wanted>) -> Option<Direct> {
        let socket = self.stream.socket()?;
        let (served, wanted, echo) = (served.clone(), wanted.clone(), echo.clone());
        let (is_kept, stopped) = (head.is_kept, self.stopped.clone());
        Some(Direct::new(Box::new(move |answer: &Answer| {
            let reply = Reply::new(rest::encode(&served, answer, &wanted).ok()?, None).ok()?;
            let is_kept = is_kept && !*stopped.borrow();
            let rest = write_now(&socket, reply.into_parts(&echo, is_kept).ok()?);
            Some(Sent { rest, is_kept, written_us: now_us() })
        })))
    }

    /// The body: where it was read to with the head, or what is read now.
    async fn body(
        &mut self,
        head: &Head,
        served: &Served,
        ticket: Option<Ticket>,
    ) -> Answered<(Pieces, Option<Ticket>)> {
        let len = head.content_length;
        if self.buffer.len() >= len {
            self.unread = Some(0);
            return Ok((self.buffer.split_to(len).freeze().into(), ticket));
        }
        // After a body that breaks off, nothing can follow.
        self.unread = None;
        let (app, json) = (self.app, head.json_length.unwrap_or(len));
        let tensors = Some(len - json).filter(|rest| *rest > 0 && served.is_batch(*rest));
        let lane = ticket.as_ref().map(|ticket| ticket.lane);
        let read = async {
            self.fill(if tensors.is_some() { json } else { len }).await?;
            let Some(rest) = tensors else { return Ok(self.buffer.split_to(len).freeze().into()) };
            let mut pieces = Pieces::from(self.buffer.split_to(json).freeze());
            pieces.push_whole(self.whole(rest, lane).await?);
            Ok(pieces)
        };
        let read = async { read.await.map_err(|_: io::Error| Failure::invalid("the body broke off")) };
        let (body, mut ticket) = patiently(app, ticket, read).await?;
        if let (Some(ticket), Some(us)) = (&mut ticket, self.stream.arrived_us()) {
            ticket.completed(us);
        }
        self.unread = Some(0);
        Ok((body, ticket))
    }

    /// Reads until so many bytes are there.
    async fn fill(&mut self, len: usize) -> io::Result<()> {
        while self.buffer.len() < len {
            self.buffer.reserve((len - self.buffer.len()).max(READ_MIN));
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// The next bytes in memory that a program can read: such as an earlier request has left, which is mapped already.
    async fn whole(&mut self, len: usize, mut lane: Option<usize>) -> io::Result<ir::Bytes> {
        let mut out = ir::Bytes::any(len);
        let mut at = self.buffer.len().min(len);
        self.buffer.copy_to_slice(&mut out.as_mut()[..at]);
        while at < len {
            match self.stream.read(&mut out.as_mut()[at..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => at += n,
            }
            if let Some(lane) = lane.take_if(|_| len - at <= SOON) {
                self.app.expect(lane);
            }
        }
        Ok(out)
    }

    /// What comes of some work; `None` if the client closes the connection before. Then the work is dropped.
    async fn unless_gone<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            while self.buffer.len() < AHEAD_MAX {
                // Of as many bytes as a request is likely to have: the client may have its answer already.
                self.buffer.reserve(self.read_len);
                match pin!(self.stream.read_buf(&mut self.buffer)).poll(cx) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(1..)) => {}
                    Poll::Ready(_) => return Poll::Ready(None),
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Reads what is left of the body of a request that was refused, so that its connection can be used again.
    async fn discard(&mut self) -> io::Result<()> {
        let left = self.unread.take().unwrap_or(0);
        let here = left.min(self.buffer.len());
        self.buffer.advance(here);
        let left = left - here;
        if left > 0 {
            tokio::time::timeout(DISCARD_TIMEOUT, self.skip(left)).await??;
        }
        self.unread = Some(0);
        Ok(())
    }

    /// Reads and drops so many bytes; the buffer is empty before.
    async fn skip(&mut self, mut left: usize) -> io::Result<()> {
        while left > 0 {
            self.buffer.clear();
            self.buffer.reserve(left.clamp(READ_MIN, READ_MAX));
            match self.stream.read_buf(&mut self.buffer).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    let own = n.min(left);
                    self.buffer.advance(own);
                    left -= own;
                }
            }
        }
        Ok(())
    }

    /// Closes the connection. What the client still sends is read for a while: closing a socket with unread bytes resets
    /// it, and the client may then lose the answer (RFC 9112, 9.6).
    async fn close(&mut self) {
        let is_read = self.unread == Some(0) && self.buffer.is_empty();
        if self.stream.shutdown().await.is_err() || is_read {
            return;
        }
        self.buffer.clear();
        // The client closes, or it is not waited for.
        let _ = tokio::time::timeout(LINGER_TIMEOUT, self.skip(DISCARD_MAX)).await;
    }

    /// Writes an answer with one system call, if the socket takes it. It counts as written when it was tried: how long a
    /// client takes to read it is no latency of the server.
    async fn send(&mut self, parts: Vec<Bytes>, counted: Option<Counted>) -> io::Result<()> {
        let mut parts = parts.into_iter();
        let [head, body, first] = std::array::from_fn(|_| parts.next().unwrap_or_default());
        {
            let mut writing = pin!(self.write(head.chain(body).chain(first)));
            let tried = std::future::poll_fn(|cx| Poll::Ready(writing.as_mut().poll(cx))).await;
            drop(counted);
            match tried {
                Poll::Ready(done) => done?,
                Poll::Pending => writing.await?,
            }
        }
        for piece in parts {
            self.write(piece).await?;
        }
        Ok(())
    }

    async fn write(&mut self, mut bytes: impl Buf) -> io::Result<()> {
        self.stream.write_all_buf(&mut bytes).await?;
        self.stream.flush().await
    }
}
