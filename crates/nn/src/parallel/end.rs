//! How a worker's part in a job ends: with everybody's last updates, or with a failure that nobody
//! must train past.

use super::pulse::{exchange, exchanging, run_ends, steps_outside_runs};
use super::{How, JOB, Job, SAVE_LIMIT, failed, job, lock, writes_files};
use dist::pulse::{End, FAILED, done_key};
use dist::{Consistency, FOREVER, Registrar};
use std::time::{Duration, Instant};
use tensor::Result;

/// How long workers that are done wait for one that is being started again.
const STAY_LIMIT: Duration = Duration::from_secs(60);
/// Key that says that the store's last checkpoint is written, and how often to look for it.
const WRITTEN: &str = "written";
const GLANCE: Duration = Duration::from_millis(20);
/// How long saying that the job has failed may take.
const FAIL_LIMIT: Duration = Duration::from_secs(30);

/// After this worker's last step: waits for the others as far as they may need each other. With
/// all-reduce, lost workers that are being started again are let in with the bytes that `give` makes, as
/// [`super::meet`] does. With a parameter store, a worker that has done all of its steps waits until all
/// have done theirs, unless workers wait for each other in every step anyway (`bsp`). True if what this
/// worker has is then older than what the store holds: read it again before it is saved. `Trainer` does.
pub fn settle(has_done_all: bool, mut give: impl FnMut() -> Result<Vec<u8>>) -> Result<bool> {
    let Some(job) = job()? else { return Ok(false) };
    match &job.how {
        How::Reduce(r, _) if job.place.replaces => {
            let mut give = || give().map_err(|e| dist::Error::value(e.to_string()));
            exchange(r).stay(&mut give, STAY_LIMIT).map(|()| false).map_err(failed)
        }
        How::Reduce(..) => Ok(false),
        How::Store(s) => exchange(s).store.settle(has_done_all && !job.place.rule.gathers()).map_err(failed),
    }
}
/// After [`settle`]: `save` writes the last checkpoint, if this worker [`writes_files`]; the others wait
/// until it is there, and one of them saves if its writer is lost. So nobody leaves whose last result
/// another might need.
pub fn finish(mut save: impl FnMut() -> Result<()>) -> Result<()> {
    save()?;
    let Some(job) = job()? else { return Ok(()) };
    match &job.how {
        How::Reduce(r, _) => {
            exchange(r).finish(SAVE_LIMIT).map_err(failed)?;
            save()
        }
        How::Store(s) => {
            let forever = Instant::now() + FOREVER;
            let is_written = || job.registrar.get(WRITTEN, forever).map(|(_, v)| v.is_some()).map_err(failed);
            // The writer may be far behind, where the rule allows that; or be lost, which the map says.
            while !writes_files()? && !is_written()? {
                exchanging(|| std::thread::sleep(GLANCE));
                lock(s).store.look().map_err(failed)?;
            }
            save()?;
            job.registrar.set(WRITTEN, b"1", forever).map_err(failed)
        }
    }
}
/// The run is complete, with everything that it had to save.
pub fn done() -> Result<()> {
    let Some(job) = job()? else { return Ok(()) };
    run_ends();
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
    let told = job.teller.set(&done_key(job.place.rank), end.encode().as_bytes());
    let _ = told.and_then(|()| exchanging(|| job.teller.flush()));
}

/// Tells the job that this worker's training has failed for good, as it has diverged: whoever is
/// started in its place fails as well, with this reason, instead of training on after the bad step.
/// `Trainer` calls it when the loss is NaN or infinite.
pub fn fail(why: &str) -> Result<()> {
    let Some(job) = job()? else { return Ok(()) };
    let why = format!("worker {}: {why}", job.place.rank);
    let told = job.registrar.compare_set(FAILED, None, why.as_bytes(), Instant::now() + FAIL_LIMIT);
    told.map(drop).map_err(failed)
}

/// An error if the job that this worker joins has failed.
pub(super) fn check(registrar: &Registrar, deadline: Instant) -> dist::Result<()> {
    match registrar.get(FAILED, deadline)?.1 {
        Some(why) => Err(dist::Error::Lost(format!("the job has failed: {}", String::from_utf8_lossy(&why)))),
        None => Ok(()),
    }
}
