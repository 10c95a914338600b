//! Rust's driver of a [`Run`]: does what the machine says.

use super::Trainer;
use crate::parallel;
use crate::train::checkpoint::Checkpoint;
use crate::train::records::Records;
use crate::train::report::{Outcome, Progress};
use crate::train::run::{Event, Task};
use data::{Batch, Loader, Position};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tensor::{Error, ErrorKind, Result, Tensor, Variable, no_grad};

type Step<'s> = &'s mut dyn FnMut(&Batch) -> Result<Tensor>;

/// The state of one call of `fit`.
struct Live {
    start: Instant,
    /// The step it began with.
    first: u64,
    samples: usize,
    batch: Option<Batch>,
    progress: Progress,
    loss: Option<f64>,
    records: Option<Records>,
    /// The state of this worker outside the parameter store.
    own: Option<Vec<(String, Variable)>>,
    saved: Option<PathBuf>,
}

impl Trainer<'_> {
    pub(super) fn drive(&mut self, step: Step<'_>) -> Result<Outcome> {
        let mut live = Live {
            start: Instant::now(),
            first: 0,
            samples: 0,
            batch: None,
            progress: Progress::default(),
            loss: None,
            records: None,
            own: None,
            saved: None,
        };
        self.run.begin(Some(self.loader.batches() as u64));
        let mut event = Event::Done;
        let stop = loop {
            if self.stop.load(Ordering::Relaxed) {
                self.run.stop();
            }
            match self.run.advance(event)? {
                ControlFlow::Continue(task) => event = self.perform(task, &mut live, step)?,
                ControlFlow::Break(stop) => break stop,
            }
        };
        let at = self.run.at();
        let outcome = Outcome { stop, step: at.step, loss: live.loss, best: at.best, checkpoint: live.saved };
        self.report.ended(&outcome);
        Ok(outcome)
    }

    fn perform(&mut self, task: Task, live: &mut Live, step: Step<'_>) -> Result<Event> {
        match task {
            Task::Agree => self.agree()?,
            Task::TakeOver => self.take_over()?,
            Task::Give => self.optimizer.give()?,
            Task::Take => self.optimizer.take()?,
            Task::Seek => self.seek()?,
            Task::LoadResiduals => {
                let at = self.run.at().step;
                self.residuals = self.checkpoints.as_ref().map_or(Ok(None), |folder| folder.residuals(at))?;
            }
            Task::CheckFolder => self.check_folder()?,
            Task::Start(reserves) => self.start(reserves, live)?,
            Task::Meet => drop(parallel::meet(|| self.given(live)?.encode())?),
            Task::Batch => {
                // The loader says the end of an epoch once.
                let batch = self.loader.next().or_else(|| self.loader.next());
                live.batch = batch.transpose()?;
                return Ok(live
                    .batch
                    .as_ref()
                    .map_or(Event::EpochEnd, |_| Event::Batch(Some(self.loader.batches() as u64))));
            }
            Task::Step => {
                let batch = live.batch.as_ref().ok_or_else(|| Error::bug("a step without a batch"))?;
                let loss = self.one(step, batch).inspect_err(fail_job)?;
                return Ok(Event::Loss(loss, batch.len() as u64));
            }
            Task::Peek => return Ok(Event::Is(true)),
            Task::Diverged(loss) => {
                let e = self.diverged(loss);
                fail_job(&e);
                return Err(e);
            }
            Task::Report { loss, .. } => self.reported(loss, live)?,
            Task::Evaluate => return Ok(Event::Score(self.evaluated(live)?)),
            Task::SaveResiduals => self.residuals.as_ref().map_or(Ok(()), |r| r.keep(self.run.at().step))?,
            Task::Save { score, is_last } => self.save(score, is_last)?,
            Task::SaveLast => live.saved = self.save_last()?,
            Task::Finish => parallel::finish(|| self.checkpoint()?.encode())?,
            Task::Close => live.records.as_mut().map_or(Ok(()), Records::flush)?,
        }
        Ok(Event::Done)
    }

    /// Takes this worker's shard of each batch, and compares settings with the others before the first step.
    fn agree(&mut self) -> Result<()> {
        self.loader.share(parallel::rank()?, parallel::world()?)?;
        let at = Loader::position(self.loader);
        let mut all = vec![
            ("workers", parallel::world()?.to_string()),
            ("samples", at.len.to_string()),
            ("batches of an epoch", self.loader.batches().to_string()),
            ("clipping", format!("{:?}", self.clip)),
        ];
        // The store says itself where its workers begin, and may be taken up again with another optimizer.
        if !self.run.facts().has_store {
            all.push(("step", self.run.at().step.to_string()));
            all.push(("seed of the shuffle", format!("{:?}", at.seed)));
            all.extend(self.optimizer.settings()?);
        }
        parallel::agree(&all)
    }

    fn take_over(&mut self) -> Result<()> {
        let nothing = || Err(Error::bug("a worker that came late has nothing to give"));
        let Some(state) = parallel::meet(nothing)? else { return Ok(()) };
        let given = Checkpoint::decode(&state)?;
        let mut state = self.variables();
        if self.run.facts().has_store {
            state.retain(|(n, _)| given.tensors.contains_key(n));
        }
        self.restore_state(&given, &state)
    }
    /// The state that decides the next step, except for the parameter store's.
    fn given(&self, live: &Live) -> Result<Checkpoint> {
        live.own.as_ref().map_or_else(|| self.checkpoint(), |own| self.beside().with("", own))
    }

    fn seek(&mut self) -> Result<()> {
        let begin = Position { epoch: 0, batch: 0, samples: 0, ..Loader::position(self.loader) };
        self.loader.restore(&begin)?;
        self.loader.skip_batches(self.run.at().step);
        Ok(())
    }

    fn check_folder(&mut self) -> Result<()> {
        let step = self.run.at().step;
        let Some(folder) = &mut self.checkpoints else { return Ok(()) };
        let Some(path) = folder.later(step)? else { return Ok(()) };
        let path = path.display();
        let e = format!("the run is at step {step}, but there is {path} already: resume, or choose another folder");
        Err(Error::value(e).in_op("train"))
    }

    fn start(&mut self, reserves: bool, live: &mut Live) -> Result<()> {
        self.model.train(true);
        // Initial values are computed now, not within the first step, as after a resume.
        let state = Checkpoint::new(0).with("", &self.variables())?;
        if let Some(folder) = self.checkpoints.as_mut().filter(|_| reserves) {
            folder.prepare(&state)?;
        }
        live.own = self.run.facts().has_store.then(|| self.optimizer.beside_store(&self.variables()));
        (live.start, live.first) = (Instant::now(), self.run.at().step);
        self.report.begun(live.first, self.total());
        Ok(())
    }
    fn total(&self) -> u64 {
        self.run.total().unwrap_or(0)
    }

    /// One step; returns its loss.
    fn one(&self, step: Step<'_>, batch: &Batch) -> Result<f64> {
        let done = self.run.at().step;
        if let Some(schedule) = &self.schedule {
            schedule.apply(self.optimizer, done as usize)?;
        }
        parallel::set_part(&batch.part)?;
        let loss = step(batch).and_then(|loss| loss.item::<f64>());
        loss.map_err(|e| Error { message: format!("step {}: {}", done + 1, e.message), ..e })
    }

    fn diverged(&mut self, loss: f64) -> Error {
        let mut e = format!("the loss is {loss} at step {} of {}", self.run.at().step + 1, self.total());
        match (&mut self.checkpoints, self.run.saved()) {
            (Some(folder), Some(saved)) => match folder.wait() {
                Ok(()) => e += &format!("; the last checkpoint is {}", folder.path(saved).display()),
                Err(failed) => e += &format!("; the last checkpoint could not be written: {}", failed.message),
            },
            _ => e += "; there is no checkpoint",
        }
        e += ". Try a smaller learning rate, clip_norm, or check_numerics to find the op";
        Error::new(ErrorKind::Numerics, e).in_op("train")
    }

    fn reported(&mut self, loss: f64, live: &mut Live) -> Result<()> {
        let Some(batch) = live.batch.take() else { return Ok(()) };
        let (step, steps, elapsed) = (self.run.at().step, self.total(), live.start.elapsed());
        live.loss = Some(loss);
        live.samples += batch.len();
        live.progress = Progress {
            step,
            steps,
            epoch: batch.resume.epoch,
            loss,
            samples: batch.len(),
            samples_per_second: live.samples as f64 / elapsed.as_secs_f64().max(1e-9),
            elapsed,
            left: elapsed.div_f64((step - live.first).max(1) as f64).mul_f64(steps.saturating_sub(step) as f64),
        };
        self.report.step(&live.progress);
        self.record(live, "train/", &[("loss".to_string(), loss)])
    }

    /// Evaluates; returns the watched metric.
    fn evaluated(&mut self, live: &mut Live) -> Result<Option<f64>> {
        let Some(evaluate) = &mut self.evaluate else { return Ok(None) };
        self.model.train(false);
        let metrics = no_grad(evaluate);
        self.model.train(true);
        let metrics = metrics.map_err(|e| Error { message: format!("evaluation: {}", e.message), ..e })?;
        self.report.evaluated(&live.progress, &metrics);
        self.record(live, "evaluation/", &metrics)?;
        let Some(name) = &self.watch else { return Ok(None) };
        let Some((_, value)) = metrics.iter().find(|(n, _)| n == name) else {
            let names: Vec<&str> = metrics.iter().map(|(n, _)| n.as_str()).collect();
            return Err(Error::value(format!("the evaluation has no metric {name:?}, only {names:?}")).in_op("watch"));
        };
        if let Some(plateau) = &mut self.plateau {
            self.optimizer.set_lr(plateau.observe(*value))?;
        }
        Ok(Some(*value))
    }

    /// Writes figures of the present step, if this worker writes files; the first call opens the records.
    fn record(&self, live: &mut Live, prefix: &str, metrics: &[(String, f64)]) -> Result<()> {
        if !parallel::writes_files()? {
            return Ok(());
        }
        let step = self.run.at().step;
        let records = match &mut live.records {
            Some(records) => records,
            none => none.insert(Records::open(self.journal.clone(), self.events.clone(), step.saturating_sub(1))?),
        };
        let named: Vec<(String, f64)> = metrics.iter().map(|(n, x)| (format!("{prefix}{n}"), *x)).collect();
        records.write(step, &named)
    }

    fn save(&mut self, score: Option<f64>, is_last: bool) -> Result<()> {
        let (mut rest, state) = (self.beside(), self.variables());
        rest.score = score;
        let Some(folder) = &mut self.checkpoints else { return Ok(()) };
        let step = rest.step;
        // Another worker may have ended before this one came to write files.
        if !parallel::is_on_mesh()? && parallel::rank()? > 0 && folder.steps()?.iter().any(|s| *s >= step) {
            return Ok(());
        }
        if let Some(path) = folder.save_run(rest, &state, self.optimizer, is_last)? {
            self.run.note_saved();
            self.report.saving(step, &path);
        }
        self.warn_given_up();
        Ok(())
    }
    fn warn_given_up(&mut self) {
        let Some(folder) = &mut self.checkpoints else { return };
        for e in folder.given_up() {
            self.report.warn(&format!("a checkpoint was given up: {}", e.message));
        }
    }
    /// Saves what is not saved yet and waits until it is on disk: a run that could not write its last
    /// checkpoint has failed.
    fn save_last(&mut self) -> Result<Option<PathBuf>> {
        let is_saved = self.run.saved() == Some(self.run.at().step);
        if self.checkpoints.is_some() && !is_saved && parallel::saves_checkpoints()? {
            self.save(None, true)?;
        }
        let Some(folder) = &mut self.checkpoints else { return Ok(None) };
        folder.wait()?;
        let path = self.run.saved().map(|step| folder.path(step));
        self.warn_given_up();
        Ok(path)
    }
}

/// A job does not train past a step with NaN.
fn fail_job(e: &Error) {
    if e.kind == ErrorKind::Numerics {
        // The error itself says more than that it could not be told.
        let _ = parallel::fail(&e.message);
    }
}
