//! The embedded coordinator: a thread for each session around the state machines [`Kv`] and
//! [`Controller`].

use crate::membership::controller::{self, Controller};
use crate::membership::kv::{self, KeyEvent, Kv, Replies, Request, SessionId};
use crate::membership::publisher::FOREVER;
use crate::membership::{Coordinator, Expired, Transport};
use crate::{Error, Result, kinds};
use net::{Address, Connection, Hello, Listener, Receiver, Secret, Sender};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// How long a handshake or an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a session sends a heartbeat.
const BEAT: Duration = Duration::from_millis(200);
/// How long a lease lasts without a heartbeat, by default.
pub const LEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the network may deliver nothing on a link between workers and servers: as long as a
/// process may be silent, which `talweg launch` says in `TALWEG_HEARTBEAT`. (Lines to the coordinator
/// last longer: that it is stopped is no reason to end.)
pub(crate) fn cut_max() -> Duration {
    static CUT: LazyLock<Duration> = LazyLock::new(|| {
        let said = std::env::var("TALWEG_HEARTBEAT").ok().and_then(|s| s.parse().ok());
        said.and_then(|s| Duration::try_from_secs_f64(s).ok()).unwrap_or(LEASE_TIMEOUT)
    });
    *CUT
}
/// If all sessions are silent at once, the coordinator itself was probably cut off: it waits this many times longer.
const GRACE: u32 = 5;
/// Longest value of the membership store; update rules and state travel through it.
const VALUE_MAX: usize = 16 << 20;

/// Bytes that a connection keeps for the next request at most.
const KEPT_MAX: usize = 64 << 10;

struct State {
    kv: Kv,
    controller: Controller,
    senders: HashMap<SessionId, Client>,
    silence: Duration,
    /// Processes whose leases have expired.
    hung: Vec<Expired>,
    /// What the controller reacts to, in memory that is used again.
    changes: Vec<KeyEvent>,
}

/// A session of a process.
struct Client {
    hello: Hello,
    began: Instant,
    sender: Arc<Mutex<Sender>>,
}

struct Shared {
    state: Mutex<State>,
    began: Instant,
    report: Box<dyn Fn(&str) + Send + Sync>,
}

/// A running coordinator.
pub struct EmbeddedCoordinator {
    address: Address,
    shared: Arc<Shared>,
}

impl EmbeddedCoordinator {
    /// Listens and serves until the process ends. `report` hears what happens in the job.
    pub fn start(
        at: &Address,
        secret: Option<Secret>,
        controller: Controller,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<EmbeddedCoordinator> {
        let listener = Listener::bind(at, secret)?;
        let address = listener.address().clone();
        let state = State {
            kv: Kv::default(),
            controller,
            senders: HashMap::new(),
            silence: LEASE_TIMEOUT,
            hung: Vec::new(),
            changes: Vec::new(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), began: Instant::now(), report: Box::new(report) });
        let accepting = shared.clone();
        let (refusing, callers) = (shared.clone(), AtomicU64::new(1));
        let serve = move |connection| accepting.serve(callers.fetch_add(1, Ordering::Relaxed), connection);
        listener.serve(PATIENCE, move |text| (refusing.report)(text), serve)?;
        let watching = shared.clone();
        std::thread::spawn(move || {
            let mut last = Instant::now();
            loop {
                std::thread::sleep(BEAT);
                watching.end_silent(last.elapsed());
                last = Instant::now();
            }
        });
        Ok(EmbeddedCoordinator { address, shared })
    }
    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }
    /// How long a lease lasts without a heartbeat.
    pub fn set_lease_timeout(&self, silence: Duration) {
        self.shared.state.lock().silence = silence;
    }
    /// Sets a key.
    pub fn publish(&self, key: &str, value: &[u8]) -> Result<()> {
        let mut state = self.shared.state.lock();
        let answers = state.kv.publish(key, value)?;
        self.shared.answer(&mut state, answers);
        Ok(())
    }
}

impl Coordinator for EmbeddedCoordinator {
    fn list(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let state = self.shared.state.lock();
        state.kv.list(prefix).into_iter().map(|(k, v)| (k.to_string(), v.to_vec())).collect()
    }
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.shared.state.lock().kv.get(key).1
    }
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.publish(key, value)
    }
    fn left(&self, rank: u32, is_done: bool) -> Result<()> {
        self.publish(&controller::left_key(rank), &controller::left_value(is_done))
    }
    fn expired(&self) -> Vec<Expired> {
        std::mem::take(&mut self.shared.state.lock().hung)
    }
    fn end(&self) {}
}

impl Shared {
    fn serve(&self, caller: SessionId, connection: Connection) {
        let hello = connection.peer().clone();
        let (sender, mut receiver) = connection.split();
        let line = Client { hello, began: Instant::now(), sender: Arc::new(Mutex::new(sender)) };
        self.state.lock().senders.insert(caller, line);
        let mut payload = Vec::new();
        // Silence is noticed by another thread, which then closes the connection.
        while let Ok(h) = receiver.header(Instant::now() + FOREVER) {
            if receiver.payload_to(&mut payload, VALUE_MAX, Instant::now() + PATIENCE).is_err() {
                break;
            }
            let Ok(ask) = Request::decode(&h, &payload) else { break };
            let mut state = self.state.lock();
            let Ok(answers) = state.kv.handle(self.began.elapsed(), caller, h.request, ask) else { break };
            self.answer(&mut state, answers);
            drop(state);
            // Of what rules and states took, not more is kept than words need.
            payload.clear();
            payload.shrink_to(KEPT_MAX);
        }
        let mut state = self.state.lock();
        state.senders.remove(&caller);
        let answers = state.kv.lost(caller);
        self.answer(&mut state, answers);
    }
    /// Lets the controller react, then sends every reply.
    fn answer(&self, state: &mut State, mut answers: Replies) {
        let State { kv, controller, changes, .. } = &mut *state;
        kv.changes_into(changes);
        match controller.react(kv, changes) {
            Ok(more) => answers.extend(more),
            Err(e) => (self.report)(&e.to_string()),
        }
        // What the controller has published itself is no news to it.
        kv.changes_into(changes);
        state.controller.notes().iter().for_each(|n| (self.report)(n));
        for (caller, request, answer) in answers {
            let Some(line) = state.senders.get(&caller) else { continue };
            let (h, payload) = kv::encode_reply(request, &answer);
            let mut sender = line.sender.lock();
            if sender.send(&h, &[payload], Instant::now() + PATIENCE).is_err() {
                sender.close();
            }
        }
    }
    /// Closes the connections of processes that hang. If this process itself was held up for
    /// longer than it should have slept, the silence is its own.
    fn end_silent(&self, slept: Duration) {
        let mut state = self.state.lock();
        if slept > 4 * BEAT {
            state.kv.forgive(self.began.elapsed());
        }
        let State { kv, senders, hung, silence, .. } = &mut *state;
        // One process that is silent by itself tells nothing of the others.
        let mut lines = senders.values().map(|l| (&l.hello.role, l.hello.id));
        let first = lines.next();
        let grace = if lines.all(|l| Some(l) == first) { *silence } else { GRACE * *silence };
        for caller in kv.silent(self.began.elapsed(), *silence, grace) {
            if let Some(line) = senders.get(&caller) {
                line.sender.lock().close();
                hung.push(Expired { role: line.hello.role.clone(), id: line.hello.id, since: line.began });
            }
        }
    }
}

/// Replies, the number of the last request, and a buffer for payloads.
struct Calls {
    answers: Receiver,
    last: u64,
    payload: Vec<u8>,
}

/// A session with an embedded coordinator.
pub(crate) struct EmbeddedTransport {
    calls: Mutex<Calls>,
    sender: Arc<Mutex<Sender>>,
    /// Another handle, to end the session while a thread blocks on sending.
    closer: Sender,
    address: Address,
    hello: Hello,
    secret: Option<Secret>,
    alive: Arc<AtomicBool>,
}

impl EmbeddedTransport {
    /// Opens a session and keeps its lease alive with heartbeats.
    pub fn connect(
        at: &Address,
        hello: &Hello,
        secret: Option<Secret>,
        deadline: Instant,
    ) -> Result<EmbeddedTransport> {
        let connection = Connection::connect_retry(at, hello, secret.as_ref(), deadline)?;
        let alive = Arc::new(AtomicBool::new(true));
        let (sender, receiver) = connection.split();
        let closer = sender.try_clone()?;
        let sender = Arc::new(Mutex::new(sender));
        let (pulse, beating) = (sender.clone(), alive.clone());
        let (beat, _) = Request::Heartbeat.encode(0);
        std::thread::spawn(move || {
            // A stopped coordinator reads nothing; when it resumes, so does this thread.
            while beating.load(Ordering::Relaxed) && pulse.lock().send(&beat, &[], Instant::now() + FOREVER).is_ok() {
                std::thread::sleep(BEAT);
            }
        });
        let (address, hello) = (at.clone(), hello.clone());
        let calls = Mutex::new(Calls { answers: receiver, last: 0, payload: Vec::new() });
        Ok(EmbeddedTransport { calls, sender, closer, address, hello, secret, alive })
    }
}

impl Transport for EmbeddedTransport {
    fn call(&self, ask: &Request<'_>, deadline: Instant) -> Result<kv::Reply> {
        let held = || Error::Deadline("waiting for another thread's question to the membership store".to_string());
        let mut calls = self.calls.try_lock_until(deadline).ok_or_else(held)?;
        let Calls { answers, last, payload } = &mut *calls;
        *last += 1;
        let request = *last;
        let (h, parts) = ask.encode(request);
        let mut sender = self.sender.try_lock_until(deadline).ok_or_else(held)?;
        // Half a request would make nonsense of the next.
        sender.send(&h, &parts, deadline).inspect_err(|_| sender.close())?;
        drop(sender);
        loop {
            let h = answers.header(deadline)?;
            answers.payload_to(payload, VALUE_MAX, deadline)?;
            // An answer to a question that was given up is passed over.
            if h.kind == kinds::membership::REPLY && h.request == request {
                return Ok(kv::decode_reply(&h, payload));
            }
        }
    }
    fn duplicate(&self, deadline: Instant) -> Result<Box<dyn Transport>> {
        Ok(Box::new(EmbeddedTransport::connect(&self.address, &self.hello, self.secret.clone(), deadline)?))
    }
    fn close(&self) {
        self.alive.store(false, Ordering::Relaxed);
        self.closer.close();
    }
}
