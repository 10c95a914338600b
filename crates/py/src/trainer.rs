//! `Run`: the state machine of a training run, which Python's `Trainer` drives (`talweg/train/trainer.py`).

use crate::error::OrRaise;
use crate::records::{Where, position};
use nn::train::{At, Checkpoint, Event, Every, Goal, Length, Plan, Run, Stop, Task};
use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// A training run: `next` takes the result of the last task and returns the next one.
#[pyclass(name = "Run", module = "talweg._native", frozen)]
struct PyRun {
    run: Mutex<(Run, Option<Task>)>,
    /// Set by signal handlers, which must not wait for a lock.
    stop: AtomicBool,
}

/// The answer to a task as an event.
fn event(task: Option<Task>, answer: &Bound<'_, PyAny>) -> PyResult<Event> {
    Ok(match task {
        Some(Task::Batch) => match answer.extract::<Option<i64>>()? {
            None => Event::EpochEnd,
            Some(batches) => Event::Batch(u64::try_from(batches).ok()), // negative: unknown
        },
        Some(Task::Step) => {
            let (loss, samples) = answer.extract()?;
            Event::Loss(loss, samples)
        }
        Some(Task::Peek) => Event::Is(answer.extract()?),
        Some(Task::Evaluate) => Event::Score(answer.extract()?),
        _ => Event::Done,
    })
}

/// The task's name, which Python looks up; in a tuple with its arguments, if it has any. Names are interned and alone
/// in the tasks of every step: a step of a small model takes microseconds.
fn named<'py>(py: Python<'py>, task: Task) -> PyResult<Bound<'py, PyAny>> {
    macro_rules! told {
        ($name:literal) => {
            Ok(intern!(py, $name).clone().into_any())
        };
        ($name:literal $(, $x:expr)+) => {
            Ok((intern!(py, $name), $($x),+).into_pyobject(py)?.into_any())
        };
    }
    match task {
        Task::Batch => told!("batch"),
        Task::Step => told!("step"),
        Task::Report { loss, steps, ends_epoch } => told!("report", loss, steps, ends_epoch),
        Task::Save { score, is_last } => told!("save", score, is_last),
        Task::Start(reserves) => told!("start", reserves),
        Task::Diverged(loss) => told!("diverged", loss),
        Task::Agree => told!("agree"),
        Task::TakeOver => told!("take_over"),
        Task::Give => told!("give"),
        Task::Take => told!("take"),
        Task::Seek => told!("seek"),
        Task::LoadResiduals => told!("load_residuals"),
        Task::CheckFolder => told!("check_folder"),
        Task::Meet => told!("meet"),
        Task::Peek => told!("peek"),
        Task::Evaluate => told!("evaluate"),
        Task::SaveResiduals => told!("save_residuals"),
        Task::SaveLast => told!("save_last"),
        Task::Finish => told!("finish"),
        Task::Close => told!("close"),
    }
}

#[pymethods]
impl PyRun {
    #[new]
    #[pyo3(signature = (*, epochs, steps, evaluate, save, keeps_best, maximize, patience))]
    fn new(
        epochs: Option<u64>,
        steps: Option<u64>,
        evaluate: Option<u64>,
        save: Option<u64>,
        keeps_best: bool,
        maximize: bool,
        patience: Option<u64>,
    ) -> PyRun {
        let plan = Plan {
            length: steps.map_or_else(|| Length::Epochs(epochs.unwrap_or(1)), Length::Steps),
            evaluate: evaluate.map(Every::Steps),
            save: save.map(Every::Steps),
            keeps_best,
            goal: if maximize { Goal::Max } else { Goal::Min },
            patience,
        };
        PyRun { run: Mutex::new((Run::new(plan), None)), stop: AtomicBool::new(false) }
    }
    /// Begins, or goes on after an end; `batches` are those of an epoch, if known.
    fn begin(&self, batches: Option<u64>) {
        let (run, last) = &mut *self.run.lock();
        run.begin(batches);
        *last = None;
        self.stop.store(false, Ordering::Relaxed);
    }
    /// The next task and its arguments, given the result of the last one.
    fn next<'py>(&self, py: Python<'py>, answer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (run, last) = &mut *self.run.lock();
        let event = event(*last, answer)?;
        if self.stop.load(Ordering::Relaxed) {
            run.stop();
        }
        // A process alone is never waiting for others.
        let facts = run.facts();
        let is_alone = last.is_some() && !facts.has_others && !facts.has_store;
        let next = if is_alone { run.advance(event) } else { py.detach(|| run.advance(event)) }.or_raise(py)?;
        match next {
            ControlFlow::Continue(task) => {
                *last = Some(task);
                named(py, task)
            }
            ControlFlow::Break(stop) => {
                let stop = match stop {
                    Stop::Done => "done",
                    Stop::Early => "early",
                    Stop::Interrupted => "interrupted",
                };
                Ok(("end", stop).into_pyobject(py)?.into_any())
            }
        }
    }
    /// Stops after the present step.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
    /// Continues from a checkpoint.
    fn restore(&self, py: Python<'_>, step: u64, notes: BTreeMap<String, String>, at: Option<Where>) -> PyResult<()> {
        let mut c = Checkpoint::new(step);
        (c.notes, c.position) = (notes, at.map(position));
        let at = At::of(&c).or_raise(py)?;
        self.run.lock().0.restore(at);
        Ok(())
    }
    /// What a checkpoint holds of the run.
    fn notes(&self) -> BTreeMap<String, String> {
        self.run.lock().0.at().note(Checkpoint::new(0)).notes
    }
    /// The present step is in a checkpoint.
    fn note_saved(&self) {
        self.run.lock().0.note_saved();
    }
    /// Steps done.
    #[getter]
    fn step(&self) -> u64 {
        self.run.lock().0.at().step
    }
    /// Epochs done.
    #[getter]
    fn epoch(&self) -> u64 {
        self.run.lock().0.at().epoch
    }
    /// Batches used of the present epoch.
    #[getter]
    fn batch(&self) -> u64 {
        self.run.lock().0.at().batch
    }
    /// Best value of the watched metric and its step.
    #[getter]
    fn best(&self) -> Option<(f64, u64)> {
        self.run.lock().0.at().best
    }
    /// Step of the last checkpoint.
    #[getter]
    fn saved(&self) -> Option<u64> {
        self.run.lock().0.saved()
    }
    /// Steps in all, if known.
    #[getter]
    fn total(&self) -> Option<u64> {
        self.run.lock().0.total()
    }
    /// Whether parameters live in a parameter store.
    #[getter]
    fn has_store(&self) -> bool {
        self.run.lock().0.facts().has_store
    }
    /// Whether there are other workers.
    #[getter]
    fn has_others(&self) -> bool {
        self.run.lock().0.facts().has_others
    }
}

/// The order of an epoch that Rust's loader shuffles.
#[pyfunction]
fn loader_order(seed: u64, epoch: u64, samples: usize) -> Vec<usize> {
    data::random::permutation(seed, data::random::PURPOSE_SHUFFLE, epoch, samples)
}

/// Adds the class.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(loader_order, m)?)?;
    m.add_class::<PyRun>()
}
