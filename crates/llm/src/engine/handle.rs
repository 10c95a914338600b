//! An engine on a thread of its own: requests come over a channel, events go to their sinks.

use super::admission::Admission;
use super::core::{Engine, Options};
use super::generation::{Event, Generation, Sink};
use super::scheduler::RequestId;
use super::stats::Stats;
use crate::load::LanguageModel;
use ir::{Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

enum Command {
    Add(u64, Box<Generation>, Sink),
    Abort(u64),
    /// Something that must not happen during a step.
    Do(Box<dyn FnOnce(&mut Engine) + Send>),
    Stop,
}

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too many wait already.
    Overloaded,
    /// The engine has ended.
    Ended,
}

/// A running engine.
pub struct Handle {
    model: Arc<LanguageModel>,
    sender: Sender<Command>,
    stats: Arc<Stats>,
    length_max: usize,
    next: AtomicU64,
    open: Arc<AtomicUsize>,
    open_max: usize,
    /// Refuses requests that would wait too long, if a target is set.
    admission: Option<Arc<Mutex<Admission>>>,
    began: Instant,
    has_failed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A request that was taken; it ends when this is dropped.
pub struct Ticket {
    number: u64,
    sender: Sender<Command>,
}
impl Drop for Ticket {
    fn drop(&mut self) {
        // An engine that is gone has ended it.
        let _ = self.sender.send(Command::Abort(self.number));
    }
}

impl Handle {
    /// Starts an engine that takes at most `open_max` requests at once.
    pub fn start(model: Arc<LanguageModel>, options: Options, open_max: usize) -> Result<Handle> {
        Handle::of(Engine::new(model, options)?, open_max)
    }
    /// Gives an engine a thread.
    pub fn of(engine: Engine, open_max: usize) -> Result<Handle> {
        let (sender, receiver) = channel();
        let model = engine.model().clone();
        let (stats, length_max) = (engine.stats().clone(), engine.length_max());
        let (open, has_failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let failed = has_failed.clone();
        let work = move || {
            if let Err(e) = run(engine, &receiver) {
                failed.store(true, Relaxed);
                tensor::log::warn(format!("the engine failed: {e}"));
            }
        };
        let spawned = std::thread::Builder::new().name("llm-engine".into()).spawn(work);
        let thread = Some(spawned.map_err(|e| Error::new(ir::ErrorKind::Io, e.to_string()))?);
        let next = AtomicU64::new(0);
        let (admission, began) = (None, Instant::now());
        Ok(Handle { model, sender, stats, length_max, next, open, open_max, admission, began, has_failed, thread })
    }
    /// Refuses requests whose first token would come later than `target`, where `slots` sequences run at once.
    pub fn with_target(mut self, target: Duration, slots: usize) -> Handle {
        self.admission = Some(Arc::new(Mutex::new(Admission::new(slots, target.as_secs_f64()))));
        self
    }
    /// Whether first tokens have a target: requests may be refused after they have waited.
    pub fn has_target(&self) -> bool {
        self.admission.is_some()
    }
    /// The model.
    pub fn model(&self) -> &Arc<LanguageModel> {
        &self.model
    }
    /// Counters.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }
    /// Tokens of a sequence at most.
    pub fn length_max(&self) -> usize {
        self.length_max
    }
    /// Whether the engine ended by an error.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }
    /// Requests that wait or run.
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Hands a request to the engine.
    pub fn submit(&self, mut g: Generation, mut sink: Sink) -> std::result::Result<Ticket, Refused> {
        let others = self.open.fetch_add(1, Relaxed);
        let mut admitted = None;
        let mut is_refused = others >= self.open_max;
        if let Some(a) = self.admission.as_ref().filter(|_| !is_refused) {
            let mut a = a.lock();
            admitted = a.admit(self.began.elapsed().as_secs_f64(), others);
            g.first_within = Some(Duration::from_secs_f64(a.first_within()));
            is_refused = admitted.is_none();
        }
        if is_refused {
            self.open.fetch_sub(1, Relaxed);
            return Err(Refused::Overloaded);
        }
        let (open, admission, began) = (self.open.clone(), self.admission.clone(), self.began);
        let arrived = Instant::now();
        let counted: Sink = Box::new(move |event| {
            let now = began.elapsed().as_secs_f64();
            if let Some((a, request)) = admission.as_ref().zip(admitted.take()) {
                match event {
                    Event::Refused => a.lock().note_refused(now),
                    _ => a.lock().note_first(now, arrived.elapsed().as_secs_f64(), request),
                }
            }
            if !matches!(event, Event::Token { .. }) {
                let all = open.fetch_sub(1, Relaxed);
                // One that was refused has left no slot free.
                let ended = admission.iter().filter(|_| event != Event::Refused);
                ended.for_each(|a| a.lock().note_end(now, all));
            }
            sink(event)
        });
        let number = self.next.fetch_add(1, Relaxed);
        if self.sender.send(Command::Add(number, Box::new(g), counted)).is_err() {
            self.open.fetch_sub(1, Relaxed);
            return Err(Refused::Ended);
        }
        Ok(Ticket { number, sender: self.sender.clone() })
    }

    /// Runs something between two steps of the engine.
    pub fn between_steps<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Engine) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (to, from) = channel();
        let work = Box::new(move |engine: &mut Engine| {
            // The client is gone if this fails.
            let _ = to.send(f(engine));
        });
        let ended = || Error::value("the engine has ended");
        self.sender.send(Command::Do(work)).map_err(|_| ended())?;
        from.recv().map_err(|_| ended())?
    }

    /// The events of a request, as they come. The request ends when the iterator is dropped.
    pub fn generate(&self, g: Generation) -> Result<Events> {
        let (to, from) = channel();
        let ticket = self.submit(g, Box::new(move |e| to.send(e).is_ok()));
        let ticket = ticket.map_err(|e| Error::value(format!("the request was refused: {e:?}")))?;
        Ok(Events { from, _ticket: ticket })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.sender.send(Command::Stop);
        if let Some(t) = self.thread.take() {
            // A panic was reported when it happened.
            let _ = t.join();
        }
    }
}

/// The events of one request.
pub struct Events {
    from: Receiver<Event>,
    _ticket: Ticket,
}
impl Iterator for Events {
    type Item = Event;
    fn next(&mut self) -> Option<Event> {
        self.from.recv().ok()
    }
}

/// Steps while there is work; waits for commands when there is none.
fn run(mut engine: Engine, receiver: &Receiver<Command>) -> Result<()> {
    let mut numbers: HashMap<u64, RequestId> = HashMap::new();
    loop {
        let mut command = if engine.is_idle() { receiver.recv().ok() } else { None };
        if command.is_none() && engine.is_idle() {
            return Ok(());
        }
        loop {
            match command.take().map_or_else(|| receiver.try_recv(), Ok) {
                Ok(Command::Add(number, g, sink)) => add(&mut engine, &mut numbers, number, *g, sink),
                Ok(Command::Abort(number)) => {
                    if let Some(id) = numbers.remove(&number) {
                        engine.abort(id);
                    }
                }
                Ok(Command::Do(work)) => work(&mut engine),
                Ok(Command::Stop) => return Ok(()),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) if engine.is_idle() => return Ok(()),
                Err(TryRecvError::Disconnected) => break,
            }
        }
        engine.step()?;
    }
}

fn add(engine: &mut Engine, numbers: &mut HashMap<u64, RequestId>, number: u64, g: Generation, sink: Sink) {
    // The sink is shared, so that it can be told why the request was not taken.
    let sink = Arc::new(Mutex::new(sink));
    let shared = sink.clone();
    match engine.add(g, Box::new(move |e| (shared.lock())(e))) {
        Ok(id) => {
            numbers.insert(number, id);
        }
        Err(e) => {
            (sink.lock())(Event::Failed(e.message));
        }
    }
}
