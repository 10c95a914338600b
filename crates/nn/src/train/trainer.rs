//! `Trainer`: the loop around a training step. It reads batches, steps, evaluates, logs, saves,
//! stops and resumes. The caller defines a step; [`Run`] decides what follows it.
//!
//! A resumed run continues bit for bit: everything that decides what the next step does (model,
//! optimizer, random state, data position, best score so far) is in the checkpoint, and every
//! step ends with all of it computed, so that a step's graph does not depend on when the last
//! checkpoint was taken.

mod drive;

use super::checkpoint::Checkpoint;
use super::folder::{Checkpoints, Goal};
use super::report::{Outcome, Report, Silent};
use super::run::{At, Every, Length, Plan, Run};
use super::saving::Residuals;
use crate::optim::{Optimizer, clip_grad_norm, clip_grad_value};
use crate::schedule::{Plateau, Schedule};
use crate::{Columns, Module};
use data::{Batch, Loader};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tensor::{Error, Result, Tensor, Variable, generator, jit};

/// Names and values that an evaluation returns.
pub type Metrics = Vec<(String, f64)>;
type Evaluate<'a> = Box<dyn FnMut() -> Result<Metrics> + 'a>;

/// Trains a model.
///
/// ```
/// # use talweg_nn::optim::{Adam, Optimizer};
/// # use talweg_nn::train::Trainer;
/// # use talweg_nn::{Layer, Linear, Columns};
/// # use data::{Digits, Loader};
/// # use tensor::DType;
/// let model = Linear::new(784, 10).unwrap();
/// let optimizer = Optimizer::new(Adam::default(), &model).unwrap();
/// let mut batches = Loader::builder(Digits::new(0, 64)).batch(16).shuffle(1).build().unwrap();
/// let mut trainer = Trainer::new(&model, &optimizer, &mut batches).epochs(2);
/// let outcome = trainer.fit(|batch| {
///     let x = batch.column("image")?.cast(DType::F32).flatten(1, -1) / 255.0;
///     Ok(model.forward(&x).cross_entropy(&batch.column("label")?))
/// });
/// assert_eq!(outcome.unwrap().step, 8);
/// ```
pub struct Trainer<'a> {
    model: &'a dyn Module,
    optimizer: &'a Optimizer,
    loader: &'a mut Loader,
    run: Run,
    clip: Clip,
    schedule: Option<Box<dyn Schedule + 'a>>,
    plateau: Option<Plateau>,
    evaluate: Option<Evaluate<'a>>,
    watch: Option<String>,
    checkpoints: Option<Checkpoints>,
    /// Where this worker keeps the residuals of packed gradients.
    residuals: Option<Residuals>,
    journal: Option<PathBuf>,
    events: Option<PathBuf>,
    report: Box<dyn Report + 'a>,
    stop: Arc<AtomicBool>,
}

/// How gradients are kept within bounds.
#[derive(Clone, Copy, Debug, Default)]
struct Clip {
    norm: Option<f64>,
    value: Option<f64>,
}

impl<'a> Trainer<'a> {
    /// One epoch, without evaluation, checkpoints or logs. Variables are renamed to their paths.
    pub fn new(model: &'a dyn Module, optimizer: &'a Optimizer, loader: &'a mut Loader) -> Trainer<'a> {
        // The optimizer's state is saved under the parameters' names, which must differ.
        model.name_variables();
        let plan = Plan {
            length: Length::Steps(loader.batches() as u64),
            evaluate: None,
            save: None,
            keeps_best: false,
            goal: Goal::Min,
            patience: None,
        };
        Trainer {
            model,
            optimizer,
            loader,
            run: Run::new(plan),
            clip: Clip::default(),
            schedule: None,
            plateau: None,
            evaluate: None,
            watch: None,
            checkpoints: None,
            residuals: None,
            journal: None,
            events: None,
            report: Box::new(Silent),
            stop: Arc::default(),
        }
    }
    /// How many steps in all, those before a resume included.
    #[must_use]
    pub fn steps(mut self, steps: usize) -> Self {
        self.run.plan_mut().length = Length::Steps(steps as u64);
        self
    }
    /// How many epochs in all.
    #[must_use]
    pub fn epochs(self, epochs: usize) -> Self {
        let steps = epochs * self.loader.batches();
        self.steps(steps)
    }
    /// Clips the global norm of all gradients in [`Trainer::fit`] and [`Trainer::fit_jit`].
    #[must_use]
    pub fn clip_norm(mut self, max: f64) -> Self {
        self.clip.norm = Some(max);
        self
    }
    /// Clips every element of the gradients, before `clip_norm` does.
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
    /// Evaluates with the model in inference mode and without gradients, and after the last step.
    /// A number counts steps; 0 is [`Every::Epoch`].
    #[must_use]
    pub fn evaluate(mut self, every: impl Into<Every>, f: impl FnMut() -> Result<Metrics> + 'a) -> Self {
        self.run.plan_mut().evaluate = Some(every.into());
        self.evaluate = Some(Box::new(f));
        self
    }
    /// The metric of the evaluation that tells which model is best.
    #[must_use]
    pub fn watch(mut self, metric: &str, goal: Goal) -> Self {
        self.run.plan_mut().goal = goal;
        self.watch = Some(metric.to_string());
        self
    }
    /// Stops after this many evaluations in a row without a new best of the watched metric.
    #[must_use]
    pub fn patience(mut self, evaluations: usize) -> Self {
        self.run.plan_mut().patience = Some(evaluations as u64);
        self
    }
    /// Saves checkpoints, also after the last step and when stopped; and after a new best, if the
    /// folder keeps the best. A number counts steps; 0 is [`Every::Epoch`].
    #[must_use]
    pub fn checkpoints(mut self, folder: Checkpoints, every: impl Into<Every>) -> Self {
        let plan = self.run.plan_mut();
        (plan.save, plan.keeps_best) = (Some(every.into()), folder.keeps_best());
        self.checkpoints = Some(folder);
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
    /// Receives the events of the run.
    #[must_use]
    pub fn report(mut self, report: impl Report + 'a) -> Self {
        self.report = Box::new(report);
        self
    }
    /// A flag that ends the run after the present step once it is set, as a handler of Ctrl-C
    /// does. The state is saved.
    #[must_use]
    pub fn stop_when(mut self, flag: Arc<AtomicBool>) -> Self {
        self.stop = flag;
        self
    }

    /// Continues from the newest whole checkpoint of the folder, which either language may have
    /// written. Returns its step, or `None` if there is none yet. Damaged ones are reported and skipped.
    pub fn resume(&mut self) -> Result<Option<u64>> {
        let Some(folder) = &mut self.checkpoints else {
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
        // Older releases named optimizer state by the parameter's path.
        let named = state_of(self.model, self.optimizer.state());
        let is_older = named.iter().all(|(name, _)| from.has(name));
        self.restore_state(from, &if is_older { named } else { self.variables() })
    }
    fn restore_state(&mut self, from: &Checkpoint, state: &[(String, Variable)]) -> Result<()> {
        let mut at = At::of(from)?;
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
        self.loader.restore_by(position, generator_order)?;
        if let Err(e) = from.restore("", state) {
            self.loader.restore_by(&before, generator_order)?;
            return Err(e);
        }
        generator::set_state(from.generator);
        // The loader may have other batches than the one that was saved.
        let position = Loader::position(self.loader);
        let is_end = position.batch >= self.loader.batches() as u64;
        (at.epoch, at.batch) = if is_end { (position.epoch + 1, 0) } else { (position.epoch, position.batch) };
        self.plateau = plateau;
        self.run.restore(at);
        Ok(())
    }

    /// The state after the present step.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        self.beside().with("", &self.variables())
    }
    /// Everything that is trained, with its path in checkpoints. Optimizer state is numbered by
    /// parameter, as in PyTorch and in Python.
    fn variables(&self) -> Vec<(String, Variable)> {
        state_of(self.model, self.optimizer.state_by(|place, _| format!("state.{place}")))
    }
    /// The metadata of a checkpoint.
    fn beside(&self) -> Checkpoint {
        let at = self.run.at();
        let mut c = at.note(Checkpoint::new(at.step).at(Loader::position(self.loader)));
        if let Some(p) = &self.plateau {
            c = c.note("plateau.lr", p.lr).note("plateau.bad", p.bad).note("plateau.cooling", p.cooling);
            c = if let Some(best) = p.best { c.note("plateau.best", best) } else { c };
        }
        c
    }

    /// Trains with a function that returns the loss of a batch; gradients and the optimizer's
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
            let batch = columns.iter().map(|name| batch.column(name)).collect::<Result<Vec<_>>>()?;
            Ok(step.call(&batch.iter().collect::<Vec<_>>())?.remove(0))
        })
    }

    /// Trains with a function that does a whole step and returns its loss.
    pub fn run(&mut self, mut step: impl FnMut(&Batch) -> Result<Tensor>) -> Result<Outcome> {
        self.drive(&mut step)
    }
}

/// The order of a pass of Python's `DataLoader`: the random generator's permutation.
fn generator_order(seed: u64, epoch: u64, len: usize) -> data::Result<Vec<usize>> {
    let before = generator::state();
    generator::set_state((seed, epoch));
    let order = Tensor::randperm(len).to_vec::<i64>();
    generator::set_state(before);
    let order = order.map_err(|e| data::Error::mismatch(format!("the order of epoch {epoch}: {e}")))?;
    Ok(order.into_iter().map(|i| i as usize).collect())
}

fn state_of(model: &dyn Module, optimizer: Vec<(String, Variable)>) -> Vec<(String, Variable)> {
    let mut state = model.state().into_iter().map(|(n, v)| (format!("model.{n}"), v)).collect::<Vec<_>>();
    state.extend(optimizer.into_iter().map(|(n, v)| (format!("optimizer.{n}"), v)));
    state
}

/// One step down the gradient of a loss, which it returns.
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
