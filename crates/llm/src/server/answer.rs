//! Answers in OpenAI's form, whole or as a stream of server-sent events.

use super::failure::Failure;
use crate::engine::{Event, Reason, Ticket, Usage};
use crate::evaluate::Score;
use crate::load::LanguageModel;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Map, Value as Json, json};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

/// What all chunks of an answer have in common.
#[derive(Clone)]
pub struct Head {
    pub id: String,
    pub created: u64,
    pub model: Arc<LanguageModel>,
    pub served_name: String,
    pub is_chat: bool,
    pub has_logprobs: bool,
    /// Likeliest tokens that were asked for.
    pub top: usize,
    pub streams_usage: bool,
}

pub fn usage(u: Usage) -> Json {
    json!({
        "prompt_tokens": u.prompt, "completion_tokens": u.generated, "total_tokens": u.prompt + u.generated,
        "prompt_tokens_details": {"cached_tokens": u.cached},
    })
}

/// Several requests of one answer; a prompt counts once for each.
pub fn total(all: &[Usage]) -> Usage {
    let add = |a: Usage, b: &Usage| Usage {
        prompt: a.prompt + b.prompt,
        cached: a.cached + b.cached,
        generated: a.generated + b.generated,
    };
    all.iter().fold(Usage::default(), add)
}

/// A token of a completion with its log probabilities.
#[derive(Clone, Debug)]
pub struct Scored {
    pub token: u32,
    pub logprob: Option<f32>,
    pub top: Vec<(u32, f32)>,
}

impl Scored {
    pub fn of(token: u32, score: Option<&Score>, top: usize) -> Scored {
        let best = score.map(|s| s.top.iter().take(top).copied().collect());
        Scored { token, logprob: score.map(|s| s.logprob), top: best.unwrap_or_default() }
    }
}

impl Head {
    fn object(&self, is_chunk: bool) -> &'static str {
        match (self.is_chat, is_chunk) {
            (true, true) => "chat.completion.chunk",
            (true, false) => "chat.completion",
            (false, _) => "text_completion",
        }
    }
    fn body(&self, is_chunk: bool, choices: Json) -> Map<String, Json> {
        let all = json!({
            "id": self.id, "object": self.object(is_chunk), "created": self.created, "model": self.served_name,
            "choices": choices,
        });
        if let Json::Object(map) = all { map } else { Map::new() }
    }
    fn text(&self, token: u32) -> String {
        let t = &self.model.tokenizer;
        t.special(token).map_or_else(|| String::from_utf8_lossy(t.bytes(token)).into_owned(), str::to_string)
    }
    fn entry(&self, token: u32, logprob: f32) -> Json {
        let text = self.text(token);
        json!({"token": text, "logprob": logprob.max(-9999.0), "bytes": self.model.tokenizer.bytes(token)})
    }

    /// Log probabilities of tokens in the form of chat, or of completions.
    fn logprobs(&self, tokens: &[Scored]) -> Json {
        if !self.has_logprobs {
            return Json::Null;
        }
        if self.is_chat {
            let one = |s: &Scored| {
                let mut entry = self.entry(s.token, s.logprob.unwrap_or(0.0));
                entry["top_logprobs"] = s.top.iter().map(|(t, l)| self.entry(*t, *l)).collect();
                entry
            };
            return json!({"content": tokens.iter().map(one).collect::<Vec<Json>>()});
        }
        let mut offset = 0;
        let mut offsets = Vec::new();
        for s in tokens {
            offsets.push(offset);
            offset += self.text(s.token).chars().count();
        }
        let top = |s: &Scored| match s.logprob {
            None => Json::Null,
            Some(own) => {
                let own = (self.text(s.token), json!(own));
                Json::Object(s.top.iter().map(|(t, l)| (self.text(*t), json!(l))).chain([own]).collect())
            }
        };
        json!({
            "tokens": tokens.iter().map(|s| self.text(s.token)).collect::<Vec<_>>(),
            "token_logprobs": tokens.iter().map(|s| s.logprob).collect::<Vec<_>>(),
            "top_logprobs": tokens.iter().map(top).collect::<Vec<_>>(),
            "text_offset": offsets,
        })
    }

    /// A whole answer: text, tokens and end of each completion.
    pub fn whole(&self, all: &[(String, Vec<Scored>, Reason)], used: Usage) -> Json {
        let choice = |(i, (text, tokens, reason)): (usize, &(String, Vec<Scored>, Reason))| {
            let mut choice = json!({"index": i, "finish_reason": reason.name(), "logprobs": self.logprobs(tokens)});
            if self.is_chat {
                choice["message"] = json!({"role": "assistant", "content": text, "refusal": null});
            } else {
                choice["text"] = json!(text);
            }
            choice
        };
        let mut body = self.body(false, all.iter().enumerate().map(choice).collect());
        body.insert("usage".into(), usage(used));
        Json::Object(body)
    }

    /// A chunk of a stream.
    fn chunk(&self, index: usize, text: Option<&str>, role: bool, tokens: &[Scored], reason: Option<Reason>) -> Json {
        let mut choice = json!({"index": index, "finish_reason": reason.map(Reason::name)});
        choice["logprobs"] = if tokens.is_empty() { Json::Null } else { self.logprobs(tokens) };
        if self.is_chat {
            let mut delta = Map::new();
            if role {
                delta.insert("role".into(), "assistant".into());
            }
            if let Some(text) = text {
                delta.insert("content".into(), text.into());
            }
            choice["delta"] = Json::Object(delta);
        } else {
            choice["text"] = json!(text.unwrap_or_default());
        }
        let mut body = self.body(true, json!([choice]));
        if self.streams_usage {
            body.insert("usage".into(), Json::Null);
        }
        Json::Object(body)
    }
}

fn event(json: &Json) -> Bytes {
    Bytes::from(format!("data: {json}\n\n"))
}

/// A stream of events. Dropping it ends its requests.
pub struct EventStream {
    head: Head,
    from: Receiver<(usize, Event)>,
    _tickets: Vec<Ticket>,
    /// Completions that have begun, and those that have ended.
    begun: Vec<bool>,
    used: Vec<Usage>,
    ready: std::collections::VecDeque<Bytes>,
    is_over: bool,
}

impl EventStream {
    pub fn response(head: Head, from: Receiver<(usize, Event)>, tickets: Vec<Ticket>) -> Response {
        let begun = vec![false; tickets.len()];
        let ready = std::collections::VecDeque::new();
        let stream = EventStream { head, from, _tickets: tickets, begun, used: Vec::new(), ready, is_over: false };
        let mut response = Response::new(Body::from_stream(stream));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Proxies must not collect events.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    fn take(&mut self, index: usize, e: Event) {
        if self.head.is_chat && !std::mem::replace(&mut self.begun[index], true) {
            self.ready.push_back(event(&self.head.chunk(index, Some(""), true, &[], None)));
        }
        match e {
            Event::Token { token, text, logprob, top } => {
                let scored = Scored { token, logprob: Some(logprob), top };
                if !text.is_empty() || self.head.has_logprobs {
                    self.ready.push_back(event(&self.head.chunk(index, Some(&text), false, &[scored], None)));
                }
            }
            Event::Done { reason, text, usage: used } => {
                let text = if text.is_empty() { None } else { Some(&text[..]) };
                self.ready.push_back(event(&self.head.chunk(index, text, false, &[], Some(reason))));
                self.used.push(used);
                if self.used.len() == self.begun.len() {
                    self.finish();
                }
            }
            Event::Failed(e) => {
                // The status was sent long ago.
                self.ready.push_back(event(&Failure::new(StatusCode::INTERNAL_SERVER_ERROR, e).json()));
                self.is_over = true;
            }
        }
    }
    fn finish(&mut self) {
        if self.head.streams_usage {
            let mut body = self.head.body(true, json!([]));
            body.insert("usage".into(), usage(total(&self.used)));
            self.ready.push_back(event(&Json::Object(body)));
        }
        self.ready.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
        self.is_over = true;
    }
}

impl futures_core::Stream for EventStream {
    type Item = Result<Bytes, Infallible>;
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(bytes)));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            match self.from.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some((index, e))) => self.take(index, e),
                // The engine is gone, or the reader was too slow.
                Poll::Ready(None) => {
                    let e = Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "the stream was ended by the server");
                    self.ready.push_back(event(&e.json()));
                    self.is_over = true;
                }
            }
        }
    }
}
