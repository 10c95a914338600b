//! Routes of the server.

use super::about::{detokenize, health, load_adapter, metrics, model, models, tokenize, unload_adapter};
use super::answer::{Completion, Head, Scored, total};
use super::embed::embed;
use super::failure::Failure;
use super::rank::{rerank, score};
use super::request::{Wanted, flag_or, known_generating, prompts, text, tools};
use super::responses;
use super::stream::{Chunks, streamed};
use crate::beam::{BeamOptions, beam_search};
use crate::encoder::Encoder;
use crate::engine::{Event, Generation, Handle, Reason, Refused, Ticket, Usage};
use crate::evaluate::Evaluator;
use crate::load::LanguageModel;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
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
    pub(super) handle: Option<Arc<Handle>>,
    pub(super) encoder: Option<Arc<Encoder>>,
    /// A cross-encoder.
    pub(super) reranker: Option<Arc<Encoder>>,
    evaluator: Option<Arc<Evaluator>>,
    /// One text at a time is evaluated without a cache.
    evaluating: tokio::sync::Semaphore,
    pub(super) name: String,
    /// Tokens that are drafted where a request does not say.
    draft: usize,
    /// Whether clients may load and unload adapters.
    pub(super) takes_adapters: bool,
    pub(super) created: u64,
    keys: Option<Keys>,
    pub(super) is_draining: AtomicBool,
    responses: Arc<responses::Store>,
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
pub(super) fn not_found(name: &str) -> Failure {
    let e = Failure::new(StatusCode::NOT_FOUND, format!("the model {name:?} does not exist"));
    Failure { code: Some("model_not_found"), param: Some("model".into()), ..e }
}
fn internal(e: impl std::fmt::Display) -> Failure {
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string())
}

/// How an answer is written.
enum Form {
    Choices,
    Response(responses::Asked),
}

impl Api {
    /// Serves an engine's model under a name.
    pub fn new(handle: Handle, name: &str, keys: Option<Keys>) -> Api {
        let evaluator = Arc::new(Evaluator::new(handle.model().decoder.clone()));
        Api { handle: Some(Arc::new(handle)), evaluator: Some(evaluator), ..Api::empty(name, keys) }
    }
    /// Serves an encoder under a name: embeddings and re-ranking only, or with a cross-encoder re-ranking only.
    pub fn of_encoder(mut encoder: Encoder, name: &str, keys: Option<Keys>) -> Api {
        let api = Api::empty(name, keys);
        encoder.name = name.to_string();
        match encoder.is_cross_encoder() {
            true => Api { reranker: Some(Arc::new(encoder)), ..api },
            false => Api { encoder: Some(Arc::new(encoder)), ..api },
        }
    }
    fn empty(name: &str, keys: Option<Keys>) -> Api {
        Api {
            handle: None,
            encoder: None,
            reranker: None,
            evaluator: None,
            evaluating: tokio::sync::Semaphore::new(1),
            name: name.to_string(),
            draft: 0,
            takes_adapters: false,
            created: now(),
            keys,
            is_draining: AtomicBool::new(false),
            responses: Arc::default(),
        }
    }
    /// The encoder embeds and re-ranks, not the language model. A cross-encoder re-ranks only. One of each may be added.
    pub fn with_encoder(mut self, encoder: Encoder) -> ir::Result<Api> {
        let is_cross = encoder.is_cross_encoder();
        let place = if is_cross { &mut self.reranker } else { &mut self.encoder };
        if let Some(old) = place {
            let kind = if is_cross { "cross-encoders" } else { "encoders" };
            let e = format!("{} and {} are both {kind}; one is served", old.name, encoder.name);
            return Err(ir::Error::value(e));
        }
        *place = Some(Arc::new(encoder));
        Ok(self)
    }
    /// Tokens that are drafted where a request does not say.
    pub fn with_draft(self, draft: usize) -> Api {
        Api { draft, ..self }
    }
    /// Clients may load adapters from folders of this machine, and unload them.
    pub fn with_adapter_updates(self) -> Api {
        Api { takes_adapters: true, ..self }
    }
    /// The name that clients use.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The engine, if texts are generated.
    pub fn handle(&self) -> Option<&Handle> {
        self.handle.as_deref()
    }
    /// Takes no more requests.
    pub fn start_draining(&self) {
        self.is_draining.store(true, Relaxed);
    }
    pub(super) fn generator(&self) -> Result<&Arc<Handle>, Failure> {
        let none = || Failure::new(StatusCode::NOT_FOUND, format!("{} is an encoder: it generates no text", self.name));
        self.handle.as_ref().ok_or_else(none)
    }
    pub(super) fn model(&self) -> Result<&Arc<LanguageModel>, Failure> {
        Ok(self.generator()?.model())
    }
    /// The model that a request names, and the adapter if it names one.
    pub(super) fn named(&self, body: &Json) -> Result<(Arc<LanguageModel>, Option<String>), Failure> {
        let model = self.model()?.clone();
        match text(body, "model")? {
            None => Ok((model, None)),
            Some(name) if name == self.name || name == "default" => Ok((model, None)),
            Some(name) => match self.adapter_names().into_iter().find(|n| n == name) {
                Some(adapter) => Ok((model, Some(adapter))),
                None => Err(not_found(name)),
            },
        }
    }
    pub(super) fn adapter_names(&self) -> Vec<String> {
        let adapters = self.handle().and_then(|h| h.model().adapters.as_ref());
        adapters.map_or_else(Vec::new, |a| a.names())
    }
    /// Its encoders.
    pub(super) fn encoders(&self) -> impl Iterator<Item = &Arc<Encoder>> {
        self.encoder.iter().chain(&self.reranker)
    }
    /// The name of the model that embeds, if the request means it.
    pub(super) fn check_embedder(&self, body: &Json) -> Result<String, Failure> {
        self.check_encoder(self.encoder.as_ref(), body)
    }
    /// The name of the model that scores pairs of texts, if the request means it.
    pub(super) fn check_ranker(&self, body: &Json) -> Result<String, Failure> {
        self.check_encoder(self.reranker.as_ref().or(self.encoder.as_ref()), body)
    }
    fn check_encoder(&self, encoder: Option<&Arc<Encoder>>, body: &Json) -> Result<String, Failure> {
        let own = encoder.map_or(&self.name, |e| &e.name);
        match text(body, "model")? {
            Some(name) if name != self.name && name != own && name != "default" => Err(not_found(name)),
            _ => Ok(own.clone()),
        }
    }

    /// Hands requests to the engine; their events come with the number of each.
    fn submit(&self, all: Vec<Generation>) -> Result<(Receiver<(usize, Event)>, Vec<Ticket>), Failure> {
        let (to, from) = channel(BEHIND_MAX);
        let mut tickets = Vec::new();
        for (i, g) in all.into_iter().enumerate() {
            let to = to.clone();
            let taken = self.generator()?.submit(g, Box::new(move |e| to.try_send((i, e)).is_ok()));
            tickets.push(taken.map_err(|e| match e {
                Refused::Overloaded => Failure::overloaded(),
                Refused::Ended => Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the engine has ended"),
            })?);
        }
        Ok((from, tickets))
    }

    /// Runs what takes long on a thread that may wait; an error is one of the request.
    pub(super) async fn compute<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> ir::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let _turn = self.evaluating.acquire().await;
        let done = tokio::task::spawn_blocking(f).await.map_err(internal)?;
        done.map_err(|e| Failure::new(StatusCode::BAD_REQUEST, e.message))
    }
    pub(super) async fn evaluate<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Evaluator) -> ir::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let evaluator = self.evaluator.clone().ok_or_else(|| internal("there is no model to evaluate with"))?;
        self.compute(move || f(&evaluator)).await
    }

    /// Compiles what the text must look like.
    async fn constrain(&self, w: &mut Wanted) -> Result<(), Failure> {
        let Some(constraint) = w.constraint.take() else { return Ok(()) };
        let model = self.model()?.clone();
        let compiled = tokio::task::spawn_blocking(move || model.guide(&constraint)).await.map_err(internal)?;
        let param = "response_format";
        w.generation.guide = Some(compiled.map_err(|e| Failure::invalid(param, e.message))?);
        Ok(())
    }

    /// Generates the completions of a request.
    async fn answer(
        &self,
        mut head: Head,
        prompts: Vec<Vec<u32>>,
        mut w: Wanted,
        form: Form,
    ) -> Result<Response, Failure> {
        (head.has_logprobs, head.top, head.streams_usage) =
            (w.has_logprobs, w.generation.sampling.logprobs, w.streams_usage);
        if let Some(adapter) = &w.generation.adapter {
            head.served_name = adapter.clone();
            if w.echoes && w.has_logprobs {
                return Err(Failure::invalid("echo", "echo has no log probabilities for adapters"));
            }
            if w.beams.is_some() {
                return Err(Failure::invalid("use_beam_search", "beam search takes no adapter"));
            }
        }
        if w.generation.tokens_max == Some(0) {
            return self.echo_only(head, prompts, &w).await;
        }
        self.constrain(&mut w).await?;
        let all = w.generations(&prompts, self.generator()?.length_max())?;
        let (mut done, used) = match w.beams {
            Some(penalty) => self.beams(&prompts, &w, penalty).await?,
            None => {
                let count = all.len();
                let (mut from, tickets) = self.submit(all)?;
                if w.streams {
                    // The status is known with the first event where requests may be refused after they have waited.
                    let first = if self.generator()?.has_target() { from.recv().await } else { None };
                    if matches!(first, Some((_, Event::Refused))) {
                        return Err(Failure::overloaded());
                    }
                    return Ok(match form {
                        Form::Choices => streamed(Chunks::new(head, count), first, from, tickets),
                        Form::Response(asked) => streamed(responses::Events::new(head, asked), first, from, tickets),
                    });
                }
                let (done, used) = collect(from, count).await?;
                drop(tickets);
                (best(done, w.best_of, w.count), used)
            }
        };
        if w.echoes {
            for (i, choice) in done.iter_mut().enumerate() {
                let (text, mut tokens) = self.echoed(&head, &prompts[i / w.count]).await?;
                tokens.append(&mut choice.tokens);
                (choice.text, choice.tokens) = (text + &choice.text, tokens);
            }
        }
        Ok(json_response(&match form {
            Form::Choices => head.whole(&done, used),
            Form::Response(asked) => responses::whole(&head, asked, &done[0], used),
        }))
    }

    /// Beam search after each prompt.
    async fn beams(&self, prompts: &[Vec<u32>], w: &Wanted, length_penalty: f64) -> Result<Completions, Failure> {
        let g = &w.generation;
        if g.guide.is_some() || !g.stops.is_empty() || w.has_logprobs {
            let e = "a beam search takes no stop strings, constraints or log probabilities";
            return Err(Failure::invalid("use_beam_search", e));
        }
        let tokens_max = g.tokens_max.unwrap_or(usize::MAX);
        let options = BeamOptions { width: w.best_of, tokens_max, length_penalty, ignores_eos: g.ignores_eos };
        let (mut all, mut used) = (Vec::new(), Usage::default());
        for prompt in prompts {
            let (handle, options, prompt) = (self.generator()?.clone(), options.clone(), prompt.clone());
            used.prompt += prompt.len();
            let found = self.compute(move || beam_search(&handle, &prompt, &options)).await?;
            for beam in found.into_iter().take(w.count) {
                used.generated += beam.tokens.len();
                let text = self.model()?.tokenizer.decode(&beam.tokens);
                let reason = if beam.is_ended { Reason::Stop } else { Reason::Length };
                all.push(Completion { text, tokens: Vec::new(), reason });
            }
        }
        Ok((all, used))
    }
    fn head(&self, prefix: &str, is_chat: bool) -> Result<Head, Failure> {
        Ok(Head {
            id: format!("{prefix}-{:016x}", RandomState::new().hash_one(0)),
            created: now(),
            model: self.model()?.clone(),
            served_name: self.name.clone(),
            is_chat,
            has_logprobs: false,
            top: 0,
            streams_usage: false,
            tools: None,
            has_parallel_calls: true,
        })
    }

    /// A prompt's text, and its tokens with their log probabilities if they are asked for.
    async fn echoed(&self, head: &Head, prompt: &[u32]) -> Result<(String, Vec<Scored>), Failure> {
        let text = head.model.tokenizer.decode(prompt);
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
            all.push(Completion { text, tokens, reason: Reason::Length });
            used.prompt += prompt.len();
        }
        Ok(json_response(&head.whole(&all, used)))
    }
}

/// Completions, and what all used.
type Completions = (Vec<Completion>, Usage);

async fn collect(mut from: Receiver<(usize, Event)>, count: usize) -> Result<Completions, Failure> {
    let none = Completion { text: String::new(), tokens: Vec::new(), reason: Reason::Aborted };
    let mut all = vec![none; count];
    let mut used = Vec::new();
    while used.len() < count {
        let (i, e) = from.recv().await.ok_or_else(|| internal("the engine has ended"))?;
        match e {
            Event::Token { token, text, logprob, top } => {
                all[i].text += &text;
                all[i].tokens.push(Scored { token, logprob: Some(logprob), top });
            }
            Event::Done { reason, text, usage } => {
                all[i].text += &text;
                all[i].reason = reason;
                used.push(usage);
            }
            Event::Failed(e) => return Err(Failure::new(StatusCode::BAD_REQUEST, e)),
            Event::Refused => return Err(Failure::overloaded()),
        }
    }
    Ok((all, total(&used)))
}

/// Of every `of` completions the `count` that are likeliest by token, the best first.
fn best(all: Vec<Completion>, of: usize, count: usize) -> Vec<Completion> {
    if of == count {
        return all;
    }
    let mean = |c: &Completion| {
        let sum: f64 = c.tokens.iter().filter_map(|t| t.logprob).map(f64::from).sum();
        sum / c.tokens.len().max(1) as f64
    };
    let mut out = Vec::new();
    for group in all.chunks(of) {
        let mut group = group.to_vec();
        group.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
        out.extend(group.into_iter().take(count));
    }
    out
}

pub(super) fn json_response(body: &Json) -> Response {
    with_type("application/json", body.to_string())
}
pub(super) fn with_type(kind: &'static str, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
pub(super) fn parsed(body: &Bytes) -> Result<Json, Failure> {
    serde_json::from_slice(body).map_err(|e| Failure::new(StatusCode::BAD_REQUEST, format!("the body is no JSON: {e}")))
}

pub(super) type Held = State<Arc<Api>>;
pub(super) type Answered = Result<Response, Failure>;

/// All routes.
pub fn router(api: Arc<Api>, body_max: usize) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(complete))
        .route("/v1/responses", post(respond))
        .route("/v1/responses/{id}", get(response).delete(forget_response))
        .route("/v1/embeddings", post(embed))
        .route("/v1/rerank", post(rerank))
        .route("/v2/rerank", post(rerank))
        .route("/rerank", post(rerank))
        .route("/v1/score", post(score))
        .route("/score", post(score))
        .route("/v1/models", get(models))
        .route("/v1/models/{name}", get(model))
        .route("/v1/load_lora_adapter", post(load_adapter))
        .route("/v1/unload_lora_adapter", post(unload_adapter))
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
    known_generating(&body, true)?;
    converse(&api, &body, None).await
}
async fn respond(State(api): Held, body: Bytes) -> Answered {
    let mut asked = responses::Asked::read(parsed(&body)?, &api.responses)?;
    let chat = asked.chat.take();
    converse(&api, &chat, Some(asked)).await
}
async fn response(State(api): Held, Path(id): Path<String>) -> Answered {
    api.responses.get(&id).map(|r| json_response(&r))
}
async fn forget_response(State(api): Held, Path(id): Path<String>) -> Answered {
    api.responses.remove(&id).map(|r| json_response(&r))
}

/// Answers a conversation: as chat, or as a response to `asked`.
async fn converse(api: &Api, body: &Json, asked: Option<responses::Asked>) -> Answered {
    let (model, adapter) = api.named(body)?;
    let mut wanted = Wanted::read(&model, body, true, api.draft)?;
    wanted.generation.adapter = adapter;
    let messages = messages(body)?;
    let (tools, is_required) = tools(body)?;
    let mut head = api.head(if asked.is_some() { "resp" } else { "chatcmpl" }, true)?;
    if !tools.is_empty() {
        head.tools = Some(model.tool_format());
        head.has_parallel_calls = flag_or(body, "parallel_tool_calls", true)?;
        wanted.generation.shows_special |= model.has_special_tool_mark();
        if wanted.constraint.is_some() {
            let e = "a text that may be a call has no other form: set tool_choice to none";
            return Err(Failure::invalid("response_format", e));
        }
        if is_required {
            wanted.constraint = Some(model.call_constraint(&tools));
        }
    }
    let tools = (!tools.is_empty()).then_some(Json::Array(tools));
    let prompt = model.chat_prompt(&messages, tools.as_ref(), template_values(body)?);
    let prompt = prompt.map_err(|e| Failure::invalid("messages", e.message))?;
    let prompt = model.tokenizer.encode(&prompt).map_err(|e| Failure::invalid("messages", e.message))?;
    api.answer(head, vec![prompt], wanted, asked.map_or(Form::Choices, Form::Response)).await
}

/// Further variables of the chat template.
pub(super) fn template_values(body: &Json) -> Result<&Json, Failure> {
    match &body["chat_template_kwargs"] {
        v @ (Json::Null | Json::Object(_)) => Ok(v),
        _ => Err(Failure::invalid("chat_template_kwargs", "chat_template_kwargs must be an object")),
    }
}

/// Messages whose content is text: parts of text are joined.
pub(super) fn messages(body: &Json) -> Result<Json, Failure> {
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
        if message["content"].is_null() {
            message["content"] = "".into();
        }
        // Templates take arguments as they are, clients send their JSON text.
        for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
            let arguments = &mut call["function"]["arguments"];
            if let Some(text) = arguments.as_str() {
                let e = || Failure::invalid("messages", "the arguments of a tool call are no JSON");
                *arguments = serde_json::from_str(text).map_err(|_| e())?;
            }
        }
    }
    Ok(Json::Array(all))
}

async fn complete(State(api): Held, body: Bytes) -> Answered {
    let body = parsed(&body)?;
    known_generating(&body, false)?;
    let (model, adapter) = api.named(&body)?;
    let mut wanted = Wanted::read(&model, &body, false, api.draft)?;
    wanted.generation.adapter = adapter;
    if !body["suffix"].is_null() {
        return Err(Failure::invalid("suffix", "suffix is not supported"));
    }
    if wanted.echoes && wanted.streams {
        return Err(Failure::invalid("echo", "echo cannot be streamed"));
    }
    let prompts = prompts(&|t| model.tokenizer.encode(t), &body, "prompt")?;
    api.answer(api.head("cmpl", false)?, prompts, wanted, Form::Choices).await
}
