//! Answers as streams of server-sent events.

use super::answer::{Calls, Delta, Head, Scored, call_id, finish_reason, total, usage};
use super::failure::Failure;
use crate::engine::{Event, Ticket, Usage};
use crate::tools::Part;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

/// From what happens to the requests of an answer to server-sent events.
pub trait Writer: Send + Unpin + 'static {
    /// Something happened to the request with this number; true if the answer is over.
    fn take(&mut self, index: usize, event: Event, out: &mut VecDeque<Bytes>) -> bool;
    /// The answer cannot be completed.
    fn fail(&mut self, failure: &Failure, out: &mut VecDeque<Bytes>);
}

/// A stream of events. Dropping it ends its requests.
struct EventStream<W> {
    writer: W,
    from: Receiver<(usize, Event)>,
    _tickets: Vec<Ticket>,
    ready: VecDeque<Bytes>,
    is_over: bool,
}

/// The response that streams an answer, perhaps with an event that has come already.
pub fn streamed(
    writer: impl Writer,
    first: Option<(usize, Event)>,
    from: Receiver<(usize, Event)>,
    tickets: Vec<Ticket>,
) -> Response {
    let mut stream = EventStream { writer, from, _tickets: tickets, ready: VecDeque::new(), is_over: false };
    if first.is_some() {
        stream.take(first);
    }
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies must not collect events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl<W: Writer> EventStream<W> {
    /// Writes what an event says; none comes any more if there is none.
    fn take(&mut self, next: Option<(usize, Event)>) {
        let failure = match next {
            // The status was sent long ago.
            Some((_, Event::Failed(e))) => Failure::new(StatusCode::INTERNAL_SERVER_ERROR, e),
            Some((_, Event::Refused)) => Failure::overloaded(),
            Some((index, e)) => {
                self.is_over = self.writer.take(index, e, &mut self.ready);
                return;
            }
            // The engine is gone, or the reader was too slow.
            None => Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "the stream was ended by the server"),
        };
        self.writer.fail(&failure, &mut self.ready);
        self.is_over = true;
    }
}

impl<W: Writer> futures_core::Stream for EventStream<W> {
    type Item = Result<Bytes, Infallible>;
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(bytes) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(bytes)));
            }
            if this.is_over {
                return Poll::Ready(None);
            }
            match this.from.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(next) => this.take(next),
            }
        }
    }
}

pub fn event(json: &Json) -> Bytes {
    Bytes::from(format!("data: {json}\n\n"))
}

/// A completion of a stream.
struct Choice {
    has_begun: bool,
    calls: Option<Calls>,
}

/// Chunks of chat and completions.
pub struct Chunks {
    head: Head,
    choices: Vec<Choice>,
    used: Vec<Usage>,
}

impl Chunks {
    pub fn new(head: Head, count: usize) -> Chunks {
        let choices = (0..count).map(|_| Choice { has_begun: false, calls: head.parser() }).collect();
        Chunks { head, choices, used: Vec::new() }
    }
    /// What a part of a text is in chunks; log probabilities go with the first.
    fn parts(&self, index: usize, parts: &[Part], mut tokens: &[Scored], out: &mut VecDeque<Bytes>) {
        for part in parts {
            let id = call_id();
            let delta = match part {
                Part::Text(text) => Delta::Text(text),
                Part::Call { index, name } => Delta::Call { index: *index, id: &id, name },
                Part::Arguments { index, text } => Delta::Arguments { index: *index, text },
            };
            out.push_back(event(&self.head.chunk(index, delta, tokens, None)));
            tokens = &[];
        }
        if self.head.has_logprobs && !tokens.is_empty() {
            out.push_back(event(&self.head.chunk(index, Delta::Text(""), tokens, None)));
        }
    }
}

impl Writer for Chunks {
    fn take(&mut self, index: usize, e: Event, out: &mut VecDeque<Bytes>) -> bool {
        let choice = &mut self.choices[index];
        if self.head.is_chat && !std::mem::replace(&mut choice.has_begun, true) {
            out.push_back(event(&self.head.chunk(index, Delta::Role, &[], None)));
        }
        let plain = |text: String| if text.is_empty() { vec![] } else { vec![Part::Text(text)] };
        match e {
            Event::Token { token, text, logprob, top } => {
                let parts = match &mut choice.calls {
                    Some(calls) => calls.push(&text),
                    None => plain(text),
                };
                self.parts(index, &parts, &[Scored { token, logprob: Some(logprob), top }], out);
            }
            Event::Done { reason, text, usage: used } => {
                let (parts, count) = match &mut choice.calls {
                    Some(calls) => {
                        let mut parts = calls.push(&text);
                        parts.extend(calls.finish());
                        (parts, calls.count())
                    }
                    None => (plain(text), 0),
                };
                self.parts(index, &parts, &[], out);
                let reason = finish_reason(reason, count);
                out.push_back(event(&self.head.chunk(index, Delta::Nothing, &[], Some(reason))));
                self.used.push(used);
            }
            Event::Failed(_) | Event::Refused => {}
        }
        if self.used.len() < self.choices.len() {
            return false;
        }
        if self.head.streams_usage {
            let mut body = self.head.body(true, json!([]));
            body.insert("usage".into(), usage(total(&self.used)));
            out.push_back(event(&Json::Object(body)));
        }
        out.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
        true
    }
    fn fail(&mut self, failure: &Failure, out: &mut VecDeque<Bytes>) {
        out.push_back(event(&failure.json()));
    }
}
