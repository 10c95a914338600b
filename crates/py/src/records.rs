//! What a training run leaves behind: a folder of checkpoints, a journal, events for TensorBoard.
//! The loop around a step is Python's (`talweg/train`); what is written and how is the Rust side's,
//! so that both read each other's files.

use crate::convert::arg;
use crate::error::OrRaise;
use crate::optim::PyOptimizer;
use crate::tensor::{PyTensor, run};
use ::tensor::{Error, Tensor, Variable};
use data::Position;
use nn::train::{Checkpoint, Checkpoints, Goal, Records, Residuals};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Tensors of a run by their paths, as Python gives them.
pub type State = Vec<(String, Py<PyTensor>)>;

/// Where a loader is: epoch, batches and samples read of it, samples in all, seed of the shuffle, and whether the
/// shuffle is the random generator's.
pub type Where = (u64, u64, u64, u64, Option<u64>, bool);

/// The position that it stands for.
pub fn position((epoch, batch, samples, len, seed, by_generator): Where) -> Position {
    Position { epoch, batch, samples, len, seed, by_generator }
}

/// The state after a step.
fn checkpoint(
    py: Python<'_>,
    step: u64,
    state: State,
    notes: BTreeMap<String, String>,
    at: Option<Where>,
) -> PyResult<Checkpoint> {
    let tensors: Vec<(String, Tensor)> = state.into_iter().map(|(n, t)| (n, t.get().tensor())).collect();
    // Made here: the generator is this thread's.
    let mut c = Checkpoint::new(step);
    (c.notes, c.position) = (notes, at.map(position));
    run(py, move || {
        Tensor::eval_all(&tensors.iter().map(|(_, t)| t).collect::<Vec<_>>())?;
        for (name, t) in tensors {
            if c.tensors.insert(name.clone(), t.literal()?).is_some() {
                return Err(Error::value(format!("two tensors have the name {name}")).in_op("checkpoint"));
            }
        }
        Ok(c)
    })
}

/// What a checkpoint holds: step, state of the generator, notes, tensors, where the loader is.
type Held = (u64, (u64, u64), BTreeMap<String, String>, BTreeMap<String, PyTensor>, Option<Where>);

fn held(c: Checkpoint) -> Result<Held, Error> {
    let tensors = c.paths().map(|n| Ok((n.clone(), PyTensor::from(c.tensor(n)?)))).collect::<Result<_, Error>>()?;
    let at = c.position.map(|p| (p.epoch, p.batch, p.samples, p.len, p.seed, p.by_generator));
    Ok((c.step, c.generator, c.notes, tensors, at))
}

/// The state after a step, as bytes for another worker.
#[pyfunction]
fn encode_checkpoint<'py>(
    py: Python<'py>,
    step: u64,
    state: State,
    notes: BTreeMap<String, String>,
    at: Option<Where>,
) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = checkpoint(py, step, state, notes, at)?.encode().or_raise(py)?;
    Ok(PyBytes::new(py, &bytes))
}
/// The state that another worker gave.
#[pyfunction]
fn decode_checkpoint(py: Python<'_>, bytes: &[u8]) -> PyResult<Held> {
    Checkpoint::decode(bytes).and_then(held).or_raise(py)
}

/// A folder of checkpoints, written in the background.
#[pyclass(name = "Checkpoints", module = "talweg._native", frozen)]
struct PyCheckpoints(Mutex<Checkpoints>);

/// A checkpoint that was read, its file, and why newer ones were passed over.
type Found = (Held, String, Vec<String>);

/// A file or URL as text: Python's paths would take a slash of a URL away.
fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Reads a checkpoint, of whatever parts it is.
#[pyfunction]
fn load_checkpoint(py: Python<'_>, #[pyo3(from_py_with = arg)] path: PathBuf) -> PyResult<Held> {
    py.detach(|| Checkpoint::load(path)).and_then(held).or_raise(py)
}

#[pymethods]
impl PyCheckpoints {
    #[new]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arg)] folder: PathBuf,
        #[pyo3(from_py_with = arg)] last: usize,
        #[pyo3(from_py_with = arg)] best: usize,
        #[pyo3(from_py_with = arg)] maximize: bool,
    ) -> PyResult<PyCheckpoints> {
        let goal = if maximize { Goal::Max } else { Goal::Min };
        // A bucket may be asked, by others of this process too.
        let c = py.detach(|| Checkpoints::open(folder)).or_raise(py)?.keep_last(last).keep_best(best, goal);
        Ok(PyCheckpoints(Mutex::new(c)))
    }
    /// Holds memory ready for checkpoints of this state.
    fn prepare(&self, py: Python<'_>, state: State) -> PyResult<()> {
        let (like, folder) = (checkpoint(py, 0, state, BTreeMap::new(), None)?, &self.0);
        run(py, move || folder.lock().prepare(&like))
    }
    /// Writes the state after a step while training goes on, or lets the servers of a large
    /// parameter store do so; the file it will be. `None` if a server was lost meanwhile.
    #[allow(clippy::too_many_arguments)] // named by their only caller, `Trainer`
    fn save(
        &self,
        py: Python<'_>,
        step: u64,
        state: State,
        notes: BTreeMap<String, String>,
        at: Option<Where>,
        score: Option<f64>,
        optimizer: &PyOptimizer,
        is_last: bool,
    ) -> PyResult<Option<String>> {
        let (mut kept, mut trained): (State, Vec<(String, Variable)>) = (Vec::new(), Vec::new());
        for (name, t) in state {
            match t.get().variable() {
                Some(v) => trained.push((name, v)),
                None => kept.push((name, t)),
            }
        }
        let mut rest = checkpoint(py, step, kept, notes, at)?;
        rest.score = score;
        let folder = &self.0;
        let path = run(py, move || folder.lock().save_run(rest, &trained, &optimizer.inner(), is_last))?;
        Ok(path.as_deref().map(text))
    }
    /// Why checkpoints were given up since the last call.
    fn given_up(&self) -> Vec<String> {
        self.0.lock().given_up().into_iter().map(|e| e.message).collect()
    }
    /// Takes up what packing had left out of this worker's gradients at a step, and says where it is
    /// kept from now on; `None` if nothing is packed.
    fn residuals(&self, py: Python<'_>, step: u64) -> PyResult<Option<PyResiduals>> {
        let folder = &self.0;
        py.detach(|| folder.lock().residuals(step)).map(|o| o.map(PyResiduals)).or_raise(py)
    }
    /// Waits until everything is on disk.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        let folder = &self.0;
        py.detach(|| folder.lock().wait()).or_raise(py)
    }
    /// The newest checkpoint that is whole.
    fn latest(&self, py: Python<'_>) -> PyResult<Option<Found>> {
        let folder = &self.0;
        let Some(found) = py.detach(|| folder.lock().latest()).or_raise(py)? else { return Ok(None) };
        let refused = found.refused.into_iter().map(|e| e.message).collect();
        Ok(Some((held(found.checkpoint).or_raise(py)?, text(&found.path), refused)))
    }
    /// A whole checkpoint of a later step, if there is one.
    fn later(&self, py: Python<'_>, step: u64) -> PyResult<Option<String>> {
        let folder = &self.0;
        let path = py.detach(|| folder.lock().later(step)).or_raise(py)?;
        Ok(path.as_deref().map(text))
    }
    /// The steps there is a file of.
    fn steps(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        let folder = &self.0;
        py.detach(|| folder.lock().steps()).or_raise(py)
    }
    /// The file of a step.
    fn path(&self, step: u64) -> String {
        text(&self.0.lock().path(step))
    }
}

/// Where a worker keeps what packing leaves out of its gradients.
#[pyclass(name = "Residuals", module = "talweg._native", frozen)]
struct PyResiduals(Residuals);

#[pymethods]
impl PyResiduals {
    /// Keeps what is left out now with the checkpoint of this step.
    fn keep(&self, py: Python<'_>, step: u64) -> PyResult<()> {
        py.detach(|| self.0.keep(step)).or_raise(py)
    }
}

/// The figures of a run, as JSON lines and for TensorBoard.
#[pyclass(name = "Records", module = "talweg._native", frozen)]
struct PyRecords(Mutex<Records>);

#[pymethods]
impl PyRecords {
    /// Continued after a step; from the start for step 0.
    #[new]
    fn new(py: Python<'_>, journal: Option<PathBuf>, events: Option<PathBuf>, step: u64) -> PyResult<PyRecords> {
        Records::open(journal, events, step).map(|r| PyRecords(Mutex::new(r))).or_raise(py)
    }
    /// Adds the figures of a step.
    fn write(&self, py: Python<'_>, step: u64, figures: Vec<(String, f64)>) -> PyResult<()> {
        self.0.lock().write(step, &figures).or_raise(py)
    }
    /// Hands everything to the operating system.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.0.lock().flush().or_raise(py)
    }
}

/// Adds the classes and functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(encode_checkpoint, m)?)?;
    m.add_function(wrap_pyfunction!(decode_checkpoint, m)?)?;
    m.add_function(wrap_pyfunction!(load_checkpoint, m)?)?;
    m.add_class::<PyCheckpoints>()?;
    m.add_class::<PyResiduals>()?;
    m.add_class::<PyRecords>()
}
