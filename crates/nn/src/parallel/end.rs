//! How a worker's part in a job ends: with everybody's last updates, or with a failure that nobody
//! must train past.

use super::{How, TELL_LIMIT, failed, job, lock};
use dist::{Consistency, Registrar};
use std::time::Instant;
use tensor::Result;

/// Key of why the job has failed, if it has.
const FAILED: &str = "failed";

/// After this worker's last step: tells the others, and if it has done all of its steps and workers do
/// not wait for each other in every one (`ssp:S`, `async`), waits until all have done theirs. True if
/// what this worker has is then older than what the store holds: read it again before it is saved.
/// `Trainer` does.
pub fn settle(has_done_all: bool) -> Result<bool> {
    let Some(job) = job()? else { return Ok(false) };
    let How::Store(shared) = &job.how else { return Ok(false) };
    lock(shared).store.settle(has_done_all && !job.place.rule.gathers()).map_err(failed)
}

/// Tells the job that this worker's training has failed for good, as it has diverged: whoever is
/// started in its place fails as well, with this reason, instead of training on after the bad step.
/// `Trainer` calls it when the loss is NaN or infinite.
pub fn fail(why: &str) -> Result<()> {
    let Some(job) = job()? else { return Ok(()) };
    let why = format!("worker {}: {why}", job.place.rank);
    let told = job.registrar.compare_set(FAILED, None, why.as_bytes(), Instant::now() + TELL_LIMIT);
    told.map(drop).map_err(failed)
}

/// An error if the job that this worker joins has failed.
pub(super) fn check(registrar: &Registrar, deadline: Instant) -> dist::Result<()> {
    match registrar.get(FAILED, deadline)?.1 {
        Some(why) => Err(dist::Error::Lost(format!("the job has failed: {}", String::from_utf8_lossy(&why)))),
        None => Ok(()),
    }
}
