//! Routes of the server.

use super::answer::{EventStream, Head, Scored, total};
use super::failure::Failure;
use super::request::{Wanted, prompts};
use crate::engine::{Event, Generation, Handle, Reason, Refused, Ticket, Usage};
use crate::evaluate::Evaluator;
use crate::load::LanguageModel;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use serde_json::{Value as Json, json};
use serve::Keys;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::{Receiver, channel};

/// Events of a stream that its reader may be behind; a slower one is cut off.
const BEHIND_MAX: usize = 4096;

/// A model behind HTTP.
pub struct Api {
    handle: Handle,
    evaluator: Arc<Evaluator>,
    /// One text at a time is evaluated without a cache.
    evaluating: tokio::sync::Semaphore,
    name: String,
    created: u64,
    keys: Option<Keys>,
    is_draining: AtomicBool,
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

impl Api {
    /// Serves an engine's model under a name.
    pub fn new(handle: Handle, name: &str, keys: Option<Keys>) -> Api {
        let evaluator = Arc::new(Evaluator::new(handle.model().decoder.clone()));
        let evaluating = tokio::sync::Semaphore::new(1);
        let is_draining = AtomicBool::new(false);
        Api { handle, evaluator, evaluating, name: name.to_string(), created: now(), keys, is_draining }
    }
    /// The engine.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
    /// Takes no more requests.
    pub fn start_draining(&self) {
        self.is_draining.store(true, Relaxed);
    }
    fn model(&self) -> &Arc<LanguageModel> {
        self.handle.model()
    }
    fn check_model(&self, body: &Json) -> Result<(), Failure> {
        match body["model"].as_str() {
            None => Ok(()),
            Some(name) if name == self.name || name == "default" => Ok(()),
            Some(name) => {
                let e = Failure::new(StatusCode::NOT_FOUND, format!("the model {name:?} does not exist"));
                Err(Failure { code: Some("model_not_found"), param: Some("model"), ..e })
            }
        }
    }

    /// Hands requests to the engine; their events come with the number of each.
    fn submit(&self, all: Vec<Generation>) -> Result<(Receiver<(usize, Event)>, Vec<Ticket>), Failure> {
        let (to, from) = channel(BEHIND_MAX);
        let mut tickets = Vec::new();
        for (i, g) in all.into_iter().enumerate() {
            let to = to.clone();
            let taken = self.handle.submit(g, Box::new(move |e| to.try_send((i, e)).is_ok()));
            tickets.push(taken.map_err(|e| match e {
                Refused::Overloaded => Failure::overloaded(),
                Refused::Ended => Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the engine has ended"),
            })?);
        }
        Ok((from, tickets))
    }

    async fn evaluate<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Evaluator) -> ir::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let _turn = self.evaluating.acquire().await;
        let evaluator = self.evaluator.clone();
        let done = tokio::task::spawn_blocking(move || f(&evaluator)).await;
        let done = done.map_err(|e| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
        done.map_err(|e| Failure::new(StatusCode::BAD_REQUEST, e.message))
    }

    /// Generates the completions of a request.
    async fn answer(&self, is_chat: bool, prompts: Vec<Vec<u32>>, w: Wanted) -> Result<Response, Failure> {
        let prefix = if is_chat { "chatcmpl" } else { "cmpl" };
        let head = Head {
            id: format!("{prefix}-{:016x}", RandomState::new().hash_one(0)),
            created: now(),
            model: self.model().clone(),
            served_name: self.name.clone(),
            is_chat,
            has_logprobs: w.has_logprobs,
            top: w.generation.sampling.logprobs,
            streams_usage: w.streams_usage,
        };
        if w.generation.tokens_max == Some(0) {
            return self.echo_only(head, prompts, &w).await;
        }
        let all = w.generations(&prompts, self.handle.length_max())?;
        let count = all.len();
        let (from, tickets) = self.submit(all)?;
        if w.streams {
            return Ok(EventStream::response(head, from, tickets));
        }
        let (mut done, used) = collect(from, count).await?;
        drop(tickets);
        if w.echoes {
            for (i, choice) in done.iter_mut().enumerate() {
                let (text, mut tokens) = self.echoed(&head, &prompts[i / w.count]).await?;
                tokens.append(&mut choice.1);
                (choice.0, choice.1) = (text + &choice.0, tokens);
            }
        }
        Ok(json_response(&head.whole(&done, used)))
    }
    /// A prompt's text, and its tokens with their log probabilities if they are asked for.
    async fn echoed(&self, head: &Head, prompt: &[u32]) -> Result<(String, Vec<Scored>), Failure> {
        let text = self.model().tokenizer.decode(prompt);
        let scores = if head.has_logprobs {
            let tokens = prompt.to_vec();
            self.evaluate(move |e| e.scores(&tokens)).await?
        } else {
            Vec::new()
        };
        let score = |i: usize| i.checked_sub(1).and_then(|i| scores.get(i));
        let tokens = prompt.iter().enumerate().map(|(i, t)| Scored::of(*t, score(i), head.top)).collect();
        Ok((text, tokens))
    }
    /// No token is to be generated: prompts are evaluated, as benchmarks do.
    async fn echo_only(&self, head: Head, prompts: Vec<Vec<u32>>, w: &Wanted) -> Result<Response, Failure> {
        if !w.echoes {
            return Err(Failure::invalid("max_tokens", "max_tokens must be at least 1"));
        }
        let (mut all, mut used) = (Vec::new(), Usage::default());
        for prompt in &prompts {
            let (text, tokens) = self.echoed(&head, prompt).await?;
            all.push((text, tokens, Reason::Length));
            used.prompt += prompt.len();
        }
        Ok(json_response(&head.whole(&all, used)))
    }
}

/// The text, the tokens and the end of each completion, and what all used.
type Completions = (Vec<(String, Vec<Scored>, Reason)>, Usage);

async fn collect(mut from: Receiver<(usize, Event)>, count: usize) -> Result<Completions, Failure> {
    let mut all: Vec<(String, Vec<Scored>, Reason)> = vec![(String::new(), Vec::new(), Reason::Aborted); count];
    let mut used = Vec::new();
    while used.len() < count {
        let gone = || Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "the engine has ended");
        let (i, e) = from.recv().await.ok_or_else(gone)?;
        match e {
            Event::Token { token, text, logprob, top } => {
                all[i].0 += &text;
                all[i].1.push(Scored { token, logprob: Some(logprob), top });
            }
            Event::Done { reason, text, usage } => {
                all[i].0 += &text;
                all[i].2 = reason;
                used.push(usage);
            }
            Event::Failed(e) => return Err(Failure::new(StatusCode::BAD_REQUEST, e)),
        }
    }
    Ok((all, total(&used)))
}

fn json_response(body: &Json) -> Response {
    with_type("application/json", body.to_string())
}
fn with_type(kind: &'static str, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
fn parsed(body: &Bytes) -> Result<Json, Failure> {
    serde_json::from_slice(body).map_err(|e| Failure::new(StatusCode::BAD_REQUEST, format!("the body is no JSON: {e}")))
}

type Held = State<Arc<Api>>;
type Answered = Result<Response, Failure>;

/// All routes.
pub fn router(api: Arc<Api>, body_max: usize) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(complete))
        .route("/v1/embeddings", post(embed))
        .route("/v1/models", get(models))
        .route("/v1/models/{name}", get(models))
        .route("/tokenize", post(tokenize))
        .route("/detokenize", post(detokenize))
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .route("/ping", get(health))
        .route("/version", get(|| async { json_response(&json!({"version": env!("CARGO_PKG_VERSION")})) }))
        .route("/", get(|| async { with_type("text/html; charset=utf-8", include_str!("page.html")) }))
        .fallback(|| async { Failure::new(StatusCode::NOT_FOUND, "there is no such path") })
        .layer(DefaultBodyLimit::max(body_max))
        .layer(from_fn_with_state(api.clone(), guard))
        .with_state(api)
}

/// Keys, and the request's id in the answer. Probes and the page need no key.
async fn guard(State(api): Held, request: Request, next: Next) -> Response {
    let is_open = matches!(request.uri().path(), "/health" | "/ping" | "/");
    if let Some(keys) = api.keys.as_ref().filter(|_| !is_open)
        && let Err(e) = keys.check(request.headers())
    {
        return Failure::new(e.status(), e.message).into_response();
    }
    if api.is_draining.load(Relaxed) && !is_open {
        return Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the server is ending").into_response();
    }
    let id = request.headers().get("x-request-id").cloned();
    let mut response = next.run(request).await;
    if let Some(id) = id {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}

async fn chat(State(api): Held, body: Bytes) -> Answered {
    let body = parsed(&body)?;
    api.check_model(&body)?;
    let wanted = Wanted::read(api.model(), &body, true)?;
    let messages = messages(&body)?;
    let tools = body["tools"].is_array().then(|| &body["tools"]);
    let prompt = api.model().chat_prompt(&messages, tools, &body["chat_template_kwargs"]);
    let prompt = prompt.map_err(|e| Failure::invalid("messages", e.message))?;
    let prompt = api.model().tokenizer.encode(&prompt).map_err(|e| Failure::invalid("messages", e.message))?;
    api.answer(true, vec![prompt], wanted).await
}

/// Messages whose content is text: parts of text are joined.
fn messages(body: &Json) -> Result<Json, Failure> {
    let wrong = || Failure::invalid("messages", "messages must be a list of objects with a role");
    let mut all = body["messages"].as_array().filter(|m| !m.is_empty()).ok_or_else(wrong)?.clone();
    for message in &mut all {
        if !message["role"].is_string() {
            return Err(wrong());
        }
        if let Json::Array(parts) = &message["content"] {
            let text = |p: &Json| match p["type"].as_str() {
                Some("text") => p["text"].as_str().map(str::to_string),
                _ => None,
            };
            let parts: Option<Vec<String>> = parts.iter().map(text).collect();
            let parts = parts.ok_or_else(|| Failure::invalid("messages", "only parts of text are supported"))?;
            message["content"] = Json::String(parts.concat());
        }
    }
    Ok(Json::Array(all))
}

async fn complete(State(api): Held, body: Bytes) -> Answered {
    let body = parsed(&body)?;
    api.check_model(&body)?;
    let wanted = Wanted::read(api.model(), &body, false)?;
    if !body["suffix"].is_null() {
        return Err(Failure::invalid("suffix", "suffix is not supported"));
    }
    if wanted.echoes && wanted.streams {
        return Err(Failure::invalid("echo", "echo cannot be streamed"));
    }
    let prompts = prompts(api.model(), &body, "prompt")?;
    api.answer(false, prompts, wanted).await
}

async fn embed(State(api): Held, body: Bytes) -> Answered {
    let body = parsed(&body)?;
    api.check_model(&body)?;
    let inputs = prompts(api.model(), &body, "input")?;
    let count: usize = inputs.iter().map(Vec::len).sum();
    let is_base64 = match body["encoding_format"].as_str() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => return Err(Failure::invalid("encoding_format", format!("{other:?} is not supported"))),
    };
    let rows = api.evaluate(move |e| inputs.iter().map(|t| e.embedding(t)).collect::<ir::Result<Vec<_>>>()).await?;
    let one = |(i, row): (usize, &Vec<f32>)| {
        let embedding = if is_base64 { json!(base64(row)) } else { json!(row) };
        json!({"object": "embedding", "index": i, "embedding": embedding})
    };
    let data: Vec<Json> = rows.iter().enumerate().map(one).collect();
    let usage = json!({"prompt_tokens": count, "total_tokens": count});
    Ok(json_response(&json!({"object": "list", "model": api.name, "data": data, "usage": usage})))
}

/// Little-endian floats in base64, which OpenAI's clients ask for.
fn base64(row: &[f32]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let n = (0..3).fold(0u32, |n, i| n << 8 | chunk.get(i).copied().unwrap_or(0) as u32);
        for i in 0..4 {
            let digit = DIGITS[(n >> (18 - 6 * i)) as usize & 63] as char;
            out.push(if i <= chunk.len() { digit } else { '=' });
        }
    }
    out
}

async fn models(State(api): Held) -> Response {
    let model = json!({
        "id": api.name, "object": "model", "created": api.created, "owned_by": "talweg",
        "max_model_len": api.handle.length_max(),
    });
    json_response(&json!({"object": "list", "data": [model]}))
}

async fn tokenize(State(api): Held, body: Bytes) -> Answered {
    let body = parsed(&body)?;
    let text = match body["prompt"].as_str() {
        Some(text) => text.to_string(),
        None => {
            let prompt = api.model().chat_prompt(&messages(&body)?, None, &Json::Null);
            prompt.map_err(|e| Failure::invalid("messages", e.message))?
        }
    };
    let tokens = api.model().tokenizer.encode(&text).map_err(|e| Failure::invalid("prompt", e.message))?;
    let max = api.handle.length_max();
    Ok(json_response(&json!({"count": tokens.len(), "max_model_len": max, "tokens": tokens})))
}

async fn detokenize(State(api): Held, body: Bytes) -> Answered {
    let body = parsed(&body)?;
    let wrong = || Failure::invalid("tokens", "tokens must be a list of whole numbers");
    let one = |t: &Json| t.as_u64().and_then(|n| u32::try_from(n).ok()).ok_or_else(wrong);
    let tokens = body["tokens"].as_array().ok_or_else(wrong)?.iter().map(one).collect::<Result<Vec<u32>, _>>()?;
    Ok(json_response(&json!({"prompt": api.model().tokenizer.decode(&tokens)})))
}

async fn metrics(State(api): Held) -> Response {
    with_type("text/plain; version=0.0.4", api.handle.stats().exposition(&api.name))
}

async fn health(State(api): Held, _: HeaderMap) -> Answered {
    if api.handle.has_failed() || api.is_draining.load(Relaxed) {
        return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the server takes no requests"));
    }
    Ok(json_response(&json!({"status": "ok"})))
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn floats_in_base64() {
        // Python: base64.b64encode(struct.pack("<2f", 1.0, -2.5))
        assert_eq!(base64(&[1.0, -2.5]), "AACAPwAAIMA=");
        assert_eq!(base64(&[1.0]), "AACAPw==");
    }
}
