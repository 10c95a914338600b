//! The launcher's view of its job: a progress line in the terminal, a page.

use crate::membership::Coordinator;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Events and samples kept at most; older events are forgotten, samples thinned out.
const EVENTS_MAX: usize = 200;
const SAMPLES_MAX: usize = 1_000;
/// How often the job is checked.
const EVERY: Duration = Duration::from_millis(200);

/// Rates are taken over so long.
const WINDOW: Duration = Duration::from_secs(10);
/// A worker that has said nothing for so long, or for three times what it usually takes, stands still.
const STILL: Duration = Duration::from_secs(3);

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
    /// of this many.
    pub steps: u64,
    /// Its last loss.
    pub loss: f64,
    /// Samples that its process has trained on.
    pub samples: u64,
    /// Samples in a second, over the last seconds.
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
    coordinator: Option<Arc<dyn Coordinator>>,
    processes: Vec<ProcessState>,
    history: Vec<Sample>,
    events: VecDeque<Event>,
    rates: BTreeMap<u32, Rate>,
    looked: Option<Instant>,
}

impl Inner {
    /// What the workers have said, with their rates.
    fn workers(&self) -> Vec<WorkerState> {
        let mut all = self.coordinator.as_ref().map(|c| workers(c.as_ref())).unwrap_or_default();
        self.rate(&mut all);
        all
    }
    fn rate(&self, workers: &mut [WorkerState]) {
        let rate = |rank| self.rates.get(&rank).map_or(0.0, |r: &Rate| r.now(Instant::now()));
        workers.iter_mut().for_each(|w| w.samples_per_second = rate(w.rank));
    }
}

/// When a count was seen to grow, over the last seconds.
#[derive(Default)]
struct Rate(VecDeque<(Instant, u64)>);

impl Rate {
    fn hear(&mut self, now: Instant, count: u64) {
        match self.0.back() {
            Some((_, last)) if *last == count => return,
            // Another process has taken its place.
            Some((_, last)) if *last > count => self.0.clear(),
            _ => {}
        }
        self.0.push_back((now, count));
        while self.0.len() > 2 && now - self.0[1].0 > WINDOW {
            self.0.pop_front();
        }
    }
    /// In a second; 0 if it has stood still for long.
    fn now(&self, now: Instant) -> f64 {
        let (Some(first), Some(last)) = (self.0.front(), self.0.back()) else { return 0.0 };
        let (took, times) = (last.0 - first.0, self.0.len() as u32 - 1);
        if times == 0 || now - last.0 > STILL.max(3 * took / times) {
            return 0.0;
        }
        (last.1 - first.1) as f64 / took.as_secs_f64().max(1e-9)
    }
}

/// Shared by the launcher and the readers of the page.
pub struct Dashboard {
    began: Instant,
    inner: Mutex<Inner>,
}

impl Default for Dashboard {
    fn default() -> Dashboard {
        Dashboard { began: Instant::now(), inner: Mutex::default() }
    }
}

impl Dashboard {
    /// Notes an event and prints it.
    pub fn note(&self, text: &str) {
        say(&format!("[launch] {text}"));
        let mut inner = self.inner.lock();
        if inner.events.len() >= EVENTS_MAX {
            inner.events.pop_front();
        }
        inner.events.push_back(Event { seconds: self.began.elapsed().as_secs_f64(), text: text.to_string() });
    }
    pub(crate) fn begin(&self, coordinator: Arc<dyn Coordinator>) {
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
        let mut workers = inner.coordinator.as_ref().map(|c| workers(c.as_ref())).unwrap_or_default();
        workers.iter().for_each(|w| inner.rates.entry(w.rank).or_default().hear(Instant::now(), w.samples));
        inner.rate(&mut workers);
        let sample = sample(self.began.elapsed().as_secs_f64(), &workers);
        // A job that stands still is sampled once more, when that is known.
        let is_known =
            |s: &Sample| s.step == sample.step && (s.samples_per_second == 0.0 || sample.samples_per_second > 0.0);
        if sample.step == 0 || inner.history.last().is_some_and(is_known) {
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
            workers: inner.workers(),
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
        let workers = inner.workers();
        let (steps, slowest) = (workers.iter().map(|w| w.steps).max()?, workers.iter().map(|w| w.step).min()?);
        let behind = if slowest < s.step { format!(", the slowest at {slowest}") } else { String::new() };
        let speed: f64 = workers.iter().map(|w| w.samples_per_second).sum();
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
fn numbers(c: &dyn Coordinator, prefix: &str) -> Vec<(u32, Vec<f64>)> {
    let all = c.list(prefix).into_iter().filter_map(|(key, value)| {
        let id = key.strip_prefix(prefix)?.parse().ok()?;
        let value = String::from_utf8(value).ok()?;
        Some((id, value.split(' ').map(|n| n.parse().unwrap_or(0.0)).collect()))
    });
    let mut all: Vec<(u32, Vec<f64>)> = all.collect();
    all.sort_by_key(|(id, _)| *id);
    all
}
fn workers(c: &dyn Coordinator) -> Vec<WorkerState> {
    let state = |(rank, n): (u32, Vec<f64>)| {
        let (&[step, steps, loss, samples], reads) = n.split_first_chunk()?;
        let staleness = reads.iter().map(|n| *n as u64).collect();
        let (step, steps, samples, samples_per_second) = (step as u64, steps as u64, samples as u64, 0.0);
        Some(WorkerState { rank, step, steps, loss, samples, samples_per_second, staleness })
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
fn servers(c: &dyn Coordinator) -> Vec<ServerState> {
    let state = |(server, n): (u32, Vec<f64>)| {
        let [primaries, bytes, applied, reads, parked] = n.as_slice() else { return None };
        let whole = |x: &f64| *x as u64;
        let (primaries, bytes, applied) = (whole(primaries), whole(bytes), whole(applied));
        Some(ServerState { server, primaries, bytes, applied, reads: whole(reads), parked: whole(parked) })
    };
    numbers(c, "load/").into_iter().filter_map(state).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_seconds_and_zero_when_nothing_moves() {
        let t = Instant::now();
        let s = Duration::from_secs;
        let mut r = Rate::default();
        assert_eq!(r.now(t), 0.0);
        for i in 0..100 {
            // Ten a second for a minute and a half, then forty.
            r.hear(t + s(i), if i < 80 { 10 * i } else { 800 + 40 * (i - 80) });
        }
        assert!((r.now(t + s(99)) - 40.0).abs() < 1e-9, "{}", r.now(t + s(99)));
        assert!(r.now(t + s(101)) > 0.0 && r.now(t + s(103)) == 0.0);
        r.hear(t + s(110), 5);
        assert_eq!(r.now(t + s(110)), 0.0, "a replacement starts over");
    }
}
