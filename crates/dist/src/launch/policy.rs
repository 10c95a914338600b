//! What the end of a worker means, and when it is started again.

use crate::membership::status::End;
use std::process::ExitStatus;
use std::time::Duration;

/// The wait before the second restart in a row of a process that does nothing in its life, and the
/// longest; each is twice the one before.
const BACK_OFF: Duration = Duration::from_millis(250);
const BACK_OFF_MAX: Duration = Duration::from_secs(30);
/// A program that takes no part in the job and fails so soon has failed to start.
const START: Duration = Duration::from_secs(30);

/// What is known of a worker that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub status: ExitStatus,
    /// What it said of its end.
    pub said: Option<End>,
    pub has_joined: bool,
}

/// What the end of a worker means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has done its part.
    Done,
    /// It ended well without saying whether it has: after this many steps, if it said that.
    Left(Option<u64>),
    /// It ended well in the middle of a run.
    Early,
    /// It failed when its run was complete.
    After,
    /// It failed.
    Failed,
}

pub(crate) fn judge(e: Ended) -> Verdict {
    let is_killed = e.status.code().is_none();
    match (e.said, e.status.success()) {
        (Some(End::Done), true) => Verdict::Done,
        // Its part is in the result, and the checkpoint on disk.
        (Some(End::Done), false) if is_killed => Verdict::Done,
        (Some(End::Done), false) => Verdict::After,
        (_, false) => Verdict::Failed,
        (Some(End::Going), true) => Verdict::Early,
        (Some(End::Left(steps)), true) => Verdict::Left(Some(steps)),
        (None, true) if e.has_joined => Verdict::Left(None),
        (None, true) => Verdict::Done,
    }
}

/// Whether a failure is one of the program itself, which would fail again: with an exit code, before
/// any worker has done a step, and nothing happened to the job that would explain it.
pub(crate) fn is_start_failure(e: &Ended, age: Duration, any_stepped: bool, any_lost: bool) -> bool {
    e.status.code().is_some() && !any_stepped && !any_lost && (e.has_joined || age < START)
}

/// How long to wait before a process is started again that has done nothing in this many lives.
pub(crate) fn back_off(fruitless: u32) -> Duration {
    match fruitless {
        0 | 1 => Duration::ZERO,
        n => BACK_OFF.saturating_mul(1 << (n - 2).min(16)).min(BACK_OFF_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn ended(code: i32, said: Option<End>) -> Ended {
        let status = if code < 0 { ExitStatus::from_raw(-code) } else { ExitStatus::from_raw(code << 8) };
        Ended { status, said, has_joined: true }
    }

    #[test]
    fn an_end_is_judged_by_what_the_worker_has_done() {
        let all = [
            (ended(0, Some(End::Done)), Verdict::Done),
            (ended(-9, Some(End::Done)), Verdict::Done),
            (ended(1, Some(End::Done)), Verdict::After),
            (ended(0, Some(End::Going)), Verdict::Early),
            (ended(0, Some(End::Left(15))), Verdict::Left(Some(15))),
            (ended(0, None), Verdict::Left(None)),
            (Ended { has_joined: false, ..ended(0, None) }, Verdict::Done),
            (ended(1, Some(End::Going)), Verdict::Failed),
            (ended(-9, Some(End::Going)), Verdict::Failed),
            (ended(1, Some(End::Left(15))), Verdict::Failed),
        ];
        for (end, verdict) in all {
            assert_eq!(judge(end), verdict, "{end:?}");
        }
    }

    #[test]
    fn a_program_that_cannot_start_is_not_started_again() {
        let soon = Duration::from_secs(1);
        let fails = ended(2, None);
        assert!(is_start_failure(&fails, soon, false, false));
        assert!(!is_start_failure(&fails, soon, true, false), "it could start");
        assert!(!is_start_failure(&fails, soon, false, true), "another was killed, and it with it");
        assert!(!is_start_failure(&ended(-9, None), soon, false, false), "it was killed");
        let stranger = Ended { has_joined: false, ..fails };
        assert!(is_start_failure(&stranger, soon, false, false));
        assert!(!is_start_failure(&stranger, Duration::from_secs(3600), false, false), "who knows what it did");
    }

    #[test]
    fn restarts_wait_longer_each_time() {
        let waits: Vec<u128> = (0..6).map(|n| back_off(n).as_millis()).collect();
        assert_eq!(waits, [0, 0, 250, 500, 1000, 2000]);
        assert_eq!(back_off(u32::MAX), BACK_OFF_MAX);
    }
}
