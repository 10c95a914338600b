//! Who moves, who waits and who hangs, judged by the workers' pulses. Time is given, not taken.

use crate::membership::status::{Activity, Run, Status};
use std::time::{Duration, Instant};

/// How many workers' step times are remembered for the median.
const TIMES: usize = 31;
/// The least limit that is derived, and how many median steps it is otherwise.
const HANG_MIN: Duration = Duration::from_secs(60);
const HANG_STEPS: u32 = 20;
/// Writing a checkpoint may take so long.
const SAVE_LIMIT: Duration = Duration::from_secs(3600);
/// A launcher that checks less often than this was stopped itself.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// When nothing has moved for so long, that is said.
const STALL: Duration = Duration::from_secs(10);

/// When a worker that does not move is taken for hung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hang {
    /// Never.
    Off,
    /// When others have waited for it for 20 median steps, at least a minute, at most 0.8 times
    /// what a call may take, after which those who wait would fail.
    Auto {
        /// What a call may take.
        timeout: Duration,
    },
    /// When it has not moved for so long, whether others wait for it or not.
    After(Duration),
}

/// One life of a worker.
#[derive(Clone, Debug)]
struct Vitals {
    pulse: Option<Status>,
    /// When it last moved; before it has joined, when it was started.
    moved: Instant,
    /// Steps it had when it joined.
    first: u64,
    /// How often it has printed something.
    words: u64,
    is_running: bool,
    is_done: bool,
    /// What earlier lives have missed.
    missed: u64,
}

impl Vitals {
    fn new(missed: u64, now: Instant) -> Vitals {
        Vitals { pulse: None, moved: now, first: 0, words: 0, is_running: true, is_done: false, missed }
    }
}

/// The workers of a job.
pub(crate) struct Health {
    hang: Hang,
    /// How long a worker whose training is done may neither end nor print anything.
    exit: Option<Duration>,
    workers: Vec<Vitals>,
    times: Vec<Duration>,
    /// The greatest number of steps that any worker has told,
    steps: u64,
    /// and whether any has called a collective.
    any_collective: bool,
    /// How long nothing must move until that is said again.
    next_word: Duration,
    /// When the workers were last checked.
    looked: Instant,
}

/// A worker that hangs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stuck {
    pub rank: u32,
    pub why: String,
    /// Its training is done: it is not replaced.
    pub is_done: bool,
}

impl Health {
    pub fn new(hang: Hang, exit: Option<Duration>, workers: u32, now: Instant) -> Health {
        let workers = vec![Vitals::new(0, now); workers as usize];
        Health {
            hang,
            exit,
            workers,
            times: Vec::new(),
            steps: 0,
            any_collective: false,
            next_word: STALL,
            looked: now,
        }
    }
    /// Before the pulses are read. What passed while the launcher itself was stopped is no idleness of the workers.
    pub fn looks(&mut self, now: Instant) {
        let gap = now - std::mem::replace(&mut self.looked, now);
        if gap > LOOK_MAX {
            self.workers.iter_mut().for_each(|v| v.moved = (v.moved + gap).min(now));
        }
    }
    /// A worker is started, perhaps again.
    pub fn begins(&mut self, rank: u32, now: Instant) {
        let Some(v) = self.workers.get_mut(rank as usize) else { return };
        let missed = v.missed + v.pulse.map_or(0, |p| p.missed);
        *v = Vitals::new(missed, now);
    }
    /// How often a worker has printed something. After its training that is its only sign of life.
    pub fn speaks(&mut self, rank: u32, words: u64, now: Instant) {
        let Some(v) = self.workers.get_mut(rank as usize) else { return };
        if std::mem::replace(&mut v.words, words) != words && v.pulse.is_some_and(|p| p.run == Run::Done) {
            v.moved = now;
        }
    }
    /// A worker has ended.
    pub fn ends(&mut self, rank: u32, is_done: bool) {
        let Some(v) = self.workers.get_mut(rank as usize) else { return };
        (v.is_running, v.is_done) = (false, is_done);
    }
    /// A worker's pulse, as it is now.
    pub fn hears(&mut self, rank: u32, pulse: Status, now: Instant) {
        let Some(v) = self.workers.get_mut(rank as usize).filter(|v| v.is_running) else { return };
        let before = v.pulse.replace(pulse);
        self.any_collective |= pulse.collectives > 0;
        let Some(before) = before else {
            (v.moved, v.first) = (now, pulse.steps);
            return;
        };
        if before == pulse {
            return;
        }
        let (took, steps) = (now - v.moved, pulse.steps.saturating_sub(before.steps));
        v.moved = now;
        self.next_word = STALL;
        self.steps = self.steps.max(pulse.steps);
        if let Ok(steps) = u32::try_from(steps)
            && steps > 0
        {
            if self.times.len() >= TIMES {
                self.times.remove(0);
            }
            self.times.push(took / steps);
        }
    }
    pub fn has_joined(&self, rank: u32) -> bool {
        self.workers.get(rank as usize).is_some_and(|v| v.pulse.is_some())
    }
    /// Whether a worker has done a step in its present life.
    pub fn has_stepped(&self, rank: u32) -> bool {
        self.workers.get(rank as usize).is_some_and(|v| v.pulse.is_some_and(|p| p.steps > v.first || p.collectives > 0))
    }
    /// Whether any worker has ever done a step.
    pub fn any_stepped(&self) -> bool {
        self.steps > 0 || self.any_collective
    }
    /// The most steps that any other worker is known to have done.
    pub fn steps_of_others(&self, rank: u32) -> u64 {
        let others = self.workers.iter().enumerate().filter(|(r, _)| *r != rank as usize);
        others.filter_map(|(_, v)| v.pulse.map(|p| p.steps)).max().unwrap_or(0)
    }
    /// How long no worker has moved.
    pub fn still(&self, now: Instant) -> Duration {
        let last = self.workers.iter().filter(|v| v.is_running).map(|v| v.moved).max();
        last.map_or(Duration::ZERO, |at| now - at)
    }
    /// Whether a worker writes a checkpoint.
    pub fn saves(&self) -> bool {
        self.workers.iter().any(|v| v.is_running && v.pulse.is_some_and(|p| p.doing == Activity::Saving))
    }
    /// The share of the data that was left out: steps that workers had no part in.
    pub fn missed(&self) -> f64 {
        let all = (self.steps * self.workers.len() as u64).max(1) as f64;
        // Under all-reduce every participant counts the members that are missing.
        let counted = self.workers.iter().map(|v| v.missed + v.pulse.map_or(0, |p| p.missed)).max().unwrap_or(0);
        // With a store a worker that is given up is behind the others.
        let lost = self.workers.iter().filter(|v| !v.is_running && !v.is_done);
        let behind: u64 = lost.map(|v| self.steps - v.pulse.map_or(0, |p| p.steps).min(self.steps)).sum();
        (counted.max(behind) as f64 / all).min(1.0)
    }

    fn median(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    }
    /// How long a worker may not move, and whether that counts only if others wait for it.
    fn limit(&self) -> Option<(Duration, bool)> {
        match self.hang {
            Hang::Off => None,
            Hang::Auto { timeout } => {
                Some(((HANG_STEPS * self.median()).max(HANG_MIN).min(timeout.mul_f64(0.8)), true))
            }
            Hang::After(limit) => Some((limit, false)),
        }
    }
    /// Workers that hang now.
    pub fn stuck(&self, now: Instant) -> Vec<Stuck> {
        let mut all = self.stuck_at_the_end(now);
        all.extend(self.stuck_in_steps(now));
        all
    }
    /// Workers whose training is done and that do not end.
    fn stuck_at_the_end(&self, now: Instant) -> Vec<Stuck> {
        let Some(limit) = self.exit else { return Vec::new() };
        let is_after = |v: &Vitals| v.pulse.is_some_and(|p| p.run == Run::Done && p.doing == Activity::Computing);
        let all = self.workers.iter().enumerate().filter(|(_, v)| v.is_running && is_after(v));
        let stuck = all.filter(|(_, v)| now - v.moved > limit).map(|(rank, v)| {
            let idle = (now - v.moved).as_secs_f64();
            let why = format!("worker {rank} is done with its training, but has neither ended nor printed anything");
            Stuck { rank: rank as u32, why: format!("{why} for {idle:.0} s"), is_done: true }
        });
        stuck.collect()
    }
    fn stuck_in_steps(&self, now: Instant) -> Vec<Stuck> {
        let Some((limit, needs_waiters)) = self.limit() else { return Vec::new() };
        let waits = |v: &Vitals| v.is_running && v.pulse.is_some_and(|p| p.doing == Activity::Waiting);
        let all = || self.workers.iter().enumerate();
        let mut out = Vec::new();
        for (rank, v) in all().filter(|(_, v)| v.is_running) {
            let idle = now - v.moved;
            let waiting: Vec<usize> = all().filter(|(r, o)| *r != rank && waits(o)).map(|(r, _)| r).collect();
            let is_wanted = !waiting.is_empty() || all().any(|(r, o)| r != rank && o.is_done);
            let hangs = match v.pulse {
                // Others wait until it joins; how long that takes is the program's own affair.
                None => match self.hang {
                    Hang::Auto { timeout } => idle > timeout.mul_f64(0.8) && !waiting.is_empty(),
                    _ => idle > limit.max(HANG_MIN) && !waiting.is_empty(),
                },
                Some(p) if p.doing == Activity::Waiting || p.run == Run::Done => false,
                Some(p) if p.doing == Activity::Saving => idle > limit.max(SAVE_LIMIT),
                Some(_) => idle > limit && (is_wanted || !needs_waiters),
            };
            if hangs {
                let who = if waiting.is_empty() { String::new() } else { format!(" and {} for it", wait(&waiting)) };
                let why = format!("worker {rank} has not moved for {:.0} s{who}", idle.as_secs_f64());
                out.push(Stuck { rank: rank as u32, why, is_done: false });
            }
        }
        out
    }
    /// A line when nothing has moved for a while: who waits, and for whom.
    pub fn stall(&mut self, now: Instant) -> Option<String> {
        let is_joined = |v: &Vitals| v.is_running && v.pulse.is_some();
        if !self.workers.iter().any(is_joined) || self.saves() {
            return None;
        }
        let still = self.still(now);
        if still < self.next_word.max(3 * self.median()) {
            return None;
        }
        self.next_word = 3 * still;
        let named = |doing: &dyn Fn(&Vitals) -> bool| -> Vec<usize> {
            let all = self.workers.iter().enumerate().filter(|(_, v)| v.is_running);
            all.filter(|(_, v)| doing(v)).map(|(r, _)| r).collect()
        };
        let waits = named(&|v| v.pulse.is_some_and(|p| p.doing == Activity::Waiting));
        let computes = named(&|v| v.pulse.is_some_and(|p| p.doing != Activity::Waiting));
        let absent = named(&|v| v.pulse.is_none());
        let mut parts = Vec::new();
        parts.extend((!waits.is_empty()).then(|| wait(&waits)));
        parts.extend((!computes.is_empty()).then(|| format!("{} in the program's own code", is_in(&computes))));
        parts.extend((!absent.is_empty()).then(|| format!("{} not joined yet", has(&absent))));
        Some(format!("nothing has moved for {:.0} s: {}", still.as_secs_f64(), parts.join(", ")))
    }
}

fn named(ranks: &[usize]) -> String {
    let list: Vec<String> = ranks.iter().map(usize::to_string).collect();
    if ranks.len() == 1 { format!("worker {}", list[0]) } else { format!("workers {}", list.join(", ")) }
}
fn wait(ranks: &[usize]) -> String {
    format!("{} wait{}", named(ranks), if ranks.len() == 1 { "s" } else { "" })
}
fn is_in(ranks: &[usize]) -> String {
    format!("{} {}", named(ranks), if ranks.len() == 1 { "is" } else { "are" })
}
fn has(ranks: &[usize]) -> String {
    format!("{} {}", named(ranks), if ranks.len() == 1 { "has" } else { "have" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulse(moves: u64, steps: u64, doing: Activity) -> Status {
        Status { moves, steps, doing, run: Run::Going, ..Status::default() }
    }
    fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }
    const TIMEOUT: Duration = Duration::from_secs(300);

    #[test]
    fn the_one_that_is_behind_is_struck_and_not_those_who_wait_for_it() {
        let t = Instant::now();
        let mut h = Health::new(Hang::Auto { timeout: TIMEOUT }, None, 3, t);
        for rank in 0..3 {
            h.hears(rank, pulse(2, 1, Activity::Computing), t);
        }
        h.hears(0, pulse(3, 1, Activity::Waiting), t + s(1));
        h.hears(2, pulse(3, 1, Activity::Waiting), t + s(1));
        assert_eq!(h.stuck(t + s(59)), []);
        let stuck = h.stuck(t + s(61));
        assert_eq!(stuck.len(), 1);
        assert_eq!(
            (stuck[0].rank, stuck[0].why.as_str()),
            (1, "worker 1 has not moved for 61 s and workers 0, 2 wait for it")
        );
        let word = h.stall(t + s(12)).unwrap();
        assert_eq!(word, "nothing has moved for 11 s: workers 0, 2 wait, worker 1 is in the program's own code");
        assert_eq!(h.stall(t + s(13)), None, "said once");
        assert!(h.stall(t + s(40)).is_some(), "and again later");
    }

    #[test]
    fn while_the_launcher_is_stopped_nobody_hangs() {
        let t = Instant::now();
        let mut h = Health::new(Hang::After(s(6)), None, 1, t);
        h.hears(0, pulse(1, 1, Activity::Computing), t);
        (1..=3).for_each(|i| h.looks(t + s(i)));
        h.looks(t + s(14));
        assert_eq!(h.stuck(t + s(14)), [], "3 s, and 11 s without a check");
        (15..=18).for_each(|i| h.looks(t + s(i)));
        assert_eq!(h.stuck(t + s(18)).len(), 1, "7 s that were looked at");
    }

    #[test]
    fn a_long_step_of_all_is_no_hang_unless_a_limit_is_given() {
        let t = Instant::now();
        let all = |hang| {
            let mut h = Health::new(hang, None, 2, t);
            (0..2).for_each(|rank| h.hears(rank, pulse(1, 1, Activity::Computing), t));
            h
        };
        assert_eq!(all(Hang::Auto { timeout: TIMEOUT }).stuck(t + s(10_000)), []);
        assert_eq!(all(Hang::Off).stuck(t + s(10_000)), []);
        assert_eq!(all(Hang::After(s(5))).stuck(t + s(6)).len(), 2);
        let mut h = all(Hang::After(s(5)));
        h.hears(0, pulse(2, 1, Activity::Saving), t + s(1));
        h.hears(1, pulse(2, 1, Activity::Waiting), t + s(1));
        assert_eq!(h.stuck(t + s(600)), [], "a checkpoint may take its time");
        assert!(h.stall(t + s(600)).is_none());
    }

    #[test]
    fn the_limit_follows_the_median_step() {
        let t = Instant::now();
        let mut h = Health::new(Hang::Auto { timeout: s(10_000) }, None, 2, t);
        for i in 0..5 {
            h.hears(0, pulse(2 * i, i, Activity::Computing), t + s(10 * i));
            h.hears(1, pulse(2 * i, i, Activity::Computing), t + s(10 * i));
        }
        h.hears(0, pulse(9, 4, Activity::Waiting), t + s(41));
        assert_eq!(h.stuck(t + s(40 + 199)), []);
        assert_eq!(h.stuck(t + s(40 + 201)).len(), 1);
        assert!(h.has_stepped(0) && h.any_stepped());
        h.begins(0, t);
        assert!(!h.has_stepped(0) && h.any_stepped(), "its next life has not");
    }

    #[test]
    fn a_worker_that_is_done_hangs_no_more_and_one_that_never_joins_does() {
        let t = Instant::now();
        let mut h = Health::new(Hang::Auto { timeout: TIMEOUT }, None, 2, t);
        h.hears(0, pulse(1, 0, Activity::Waiting), t);
        assert_eq!(h.stuck(t + s(239)), []);
        assert_eq!(h.stuck(t + s(241))[0].rank, 1);
        h.hears(1, Status { run: Run::Done, ..pulse(9, 9, Activity::Computing) }, t);
        assert_eq!(h.stuck(t + s(1_000)), [], "without a limit");
    }

    #[test]
    fn a_worker_that_does_not_end_after_its_training_is_struck_unless_it_prints() {
        let t = Instant::now();
        let mut h = Health::new(Hang::Off, Some(s(30)), 2, t);
        for rank in 0..2 {
            h.hears(rank, pulse(1, 9, Activity::Computing), t);
            h.hears(rank, Status { run: Run::Done, ..pulse(2, 9, Activity::Computing) }, t + s(5));
            h.speaks(rank, 1, t + s(5));
        }
        assert_eq!(h.stuck(t + s(34)), []);
        h.speaks(0, 2, t + s(34));
        h.speaks(1, 1, t + s(34));
        let stuck = h.stuck(t + s(36));
        assert_eq!(stuck.iter().map(|s| (s.rank, s.is_done)).collect::<Vec<_>>(), [(1, true)]);
        assert!(stuck[0].why.contains("worker 1 is done with its training, but has neither ended"), "{}", stuck[0].why);
        assert_eq!(h.stuck(t + s(65)).len(), 2, "words are a sign of life, not for ever");
        h.ends(0, true);
        h.hears(1, Status { run: Run::Going, ..pulse(3, 9, Activity::Computing) }, t + s(40));
        assert_eq!(h.stuck(t + s(1_000)), [], "one has ended, the other trains again");
    }

    #[test]
    fn missing_shares_are_counted() {
        let t = Instant::now();
        let mut h = Health::new(Hang::Off, None, 2, t);
        h.hears(0, pulse(1, 0, Activity::Computing), t);
        h.hears(0, Status { missed: 25, ..pulse(2, 100, Activity::Computing) }, t);
        assert!((h.missed() - 0.125).abs() < 1e-12);
        h.hears(1, pulse(1, 20, Activity::Computing), t);
        h.ends(1, false);
        assert!((h.missed() - 0.4).abs() < 1e-12, "{}", h.missed());
    }
}
