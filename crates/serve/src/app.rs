//! The server without its protocols: models, engines, the cache, and the one way a request takes through them.

use crate::answer::Answer;
use crate::batcher::{Asked, Policy};
use crate::cache::{self, Cache};
use crate::direct::Direct;
use crate::engine::Engine;
use crate::failure::{Answered, Failure, Kind};
use crate::guard::Keys;
use crate::input::Input;
use crate::metrics::{Labeled, Requests, exposition};
use crate::peers::{Peers, add_stats, escaped, sum_metrics};
use crate::regions::Regions;
use crate::repository::{Keep, Refresh, Repository, Selector};
use crate::served::{Served, now_us};
use crate::ticket::{Counted, Front, Receipt, Ticket};
use hyper::Method;
use ir::{Literal, Shape};
use model::Signature;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Semaphore;

/// How a server behaves.
#[derive(Clone)]
pub struct Options {
    /// Directories of models, or models themselves.
    pub roots: Vec<PathBuf>,
    /// How requests are batched and queued.
    pub policy: Policy,
    /// How models are kept.
    pub keep: Keep,
    /// How often directories are looked at for new versions.
    pub poll: Option<Duration>,
    /// Brings directories up to date before they are read: a copy of a bucket.
    pub refresh: Option<Refresh>,
    /// Where models run, such as `cuda:0`; none: the current device.
    pub device: Option<String>,
    /// Engines: each has its own thread and queue.
    pub replicas: usize,
    /// Whether each engine stays on processors of its own.
    pub is_pinned: bool,
    /// Other processes of this server.
    pub peers: Option<Peers>,
    /// Bytes of a request at most, compressed or not.
    pub body_max: usize,
    /// How long a client may take for the rest of a head whose first bytes have come.
    pub head_timeout: Duration,
    /// How long a client may take to send a request, and how long an answer may take.
    pub request_timeout: Duration,
    /// How long a client may read nothing of an answer.
    pub write_timeout: Duration,
    /// A step longer than this makes the server unready.
    pub watchdog: Duration,
    /// How long requests may take after the server was told to end.
    pub drain: Duration,
    /// Bytes of the response cache; 0: none.
    pub cache_bytes: usize,
    /// Connections at most.
    pub connections_max: usize,
    /// Whether each request is logged to stderr as a line of JSON.
    pub is_logging: bool,
    /// Keys that clients need; none: any client may ask.
    pub keys: Option<Keys>,
    /// Where files are that clients may register as shared memory, `/dev/shm`; none: they may not.
    pub shared_memory: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            roots: Vec::new(),
            policy: Policy::default(),
            keep: Keep::default(),
            poll: None,
            refresh: None,
            device: None,
            replicas: 1,
            is_pinned: false,
            peers: None,
            body_max: 64 << 20,
            head_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(60),
            watchdog: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            cache_bytes: 0,
            connections_max: 4096,
            is_logging: false,
            keys: None,
            shared_memory: None,
        }
    }
}

/// What a request asks, in any protocol.
pub struct Query {
    /// Inputs by name.
    pub inputs: Vec<(String, Input)>,
    /// How long the answer is of use.
    pub timeout: Option<Duration>,
    /// 1 is served first, 0 means the default.
    pub priority: u32,
}

/// The server without its protocols.
pub struct App {
    /// How it behaves.
    pub options: Options,
    /// The models.
    pub repository: Repository,
    /// Answers over HTTP.
    pub requests: Requests,
    /// Shared memory that clients have registered.
    pub regions: Regions,
    engines: Arc<Vec<Engine>>,
    cache: Cache,
    is_draining: AtomicBool,
    /// Room for connections.
    pub(crate) room: Arc<Semaphore>,
}

/// The priority of requests that state none.
const PRIORITY: u32 = 16;

impl App {
    /// Starts the engines. Models are loaded by [`Repository::scan`].
    pub fn new(options: Options) -> std::io::Result<App> {
        let count = options.replicas.max(1);
        let front = Arc::new(Front::default());
        let start = |lane| Engine::start(lane, options.is_pinned.then_some(count), front.clone());
        let engines: Vec<Engine> = (0..count).map(start).collect::<std::io::Result<_>>()?;
        let engines = Arc::new(engines);
        let warm = {
            let engines = engines.clone();
            move |served: &Arc<Served>| warm(&engines, served)
        };
        let (roots, keep, policy) = (options.roots.clone(), options.keep.clone(), options.policy);
        let mut repository = Repository::new(roots, keep, policy, engines.len(), Box::new(warm));
        repository.refresh = options.refresh.clone();
        repository.device = options.device.clone();
        let cache = Cache::new(options.cache_bytes);
        let is_draining = AtomicBool::new(false);
        let room = Arc::new(Semaphore::new(options.connections_max));
        let regions = options.shared_memory.as_deref().map(|dir| Regions::new(dir, options.body_max));
        let (requests, regions) = (Requests::default(), regions.unwrap_or_default());
        Ok(App { options, repository, requests, regions, engines, cache, is_draining, room })
    }

    /// Why the server should get no requests, if it should not.
    pub fn unready(&self) -> Option<&'static str> {
        if self.is_draining.load(Relaxed) {
            return Some("the server is draining");
        }
        self.engines.iter().find_map(|e| e.fault(self.options.watchdog))
    }
    /// Whether an engine panicked: only a new process helps.
    pub fn has_failed(&self) -> bool {
        self.engines.iter().any(|e| e.fault(Duration::MAX).is_some())
    }
    /// Makes the server unready; open requests go on.
    pub fn start_draining(&self) {
        self.is_draining.store(true, Relaxed);
    }
    /// Requests that wait or run.
    pub fn jobs(&self) -> usize {
        self.engines.iter().map(Engine::jobs).sum()
    }
    /// Connections that are open, and one that each listener keeps ready.
    pub fn connections(&self) -> usize {
        self.options.connections_max - self.room.available_permits()
    }
    /// Ends the engines.
    pub fn stop(&self) {
        self.engines.iter().for_each(Engine::stop);
    }
    /// Text for Prometheus.
    pub fn metrics(&self) -> String {
        let label = |s: Arc<Served>| Labeled {
            name: s.name.clone(),
            version: s.version,
            pending: s.pending(),
            margin_us: s.margin_us(),
            stats: s.stats.clone(),
        };
        let models: Vec<Labeled> = self.repository.ready().into_iter().map(label).collect();
        exposition(&models, &self.requests, self.unready().is_none())
    }

    /// Text for Prometheus: of this process, or of all processes of the server.
    pub async fn metrics_of(&self, is_alone: bool) -> String {
        let own = self.metrics();
        let Some(peers) = self.options.peers.as_ref().filter(|_| !is_alone) else { return own };
        let others = peers.ask(Method::GET, "/metrics").await;
        let text = |(status, body): (u16, bytes::Bytes)| (status == 200).then(|| String::from_utf8_lossy(&body).into());
        let all: Vec<String> = std::iter::once(own).chain(others.into_iter().filter_map(text)).collect();
        sum_metrics(&all)
    }
    /// Adds the statistics of the other processes.
    pub async fn add_stats_of_peers(&self, stats: &mut Value) {
        let Some(peers) = &self.options.peers else { return };
        for (status, body) in peers.ask(Method::GET, "/v2/models/stats").await {
            if let (200, Ok(other)) = (status, serde_json::from_slice(&body)) {
                add_stats(stats, &other);
            }
        }
    }
    /// Loads a model here and, unless a peer asks, in every other process.
    pub async fn load(self: &Arc<App>, name: &str, is_alone: bool) -> Answered<()> {
        let (app, owned) = (self.clone(), name.to_string());
        blocking(move || app.repository.load(&owned)).await?;
        self.tell_peers(name, "load", is_alone).await
    }
    /// Unloads a model here and, unless a peer asks, in every other process.
    pub async fn unload(self: &Arc<App>, name: &str, is_alone: bool) -> Answered<()> {
        self.repository.unload(name)?;
        self.tell_peers(name, "unload", is_alone).await
    }
    async fn tell_peers(&self, name: &str, verb: &str, is_alone: bool) -> Answered<()> {
        let Some(peers) = self.options.peers.as_ref().filter(|_| !is_alone) else { return Ok(()) };
        let path = format!("/v2/repository/models/{}/{verb}", escaped(name));
        let replies = peers.ask(Method::POST, &path).await;
        match replies.iter().find(|(status, _)| *status != 200) {
            None => Ok(()),
            Some((_, body)) => {
                let e = String::from_utf8_lossy(body);
                Err(Failure::new(Kind::Unavailable, format!("another process of this server failed: {e}")))
            }
        }
    }

    /// The version that a request asks for, loaded again if it was idle.
    pub async fn find(self: &Arc<App>, name: &str, selector: &Selector) -> Answered<Arc<Served>> {
        if let Some(served) = self.repository.find(name, selector)? {
            return Ok(served);
        }
        let (app, owned) = (self.clone(), name.to_string());
        blocking(move || app.repository.load(&owned)).await?;
        let gone = || Failure::new(Kind::Unavailable, format!("{name} was unloaded"));
        self.repository.find(name, selector)?.ok_or_else(gone)
    }

    /// Room for a request whose head was read, or why there is none: before its body is read, if the cache cannot know the
    /// answer. `bytes` are those of its inputs, as far as the head tells; it came at `arrived_us`, if that is known.
    pub fn reserve(&self, served: &Arc<Served>, bytes: usize, arrived_us: Option<u64>) -> Answered<Option<Ticket>> {
        if self.cache.is_on() {
            return Ok(None);
        }
        let asked = Asked { rows: served.rows_of(bytes), bytes };
        let taken = self.take_room(served, asked, arrived_us);
        taken.inspect_err(|e| served.stats.failed(e.reason())).map(Some)
    }
    fn take_room(&self, served: &Arc<Served>, asked: Asked, arrived_us: Option<u64>) -> Answered<Ticket> {
        if self.is_draining.load(Relaxed) {
            return Err(Failure::new(Kind::Unavailable, "the server is draining"));
        }
        let engine = self.engines.iter().filter(|e| e.fault(self.options.watchdog).is_none());
        let engine = engine.min_by_key(|e| (e.backlog_us(), e.jobs()));
        let engine = engine.ok_or_else(|| Failure::new(Kind::Unavailable, "the engine has failed"))?;
        engine.reserve(served, asked, arrived_us)
    }

    /// Whether a request is the only one of its engine.
    pub(crate) fn is_alone(&self, ticket: &Ticket) -> bool {
        self.engines[ticket.lane].jobs() == 1
    }
    /// Says that the request with this room is about to be complete.
    pub(crate) fn expect(&self, lane: usize) {
        self.engines[lane].expect();
    }

    /// The answer to a request, which may have room already, and what counts it when it was written. With `direct`, the
    /// engine may write it.
    pub async fn infer(
        &self,
        served: &Arc<Served>,
        query: Query,
        ticket: Option<Ticket>,
        direct: Option<Direct>,
    ) -> Answered<(Answer, Counted)> {
        let answer = self.answer(served, query, ticket, direct).await;
        match &answer {
            Ok(_) => drop(served.stats.success.fetch_add(1, Relaxed)),
            Err(e) => served.stats.failed(e.reason()),
        }
        answer
    }

    async fn answer(
        &self,
        served: &Arc<Served>,
        query: Query,
        ticket: Option<Ticket>,
        direct: Option<Direct>,
    ) -> Answered<(Answer, Counted)> {
        let began_us = now_us();
        let Query { inputs, timeout, priority } = query;
        let inputs = arrange(served, inputs)?;
        let signature = served.model.signature();
        let shapes: Vec<&Shape> = inputs.iter().map(Input::shape).collect();
        let sizes = signature.sizes(&shapes)?;
        let key = self.cache.is_on().then(|| cache::key(served, &inputs));
        if let Some(hit) = key.as_ref().and_then(|k| self.cache.get(k)) {
            served.stats.cache_hits.fetch_add(1, Relaxed);
            return Ok((hit, Receipt::cached(served, began_us).done(began_us, None)));
        }
        let padded = signature.padded(&sizes);
        let inputs = if padded == sizes {
            inputs
        } else {
            let own: Vec<Literal> = inputs.iter().map(Input::to_literal).collect();
            signature.pad(&own, &padded)?.into_iter().map(Input::from).collect()
        };
        let ticket = match ticket {
            Some(ticket) => ticket,
            None => {
                let rows = if signature.is_batched { sizes[0] } else { 1 };
                self.take_room(served, Asked { rows, bytes: inputs.iter().map(Input::byte_count).sum() }, None)?
            }
        };
        let timeout = timeout.unwrap_or(self.options.request_timeout).min(self.options.request_timeout);
        let deadline_us = now_us() + timeout.as_micros() as u64;
        let priority = if priority == 0 { PRIORITY } else { priority };
        let (engine, receipt) = (&self.engines[ticket.lane], ticket.receipt());
        served.stats.receive_us.fetch_add(now_us().saturating_sub(ticket.arrived_us), Relaxed);
        // The engine's answer is not yet the client's where it has to be trimmed, or kept.
        let direct = direct.filter(|_| padded == sizes && key.is_none());
        let turn = direct.as_ref().map(|d| d.turn.clone()).unwrap_or_default();
        let mut receiver = engine.submit(ticket, inputs, padded.clone(), priority, Some(deadline_us), direct)?;
        let answer = match tokio::time::timeout(timeout, &mut receiver).await {
            Ok(answer) => answer,
            Err(_) if turn.take() => return Err(Failure::new(Kind::Deadline, "the deadline has passed")),
            // The engine writes it just now.
            Err(_) => receiver.await,
        };
        let answer = answer.unwrap_or_else(|_| Err(Failure::new(Kind::Unavailable, "the engine has failed")))?;
        let answer = if padded == sizes { answer } else { trimmed(signature, &answer, &sizes, &padded)? };
        if let Some(key) = key {
            served.stats.cache_misses.fetch_add(1, Relaxed);
            self.cache.put(key, &answer);
        }
        let counted = receipt.done(answer.done_us, answer.sent.as_ref().map(|sent| sent.written_us));
        Ok((answer, counted))
    }
}

/// Runs what takes long on a thread of its own.
pub async fn blocking<T: Send + 'static>(f: impl FnOnce() -> Answered<T> + Send + 'static) -> Answered<T> {
    let failed = |_| Failure::new(Kind::Internal, "the task failed");
    tokio::task::spawn_blocking(f).await.map_err(failed)?
}

/// An answer without what belongs to padding. It says which program ran.
fn trimmed(signature: &Signature, answer: &Answer, sizes: &[usize], padded: &[usize]) -> Answered<Answer> {
    let trim = |(i, l): (usize, &Literal)| {
        let (shape, bytes) = answer.output(i);
        signature.trim(i, l.dtype(), &shape, bytes, sizes)
    };
    let outputs = answer.outputs.iter().enumerate().map(trim).collect::<ir::Result<Vec<Literal>>>()?;
    let changed = signature.dims.iter().zip(sizes.iter().zip(padded)).filter(|(_, (own, run))| own != run);
    let padded = changed.map(|(d, (_, run))| (d.name.clone(), *run)).collect();
    Ok(Answer { padded, ..Answer::new(Arc::new(outputs), None, answer.batch_size, answer.done_us) })
}

/// Inputs in the model's order.
fn arrange(served: &Served, mut inputs: Vec<(String, Input)>) -> Answered<Vec<Input>> {
    let specs = &served.model.signature().inputs;
    let mut out = Vec::with_capacity(specs.len());
    for spec in specs {
        let at = inputs.iter().position(|(n, _)| *n == spec.name);
        let at = at.ok_or_else(|| Failure::invalid(format!("input {:?} is missing", spec.name)))?;
        let (_, value) = inputs.swap_remove(at);
        if value.dtype().name() != spec.dtype {
            let e = format!("{}: expected {}, got {}", spec.name, spec.dtype, value.dtype());
            return Err(Failure::invalid(e));
        }
        out.push(value);
    }
    match inputs.first() {
        None => Ok(out),
        Some((name, _)) => Err(Failure::invalid(format!("{} takes no input {name:?}", served.name))),
    }
}

/// Compiles the size of one row, so that a model that is ready answers at once, and orders larger sizes. Which other
/// sizes will come is not known where more than the batch is free.
fn warm(engines: &[Engine], served: &Arc<Served>) -> Answered<()> {
    let signature = served.model.signature();
    let Some(dim) = signature.dims.first() else {
        return engines.iter().try_for_each(|e| e.warm(served, Vec::new()));
    };
    if signature.dims.len() > 1 || !signature.is_batched {
        return Ok(());
    }
    let doubling = std::iter::successors(Some(1usize), |s| Some(s * 2)).take_while(|s| *s <= served.policy.batch_max);
    for (i, size) in doubling.filter(|s| dim.check(*s).is_ok()).enumerate() {
        for engine in engines {
            if i == 0 { engine.warm(served, vec![size])? } else { engine.order(served, vec![size])? }
        }
    }
    Ok(())
}
