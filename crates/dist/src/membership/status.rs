//! What a worker says of itself while it runs, and how the workers of a job agree on a last step.
//!
//! A heartbeat says that a process lives. Its *pulse* says whether it moves: a worker that computes
//! for ever still has a heartbeat, but its pulse stands, while those who wait for it say that they wait.
//!
//! **Stopping.** Whoever wants the job to stop sets [`STOP`]. Each worker's [`Gate`] then closes: no step
//! begins any more, and the worker says which one it had begun. The greatest of these is the last step
//! for everybody ([`LAST`]): nobody has passed it, and everybody can reach it. No main thread takes part
//! until then, so that workers that wait for each other in the middle of a step agree all the same.

use crate::membership::Member;
use crate::membership::publisher::FOREVER;
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::time::Instant;

/// Key under which a worker's pulse is; it vanishes with the worker.
pub fn status_key(rank: u32) -> String {
    format!("pulse/{rank}")
}
/// Key under which a worker says whether it is done: see [`End`].
pub fn done_key(rank: u32) -> String {
    format!("done/{rank}")
}
/// Key under which a worker says which step it had begun when the stop was asked for, or `-` if it
/// is not in a loop that can stop.
pub fn begun_key(rank: u32) -> String {
    format!("begun/{rank}")
}
/// Key by which anybody asks all workers to stop at a common step.
pub const STOP: &str = "stop";
/// Key of that step.
pub const LAST: &str = "last";
/// Key that says that some worker has done a step, or called a collective.
pub const STEPPED: &str = "stepped";
/// Key of the newest checkpoint that is on disk: its step and its path.
pub const SAVED: &str = "saved";

/// Key of why the job has failed for good, if it has: nobody is started again.
pub const FAILED: &str = "failed";

/// What a worker does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// Its own code runs.
    #[default]
    Computing,
    /// It waits for other processes.
    Waiting,
    /// It writes a checkpoint.
    Saving,
}

/// Whether a worker is in a loop that says when it is done, as `Trainer` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Run {
    /// It was in none yet.
    #[default]
    None,
    /// It is in one.
    Going,
    /// It has ended one.
    Done,
}

/// A worker's pulse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Changes whenever the worker begins or ends an exchange with others.
    pub moves: u64,
    /// Exchanges that all workers take part in: reductions, or steps of the store.
    pub steps: u64,
    /// Of the workers, how many were missing from these, summed up.
    pub missed: u64,
    /// Collectives that the program itself has called.
    pub collectives: u64,
    /// What it does now.
    pub doing: Activity,
    /// Whether it will say when it is done.
    pub run: Run,
}

impl Status {
    /// As text.
    pub fn encode(&self) -> String {
        let doing = match self.doing {
            Activity::Computing => 'c',
            Activity::Waiting => 'w',
            Activity::Saving => 's',
        };
        let run = match self.run {
            Run::None => 'n',
            Run::Going => 'g',
            Run::Done => 'd',
        };
        format!("{} {} {} {} {doing}{run}", self.moves, self.steps, self.missed, self.collectives)
    }
    /// From text; `None` if it is no pulse.
    pub fn decode(bytes: &[u8]) -> Option<Status> {
        let mut words = std::str::from_utf8(bytes).ok()?.split(' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (moves, steps, missed, collectives) = (number()?, number()?, number()?, number()?);
        let (doing, run) = match words.next()?.as_bytes() {
            &[doing, run] => (doing, run),
            _ => return None,
        };
        let doing = match doing {
            b'c' => Activity::Computing,
            b'w' => Activity::Waiting,
            b's' => Activity::Saving,
            _ => return None,
        };
        let run = match run {
            b'n' => Run::None,
            b'g' => Run::Going,
            b'd' => Run::Done,
            _ => return None,
        };
        Some(Status { moves, steps, missed, collectives, doing, run })
    }
}

/// What a worker says of its run, at once: a pulse may come too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A run is under way that will say when it is complete.
    Going,
    /// Its run is complete, the last checkpoint included.
    Done,
    /// The program ended without a run, after so many steps.
    Left(u64),
}
impl End {
    /// As text.
    pub fn encode(self) -> String {
        match self {
            End::Going => "going".to_string(),
            End::Done => "done".to_string(),
            End::Left(steps) => format!("left {steps}"),
        }
    }
    /// From text; `None` if it says nothing.
    pub fn decode(bytes: &[u8]) -> Option<End> {
        match std::str::from_utf8(bytes).ok()? {
            "going" => Some(End::Going),
            "done" => Some(End::Done),
            text => text.strip_prefix("left ")?.parse().ok().map(End::Left),
        }
    }
}

#[derive(Default)]
struct Steps {
    /// The step that was begun last, if the worker is in a loop that asks.
    begun: Option<u64>,
    is_closed: bool,
    last: Option<u64>,
    /// Nobody can say any more what the last step is.
    is_lost: bool,
}

/// Where a loop asks before each step whether it goes on.
#[derive(Default)]
pub struct Gate {
    steps: Mutex<Steps>,
    bell: Condvar,
}

impl Gate {
    /// A loop begins that asks before each step.
    pub fn enter(&self, step: u64) {
        self.steps.lock().begun = Some(step);
    }
    /// The loop has ended.
    pub fn leave(&self) {
        self.steps.lock().begun = None;
    }
    /// Before a step: whether it is to be done. Waits while the workers agree on a last one.
    pub fn goes_on(&self, step: u64) -> bool {
        let mut s = self.steps.lock();
        while s.is_closed && s.last.is_none() && !s.is_lost {
            self.bell.wait(&mut s);
        }
        let goes_on = s.last.is_none_or(|last| step <= last);
        if goes_on {
            s.begun = Some(step);
        }
        goes_on
    }
    /// True if a stop was asked for and nobody has said yet which step is the last.
    pub fn is_deciding(&self) -> bool {
        let s = self.steps.lock();
        s.is_closed && s.last.is_none() && !s.is_lost
    }
    /// True if a stop was asked for.
    pub fn is_closed(&self) -> bool {
        self.steps.lock().is_closed
    }
    fn close(&self) -> Option<u64> {
        let mut s = self.steps.lock();
        s.is_closed = true;
        s.begun
    }
    fn decide(&self, last: u64) {
        self.steps.lock().last = Some(last);
        self.bell.notify_all();
    }
    /// The membership store is gone: whoever waits goes on, and finds out.
    pub fn give_up(&self) {
        self.steps.lock().is_lost = true;
        self.bell.notify_all();
    }

    /// Looks whether a stop was asked for, and takes part in the agreement if it was; called now and
    /// then from a thread of its own.
    pub fn attend(&self, line: &Member, rank: u32, world: u32) -> Result<()> {
        let by = || Instant::now() + FOREVER;
        if !self.is_closed() {
            if line.get(STOP, by())?.1.is_none() {
                return Ok(());
            }
            let begun = self.close().map_or_else(|| "-".to_string(), |step| step.to_string());
            line.set(&begun_key(rank), begun.as_bytes(), by())?;
        }
        if !self.is_deciding() {
            return Ok(());
        }
        if let Some(last) = number(line.get(LAST, by())?.1) {
            self.decide(last);
            return Ok(());
        }
        // The first of those that live counts; should it die, the next one does.
        let lives = |r: u32| Ok::<bool, Error>(line.get(&status_key(r), by())?.1.is_some());
        for r in 0..rank {
            if lives(r)? {
                return Ok(());
            }
        }
        let mut last = 0;
        for r in rank..world {
            match line.get(&begun_key(r), by())?.1 {
                Some(text) => last = last.max(number(Some(text)).unwrap_or(0)),
                None if lives(r)? => return Ok(()),
                None => {}
            }
        }
        // Two may count if one of them was taken for dead: what was written first holds.
        let held = line.compare_set(LAST, None, last.to_string().as_bytes(), by())?;
        number(held).into_iter().for_each(|last| self.decide(last));
        Ok(())
    }
}

fn number(text: Option<Vec<u8>>) -> Option<u64> {
    String::from_utf8(text?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_reads_back() {
        for (doing, run) in
            [(Activity::Computing, Run::None), (Activity::Waiting, Run::Going), (Activity::Saving, Run::Done)]
        {
            let p = Status { moves: 7, steps: 3, missed: 1, collectives: 2, doing, run };
            assert_eq!(Status::decode(p.encode().as_bytes()), Some(p));
        }
        for bad in ["", "1 2 3", "1 2 3 4", "1 2 3 4 c", "1 2 3 4 xx", "a 2 3 4 cn"] {
            assert_eq!(Status::decode(bad.as_bytes()), None, "{bad:?}");
        }
        for end in [End::Going, End::Done, End::Left(15)] {
            assert_eq!(End::decode(end.encode().as_bytes()), Some(end));
        }
        assert_eq!(End::decode(b"1"), None);
    }

    #[test]
    fn nobody_passes_the_last_step_and_everybody_reaches_it() {
        use crate::{Controller, EmbeddedCoordinator};
        use net::Hello;
        use std::sync::Arc;
        let c = EmbeddedCoordinator::start(&"127.0.0.1:0".parse().unwrap(), None, Controller::new(3, 0, 1), |_| {})
            .unwrap();
        let gates: Vec<Arc<Gate>> = (0..3).map(|_| Arc::default()).collect();
        let lines: Vec<Member> = (0..3)
            .map(|r| {
                let line = Member::connect(c.address(), &Hello::new("worker", r), None, Instant::now() + FOREVER);
                let line = line.unwrap();
                line.lease(&status_key(r), b"", Instant::now() + FOREVER).unwrap();
                line
            })
            .collect();
        // Worker 2 has not begun to train when the others are in steps 4 and 5.
        gates[0].enter(0);
        assert!(gates[0].goes_on(4));
        gates[1].enter(0);
        assert!(gates[1].goes_on(5));
        c.publish(STOP, b"1").unwrap();
        let waiting = gates[0].clone();
        for (r, line) in lines.iter().enumerate().rev() {
            assert!(!gates[r].is_closed());
            gates[r].attend(line, r as u32, 3).unwrap();
        }
        assert!(!gates[0].is_deciding() && gates[1].is_deciding());
        let does = std::thread::spawn(move || (waiting.goes_on(5), waiting.goes_on(6)));
        assert_eq!(does.join().unwrap(), (true, false));
        for r in 1..3 {
            gates[r].attend(&lines[r], r as u32, 3).unwrap();
        }
        assert!(!gates[1].goes_on(6) && gates[2].goes_on(1) && !gates[2].goes_on(6));
    }
}
