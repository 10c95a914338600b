//! How a worker's part in a job ends: with everybody's last updates, or with a failure that nobody
//! must train past.

use super::pulse::{exchange, exchanging, run_ends, steps_outside_runs};
use super::{How, JOB, Job, SAVE_LIMIT, failed, job, lock, writes_files};
use dist::status::{End, FAILED, done_key};
use dist::{Consistency, FOREVER, Member};
use std::time::{Duration, Instant};
use tensor::Result;

/// How long workers that are done wait for one that is being started again.
const STAY_LIMIT: Duration = Duration::from_secs(60);
/// Key that says that the store's last checkpoint is written, and how often to look for it.
const WRITTEN: &str = "written";
const GLANCE: Duration = Duration::from_millis(20);
/// How long saying that the job has failed may take.
const FAIL_LIMIT: Duration = Duration::from_secs(30);

/// After this worker's last step, with a parameter store whose workers do not wait for each other in every
/// step (`ssp:S`, `async`): a worker that has done all of its steps waits until all have done theirs. True if
/// what this worker has is then older than what the store holds: read it again before it is saved.
/// `Trainer` does.
pub fn settle(has_done_all: bool) -> Result<bool> {
    let Some(job) = job()? else { return Ok(false) };
    let How::Store(s) = &job.how else { return Ok(false) };
    exchange(s).store.settle(has_done_all && !job.place.rule.gathers()).map_err(failed)
}
/// After the last checkpoint, which the worker that [`writes_files`] has saved: the others wait until it is
/// there, or until its writer is lost and this worker has to save. Under all-reduce, lost workers that are
/// being started again are let in with the bytes that `give` makes, as [`super::meet`] does.
pub fn finish(mut give: impl FnMut() -> Result<Vec<u8>>) -> Result<()> {
    let Some(job) = job()? else { return Ok(()) };
    match &job.how {
        How::Reduce(r, _) => {
            let mut give = || give().map_err(|e| dist::Error::value(e.to_string()));
            let missing = if job.place.replaces { STAY_LIMIT } else { Duration::ZERO };
            exchange(r).finish(&mut give, missing, SAVE_LIMIT).map_err(failed)
        }
        How::Store(s) => {
            let is_written = || job.member.get(WRITTEN, Instant::now() + FOREVER).map_err(failed);
            // The writer may be far behind, where the rule allows that; or be lost, which the map says.
            while !writes_files()? && is_written()?.1.is_none() {
                exchanging(|| std::thread::sleep(GLANCE));
                lock(s).store.look().map_err(failed)?;
            }
            Ok(())
        }
    }
}
/// The run is complete, with everything that it had to save.
pub fn done() -> Result<()> {
    let Some(job) = job()? else { return Ok(()) };
    run_ends();
    // Before it is known that this worker is done: who reads that need not wait for the other.
    let _ = job.publisher.set(WRITTEN, b"1");
    say(job, End::Done);
    Ok(())
}
/// The program ends. If it was in no run that says when it is done, the launcher compares the number
/// of steps with that of the others.
pub fn leave() {
    if let Some(Ok(Some(job))) = JOB.get()
        && let Some(steps) = steps_outside_runs()
    {
        say(job, End::Left(steps));
    }
}
/// Waits until the launcher knows it, and everything that was said before.
fn say(job: &Job, end: End) {
    // Without a launcher worker 0 keeps the membership store, and may have ended before this worker
    // says it: then there is nobody left to tell.
    let told = job.publisher.set(&done_key(job.place.rank), end.encode().as_bytes());
    let _ = told.and_then(|()| exchanging(|| job.publisher.flush()));
}

/// Tells the job that this worker's training has failed for good, as it has diverged: whoever is
/// started in its place fails as well, with this reason, instead of training on after the bad step.
/// `Trainer` calls it when the loss is NaN or infinite.
pub fn fail(why: &str) -> Result<()> {
    let Some(job) = job()? else { return Ok(()) };
    let why = format!("worker {}: {why}", job.place.rank);
    let told = job.member.compare_set(FAILED, None, why.as_bytes(), Instant::now() + FAIL_LIMIT);
    told.map(drop).map_err(failed)
}

/// An error if the job that this worker joins has failed.
pub(super) fn check(member: &Member, deadline: Instant) -> dist::Result<()> {
    match member.get(FAILED, deadline)?.1 {
        Some(why) => Err(dist::Error::Lost(format!("the job has failed: {}", String::from_utf8_lossy(&why)))),
        None => Ok(()),
    }
}
