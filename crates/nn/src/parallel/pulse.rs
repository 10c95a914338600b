//! What this worker says of itself from a thread of its own: whether it moves, waits or saves, and
//! whether it is done; and the gate by which all workers stop after the same step.

use super::{JOB, failed, job, lock};
use dist::status::{Activity, End, Gate, Run, SAVED, STEPPED, STOP, Status, done_key, status_key};
use dist::{Member, Publisher};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tensor::{Error, Result};

/// How often the pulse is told, and how often a stop is looked for while the workers agree on one.
const BEAT: Duration = Duration::from_millis(200);
const BEAT_DECIDING: Duration = Duration::from_millis(20);

/// Numbers of this process; it is one worker.
static MOVES: AtomicU64 = AtomicU64::new(0);
static STEPS: AtomicU64 = AtomicU64::new(0);
static MISSED: AtomicU64 = AtomicU64::new(0);
static COLLECTIVES: AtomicU64 = AtomicU64::new(0);
static WAITING: AtomicU32 = AtomicU32::new(0);
static SAVING: AtomicU32 = AtomicU32::new(0);
static RUN: AtomicU8 = AtomicU8::new(0);
static ASKED: AtomicBool = AtomicBool::new(false);
static GATE: std::sync::LazyLock<Gate> = std::sync::LazyLock::new(Gate::default);

fn now() -> Status {
    let doing = match (SAVING.load(Relaxed), WAITING.load(Relaxed)) {
        (0, 0) => Activity::Computing,
        (0, _) => Activity::Waiting,
        _ => Activity::Saving,
    };
    let run = match RUN.load(Relaxed) {
        0 => Run::None,
        1 => Run::Going,
        _ => Run::Done,
    };
    let [moves, steps, missed, collectives] = [&MOVES, &STEPS, &MISSED, &COLLECTIVES].map(|n| n.load(Relaxed));
    Status { moves, steps, missed, collectives, doing, run }
}

/// While this lives, the worker does what the counter counts.
struct Counted(&'static AtomicU32);
impl Counted {
    fn new(what: &'static AtomicU32) -> Counted {
        what.fetch_add(1, Relaxed);
        MOVES.fetch_add(1, Relaxed);
        Counted(what)
    }
}
impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
        MOVES.fetch_add(1, Relaxed);
    }
}

/// What joins this worker to the others, held for an exchange in which it may wait for them.
pub(super) struct Exchange<'a, T>(MutexGuard<'a, T>, #[expect(dead_code, reason = "dropped")] Counted);
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
/// As [`lock`], for an exchange.
pub(super) fn exchange<T>(m: &Mutex<T>) -> Exchange<'_, T> {
    let waits = Counted::new(&WAITING);
    Exchange(lock(m), waits)
}
/// Carries a collective of the program.
pub(super) fn collective<T>(f: impl FnOnce() -> dist::Result<T>) -> dist::Result<T> {
    let done = exchanging(f);
    if done.is_ok() && COLLECTIVES.fetch_add(1, Relaxed) == 0 {
        say_stepped();
    }
    done
}
/// Runs an exchange that needs no lock.
pub(super) fn exchanging<T>(f: impl FnOnce() -> T) -> T {
    let _waits = Counted::new(&WAITING);
    f()
}
/// Runs what writes a checkpoint: it may take its time.
pub fn saving<T>(f: impl FnOnce() -> T) -> T {
    let _saves = Counted::new(&SAVING);
    f()
}
/// Exchanges of all workers that are complete, and how many were missing from the last.
pub(super) fn stepped(steps: u64, missing: usize) {
    if STEPS.swap(steps, Relaxed) == 0 {
        say_stepped();
    }
    MISSED.fetch_add(missing as u64, Relaxed);
}
/// The program works: it has done a first step.
fn say_stepped() {
    if let Some(Ok(Some(job))) = JOB.get() {
        // Who cannot say it finds that out elsewhere.
        let _ = job.publisher.set(STEPPED, b"1").and_then(|()| job.publisher.flush());
    }
}

/// Tells the pulse, and takes part in stops, until the membership store is gone.
pub(super) fn start(publisher: Arc<Publisher>, line: Member, rank: u32, world: u32) -> dist::Result<()> {
    let beat = move || -> dist::Result<()> {
        let mut told = None;
        loop {
            let pulse = now();
            if told != Some(pulse) {
                publisher.lease(&status_key(rank), pulse.encode().as_bytes())?;
                told = Some(pulse);
            }
            GATE.attend(&line, rank, world)?;
            std::thread::sleep(if GATE.is_deciding() { BEAT_DECIDING } else { BEAT });
        }
    };
    let thread = std::thread::Builder::new().name("pulse".into());
    let spawned = thread.spawn(move || {
        // Whoever exchanges anything finds out that the membership store is gone.
        let _ = beat();
        GATE.give_up();
    });
    spawned.map(drop).map_err(dist::Error::io("starting a thread that tells the pulse"))
}

/// A run begins at this step that asks [`goes_on`] before each of its steps and says when it is done.
pub fn run_begins(step: u64) -> Result<()> {
    let Some(job) = job()? else { return Ok(()) };
    GATE.enter(step);
    RUN.store(1, Relaxed);
    let told = job.publisher.set(&done_key(job.place.rank), End::Going.encode().as_bytes());
    told.and_then(|()| job.publisher.flush()).map_err(failed)
}
/// Before a step: whether it is to be done. False if the job was asked to stop and the workers have
/// agreed on an earlier one as the last.
pub fn goes_on(step: u64) -> Result<bool> {
    Ok(job()?.is_none() || exchanging(|| GATE.goes_on(step)))
}
/// Asks all workers to stop after a common step; false if this process is alone.
pub fn ask_to_stop() -> Result<bool> {
    let Some(job) = job()? else { return Ok(false) };
    if !ASKED.swap(true, Relaxed) {
        job.publisher.set(STOP, b"1").map_err(failed)?;
    }
    Ok(true)
}
/// The run is complete.
pub(super) fn run_ends() {
    GATE.leave();
    RUN.store(2, Relaxed);
}
/// How many steps were done, if not in a run.
pub(super) fn steps_outside_runs() -> Option<u64> {
    (RUN.load(Relaxed) == 0).then(|| STEPS.load(Relaxed))
}
/// A checkpoint is on disk.
pub fn saved(step: u64, path: &Path) -> Result<()> {
    let Some(Ok(Some(job))) = JOB.get() else { return Ok(()) };
    let text = format!("{step} {}", path.display());
    job.publisher.set(SAVED, text.as_bytes()).map_err(failed)
}

/// The kind of an error between processes.
pub(super) fn kind(e: &dist::Error) -> tensor::ErrorKind {
    match e {
        e if e.is_late() => tensor::ErrorKind::Deadline,
        e if e.is_lost() => tensor::ErrorKind::Lost,
        e if e.is_refused() => tensor::ErrorKind::Refused,
        dist::Error::Value(_) => tensor::ErrorKind::Value,
        _ => tensor::ErrorKind::Io,
    }
}
/// An error between processes as one of a program.
pub(super) fn error(e: &dist::Error, message: String) -> Error {
    Error::new(kind(e), message)
}
