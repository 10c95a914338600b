//! What a worker says of itself while it runs, and how the workers of a job agree on a last step.
//!
//! A heartbeat says that a process lives. Its *pulse* says whether it moves: a worker that computes
//! for ever still has a heartbeat, but its pulse stands, while those who wait for it say that they wait.
//!
//! **Stopping.** A process that wants the job to stop sets [`STOP`]. Each worker's [`Gate`] then closes: no step
//! begins any more, and the worker says which one it had begun. The greatest of these is the last step
//! for all ([`LAST`], [`last_step`]): no worker has passed it, and every worker can reach it. No main thread takes
//! part until then, so that workers that wait for each other in the middle of a step agree all the same.
//!
//! **Workers that are lost when the stop comes.** With a parameter store, what a worker has done is in the store, also
//! if it was ahead of the others; without one it died with the worker.
//!
//! | worker | counts as |
//! |---|---|
//! | dead, to be replaced, with a store | the steps that the store has of it: its replacement says them when it has joined, which ends what its former life may still have on its way |
//! | given up, with a store | the steps that the store has of it |
//! | dead, without a store | nothing: it will be told what the others know |

use crate::Result;
use crate::launch::{BEGAN, CLOCKS};
use crate::membership::Member;
use crate::membership::controller::left_key;
use crate::membership::publisher::FOREVER;
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
/// Key by which any process asks all workers to stop at a common step.
pub const STOP: &str = "stop";
/// Key of that step.
pub const LAST: &str = "last";
/// Key that says that some worker has done a step, or called a collective.
pub const STEPPED: &str = "stepped";
/// Key of the newest checkpoint that is on disk: its step and its path.
pub const SAVED: &str = "saved";

/// Key of why the job has failed for good, if it has: no process is restarted.
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
    /// A run is in progress that will say when it is complete.
    Going,
    /// Its run is complete, the last checkpoint included.
    Done,
    /// The program ended without a run, after this many steps.
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
    /// The others know which step was begun.
    is_told: bool,
    last: Option<u64>,
    /// The last step cannot be determined any more.
    is_lost: bool,
}

/// What is known of a worker after a stop was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// No worker has done more steps than these, and every worker can do as many: it had begun the last of them, or has
    /// done them all if it replaces another.
    Steps(u64),
    /// It is in no loop that can stop, and has done nothing that lasts.
    Outside,
    /// It will say something: it lives, or is to be replaced.
    Awaited,
}

/// The last step of all workers, when all that will say something have.
pub fn last_step(words: &[Word]) -> Option<u64> {
    let steps = words.iter().map(|w| match w {
        Word::Steps(steps) => Some(*steps),
        Word::Outside => Some(0),
        Word::Awaited => None,
    });
    steps.collect::<Option<Vec<u64>>>().map(|all| all.into_iter().max().unwrap_or(0))
}

/// Where a loop asks before each step whether it goes on.
#[derive(Default)]
pub struct Gate {
    steps: Mutex<Steps>,
    bell: Condvar,
}

impl Gate {
    /// A loop begins that asks before each step, when this many are done. A worker that replaces another may know of more.
    pub fn enter(&self, step: u64) {
        let mut s = self.steps.lock();
        s.begun = Some(s.begun.map_or(step, |begun| begun.max(step)));
    }
    /// This worker has joined a parameter store that has this many steps of it, be the last one only begun. If it replaces one that was in a loop,
    /// that is what it says when it is asked: it may not come to its loop before the others have gone on.
    pub fn rejoin(&self, line: &Member, rank: u32, done: u64, deadline: Instant) -> Result<()> {
        if is_going(line.get(&done_key(rank), deadline)?.1) {
            // Before any worker knows which step the store counts from, none has done a step.
            let first = number(line.get(BEGAN, deadline)?.1);
            first.into_iter().for_each(|first| self.enter(first + done));
        }
        Ok(())
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
    /// True if a stop was asked for and the last step is not decided yet.
    pub fn is_deciding(&self) -> bool {
        let s = self.steps.lock();
        s.is_closed && s.last.is_none() && !s.is_lost
    }
    /// True if the workers have agreed on a last step.
    pub fn is_decided(&self) -> bool {
        self.steps.lock().last.is_some()
    }
    /// True if a stop was asked for.
    pub fn is_closed(&self) -> bool {
        self.steps.lock().is_closed
    }
    fn is_told(&self) -> bool {
        self.steps.lock().is_told
    }
    /// Begins no more steps; the one that was begun last.
    fn close(&self) -> Option<u64> {
        let mut s = self.steps.lock();
        s.is_closed = true;
        s.begun
    }
    fn decide(&self, last: u64) {
        self.steps.lock().last = Some(last);
        self.bell.notify_all();
    }
    /// The membership store is gone: waiting threads continue, and notice.
    pub fn give_up(&self) {
        self.steps.lock().is_lost = true;
        self.bell.notify_all();
    }

    /// Looks whether a stop was asked for, and takes part in the agreement of this many workers if it was; called now
    /// and then from a separate thread.
    pub fn attend(&self, line: &Member, rank: u32, world: u32, has_store: bool) -> Result<()> {
        if !self.is_closed() {
            if line.get(STOP, by())?.1.is_none() {
                return Ok(());
            }
            self.close();
        }
        if !self.is_deciding() {
            return Ok(());
        }
        if !self.is_told() {
            let begun = self.close();
            // A worker that takes the place of one in a loop will be in it too, at a step that is known only then.
            if begun.is_none() && is_going(line.get(&done_key(rank), by())?.1) {
                return Ok(());
            }
            let begun = begun.map_or_else(|| "-".to_string(), |step| step.to_string());
            line.set(&begun_key(rank), begun.as_bytes(), by())?;
            self.steps.lock().is_told = true;
        }
        if let Some(last) = number(line.get(LAST, by())?.1) {
            self.decide(last);
            return Ok(());
        }
        // The first of those that live counts; should it die, the next one does.
        for r in 0..rank {
            if lives(line, r)? {
                return Ok(());
            }
        }
        let mut words = Vec::with_capacity(world as usize);
        for r in 0..world {
            words.push(word_of(line, r, has_store)?);
            if words.last() == Some(&Word::Awaited) {
                return Ok(());
            }
        }
        let Some(last) = last_step(&words) else { return Ok(()) };
        // Two may count if one of them was taken for dead: what was written first holds.
        let held = line.compare_set(LAST, None, last.to_string().as_bytes(), by())?;
        number(held).into_iter().for_each(|last| self.decide(last));
        Ok(())
    }
}

fn by() -> Instant {
    Instant::now() + FOREVER
}
fn lives(line: &Member, rank: u32) -> Result<bool> {
    Ok(line.get(&status_key(rank), by())?.1.is_some())
}
fn is_going(said: Option<Vec<u8>>) -> bool {
    said.and_then(|text| End::decode(&text)) == Some(End::Going)
}

/// What is known of a worker.
fn word_of(line: &Member, rank: u32, has_store: bool) -> Result<Word> {
    if let Some(text) = line.get(&begun_key(rank), by())?.1 {
        return Ok(number(Some(text)).map_or(Word::Outside, Word::Steps));
    }
    if lives(line, rank)? {
        return Ok(Word::Awaited);
    }
    if !has_store {
        return Ok(Word::Outside);
    }
    if line.get(&left_key(rank), by())?.1.is_some() {
        // The map without it has ended what it may have had on its way.
        let settled = line.get(CLOCKS, by())?.1.and_then(|text| String::from_utf8(text).ok());
        let done = settled.and_then(|s| s.split(' ').nth(rank as usize)?.parse::<u64>().ok());
        let first = number(line.get(BEGAN, by())?.1).unwrap_or(0);
        return Ok(done.map_or(Word::Outside, |done| Word::Steps(first + done)));
    }
    let comes = is_going(line.get(&done_key(rank), by())?.1);
    Ok(if comes { Word::Awaited } else { Word::Outside })
}

fn number(text: Option<Vec<u8>>) -> Option<u64> {
    String::from_utf8(text?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Controller, Coordinator, EmbeddedCoordinator};
    use net::Hello;

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

    struct Stop {
        coordinator: EmbeddedCoordinator,
        gates: Vec<Gate>,
        lines: Vec<Option<Member>>,
        has_store: bool,
    }
    impl Stop {
        fn of(workers: u32, has_store: bool) -> Stop {
            let (at, controller) = ("127.0.0.1:0".parse().unwrap(), Controller::new(workers as usize, 0, 1));
            let coordinator = EmbeddedCoordinator::start(&at, None, controller, |_| {}).unwrap();
            let mut stop = Stop { coordinator, gates: Vec::new(), lines: Vec::new(), has_store };
            for r in 0..workers {
                stop.gates.push(Gate::default());
                stop.lines.push(None);
                stop.begins(r);
            }
            stop
        }
        /// A worker comes, or one in its place.
        fn begins(&mut self, rank: u32) {
            let hello = Hello::new("worker", rank);
            let line = Member::connect(self.coordinator.address(), &hello, None, by()).unwrap();
            line.lease(&status_key(rank), b"", by()).unwrap();
            (self.gates[rank as usize], self.lines[rank as usize]) = (Gate::default(), Some(line));
        }
        /// As `run_begins` does, before the first step.
        fn enters(&self, rank: u32, step: u64) {
            self.gates[rank as usize].enter(step);
            self.says(&done_key(rank), &End::Going.encode());
        }
        fn dies(&mut self, rank: u32) {
            self.lines[rank as usize].take().unwrap().close();
            while self.coordinator.get(&status_key(rank)).is_some() {
                std::thread::yield_now();
            }
        }
        fn says(&self, key: &str, value: &str) {
            self.coordinator.publish(key, value.as_bytes()).unwrap();
        }
        fn asks(&self) {
            self.says(STOP, "1");
        }
        /// All attend until nothing changes any more; the step that they have agreed on.
        fn agree(&self) -> Option<u64> {
            for _ in 0..3 {
                for (r, line) in self.lines.iter().enumerate().rev() {
                    let attend = |line| self.gates[r].attend(line, r as u32, self.lines.len() as u32, self.has_store);
                    line.as_ref().map(attend).transpose().unwrap();
                }
            }
            let last = number(self.coordinator.get(LAST));
            let decided = |(g, _): (&Gate, _)| g.steps.lock().last == last;
            assert!(self.gates.iter().zip(&self.lines).filter(|(_, l)| l.is_some()).all(decided));
            last
        }
    }

    #[test]
    fn nobody_passes_the_last_step_and_everybody_reaches_it() {
        let stop = Stop::of(3, false);
        // Worker 2 has not begun to train when the others are in steps 4 and 5.
        stop.enters(0, 0);
        assert!(stop.gates[0].goes_on(4));
        stop.enters(1, 0);
        assert!(stop.gates[1].goes_on(5));
        stop.asks();
        assert!(stop.gates.iter().all(|g| !g.is_closed()));
        assert_eq!(stop.agree(), Some(5));
        assert!(stop.gates[0].goes_on(5) && !stop.gates[0].goes_on(6));
        assert!(!stop.gates[1].goes_on(6) && stop.gates[2].goes_on(1) && !stop.gates[2].goes_on(6));
    }

    #[test]
    fn a_gate_waits_for_the_agreement() {
        let stop = Stop::of(2, false);
        (0..2).for_each(|r| stop.enters(r, 0));
        assert!(stop.gates[0].goes_on(4) && stop.gates[1].goes_on(5));
        stop.asks();
        stop.gates[0].attend(stop.lines[0].as_ref().unwrap(), 0, 2, false).unwrap();
        assert!(stop.gates[0].is_deciding() && !stop.gates[0].is_decided());
        std::thread::scope(|threads| {
            let waits = threads.spawn(|| (stop.gates[0].goes_on(5), stop.gates[0].goes_on(6)));
            assert_eq!(stop.agree(), Some(5));
            assert_eq!(waits.join().unwrap(), (true, false));
        });
    }

    /// Both workers were replaced just before the stop: the last step is not 0, but the greater of those at which they
    /// enter their loops again.
    #[test]
    fn replaced_workers_agree_on_a_step_when_they_are_in_their_loops_again() {
        let stop = Stop::of(2, false);
        // What their lives before have said.
        (0..2).for_each(|r| stop.says(&done_key(r), &End::Going.encode()));
        stop.asks();
        assert_eq!(stop.agree(), None);
        stop.enters(0, 615);
        assert_eq!(stop.agree(), None);
        stop.enters(1, 616);
        assert_eq!(stop.agree(), Some(616));
        assert!(stop.gates[0].goes_on(616) && !stop.gates[0].goes_on(617) && !stop.gates[1].goes_on(617));
    }

    /// A worker is dead and ahead of the others when the stop comes, whatever its rank. Under bsp the store has at most
    /// one step more of it, under ssp and async more: its replacement says how many when it has joined the store.
    #[test]
    fn a_dead_worker_that_was_ahead_is_asked_through_its_replacement() {
        for (dead, ahead) in [(0, 1), (1, 1), (2, 1), (0, 3), (2, 40)] {
            let mut stop = Stop::of(3, true);
            stop.says(BEGAN, "20");
            for r in 0..3 {
                stop.enters(r, 20);
                assert!(stop.gates[r as usize].goes_on(25));
            }
            stop.dies(dead);
            stop.asks();
            assert_eq!(stop.agree(), None, "worker {dead} is to be replaced");
            stop.begins(dead);
            assert_eq!(stop.agree(), None, "the replacement of worker {dead} has not joined the store");
            let (line, gate) = (stop.lines[dead as usize].as_ref().unwrap(), &stop.gates[dead as usize]);
            gate.rejoin(line, dead, 5 + ahead, by()).unwrap();
            assert_eq!(stop.agree(), Some(25 + ahead), "worker {dead}, {ahead} ahead");
            // Its program begins as in its first life, at a checkpoint that is older.
            stop.enters(dead, 20);
            assert!(stop.gates.iter().all(|g| g.goes_on(25 + ahead) && !g.goes_on(26 + ahead)));
        }
    }

    /// What a worker that was given up has done is in the store; without a store it is gone.
    #[test]
    fn steps_of_a_worker_that_was_given_up_count_if_they_are_in_a_store() {
        for (has_store, last) in [(true, 31), (false, 25)] {
            let mut stop = Stop::of(2, has_store);
            stop.says(BEGAN, "20");
            stop.enters(0, 20);
            stop.enters(1, 20);
            assert!(stop.gates[1].goes_on(25));
            stop.dies(0);
            stop.says(CLOCKS, "11 4");
            stop.asks();
            if has_store {
                assert_eq!(stop.agree(), None);
            }
            stop.says(&left_key(0), "lost");
            assert_eq!(stop.agree(), Some(last));
        }
    }

    #[test]
    fn a_worker_that_said_its_step_and_died_counts_whatever_its_rank() {
        for dead in [0, 1] {
            let mut stop = Stop::of(2, true);
            for r in 0..2 {
                stop.enters(r, 0);
                assert!(stop.gates[r as usize].goes_on(if r == dead { 9 } else { 7 }));
            }
            stop.asks();
            stop.gates[dead as usize].attend(stop.lines[dead as usize].as_ref().unwrap(), dead, 2, true).unwrap();
            stop.dies(dead);
            assert_eq!(stop.agree(), Some(9));
        }
    }

    /// Who replaces a worker of a program without a loop that asks has nothing to say.
    #[test]
    fn a_program_without_a_loop_has_no_step() {
        let stop = Stop::of(1, true);
        stop.says(BEGAN, "0");
        stop.gates[0].rejoin(stop.lines[0].as_ref().unwrap(), 0, 12, by()).unwrap();
        stop.asks();
        stop.agree();
        assert_eq!(stop.coordinator.get(&begun_key(0)).as_deref(), Some(&b"-"[..]));
    }
}
