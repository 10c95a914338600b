//! `Trainer`: the loop around a training step. It reads batches, steps, evaluates, logs, saves,
//! stops and resumes; what a step is, the caller says.
//!
//! A resumed run continues bit for bit: everything that decides what the next step does (model,
//! optimizer, random state, data position, best score so far) is in the checkpoint, and every
//! step ends with all of it computed, so that a step's graph does not depend on when the last
//! checkpoint was taken.

mod saving;

use super::checkpoint::Checkpoint;
use super::folder::{Checkpoints, Goal};
use super::report::{Outcome, Progress, Report, Silent, Stop};
use super::saving::Owed;
use crate::optim::{Optimizer, clip_grad_norm, clip_grad_value};
use crate::schedule::{Plateau, Schedule};
use crate::{Module, column, parallel};
use data::events::Events;
use data::journal::Journal;
use data::{Batch, Loader, Position};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tensor::{Error, ErrorKind, Result, Tensor, Variable, generator, jit, no_grad};

/// Names and values that an evaluation answers.
pub type Metrics = Vec<(String, f64)>;
type Evaluate<'a> = Box<dyn FnMut() -> Result<Metrics> + 'a>;

/// Trains a model.
///
/// ```
/// # use talweg_nn::optim::{Adam, Optimizer};
/// # use talweg_nn::train::Trainer;
/// # use talweg_nn::{Layer, Linear, column};
/// # use data::{Digits, Loader};
/// # use tensor::DType;
/// let model = Linear::new(784, 10).unwrap();
/// let optimizer = Optimizer::new(Adam::default(), &model).unwrap();
/// let mut batches = Loader::builder(Digits::new(0, 64)).batch(16).shuffle(1).build().unwrap();
/// let mut trainer = Trainer::new(&model, &optimizer, &mut batches).epochs(2);
/// let outcome = trainer.fit(|batch| {
///     let x = column(batch, "image")?.cast(DType::F32).flatten(1, -1) / 255.0;
///     Ok(model.forward(&x).cross_entropy(&column(batch, "label")?))
/// });
/// assert_eq!(outcome.unwrap().step, 8);
/// ```
pub struct Trainer<'a> {
    model: &'a dyn Module,
    optimizer: &'a Optimizer,
    loader: &'a mut Loader,
    steps: u64,
    clip: Clip,
    schedule: Option<Box<dyn Schedule + 'a>>,
    plateau: Option<Plateau>,
    evaluate: Option<(u64, Evaluate<'a>)>,
    watch: Option<(String, Goal)>,
    patience: Option<u64>,
    checkpoints: Option<(Checkpoints, u64)>,
    /// Where this worker keeps what packing leaves out of its gradients, and how often.
    owed: Option<(Owed, u64)>,
    journal: Option<PathBuf>,
    events: Option<PathBuf>,
    report: Box<dyn Report + 'a>,
    stop: Arc<AtomicBool>,
    state: State,
}

/// How gradients are kept within bounds.
#[derive(Clone, Copy, Debug, Default)]
struct Clip {
    norm: Option<f64>,
    value: Option<f64>,
}

/// What changes while training, besides the model, the optimizer and the loader.
#[derive(Clone, Debug, Default)]
struct State {
    step: u64,
    best: Option<(f64, u64)>,
    /// Evaluations since the best one.
    worse: u64,
    /// Step of the last checkpoint.
    saved: Option<u64>,
}

/// How often events are handed to the operating system, so that TensorBoard sees them.
const FLUSH_EVERY: Duration = Duration::from_secs(2);

/// The records of a run, opened when it begins.
struct Records {
    journal: Option<Journal>,
    events: Option<Events>,
    flushed: Instant,
}

impl<'a> Trainer<'a> {
    /// One epoch, without evaluation, checkpoints or logs. Variables are renamed to their paths.
    pub fn new(model: &'a dyn Module, optimizer: &'a Optimizer, loader: &'a mut Loader) -> Trainer<'a> {
        // The optimizer's state is saved under the parameters' names, which must differ.
        model.name_variables();
        let steps = loader.batches();
        Trainer {
            model,
            optimizer,
            loader,
            steps,
            clip: Clip::default(),
            schedule: None,
            plateau: None,
            evaluate: None,
            watch: None,
            patience: None,
            checkpoints: None,
            owed: None,
            journal: None,
            events: None,
            report: Box::new(Silent),
            stop: Arc::default(),
            state: State::default(),
        }
    }
    /// How many steps in all, those before a resume included.
    #[must_use]
    pub fn steps(mut self, steps: u64) -> Self {
        self.steps = steps;
        self
    }
    /// How many epochs in all.
    #[must_use]
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.steps = epochs * self.loader.batches();
        self
    }
    /// Clips the common length of all gradients in [`Trainer::fit`] and [`Trainer::fit_jit`].
    #[must_use]
    pub fn clip_norm(mut self, max: f64) -> Self {
        self.clip.norm = Some(max);
        self
    }
    /// Cuts every element of the gradients, as `clip_norm` and before it.
    #[must_use]
    pub fn clip_value(mut self, max: f64) -> Self {
        self.clip.value = Some(max);
        self
    }
    /// Sets the learning rate of each step.
    #[must_use]
    pub fn schedule(mut self, schedule: impl Schedule + 'a) -> Self {
        self.schedule = Some(Box::new(schedule));
        self
    }
    /// Lowers the learning rate when the watched metric stops getting better.
    #[must_use]
    pub fn plateau(mut self, plateau: Plateau) -> Self {
        self.plateau = Some(plateau);
        self
    }
    /// Evaluates every so many steps (0: at the end of each epoch) and after the last, with the
    /// model in inference and without gradients.
    #[must_use]
    pub fn evaluate(mut self, every: u64, f: impl FnMut() -> Result<Metrics> + 'a) -> Self {
        let every = if every == 0 { self.loader.batches() } else { every };
        self.evaluate = Some((every, Box::new(f)));
        self
    }
    /// The metric of the evaluation that tells which model is best.
    #[must_use]
    pub fn watch(mut self, metric: &str, goal: Goal) -> Self {
        self.watch = Some((metric.to_string(), goal));
        self
    }
    /// Stops after so many evaluations in a row without a new best of the watched metric.
    #[must_use]
    pub fn patience(mut self, evaluations: u64) -> Self {
        self.patience = Some(evaluations);
        self
    }
    /// Saves every so many steps (0: at the end of each epoch), after the last and when stopped;
    /// and after a new best, if the folder keeps the best.
    #[must_use]
    pub fn checkpoints(mut self, folder: Checkpoints, every: u64) -> Self {
        let every = if every == 0 { self.loader.batches() } else { every };
        self.checkpoints = Some((folder, every));
        self
    }
    /// Logs in JSON lines.
    #[must_use]
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.journal = Some(path.into());
        self
    }
    /// Writes event files for TensorBoard.
    #[must_use]
    pub fn events(mut self, folder: impl Into<PathBuf>) -> Self {
        self.events = Some(folder.into());
        self
    }
    /// Who hears of the run.
    #[must_use]
    pub fn report(mut self, report: impl Report + 'a) -> Self {
        self.report = Box::new(report);
        self
    }
    /// A flag that ends the run after the present step when somebody sets it, as a handler of
    /// Ctrl-C does. The state is saved.
    #[must_use]
    pub fn stop_when(mut self, flag: Arc<AtomicBool>) -> Self {
        self.stop = flag;
        self
    }

    /// Continues from the newest whole checkpoint of the folder; answers its step, or `None` if
    /// there is none yet. Damaged ones are reported and passed over.
    pub fn resume(&mut self) -> Result<Option<u64>> {
        let Some((folder, _)) = &mut self.checkpoints else {
            return Err(Error::value("there is no folder of checkpoints to resume from").in_op("resume"));
        };
        let Some(loaded) = folder.latest()? else { return Ok(None) };
        for e in &loaded.refused {
            self.report.warn(&format!("a checkpoint was passed over: {}", e.message));
        }
        self.restore(&loaded.checkpoint)?;
        Ok(Some(loaded.checkpoint.step))
    }

    /// Continues from a checkpoint. One of another model or data set is refused, and nothing
    /// changes.
    pub fn restore(&mut self, from: &Checkpoint) -> Result<()> {
        self.restore_state(from, &self.variables())
    }
    fn restore_state(&mut self, from: &Checkpoint, state: &[(String, Variable)]) -> Result<()> {
        let best = from.noted::<f64>("trainer.best")?.zip(from.noted::<u64>("trainer.best_step")?);
        let worse = from.noted::<u64>("trainer.worse")?.unwrap_or(0);
        let Some(position) = &from.position else {
            return Err(Error::value(format!("the checkpoint of step {} has no data position", from.step)));
        };
        let mut plateau = self.plateau.clone();
        if let (Some(p), Some(lr)) = (&mut plateau, from.noted("plateau.lr")?) {
            (p.lr, p.best) = (lr, from.noted("plateau.best")?);
            p.bad = from.noted("plateau.bad")?.unwrap_or(0);
            p.cooling = from.noted("plateau.cooling")?.unwrap_or(0);
        }
        // Both change nothing when they fail; the loader goes back if the model does not fit.
        let before = Loader::position(self.loader);
        self.loader.restore(position)?;
        if let Err(e) = from.restore("", state) {
            self.loader.restore(&before)?;
            return Err(e);
        }
        generator::set_state(from.generator);
        self.plateau = plateau;
        self.state = State { step: from.step, best, worse, saved: Some(from.step) };
        Ok(())
    }

    /// The state after the present step.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        self.beside().with("", &self.variables())
    }
    /// Everything that is trained, with its path in checkpoints.
    fn variables(&self) -> Vec<(String, Variable)> {
        let mut state = self.model.state().into_iter().map(|(n, v)| (format!("model.{n}"), v)).collect::<Vec<_>>();
        state.extend(self.optimizer.state().into_iter().map(|(n, v)| (format!("optimizer.{n}"), v)));
        state
    }
    /// What a checkpoint holds beside the variables.
    fn beside(&self) -> Checkpoint {
        let state = &self.state;
        let mut c = Checkpoint::new(state.step).at(Loader::position(self.loader)).note("trainer.worse", state.worse);
        if let Some((best, step)) = state.best {
            c = c.note("trainer.best", best).note("trainer.best_step", step);
        }
        if let Some(p) = &self.plateau {
            c = c.note("plateau.lr", p.lr).note("plateau.bad", p.bad).note("plateau.cooling", p.cooling);
            c = if let Some(best) = p.best { c.note("plateau.best", best) } else { c };
        }
        c
    }

    /// Trains with a function that answers the loss of a batch; gradients and the optimizer's
    /// step follow from it.
    pub fn fit(&mut self, mut loss: impl FnMut(&Batch) -> Result<Tensor>) -> Result<Outcome> {
        let (optimizer, clip) = (self.optimizer, self.clip);
        self.run(|batch| descend(optimizer, clip, loss(batch)?))
    }

    /// As [`Trainer::fit`], but a step is traced once and then replayed, as [`jit`] does: the
    /// quickest way to train. The loss is a function of these columns of the batch.
    ///
    /// ```
    /// # use talweg_nn::optim::{Adam, Optimizer};
    /// # use talweg_nn::train::Trainer;
    /// # use talweg_nn::{Layer, Linear};
    /// # use data::{Digits, Loader};
    /// # use tensor::DType;
    /// # let model = Linear::new(784, 10).unwrap();
    /// # let optimizer = Optimizer::new(Adam::default(), &model).unwrap();
    /// # let mut batches = Loader::builder(Digits::new(0, 64)).batch(16).build().unwrap();
    /// let mut trainer = Trainer::new(&model, &optimizer, &mut batches).epochs(2);
    /// let outcome = trainer.fit_jit(&["image", "label"], |batch| {
    ///     let x = batch[0].cast(DType::F32).flatten(1, -1) / 255.0;
    ///     Ok(model.forward(&x).cross_entropy(&batch[1]))
    /// });
    /// assert_eq!(outcome.unwrap().step, 8);
    /// ```
    pub fn fit_jit(&mut self, columns: &[&str], loss: impl Fn(&[Tensor]) -> Result<Tensor>) -> Result<Outcome> {
        let (optimizer, clip) = (self.optimizer, self.clip);
        let step = jit(|batch: &[Tensor]| Ok(vec![descend(optimizer, clip, loss(batch)?)?]));
        self.run(|batch| {
            let batch = columns.iter().map(|name| column(batch, name)).collect::<Result<Vec<_>>>()?;
            Ok(step.call(&batch.iter().collect::<Vec<_>>())?.remove(0))
        })
    }

    /// Trains with a function that does a whole step and answers its loss.
    pub fn run(&mut self, mut step: impl FnMut(&Batch) -> Result<Tensor>) -> Result<Outcome> {
        parallel::run_begins(self.state.step)?;
        let is_late = self.share()?;
        if let Some((folder, _)) = &mut self.checkpoints
            && !is_late
            && parallel::writes_files()?
            && let Some(path) = folder.later(self.state.step)?
        {
            let step = self.state.step;
            let e = format!(
                "the run is at step {step}, but there is {} already: resume, or choose another folder",
                path.display()
            );
            return Err(Error::value(e).in_op("train"));
        }
        self.model.train(true);
        // Initial values are computed now, not within the first step, as after a resume.
        let state = Checkpoint::new(0).with("", &self.variables())?;
        if let Some((folder, _)) = &mut self.checkpoints
            && !parallel::has_store()?
            && parallel::writes_files()?
        {
            folder.prepare(&state)?;
        }
        drop(state);
        let own = parallel::has_store()?.then(|| self.optimizer.beside_store(&self.variables()));
        let mut records = None;
        self.report.begun(self.state.step, self.steps);
        let (start, first, mut samples, mut last) = (Instant::now(), self.state.step, 0, None);
        let stop = loop {
            if self.patience.is_some_and(|p| self.state.worse >= p) {
                break Stop::Early;
            }
            if self.state.step >= self.steps {
                break Stop::Done;
            }
            // After the two above: a run that is over is not called interrupted.
            if self.stop.load(Ordering::Relaxed) && !parallel::ask_to_stop()? {
                break Stop::Interrupted;
            }
            if !parallel::goes_on(self.state.step + 1)? {
                break Stop::Interrupted;
            }
            parallel::meet(|| self.given(own.as_deref())?.encode())?;
            let Some(batch) = self.loader.next() else { continue };
            let batch = batch?;
            let loss = self.one(&mut step, &batch).inspect_err(|e| {
                if e.kind == ErrorKind::Numerics {
                    // The error itself says more than that it could not be told.
                    let _ = parallel::fail(&e.message);
                }
            })?;
            (last, samples) = (Some(loss), samples + batch.len());
            let elapsed = start.elapsed();
            let progress = self.progress(loss, &batch, elapsed, self.state.step - first, samples);
            self.report.step(&progress);
            parallel::tell(&progress)?;
            self.record(&mut records, "train/", &[("loss".to_string(), loss)])?;
            let score = self.evaluated(&progress, &mut records)?;
            self.save_if_due(score)?;
        };
        if parallel::settle(stop == Stop::Done)? {
            self.optimizer.take()?;
            self.state.saved = None;
        }
        if let Some((owed, _)) = &self.owed {
            owed.keep(self.state.step)?;
        }
        self.save_last()?;
        parallel::finish(|| self.checkpoint()?.encode())?;
        // If its writer was lost.
        let checkpoint = self.save_last()?;
        records.map_or(Ok(()), Records::close)?;
        parallel::done()?;
        let outcome = Outcome { stop, step: self.state.step, loss: last, best: self.state.best, checkpoint };
        self.report.ended(&outcome);
        Ok(outcome)
    }

    /// What a worker that replaces a lost one has to know before a step: everything, or what the
    /// parameter store does not hold.
    fn given(&self, beside_store: Option<&[(String, Variable)]>) -> Result<Checkpoint> {
        beside_store.map_or_else(|| self.checkpoint(), |own| self.beside().with("", own))
    }

    /// What all workers must agree on before the first step.
    fn settings(&self) -> Result<Vec<(&'static str, String)>> {
        let at = Loader::position(self.loader);
        let mut all = vec![
            ("workers", parallel::world()?.to_string()),
            ("samples", at.len.to_string()),
            ("batches of an epoch", self.loader.batches().to_string()),
            ("clipping", format!("{:?}", self.clip)),
        ];
        // The store says itself where its workers begin, and may be taken up again with another optimizer.
        if !parallel::has_store()? {
            all.push(("step", self.state.step.to_string()));
            all.push(("seed of the shuffle", format!("{:?}", at.seed)));
            all.extend(self.optimizer.settings()?);
        }
        Ok(all)
    }

    /// Among other workers: takes this one's part of each batch and goes on where its predecessor
    /// was lost. Returns whether there was one.
    fn share(&mut self) -> Result<bool> {
        let rank = parallel::rank()?;
        let world = parallel::world()?;
        if world > 1 {
            self.loader.share(rank, world)?;
        }
        if world > 1 {
            parallel::agree(&self.settings()?)?;
        }
        let is_late = parallel::is_late()?;
        if is_late
            && let Some(state) = parallel::meet(|| Err(Error::bug("a worker that came late has nothing to give")))?
        {
            let given = Checkpoint::decode(&state)?;
            let state = self.variables().into_iter().filter(|(n, _)| given.tensors.contains_key(n));
            let state = if parallel::has_store()? { state.collect() } else { self.variables() };
            self.restore_state(&given, &state)?;
            self.state.saved = None;
        }
        if parallel::has_store()? {
            let (begin, at) = (parallel::begin(self.state.step)?, Loader::position(self.loader));
            if self.state.step > 0 || is_late {
                // What the store began with before, perhaps on its servers' disks, goes first.
                if begin.origin == self.state.step && !is_late {
                    self.optimizer.give()?;
                }
                self.optimizer.take()?;
            }
            let first = begin.step;
            if first != self.state.step {
                self.loader.restore(&Position { epoch: 0, batch: 0, samples: 0, ..at })?;
                self.loader.skip_batches(first);
                self.state.step = first;
            }
        }
        if let Some((folder, every)) = &self.checkpoints {
            self.owed = folder.owed(self.state.step)?.map(|owed| (owed, *every));
        }
        Ok(is_late)
    }

    /// One step; answers its loss.
    fn one(&mut self, step: &mut impl FnMut(&Batch) -> Result<Tensor>, batch: &Batch) -> Result<f64> {
        if let Some(schedule) = &self.schedule {
            schedule.apply(self.optimizer, self.state.step as usize)?;
        }
        parallel::draw_for(self.state.step)?;
        parallel::set_part(&batch.part)?;
        let number = self.state.step + 1;
        let loss = step(batch).and_then(|loss| loss.item::<f64>());
        let loss = loss.map_err(|e| Error { message: format!("step {number}: {}", e.message), ..e })?;
        if !loss.is_finite() {
            return Err(self.diverged(number, loss));
        }
        let next = parallel::next_step(number)?.min(self.steps);
        if next > number {
            self.loader.skip_batches(next - number);
        }
        self.state.step = next.max(number);
        Ok(loss)
    }

    fn diverged(&mut self, step: u64, loss: f64) -> Error {
        let mut e = format!("the loss is {loss} at step {step} of {}", self.steps);
        match (&mut self.checkpoints, self.state.saved) {
            (Some((folder, _)), Some(saved)) => match folder.wait() {
                Ok(()) => e += &format!("; the last checkpoint is {}", folder.path(saved).display()),
                Err(failed) => e += &format!("; the last checkpoint could not be written: {}", failed.message),
            },
            _ => e += "; there is no checkpoint",
        }
        e += ". Try a smaller learning rate, clip_norm, or check_numerics to find the op";
        Error::new(ErrorKind::Numerics, e).in_op("train")
    }

    fn progress(&self, loss: f64, batch: &Batch, elapsed: Duration, done: u64, samples: usize) -> Progress {
        let left = elapsed.div_f64(done.max(1) as f64).mul_f64((self.steps - self.state.step) as f64);
        let samples_per_second = samples as f64 / elapsed.as_secs_f64().max(1e-9);
        let (step, steps, epoch) = (self.state.step, self.steps, batch.resume.epoch);
        Progress { step, steps, epoch, loss, samples: batch.len(), samples_per_second, elapsed, left }
    }

    /// Evaluates if it is time; answers the watched metric.
    fn evaluated(&mut self, progress: &Progress, records: &mut Option<Records>) -> Result<Option<f64>> {
        let step = self.state.step;
        let Some((every, evaluate)) = &mut self.evaluate else { return Ok(None) };
        if !step.is_multiple_of(*every) && step < self.steps {
            return Ok(None);
        }
        self.model.train(false);
        let metrics = no_grad(evaluate);
        self.model.train(true);
        let metrics = metrics.map_err(|e| Error { message: format!("evaluation: {}", e.message), ..e })?;
        self.report.evaluated(progress, &metrics);
        self.record(records, "evaluation/", &metrics)?;
        let Some((name, goal)) = &self.watch else { return Ok(None) };
        let Some((_, value)) = metrics.iter().find(|(n, _)| n == name) else {
            let names: Vec<&str> = metrics.iter().map(|(n, _)| n.as_str()).collect();
            return Err(Error::value(format!("the evaluation has no metric {name:?}, only {names:?}")).in_op("watch"));
        };
        if self.state.best.is_none_or(|(best, _)| goal.is_better(*value, best)) {
            (self.state.best, self.state.worse) = (Some((*value, step)), 0);
        } else {
            self.state.worse += 1;
        }
        if let Some(plateau) = &mut self.plateau {
            self.optimizer.set_lr(plateau.observe(*value))?;
        }
        Ok(Some(*value))
    }

    /// Writes figures of the present step, if this worker does; the first time it opens the records.
    fn record(&self, records: &mut Option<Records>, prefix: &str, metrics: &[(String, f64)]) -> Result<()> {
        if !parallel::writes_files()? {
            return Ok(());
        }
        let records = match records {
            Some(records) => records,
            None => records.insert(self.open_records()?),
        };
        records.write(self.state.step, prefix, metrics)
    }
    /// Opens the records, cut before the present step.
    fn open_records(&self) -> Result<Records> {
        let step = self.state.step.saturating_sub(1);
        let journal = self.journal.as_ref().map(|path| match step {
            0 => Journal::create(path),
            _ => Journal::resume(path, step),
        });
        let events = self.events.as_ref().map(|folder| match step {
            0 => Events::create(folder),
            _ => Events::resume(folder, step),
        });
        Ok(Records { journal: journal.transpose()?, events: events.transpose()?, flushed: Instant::now() })
    }
}

/// One step down the gradient of a loss, which it answers.
fn descend(optimizer: &Optimizer, clip: Clip, loss: Tensor) -> Result<Tensor> {
    loss.backward()?;
    if let Some(max) = clip.value {
        clip_grad_value(&optimizer.parameters(), max)?;
    }
    if let Some(max) = clip.norm {
        clip_grad_norm(&optimizer.parameters(), max)?;
    }
    optimizer.step()?;
    Ok(loss)
}

impl Records {
    fn write(&mut self, step: u64, prefix: &str, metrics: &[(String, f64)]) -> Result<()> {
        let named: Vec<(String, f64)> = metrics.iter().map(|(n, x)| (format!("{prefix}{n}"), *x)).collect();
        if let Some(journal) = &mut self.journal {
            let line: Vec<(&str, f64)> = named.iter().map(|(n, x)| (n.as_str(), *x)).collect();
            journal.write(step, &line)?;
        }
        if let Some(events) = &mut self.events {
            named.iter().try_for_each(|(n, x)| events.scalar(n, step, *x as f32))?;
            if self.flushed.elapsed() >= FLUSH_EVERY {
                events.flush()?;
                self.flushed = Instant::now();
            }
        }
        Ok(())
    }

    fn close(mut self) -> Result<()> {
        self.journal.as_ref().map_or(Ok(()), Journal::sync)?;
        Ok(self.events.as_mut().map_or(Ok(()), Events::flush)?)
    }
}
