//! Watches the processes of a job: replaces those that are lost until every worker has done its part.

use super::dashboard;
use super::job::{Exit, Job};
use super::policy::{Ended, Verdict, back_off, is_start_failure, judge};
use super::process::Process;
use super::{Attempt, Outcome};
use crate::membership::Expired;
use crate::membership::controller::{self, View};
use crate::membership::status::{End, FAILED, LAST, SAVED, STEPPED, STOP, Status, begun_key, done_key, status_key};
use crate::{Map, Result};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the processes are checked, and their heartbeats.
const TICK: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_millis(100);
/// Workers that were asked to stop and have not moved for so long are killed.
const FAREWELL: Duration = Duration::from_secs(30);
/// How long workers may take to say whether they can stop after a common step.
const ANSWER: Duration = Duration::from_secs(1);
/// The others' steps are known so long after a worker has ended.
const ECHO: Duration = Duration::from_millis(500);
/// How often the file of `--resize` is read.
const RESIZE: Duration = Duration::from_millis(500);
/// A server that has lived for so long was of use.
const USEFUL: Duration = Duration::from_secs(1);

/// A stop that is in progress.
struct Stopping {
    since: Instant,
    outcome: Outcome,
    /// So many workers are to go on.
    resize: Option<u32>,
}

impl Job<'_> {
    /// Until every worker's part has ended.
    pub fn watch(&mut self, stop: &AtomicBool) -> Result<Attempt> {
        let (mut said, mut stopping): (Instant, Option<Stopping>) = (Instant::now(), None);
        self.summary.workers = self.options.workers;
        while self.workers.iter().any(|w| w.exit.is_none()) {
            std::thread::sleep(TICK);
            let news: Vec<String> = self.notes.try_iter().collect();
            news.iter().for_each(|n| self.dashboard.note(n));
            self.look();
            self.workers.iter_mut().for_each(|w| w.process.pass_on(false));
            self.strike_hung();
            self.strike_outsiders();
            let why = self.look_after_workers()?;
            if let Some(why) = why.map_or_else(|| self.look_after_servers(), |why| Ok(Some(why)))? {
                self.dashboard.note(&why);
                return Ok(self.over(Outcome::Failed(why)));
            }
            let processes = self.servers.iter().chain(&self.workers).map(|s| s.process.state());
            self.dashboard.look(processes);
            if !self.options.progress.is_zero() && said.elapsed() > self.options.progress {
                said = Instant::now();
                self.dashboard.line().iter().for_each(|l| dashboard::say(&format!("[launch] {l}")));
            }
            if stopping.is_none() {
                if let Some(why) = self.refusal() {
                    return Ok(self.over(Outcome::Failed(why)));
                }
                if self.has_lost() {
                    return Ok(self.lost());
                }
                stopping = self.stop(stop)?;
            }
            if let Some(s) = &stopping {
                self.interrupt(s);
                if self.health.still(Instant::now()).min(s.since.elapsed()) > FAREWELL && !self.health.saves() {
                    self.dashboard.note("the workers do not stop: they are killed");
                    return Ok(self.over(s.outcome.clone()));
                }
            }
        }
        if let Some(Stopping { resize: Some(workers), .. }) = stopping
            && (0..self.workers.len()).all(|w| self.is_done(w))
        {
            self.note_summary();
            return Ok(Attempt::Resize(workers));
        }
        let outcome = stopping.map_or_else(|| self.outcome(), |s| s.outcome);
        Ok(self.over(outcome))
    }

    /// Asks the workers to stop, if that was requested or the job cannot succeed any more.
    fn stop(&mut self, stop: &AtomicBool) -> Result<Option<Stopping>> {
        // Who hung after its training has left nothing for others to wait for.
        let lost = self.workers.iter().filter(|w| w.exit == Some(Exit::Lost) && !w.hung_at_end).count() as u32;
        let (left, least) = (self.options.workers - lost, self.options.workers_min);
        let mut resize = None;
        let outcome = if stop.load(Ordering::Relaxed) {
            self.dashboard.note("the workers are asked to stop");
            Outcome::Stopped
        } else if let Some(why) = self.coordinator.get(FAILED) {
            let why = format!("the job has failed: {}", String::from_utf8_lossy(&why));
            self.dashboard.note(&why);
            Outcome::Failed(why)
        } else if left < least {
            let why = format!("{left} workers are left, fewer than {least}: the job ends");
            self.dashboard.note(&why);
            Outcome::Failed(why)
        } else if let Some(workers) = self.wanted() {
            resize = Some(workers);
            self.dashboard.note(&format!("the workers stop, and {workers} of them go on"));
            Outcome::Failed("the workers did not stop to become others".to_string())
        } else {
            return Ok(None);
        };
        self.coordinator.set(STOP, b"1")?;
        Ok(Some(Stopping { since: Instant::now(), outcome, resize }))
    }
    /// How many workers the file of `--resize` asks for, if others than there are and it can be done.
    fn wanted(&mut self) -> Option<u32> {
        let is_due = self.logs.is_none() && self.resized.elapsed() > RESIZE;
        let file = self.options.resize.as_deref().filter(|_| is_due)?;
        self.resized = Instant::now();
        let wanted: u32 = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
        let slots: u32 = self.options.machines.iter().map(|m| m.slots).sum();
        let is_new = wanted > 0 && wanted != self.options.workers && self.refused != Some(wanted);
        if !is_new || self.workers.iter().any(|w| w.exit.is_some()) {
            return None;
        }
        if wanted > slots {
            self.refused = Some(wanted);
            self.dashboard.note(&format!("{wanted} workers are asked for, but the machines take {slots}"));
        }
        // Without a checkpoint they would start over.
        (wanted <= slots && self.coordinator.get(SAVED).is_some()).then_some(wanted)
    }
    /// Workers that cannot stop after a common step are interrupted, as by Ctrl-C: those of a program that
    /// has no loop which asks.
    fn interrupt(&mut self, s: &Stopping) {
        let number = |key: &str| self.coordinator.get(key).and_then(|v| String::from_utf8(v).ok()?.parse::<u64>().ok());
        let ranks = 0..self.options.workers;
        // A worker in a loop that reports is in it again when it is replaced, however long its start takes.
        let is_going = |r: u32| self.coordinator.get(&done_key(r)).and_then(|v| End::decode(&v)) == Some(End::Going);
        let can_stop = |r: u32| number(&begun_key(r)).is_some() || is_going(r);
        let agrees = number(LAST).is_some() || ranks.clone().any(can_stop);
        let has_joined = |r: u32| self.health.has_joined(r);
        let is_silent = |r: u32| has_joined(r) && self.coordinator.get(&begun_key(r)).is_none();
        let waits = ranks.clone().any(is_silent) && s.since.elapsed() < ANSWER;
        if !self.is_interrupted && !agrees && !waits {
            self.is_interrupted = true;
            self.workers.iter_mut().for_each(|w| w.process.interrupt());
        }
    }

    /// Why what the servers have on disk cannot be taken up, if so.
    fn refusal(&self) -> Option<String> {
        self.coordinator.get(controller::MAP).and_then(|m| Map::decode(&m).err()).map(|e| e.to_string())
    }
    /// Whether every copy of something is lost.
    fn has_lost(&self) -> bool {
        self.coordinator.get(controller::MAP).and_then(|m| Map::decode(&m).ok()).is_some_and(|m| m.has_lost())
    }
    /// What was computed is lost: the job can begin again where checkpoints or disks are.
    fn lost(&mut self) -> Attempt {
        self.note_summary();
        let on_disk = std::env::var_os("TALWEG_STORE_DIR").is_some();
        let from = match &self.summary.checkpoint {
            _ if self.logs.is_some() => None,
            _ if on_disk => Some("what the servers have on disk".to_string()),
            found => found.as_ref().map(|(step, _)| format!("the checkpoint of step {step}")),
        };
        let why = "every copy of a part of the parameters is lost";
        match from {
            Some(from) => {
                self.dashboard.note(&format!("{why}: there is {from}"));
                Attempt::Lost
            }
            None => {
                self.dashboard.note(why);
                self.over(Outcome::Failed(why.to_string()))
            }
        }
    }
    fn over(&mut self, outcome: Outcome) -> Attempt {
        self.note_summary();
        Attempt::Ended(outcome)
    }
    fn note_summary(&mut self) {
        let done = (0..self.workers.len()).filter(|w| self.is_done(*w)).count();
        self.summary.workers_done = done as u32;
        let lost = self.workers.iter().filter(|w| w.exit == Some(Exit::Lost));
        self.summary.lost = lost.map(|w| w.process.number).collect();
        self.summary.missed = self.health.missed();
        let saved = self.coordinator.get(SAVED).and_then(|v| String::from_utf8(v).ok());
        let saved = saved.and_then(|t| t.split_once(' ').map(|(s, p)| (s.parse().unwrap_or(0), p.to_string())));
        self.summary.checkpoint = saved.or_else(|| self.summary.checkpoint.take());
    }

    /// Whether a worker has done its part, now that the others have ended as well.
    fn is_done(&self, at: usize) -> bool {
        let w = &self.workers[at];
        match w.exit {
            Some(Exit::Done) => true,
            Some(Exit::Left { said, others, .. }) => {
                let most = self.workers.iter().filter_map(|w| match w.exit {
                    Some(Exit::Left { said, .. }) => said,
                    _ => None,
                });
                let most = most.max().unwrap_or(0).max(self.health.steps_of_others(w.process.number));
                match said {
                    Some(steps) => steps >= most,
                    None => others.is_none_or(|others| most <= others),
                }
            }
            Some(Exit::Lost) | None => false,
        }
    }
    fn outcome(&mut self) -> Outcome {
        let early: Vec<usize> = (0..self.workers.len())
            .filter(|w| matches!(self.workers[*w].exit, Some(Exit::Left { .. })) && !self.is_done(*w))
            .collect();
        for at in early {
            let w = &mut self.workers[at];
            let steps = match w.exit {
                Some(Exit::Left { said: Some(steps), .. }) => format!(" after {steps} exchanges"),
                _ => String::new(),
            };
            self.dashboard.note(&format!("{} ended well{steps}, but the others went on", w.process.name));
            w.exit = Some(Exit::Lost);
        }
        let done = (0..self.workers.len()).filter(|w| self.is_done(*w)).count() as u32;
        let missing: Vec<String> =
            self.workers.iter().filter(|w| w.exit == Some(Exit::Lost)).map(|w| w.process.name.clone()).collect();
        if done >= self.options.workers_min {
            return Outcome::Done;
        }
        let hung = self.workers.iter().filter(|w| w.exit == Some(Exit::Lost)).all(|w| w.hung_at_end);
        let how = if hung { "hung after the training was done" } else { "did not do their part" };
        Outcome::Failed(format!("{} {how}", missing.join(", ")))
    }

    /// Looks at the workers' pulses.
    fn look(&mut self) {
        let now = Instant::now();
        if now - self.looked < LOOK {
            return;
        }
        self.looked = now;
        self.health.looks(now);
        for rank in 0..self.options.workers {
            let pulse = self.coordinator.get(&status_key(rank)).and_then(|b| Status::decode(&b));
            pulse.into_iter().for_each(|p| self.health.hears(rank, p, now));
        }
        self.workers.iter().for_each(|w| self.health.speaks(w.process.number, w.process.words(), now));
        for stuck in self.health.stuck(now) {
            self.dashboard.note(&format!("{}: it is ended", stuck.why));
            self.any_lost = true;
            self.health.begins(stuck.rank, now);
            let w = &mut self.workers[stuck.rank as usize];
            w.hung_at_end |= stuck.is_done;
            w.process.strike();
        }
        self.health.stall(now).iter().for_each(|line| self.dashboard.note(line));
        let steps: Vec<u64> = (0..self.options.workers).map(|r| self.health.steps_of_others(r)).collect();
        for w in &mut self.workers {
            if let Some(Exit::Left { at, others: others @ None, .. }) = &mut w.exit
                && at.elapsed() > ECHO
            {
                *others = Some(steps[w.process.number as usize]);
            }
        }
    }

    /// Ends processes that hang, and that a replacement must not meet: the coordinator has taken
    /// them for dead, or they were stopped before it knew them.
    fn strike_hung(&mut self) {
        let hung = self.coordinator.expired();
        for (role, all) in [("server", &mut self.servers), ("worker", &mut self.workers)] {
            for p in all.iter_mut().map(|s| &mut s.process).filter(|p| p.ended.is_none()) {
                let is_named = |h: &Expired| h.role == role && h.id == p.number && h.since >= p.began;
                if hung.iter().any(is_named) || p.is_stopped(self.options.silence) {
                    self.dashboard.note(&format!("{} says nothing any more: it is ended", p.name));
                    self.any_lost = true;
                    p.strike();
                }
            }
        }
    }

    /// Ends replacements that the others could not let in before they were done: what they wait
    /// for will not come. (A process that ends leaves the group a moment before, so not at once.)
    fn strike_outsiders(&mut self) {
        let any_done = self.workers.iter().any(|w| w.exit == Some(Exit::Done));
        let group = || self.coordinator.get(controller::GROUP).and_then(|g| View::decode(&g).ok());
        let is_over = any_done && self.options.servers == 0 && group().is_some_and(|g| g.workers.is_empty());
        self.outside = if is_over { self.outside.or_else(|| Some(Instant::now())) } else { None };
        if self.outside.is_some_and(|since| since.elapsed() > self.options.silence) {
            let end = |p: &Process| self.coordinator.get(&done_key(p.number)).and_then(|v| End::decode(&v));
            let waits = |p: &Process| end(p).is_none_or(|e| e == End::Going);
            for w in self.workers.iter_mut().filter(|w| w.exit.is_none() && waits(&w.process)) {
                self.dashboard.note(&format!("{} came when the others were done: it is ended", w.process.name));
                w.process.kill();
                (w.again, w.exit) = (None, Some(Exit::Lost));
                self.health.ends(w.process.number, false);
            }
            self.outside = None;
        }
    }

    /// Starts again who is to be; returns why the job cannot go on, if so.
    fn look_after_workers(&mut self) -> Result<Option<String>> {
        for i in 0..self.workers.len() {
            let w = &mut self.workers[i];
            if let Some((_, rank)) = w.again.take_if(|(at, _)| Instant::now() >= *at) {
                let restarts = w.process.restarts + 1;
                self.workers[i].process = self.worker(rank, restarts)?;
                self.health.begins(rank, Instant::now());
                self.summary.worker_restarts += 1;
                self.record()?;
                continue;
            }
            let rank = w.process.number;
            let coordinator = &self.coordinator;
            let said = || coordinator.get(&done_key(rank)).and_then(|v| End::decode(&v));
            let Some(status) = w.process.has_ended(|| said() == Some(End::Done))? else { continue };
            // It may have said how it ends just before it did.
            coordinator.refresh();
            let said = said();
            let has_joined = said.is_some() || self.health.has_joined(rank);
            let ended = Ended { status, said, has_joined };
            if let Some(why) = self.worker_ended(i, ended)? {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }
    fn worker_ended(&mut self, at: usize, ended: Ended) -> Result<Option<String>> {
        let w = &mut self.workers[at];
        let (rank, name, status) = (w.process.number, w.process.name.clone(), ended.status);
        let verdict = judge(ended);
        let part = match verdict {
            Verdict::Done if w.hung_at_end => {
                self.dashboard.note(&format!("{name} ended with {status}: it hung after its training was done"));
                Exit::Lost
            }
            Verdict::Done => {
                if !status.success() {
                    self.dashboard.note(&format!("{name} ended with {status} when it was done"));
                }
                Exit::Done
            }
            Verdict::Left(said) => Exit::Left { said, at: Instant::now(), others: None },
            Verdict::After => {
                self.dashboard.note(&format!("{name} ended with {status} after its training was done"));
                Exit::Lost
            }
            Verdict::Early | Verdict::Failed => return self.worker_failed(at, ended, verdict),
        };
        w.exit = Some(part);
        self.health.ends(rank, part != Exit::Lost);
        self.coordinator.left(rank, part != Exit::Lost)?;
        Ok(None)
    }
    fn worker_failed(&mut self, at: usize, ended: Ended, verdict: Verdict) -> Result<Option<String>> {
        let w = &mut self.workers[at];
        let (rank, name, status) = (w.process.number, w.process.name.clone(), ended.status);
        let how = match verdict {
            Verdict::Early => format!("{name} ended in the middle of its run without being done"),
            _ => format!("{name} ended with {status}"),
        };
        w.process.pass_on(true);
        if self.is_interrupted {
            w.exit = Some(Exit::Lost);
            self.health.ends(rank, false);
            self.coordinator.left(rank, false)?;
            return Ok(None);
        }
        let age = w.process.began.elapsed();
        if is_start_failure(&ended, age, self.any_stepped(), self.any_lost) {
            self.is_broken = true;
            return Ok(Some(format!("{how} before its first step: the program is not started again")));
        }
        let w = &mut self.workers[at];
        self.any_lost |= is_killed(status);
        let is_useful = self.health.has_stepped(rank) && is_killed(status);
        w.fruitless = if is_useful { 0 } else { w.fruitless + 1 };
        // The replacement of a worker that diverged would fail as well.
        let has_failed = self.coordinator.get(FAILED).is_some();
        let wants = !has_failed && (self.options.restart.wants(status) || verdict == Verdict::Early);
        if wants && w.process.restarts < self.options.restarts_max {
            let delay = back_off(w.fruitless);
            w.again = Some((Instant::now() + delay, rank));
            let when = if delay.is_zero() { String::new() } else { format!(" in {:.2} s", delay.as_secs_f64()) };
            self.dashboard.note(&format!("{how}: it is started again{when}"));
        } else {
            self.dashboard.note(&how);
            w.exit = Some(Exit::Lost);
            self.health.ends(rank, false);
            self.coordinator.left(rank, false)?;
        }
        Ok(None)
    }

    /// Whether any worker has ever done a step.
    fn any_stepped(&self) -> bool {
        self.health.any_stepped() || self.coordinator.get(STEPPED).is_some()
    }

    /// As [`Job::look_after_workers`].
    fn look_after_servers(&mut self) -> Result<Option<String>> {
        for i in 0..self.servers.len() {
            let s = &mut self.servers[i];
            if let Some((_, number)) = s.again.take_if(|(at, _)| Instant::now() >= *at) {
                let restarts = s.process.restarts + 1;
                self.servers[i].process = self.server(i, number, restarts)?;
                self.summary.server_restarts += 1;
                self.record()?;
                continue;
            }
            let Some(status) = s.process.has_ended(|| false)? else { continue };
            if !is_killed(status) && !self.any_lost && self.coordinator.get(controller::MAP).is_none() {
                let name = &s.process.name;
                return Ok(Some(format!("{name} ended with {status} before there was a store: it is not replaced")));
            }
            self.any_lost |= is_killed(status);
            s.fruitless = if s.process.began.elapsed() > USEFUL { 0 } else { s.fruitless + 1 };
            if self.options.restart.wants(status) && s.process.restarts < self.options.restarts_max {
                let (name, number) = (&s.process.name, self.server_next);
                self.dashboard.note(&format!("{name} ended with {status}: server {number} takes its place"));
                s.again = Some((Instant::now() + back_off(s.fruitless), number));
                self.server_next += 1;
            } else {
                self.dashboard.note(&format!("{} ended with {status}", s.process.name));
            }
        }
        Ok(None)
    }
}

fn is_killed(status: ExitStatus) -> bool {
    status.code().is_none()
}
