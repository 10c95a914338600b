//! What a launcher knows of its job, for whoever wants to look: a line in the terminal, a page.

use crate::membership::Center;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Events and samples kept at most; older events are forgotten, samples thinned out.
const EVENTS_MAX: usize = 200;
const SAMPLES_MAX: usize = 1_000;
/// How often the job is looked at.
const EVERY: Duration = Duration::from_millis(200);

/// Key under which a worker says how far it is.
pub fn progress_key(rank: u32) -> String {
    format!("progress/{rank}")
}
/// Key under which a server says what it has done.
pub fn load_key(server: u32) -> String {
    format!("load/{server}")
}

/// Key under which the server of the first partition says how many steps each worker has settled:
/// all at one moment, while workers tell how far they are each at their own.
pub const CLOCKS: &str = "clocks";
/// Key of the step that the job began with, if it was resumed.
pub const BEGAN: &str = "began";

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Seconds since the job began.
    pub seconds: f64,
    /// What.
    pub text: String,
}

/// The job at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Seconds since the job began.
    pub seconds: f64,
    /// The furthest worker's step.
    pub step: u64,
    /// Mean loss of the workers.
    pub loss: f64,
    /// Samples in a second, of all workers.
    pub samples_per_second: f64,
}

/// A worker, as it last said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerState {
    /// Its number.
    pub rank: u32,
    /// Steps it has done,
    pub step: u64,
    /// of so many.
    pub steps: u64,
    /// Its last loss.
    pub loss: f64,
    /// Samples in a second.
    pub samples_per_second: f64,
    /// How many of its reads from the store were 0, 1, 2… steps ahead of the slowest worker in
    /// what they saw; the last counts all beyond. Empty without a store.
    pub staleness: Vec<u64>,
}

/// A server, as it last said.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerState {
    /// Its number.
    pub server: u32,
    /// Partitions it answers for.
    pub primaries: u64,
    /// Bytes of values it holds.
    pub bytes: u64,
    /// Updates it has applied.
    pub applied: u64,
    /// Reads it has answered.
    pub reads: u64,
    /// Reads that had to wait.
    pub parked: u64,
}

/// A process of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessState {
    /// `worker 0` or `server 1`.
    pub name: String,
    /// Its number in the operating system.
    pub id: u32,
    /// Whether it runs.
    pub is_alive: bool,
    /// How often it was started again.
    pub restarts: u32,
}

/// Everything at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Seconds since the job began.
    pub seconds: f64,
    /// Workers that have said something, in order.
    pub workers: Vec<WorkerState>,
    /// Servers that have said something, in order.
    pub servers: Vec<ServerState>,
    /// Processes.
    pub processes: Vec<ProcessState>,
    /// The past.
    pub history: Vec<Sample>,
    /// What happened, the newest last.
    pub events: Vec<Event>,
}

#[derive(Default)]
struct Inner {
    coordinator: Option<Arc<dyn Center>>,
    processes: Vec<ProcessState>,
    history: Vec<Sample>,
    events: VecDeque<Event>,
    looked: Option<Instant>,
}

/// Shared by the launcher and whoever looks.
pub struct Board {
    began: Instant,
    inner: Mutex<Inner>,
}

impl Default for Board {
    fn default() -> Board {
        Board { began: Instant::now(), inner: Mutex::default() }
    }
}

impl Board {
    /// Notes an event and prints it.
    pub fn note(&self, text: &str) {
        say(&format!("[launch] {text}"));
        let mut inner = self.inner.lock();
        if inner.events.len() >= EVENTS_MAX {
            inner.events.pop_front();
        }
        inner.events.push_back(Event { seconds: self.began.elapsed().as_secs_f64(), text: text.to_string() });
    }
    pub(crate) fn begin(&self, coordinator: Arc<dyn Center>) {
        self.inner.lock().coordinator = Some(coordinator);
    }
    /// Takes a sample if it is time.
    pub(crate) fn look(&self, processes: impl Iterator<Item = ProcessState>) {
        let mut inner = self.inner.lock();
        if inner.looked.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        inner.looked = Some(Instant::now());
        inner.processes = processes.collect();
        let workers = inner.coordinator.as_ref().map(|c| workers(c.as_ref())).unwrap_or_default();
        let sample = sample(self.began.elapsed().as_secs_f64(), &workers);
        if sample.step == 0 || inner.history.last().is_some_and(|s| s.step == sample.step) {
            return;
        }
        if inner.history.len() >= SAMPLES_MAX {
            let mut index = 0;
            inner.history.retain(|_| {
                index += 1;
                index % 2 == 0
            });
        }
        inner.history.push(sample);
    }
    /// Everything at once.
    pub fn snapshot(&self) -> Snapshot {
        let inner = self.inner.lock();
        let coordinator = inner.coordinator.as_ref();
        Snapshot {
            seconds: self.began.elapsed().as_secs_f64(),
            workers: coordinator.map(|c| workers(c.as_ref())).unwrap_or_default(),
            servers: coordinator.map(|c| servers(c.as_ref())).unwrap_or_default(),
            processes: inner.processes.clone(),
            history: inner.history.clone(),
            events: inner.events.iter().cloned().collect(),
        }
    }
    /// The job in one line, once a worker has said something.
    pub fn line(&self) -> Option<String> {
        let inner = self.inner.lock();
        let s = inner.history.last()?;
        let workers = workers(inner.coordinator.as_ref()?.as_ref());
        let (steps, slowest) = (workers.iter().map(|w| w.steps).max()?, workers.iter().map(|w| w.step).min()?);
        let behind = if slowest < s.step { format!(", the slowest at {slowest}") } else { String::new() };
        let speed = s.samples_per_second;
        Some(format!("step {} of {steps}{behind}, loss {:.4}, {speed:.0} samples/s", s.step, s.loss))
    }
}

/// Prints a line; a reader that went away is no reason to fail.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn sample(seconds: f64, workers: &[WorkerState]) -> Sample {
    let mean = workers.iter().map(|w| w.loss).sum::<f64>() / workers.len().max(1) as f64;
    let speed = workers.iter().map(|w| w.samples_per_second).sum();
    let step = workers.iter().map(|w| w.step).max().unwrap_or(0);
    Sample { seconds, step, loss: mean, samples_per_second: speed }
}

/// Numbers behind a key's prefix and in its value; what does not read is left out.
fn numbers(c: &dyn Center, prefix: &str) -> Vec<(u32, Vec<f64>)> {
    let all = c.list(prefix).into_iter().filter_map(|(key, value)| {
        let id = key.strip_prefix(prefix)?.parse().ok()?;
        let value = String::from_utf8(value).ok()?;
        Some((id, value.split(' ').map(|n| n.parse().unwrap_or(0.0)).collect()))
    });
    let mut all: Vec<(u32, Vec<f64>)> = all.collect();
    all.sort_by_key(|(id, _)| *id);
    all
}
fn workers(c: &dyn Center) -> Vec<WorkerState> {
    let state = |(rank, n): (u32, Vec<f64>)| {
        let (&[step, steps, loss, samples_per_second], reads) = n.split_first_chunk()?;
        let staleness = reads.iter().map(|n| *n as u64).collect();
        Some(WorkerState { rank, step: step as u64, steps: steps as u64, loss, samples_per_second, staleness })
    };
    let mut all: Vec<WorkerState> = numbers(c, "progress/").into_iter().filter_map(state).collect();
    let text = |key: &str| c.get(key).and_then(|v| String::from_utf8(v).ok());
    if let Some(clocks) = text(CLOCKS) {
        let began = text(BEGAN).and_then(|t| t.parse().ok()).unwrap_or(0);
        let clocks: Vec<u64> = clocks.split(' ').map(|n| began + n.parse().unwrap_or(0)).collect();
        all.iter_mut().for_each(|w| w.step = clocks.get(w.rank as usize).copied().unwrap_or(w.step).min(w.steps));
    }
    all
}
fn servers(c: &dyn Center) -> Vec<ServerState> {
    let state = |(server, n): (u32, Vec<f64>)| {
        let [primaries, bytes, applied, reads, parked] = n.as_slice() else { return None };
        let whole = |x: &f64| *x as u64;
        let (primaries, bytes, applied) = (whole(primaries), whole(bytes), whole(applied));
        Some(ServerState { server, primaries, bytes, applied, reads: whole(reads), parked: whole(parked) })
    };
    numbers(c, "load/").into_iter().filter_map(state).collect()
}
