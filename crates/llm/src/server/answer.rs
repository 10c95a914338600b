//! Answers in OpenAI's form.

use crate::engine::{Reason, Usage};
use crate::evaluate::Score;
use crate::load::LanguageModel;
use crate::tools::{Part, ToolFormat, ToolParser};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;

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
    /// How calls are written, if there are tools.
    pub tools: Option<ToolFormat>,
    /// Whether several calls are taken.
    pub has_parallel_calls: bool,
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

/// A text that was generated.
#[derive(Clone, Debug)]
pub struct Completion {
    pub text: String,
    pub tokens: Vec<Scored>,
    pub reason: Reason,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

impl ToolCall {
    pub fn json(&self) -> Json {
        json!({"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}})
    }
}

/// A name of its own for a call.
pub fn call_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("call_{:016x}{:08x}", RandomState::new().hash_one(0), RandomState::new().hash_one(1) as u32)
}

impl Head {
    /// What finds calls in a text, if there are tools.
    pub fn parser(&self) -> Option<Calls> {
        let calls = |format| Calls { parser: ToolParser::new(format), most: self.most_calls(), seen: 0 };
        self.tools.map(calls)
    }
    fn most_calls(&self) -> usize {
        if self.has_parallel_calls { usize::MAX } else { 1 }
    }
    /// The text for the reader, and the calls.
    pub fn parts(&self, text: &str) -> (String, Vec<ToolCall>) {
        let Some(mut parser) = self.parser() else { return (text.to_string(), Vec::new()) };
        let (mut read, mut calls) = (String::new(), Vec::<ToolCall>::new());
        for part in parser.push(text).into_iter().chain(parser.finish()) {
            match part {
                Part::Text(t) => read += &t,
                Part::Call { name, .. } => calls.push(ToolCall { id: call_id(), name, arguments: String::new() }),
                Part::Arguments { index, text } => calls[index].arguments += &text,
            }
        }
        (read, calls)
    }
}

/// Finds calls in a text, no more than are taken.
pub struct Calls {
    parser: ToolParser,
    most: usize,
    seen: usize,
}

impl Calls {
    fn taken(&mut self, parts: Vec<Part>) -> Vec<Part> {
        let most = self.most;
        let is_taken = |p: &Part| match p {
            Part::Text(_) => true,
            Part::Call { index, .. } | Part::Arguments { index, .. } => *index < most,
        };
        let parts: Vec<Part> = parts.into_iter().filter(is_taken).collect();
        self.seen += parts.iter().filter(|p| matches!(p, Part::Call { .. })).count();
        parts
    }
    pub fn push(&mut self, text: &str) -> Vec<Part> {
        let parts = self.parser.push(text);
        self.taken(parts)
    }
    pub fn finish(&mut self) -> Vec<Part> {
        let parts = self.parser.finish();
        self.taken(parts)
    }
    /// Calls so far.
    pub fn count(&self) -> usize {
        self.seen
    }
}

/// Why a text ended, in OpenAI's words.
pub fn finish_reason(reason: Reason, calls: usize) -> &'static str {
    if calls > 0 && reason == Reason::Stop { "tool_calls" } else { reason.name() }
}

impl Head {
    fn object(&self, is_chunk: bool) -> &'static str {
        match (self.is_chat, is_chunk) {
            (true, true) => "chat.completion.chunk",
            (true, false) => "chat.completion",
            (false, _) => "text_completion",
        }
    }
    pub fn body(&self, is_chunk: bool, choices: Json) -> Map<String, Json> {
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
            return json!({"content": tokens.iter().map(one).collect::<Vec<Json>>(), "refusal": null});
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

    /// A whole answer.
    pub fn whole(&self, all: &[Completion], used: Usage) -> Json {
        let choice = |(i, c): (usize, &Completion)| {
            let (text, calls) = self.parts(&c.text);
            let reason = finish_reason(c.reason, calls.len());
            let mut choice = json!({"index": i, "finish_reason": reason, "logprobs": self.logprobs(&c.tokens)});
            if self.is_chat {
                let content = if text.is_empty() && !calls.is_empty() { Json::Null } else { json!(text) };
                choice["message"] = json!({"role": "assistant", "content": content, "refusal": null});
                if !calls.is_empty() {
                    choice["message"]["tool_calls"] = calls.iter().map(ToolCall::json).collect();
                }
            } else {
                choice["text"] = json!(text);
            }
            choice
        };
        let mut body = self.body(false, all.iter().enumerate().map(choice).collect());
        body.insert("usage".into(), usage(used));
        Json::Object(body)
    }

    /// A chunk of a stream: a part of a choice, which is a delta of chat or text of a completion.
    pub fn chunk(&self, index: usize, delta: Delta, tokens: &[Scored], reason: Option<&str>) -> Json {
        let mut choice = json!({"index": index, "finish_reason": reason});
        choice["logprobs"] = if tokens.is_empty() { Json::Null } else { self.logprobs(tokens) };
        if self.is_chat {
            choice["delta"] = delta.json();
        } else {
            choice["text"] = if let Delta::Text(text) = delta { json!(text) } else { json!("") };
        }
        let mut body = self.body(true, json!([choice]));
        if self.streams_usage {
            body.insert("usage".into(), Json::Null);
        }
        Json::Object(body)
    }
}

/// What a chunk adds to a message.
pub enum Delta<'a> {
    Role,
    Text(&'a str),
    Call { index: usize, id: &'a str, name: &'a str },
    Arguments { index: usize, text: &'a str },
    Nothing,
}

impl Delta<'_> {
    fn json(&self) -> Json {
        match self {
            Delta::Role => json!({"role": "assistant", "content": ""}),
            Delta::Text(text) => json!({"content": text}),
            Delta::Call { index, id, name } => {
                let call = json!({
                    "index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""},
                });
                json!({"tool_calls": [call]})
            }
            Delta::Arguments { index, text } => {
                json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
            }
            Delta::Nothing => json!({}),
        }
    }
}
