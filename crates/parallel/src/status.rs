//! What this worker says of itself from a thread of its own: whether it moves, waits or saves, and
//! whether it is done; and the gate by which all workers stop after the same step.

use dist::launch::WorkerConfig;
use dist::status::{Activity, Gate, Run, STEPPED, Status, status_key};
use dist::{Member, Publisher};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tensor::Error;

/// How often the status is published, and how often a stop is looked for while the workers agree on one.
const PERIOD: Duration = Duration::from_millis(200);
const PERIOD_DECIDING: Duration = Duration::from_millis(20);

/// The counters of one worker.
#[derive(Default)]
pub(crate) struct Counters {
    moves: AtomicU64,
    steps: AtomicU64,
    missed: AtomicU64,
    collectives: AtomicU64,
    waiting: AtomicU32,
    saving: AtomicU32,
    run: AtomicU8,
    pub asked_to_stop: AtomicBool,
    pub gate: Gate,
    /// Where the first step is announced.
    publisher: Option<Arc<Publisher>>,
}

/// While this lives, the worker waits for others.
pub(crate) struct Waiting(Arc<Counters>);
impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
        self.0.moves.fetch_add(1, Relaxed);
    }
}

/// A lock that is held for an exchange in which this worker may wait for others.
pub(crate) struct Exchange<'a, T>(MutexGuard<'a, T>, #[expect(dead_code, reason = "dropped")] Waiting);
impl<T> Deref for Exchange<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
impl<T> DerefMut for Exchange<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl Counters {
    pub fn new(publisher: Arc<Publisher>) -> Arc<Counters> {
        Arc::new(Counters { publisher: Some(publisher), ..Counters::default() })
    }
    fn now(&self) -> Status {
        let doing = match (self.saving.load(Relaxed), self.waiting.load(Relaxed)) {
            (0, 0) => Activity::Computing,
            (0, _) => Activity::Waiting,
            _ => Activity::Saving,
        };
        let run = match self.run.load(Relaxed) {
            0 => Run::None,
            1 => Run::Going,
            _ => Run::Done,
        };
        let all = [&self.moves, &self.steps, &self.missed, &self.collectives];
        let [moves, steps, missed, collectives] = all.map(|n| n.load(Relaxed));
        Status { moves, steps, missed, collectives, doing, run }
    }
    pub fn wait(self: &Arc<Self>) -> Waiting {
        self.waiting.fetch_add(1, Relaxed);
        self.moves.fetch_add(1, Relaxed);
        Waiting(self.clone())
    }
    /// Locks for an exchange.
    pub fn exchange<'a, T>(self: &Arc<Self>, m: &'a Mutex<T>) -> Exchange<'a, T> {
        let waiting = self.wait();
        Exchange(lock(m), waiting)
    }
    /// Runs an exchange that needs no lock.
    pub fn exchanging<T>(self: &Arc<Self>, f: impl FnOnce() -> T) -> T {
        let _waiting = self.wait();
        f()
    }
    /// Runs a collective of the program.
    pub fn collective<T>(self: &Arc<Self>, f: impl FnOnce() -> dist::Result<T>) -> dist::Result<T> {
        let done = self.exchanging(f);
        if done.is_ok() && self.collectives.fetch_add(1, Relaxed) == 0 {
            self.announce_step();
        }
        done
    }
    pub fn set_saving(&self, is_saving: bool) {
        if is_saving {
            self.saving.fetch_add(1, Relaxed);
        } else {
            self.saving.fetch_sub(1, Relaxed);
        }
        self.moves.fetch_add(1, Relaxed);
    }
    /// Exchanges of all workers that are complete, and how many workers were missing from the last.
    pub fn stepped(&self, steps: u64, missing: usize) {
        if self.steps.swap(steps, Relaxed) == 0 {
            self.announce_step();
        }
        self.missed.fetch_add(missing as u64, Relaxed);
    }
    /// The program works: it has done a first step.
    fn announce_step(&self) {
        if let Some(p) = &self.publisher {
            // A failure shows at the next exchange.
            let _ = p.set(STEPPED, b"1").and_then(|()| p.flush());
        }
    }
    pub fn enter_run(&self, step: u64) {
        self.gate.enter(step);
        self.run.store(1, Relaxed);
    }
    pub fn leave_run(&self) {
        self.gate.leave();
        self.run.store(2, Relaxed);
    }
    /// How many steps were done, if not in a run.
    pub fn steps_outside_runs(&self) -> Option<u64> {
        (self.run.load(Relaxed) == 0).then(|| self.steps.load(Relaxed))
    }

    /// Publishes the status, and takes part in stops, until the membership store is gone or the job ends.
    pub fn start(self: &Arc<Self>, publisher: Arc<Publisher>, member: Member, c: &WorkerConfig) -> dist::Result<()> {
        let (rank, world, has_store) = (c.rank, c.world, c.servers > 0);
        let counters = Arc::downgrade(self);
        let publish = move || -> dist::Result<()> {
            let mut told = None;
            while let Some(counters) = counters.upgrade() {
                let status = counters.now();
                if told != Some(status) {
                    publisher.lease(&status_key(rank), status.encode().as_bytes())?;
                    told = Some(status);
                }
                counters.gate.attend(&member, rank, world, has_store)?;
                let period = if counters.gate.is_deciding() { PERIOD_DECIDING } else { PERIOD };
                drop(counters);
                std::thread::sleep(period);
            }
            Ok(())
        };
        let ending = Arc::downgrade(self);
        let spawned = std::thread::Builder::new().name("status".into()).spawn(move || {
            // The next exchange finds out that the membership store is gone.
            let _ = publish();
            ending.upgrade().iter().for_each(|c| c.gate.give_up());
        });
        spawned.map(drop).map_err(dist::Error::io("starting a thread that publishes the status"))
    }
}

pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere ends the program anyway; what is guarded is used by one thread at a time.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kind of an error between processes.
pub(crate) fn kind(e: &dist::Error) -> tensor::ErrorKind {
    match e {
        e if e.is_late() => tensor::ErrorKind::Deadline,
        e if e.is_lost() => tensor::ErrorKind::Lost,
        e if e.is_refused() => tensor::ErrorKind::Refused,
        dist::Error::Value(_) => tensor::ErrorKind::Value,
        _ => tensor::ErrorKind::Io,
    }
}
/// An error between processes as one of a program, of the same kind.
pub fn failed(e: dist::Error) -> Error {
    Error::new(kind(&e), e.to_string())
}
