//! `Run`: what a training run does next, as a pure state machine.
//!
//! A driver performs each [`Next`] and reports the result as an [`Event`]. The trainers of Rust and of Python are
//! two drivers; the seeded simulation in the tests is a third. The machine does no I/O, reads no clock and holds no
//! tensor. It decides when to meet the other workers, evaluate, save, stop and recover, so that these rules exist once.

use super::checkpoint::Checkpoint;
use super::folder::Goal;
use super::report::Stop;
use std::collections::VecDeque;
use tensor::{Error, Result};

/// How often something happens; it also happens after the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// At the end of each epoch.
    Epoch,
    /// After each multiple of this many steps, or where that is 0, at the end of each epoch.
    Steps(u64),
}
impl From<usize> for Every {
    fn from(steps: usize) -> Every {
        Every::Steps(steps as u64)
    }
}

/// How long a run is, steps before a resume included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// So many steps.
    Steps(u64),
    /// So many passes over the data.
    Epochs(u64),
}

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How long it is.
    pub length: Length,
    /// When the model is evaluated, if it is.
    pub evaluate: Option<Every>,
    /// When checkpoints are saved, if they are.
    pub save: Option<Every>,
    /// Whether a new best is saved as well.
    pub keeps_best: bool,
    /// Whether the watched metric should fall or rise.
    pub goal: Goal,
    /// Evaluations in a row without a new best after which the run stops.
    pub patience: Option<u64>,
}

/// The position of a run: the metadata of its checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct At {
    /// Steps done.
    pub step: u64,
    /// Epochs done.
    pub epoch: u64,
    /// Batches used of the present epoch.
    pub batch: u64,
    /// Best value of the watched metric and its step.
    pub best: Option<(f64, u64)>,
    /// Evaluations since the best one.
    pub worse: u64,
}

/// The role of a worker in its job. The default is a single process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Whether there are other workers.
    pub has_others: bool,
    /// Whether parameters live in a parameter store.
    pub has_store: bool,
    /// Whether this worker replaces a lost one.
    pub is_late: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Ask the job.
    Ask(Question),
    /// Do it in the host language.
    Do(Task),
    /// The run is over.
    End(Stop),
}

/// Questions to the job; a process alone answers them itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Question {
    /// A run begins at this step. → [`Event::Done`]
    Enter(u64),
    /// Which place this worker has. → [`Event::Facts`]
    Facts,
    /// Where the parameter store begins, given the step of [`Run::at`]. → [`Event::Origin`]
    Origin,
    /// Whether this worker writes the job's files. → [`Event::Is`]
    WritesFiles,
    /// Asks all workers to stop after a common step; false if the process is alone. → [`Event::Is`]
    StopAll,
    /// Whether this step is to be done. → [`Event::Is`]
    GoesOn(u64),
    /// Before a step: with backup workers its draws follow from its number. → [`Event::Done`]
    Draw(u64),
    /// The step to go on from after this many are done: more if the others did not wait. → [`Event::Step`]
    Follow(u64),
    /// Tells the launcher the loss of a step and its samples. → [`Event::Done`]
    Tell(f64, u64),
    /// After the last step: waits for the others; true if the store has newer parameters. → [`Event::Is`]
    Settle(bool),
    /// The run is complete. → [`Event::Done`]
    Complete,
}

/// Work of the host language.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Task {
    /// Compare settings with the other workers.
    Agree,
    /// Restore what the job kept of the worker that this one replaces.
    TakeOver,
    /// Bring the restored parameters to the store.
    Give,
    /// Take the store's parameters.
    Take,
    /// Move the loader to the batch of [`Run::at`].
    Seek,
    /// Restore the residuals of packed gradients.
    LoadResiduals,
    /// Refuse to run if the folder has a checkpoint of a later step.
    CheckFolder,
    /// Switch the model to training and compute its initial values; true: reserve memory for checkpoints.
    Start(bool),
    /// Hand over the state to workers that wait to join.
    Meet,
    /// Read a batch. → [`Event::Batch`] or [`Event::EpochEnd`]
    Batch,
    /// Do one step with the batch. → [`Event::Loss`]
    Step,
    /// Whether the loader has another batch in this epoch. → [`Event::Is`]
    Peek,
    /// The loss is not finite: fail.
    Diverged(f64),
    /// Report a step.
    Report {
        /// Its loss.
        loss: f64,
        /// Steps of the run that it counts for: more than 1 if others went on without this worker.
        steps: u64,
        /// Whether an epoch has ended.
        ends_epoch: bool,
    },
    /// Evaluate. → [`Event::Score`]
    Evaluate,
    /// Save the residuals of packed gradients.
    SaveResiduals,
    /// Save a checkpoint.
    Save {
        /// The watched metric, if it was evaluated at this step.
        score: Option<f64>,
        /// Whether this is the last step.
        is_last: bool,
    },
    /// Save what is not saved yet, and wait until it is on disk.
    SaveLast,
    /// Wait for the others' last checkpoint, and let in those that are started again.
    Finish,
    /// Close journals.
    Close,
}

/// The result of a [`Next`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// It is done.
    Done,
    /// Yes or no.
    Is(bool),
    /// See [`Question::Facts`].
    Facts(Facts),
    /// The step that the store counts from, and the one at which this worker begins.
    Origin(u64, u64),
    /// A step.
    Step(u64),
    /// A batch was read of an epoch with this many batches, if that is known.
    Batch(Option<u64>),
    /// The epoch has no more batches.
    EpochEnd,
    /// The loss of a step and its number of samples.
    Loss(f64, u64),
    /// The watched metric, if one is watched.
    Score(Option<f64>),
}

/// A training run.
#[derive(Clone, Debug)]
pub struct Run {
    plan: Plan,
    at: At,
    facts: Facts,
    /// Step of the last checkpoint.
    saved: Option<u64>,
    /// Batches of an epoch, once known.
    batches: Option<u64>,
    wants_stop: bool,
    queue: VecDeque<Next>,
    last: Option<Next>,
    /// Loss and samples of the present step.
    loss: (f64, u64),
    stop: Option<Stop>,
}

impl Run {
    /// A run before its first step.
    pub fn new(plan: Plan) -> Run {
        Run {
            plan,
            at: At::default(),
            facts: Facts::default(),
            saved: None,
            batches: None,
            wants_stop: false,
            queue: VecDeque::new(),
            last: None,
            loss: (0.0, 0),
            stop: None,
        }
    }
    /// Begins, or goes on after an end; `batches` are those of an epoch, if known.
    pub fn begin(&mut self, batches: Option<u64>) {
        (self.batches, self.wants_stop, self.stop, self.last) = (batches.or(self.batches), false, None, None);
        self.queue = [Next::Ask(Question::Enter(self.at.step)), Next::Ask(Question::Facts)].into();
    }
    /// Settings, which may change between two runs.
    pub fn plan_mut(&mut self) -> &mut Plan {
        &mut self.plan
    }
    /// Settings.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
    /// Where it is.
    pub fn at(&self) -> At {
        self.at
    }
    /// Continues from elsewhere, as from a checkpoint of this step.
    pub fn restore(&mut self, at: At) {
        (self.at, self.saved) = (at, Some(at.step));
    }
    /// What the worker is in its job, once the run has begun.
    pub fn facts(&self) -> Facts {
        self.facts
    }
    /// Stops after the present step.
    pub fn stop(&mut self) {
        self.wants_stop = true;
    }
    /// Step of the last checkpoint.
    pub fn saved(&self) -> Option<u64> {
        self.saved
    }
    /// The present step is in a checkpoint.
    pub fn note_saved(&mut self) {
        self.saved = Some(self.at.step);
    }
    /// Steps in all, if known.
    pub fn total(&self) -> Option<u64> {
        match self.plan.length {
            Length::Steps(steps) => Some(steps),
            Length::Epochs(epochs) => Some(epochs * self.batches?),
        }
    }

    /// Takes the result of the last [`Next`] and says what follows. After [`Run::begin`] the event is [`Event::Done`].
    pub fn next(&mut self, event: Event) -> Result<Next> {
        if let Some(last) = self.last.take() {
            self.learn(last, event)?;
        }
        if self.queue.is_empty() {
            self.before_step();
        }
        let next = self.queue.pop_front().ok_or_else(|| Error::bug("a run has nothing to do"))?;
        self.last = Some(next);
        Ok(next)
    }

    fn learn(&mut self, last: Next, event: Event) -> Result<()> {
        use Event as E;
        use Question as Q;
        match (last, event) {
            (Next::Ask(Q::Facts), E::Facts(facts)) => self.joined(facts),
            (Next::Ask(Q::Origin), E::Origin(origin, first)) => self.begins_at(origin, first),
            (Next::Ask(Q::WritesFiles), E::Is(true)) => {}
            (Next::Ask(Q::WritesFiles), E::Is(false)) => self.leave_files(),
            (Next::Ask(Q::StopAll), E::Is(true)) => self.ask(Q::GoesOn(self.at.step + 1)),
            (Next::Ask(Q::StopAll | Q::GoesOn(_)), E::Is(false)) => self.end(Stop::Interrupted),
            (Next::Ask(Q::GoesOn(_)), E::Is(true)) => {
                if self.facts.has_others || self.facts.has_store {
                    self.ask_host(Task::Meet);
                }
                self.ask_host(Task::Batch);
            }
            (Next::Ask(Q::Follow(_)), E::Step(to)) => self.stepped(to)?,
            (Next::Ask(Q::Settle(_)), E::Is(is_newer)) => self.settled(is_newer),
            (Next::Do(Task::TakeOver), E::Done) => self.saved = None,
            (Next::Do(Task::Batch), E::Batch(batches)) => {
                self.batches = batches.or(self.batches);
                self.queue.extend([Next::Ask(Q::Draw(self.at.step)), Next::Do(Task::Step)]);
                // A loader without a length is asked for one more batch to find the end of an epoch.
                if batches.is_none() {
                    self.ask_host(Task::Peek);
                }
            }
            (Next::Do(Task::Batch), E::EpochEnd) if self.at.batch == 0 => {
                return Err(Error::value("the loader has no batches").in_op("fit"));
            }
            (Next::Do(Task::Batch), E::EpochEnd) => self.end_epoch(),
            (Next::Do(Task::Step), E::Loss(loss, _)) if !loss.is_finite() => {
                self.queue = [Next::Do(Task::Diverged(loss))].into();
            }
            (Next::Do(Task::Step), E::Loss(loss, samples)) => {
                self.loss = (loss, samples);
                if self.queue.is_empty() {
                    self.ask(Q::Follow(self.at.step + 1));
                }
            }
            (Next::Do(Task::Peek), E::Is(has_more)) => {
                if !has_more {
                    self.batches = Some(self.at.batch + 1);
                } else if self.batches == Some(self.at.batch + 1) {
                    self.batches = None; // this epoch is longer than the last
                }
                self.ask(Q::Follow(self.at.step + 1));
            }
            (Next::Do(Task::Evaluate), E::Score(score)) => self.scored(score),
            (Next::Ask(Q::Enter(_) | Q::Draw(_) | Q::Tell(..) | Q::Complete), E::Done) => {}
            (Next::Do(task), E::Done) if !matches!(task, Task::Batch | Task::Step | Task::Peek | Task::Evaluate) => {}
            (last, event) => return Err(Error::bug(format!("a run got {event:?} for {last:?}"))),
        }
        Ok(())
    }
    /// Another worker writes the job's files.
    fn leave_files(&mut self) {
        self.queue.retain(|n| !is_file(n));
        for next in &mut self.queue {
            if let Next::Do(Task::Start(reserves)) = next {
                *reserves = false;
            }
        }
    }
    fn ask(&mut self, question: Question) {
        self.queue.push_back(Next::Ask(question));
    }
    fn ask_host(&mut self, task: Task) {
        self.queue.push_back(Next::Do(task));
    }

    /// What follows when the worker knows its place.
    fn joined(&mut self, facts: Facts) {
        self.facts = facts;
        if facts.has_others {
            self.ask_host(Task::Agree);
        }
        if facts.is_late {
            self.ask_host(Task::TakeOver);
        }
        if facts.has_store {
            self.ask(Question::Origin);
        }
        if self.plan.save.is_some() {
            self.queue.extend([Next::Do(Task::LoadResiduals), Next::Ask(Question::WritesFiles)]);
            // A worker that does a step again may find a checkpoint after it.
            if !facts.is_late {
                self.ask_host(Task::CheckFolder);
            }
        }
        self.ask_host(Task::Start(self.plan.save.is_some() && !facts.has_store));
    }
    fn begins_at(&mut self, origin: u64, first: u64) {
        let mut tasks = Vec::new();
        if self.at.step > 0 || self.facts.is_late {
            // What the store began with before, perhaps on its servers' disks, wins.
            if origin == self.at.step && !self.facts.is_late {
                tasks.push(Task::Give);
            }
            tasks.push(Task::Take);
        }
        if first != self.at.step {
            self.seek(first);
            tasks.push(Task::Seek);
        }
        tasks.into_iter().rev().for_each(|t| self.queue.push_front(Next::Do(t)));
    }

    fn is_over(&self) -> bool {
        match self.plan.length {
            Length::Steps(steps) => self.at.step >= steps,
            Length::Epochs(epochs) => self.at.epoch >= epochs,
        }
    }
    fn is_due(&self, every: Option<Every>, ends_epoch: bool) -> bool {
        match every {
            None => false,
            Some(Every::Epoch | Every::Steps(0)) => ends_epoch,
            Some(Every::Steps(n)) => self.at.step.is_multiple_of(n),
        }
    }

    fn before_step(&mut self) {
        match self.stop {
            Some(stop) => self.queue.push_back(Next::End(stop)),
            None if self.plan.patience.is_some_and(|p| self.at.worse >= p) => self.end(Stop::Early),
            None if self.is_over() => self.end(Stop::Done),
            // After the two above: a run that is over is not called interrupted.
            None if self.wants_stop => self.ask(Question::StopAll),
            None => self.ask(Question::GoesOn(self.at.step + 1)),
        }
    }

    /// The batch that follows this many steps, where an epoch's length is known.
    fn seek(&mut self, step: u64) {
        let batches = self.batches.unwrap_or(u64::MAX).max(1);
        (self.at.step, self.at.epoch, self.at.batch) = (step, step / batches, step % batches);
    }
    fn end_epoch(&mut self) {
        (self.at.epoch, self.at.batch) = (self.at.epoch + 1, 0);
    }

    fn stepped(&mut self, to: u64) -> Result<()> {
        let before = self.at.step;
        let to = self.total().map_or(to, |total| to.min(total)).max(before + 1);
        let ends_epoch;
        if to > before + 1 {
            if self.batches.is_none() {
                let e = "a worker can take another's place only if the loader has a length";
                return Err(Error::value(e).in_op("fit"));
            }
            self.seek(to);
            ends_epoch = self.at.batch == 0;
            self.ask_host(Task::Seek);
        } else {
            (self.at.step, self.at.batch) = (to, self.at.batch + 1);
            ends_epoch = self.batches.is_some_and(|n| self.at.batch >= n);
            if ends_epoch {
                self.end_epoch();
            }
        }
        let (loss, samples) = self.loss;
        self.ask(Question::Tell(loss, samples));
        self.ask_host(Task::Report { loss, steps: to - before, ends_epoch });
        // Evaluation first: only then is the score of a checkpoint known.
        if self.plan.evaluate.is_some() && (self.is_over() || self.is_due(self.plan.evaluate, ends_epoch)) {
            self.ask_host(Task::Evaluate);
        }
        let (is_due, is_last) = (self.is_due(self.plan.save, ends_epoch), self.is_over());
        if is_due {
            self.ask_host(Task::SaveResiduals);
        }
        if is_due || (is_last && self.plan.save.is_some()) {
            self.save(None, is_last);
        }
        Ok(())
    }
    fn save(&mut self, score: Option<f64>, is_last: bool) {
        self.queue.extend([Next::Ask(Question::WritesFiles), Next::Do(Task::Save { score, is_last })]);
    }

    /// NaN is never a best.
    fn scored(&mut self, score: Option<f64>) {
        let Some(value) = score else { return };
        let is_better = self.at.best.is_none_or(|(best, _)| self.plan.goal.is_better(value, best));
        if is_better && !value.is_nan() {
            (self.at.best, self.at.worse) = (Some((value, self.at.step)), 0);
            if self.plan.keeps_best && self.plan.save.is_some() && !self.queue.iter().any(is_file) {
                self.save(score, false);
            }
        } else {
            self.at.worse += 1;
        }
        for next in &mut self.queue {
            if let Next::Do(Task::Save { score: s, .. }) = next {
                *s = score;
            }
        }
    }

    fn end(&mut self, stop: Stop) {
        self.stop = Some(stop);
        self.ask(Question::Settle(stop == Stop::Done));
    }
    fn settled(&mut self, is_newer: bool) {
        if is_newer {
            self.saved = None;
            self.ask_host(Task::Take);
        }
        // The second time in case the writer of the last checkpoint was lost.
        let tasks = [Task::SaveResiduals, Task::SaveLast, Task::Finish, Task::SaveLast, Task::Close];
        self.queue.extend(tasks.map(Next::Do));
        self.ask(Question::Complete);
    }
}

/// Tasks of the worker that writes files.
fn is_file(next: &Next) -> bool {
    matches!(next, Next::Do(Task::CheckFolder | Task::Save { .. }))
}

impl At {
    /// Adds it to a checkpoint.
    pub fn note(&self, mut c: Checkpoint) -> Checkpoint {
        c = c.note("trainer.worse", self.worse).note("trainer.epoch", self.epoch).note("trainer.batch", self.batch);
        if let Some((best, step)) = self.best {
            c = c.note("trainer.best", best).note("trainer.best_step", step);
        }
        c
    }
    /// Reads it from a checkpoint of either language. Releases before 0.2 had other names in Python, and none for the
    /// epoch in Rust.
    pub fn of(c: &Checkpoint) -> Result<At> {
        let number = |name: &str| -> Result<Option<u64>> {
            Ok(c.noted(&format!("trainer.{name}"))?.or(c.noted(&format!("python.{name}"))?))
        };
        let best = c.noted::<f64>("trainer.best")?.zip(c.noted::<u64>("trainer.best_step")?);
        let older = c.notes.get("python.best").and_then(|text| serde_json::from_str(text).ok());
        Ok(At {
            step: c.step,
            epoch: number("epoch")?.or(c.position.map(|p| p.epoch)).unwrap_or(0),
            batch: number("batch")?.or(c.position.map(|p| p.batch)).unwrap_or(0),
            best: best.or(older),
            worse: number("worse")?.unwrap_or(0),
        })
    }
}
