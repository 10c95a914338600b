//! Among other processes: which worker this is, and letting in those that replace lost ones.

use crate::error::OrRaise;
use nn::train::Progress;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tensor::Error;

/// Number of this worker; 0 if the process is alone.
#[pyfunction]
fn worker_rank(py: Python<'_>) -> PyResult<usize> {
    py.detach(nn::parallel::rank).or_raise(py)
}
/// How many workers were started; 1 if the process is alone.
#[pyfunction]
fn worker_count(py: Python<'_>) -> PyResult<usize> {
    py.detach(nn::parallel::world).or_raise(py)
}
/// Between two steps: lets in workers that wait, with the bytes that `give` answers; a worker that
/// waits is answered these bytes.
#[pyfunction]
fn worker_meet<'py>(py: Python<'py>, give: Py<PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let give = || {
        Python::attach(|py| {
            let bytes = give.call0(py).and_then(|b| b.extract::<Vec<u8>>(py));
            bytes.map_err(|e| Error::value(format!("meet: what is to be given must be bytes: {e}")))
        })
    };
    let state = py.detach(|| nn::parallel::meet(give)).or_raise(py)?;
    Ok(state.map(|s| PyBytes::new(py, &s)))
}

/// True if this worker replaces one that was lost and has not been told what the others know.
#[pyfunction]
fn worker_is_late(py: Python<'_>) -> PyResult<bool> {
    py.detach(nn::parallel::is_late).or_raise(py)
}
/// True if parameters live in a parameter store.
#[pyfunction]
fn worker_has_store(py: Python<'_>) -> PyResult<bool> {
    py.detach(nn::parallel::has_store).or_raise(py)
}
/// With a store: the step that it counts from and the one at which this worker begins, given that of
/// its checkpoint.
#[pyfunction]
fn worker_begin(py: Python<'_>, restored: u64) -> PyResult<(u64, u64)> {
    py.detach(|| nn::parallel::begin(restored)).map(|b| (b.origin, b.step)).or_raise(py)
}
/// The step that follows, more than was done if the others did not wait.
#[pyfunction]
fn worker_next_step(py: Python<'_>, done: u64) -> PyResult<u64> {
    py.detach(|| nn::parallel::next_step(done)).or_raise(py)
}
/// After the last step: waits for the others, who might need this worker's last result.
#[pyfunction]
fn worker_finish(py: Python<'_>) -> PyResult<()> {
    py.detach(nn::parallel::finish).or_raise(py)
}
/// Tells the launcher how far this worker is.
#[pyfunction]
fn worker_tell(py: Python<'_>, step: u64, steps: u64, loss: f64, samples_per_second: f64) -> PyResult<()> {
    let progress = Progress { step, steps, loss, samples_per_second, ..Progress::default() };
    py.detach(|| nn::parallel::tell(&progress)).or_raise(py)
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(worker_rank, m)?)?;
    m.add_function(wrap_pyfunction!(worker_count, m)?)?;
    m.add_function(wrap_pyfunction!(worker_is_late, m)?)?;
    m.add_function(wrap_pyfunction!(worker_has_store, m)?)?;
    m.add_function(wrap_pyfunction!(worker_begin, m)?)?;
    m.add_function(wrap_pyfunction!(worker_next_step, m)?)?;
    m.add_function(wrap_pyfunction!(worker_finish, m)?)?;
    m.add_function(wrap_pyfunction!(worker_tell, m)?)?;
    m.add_function(wrap_pyfunction!(worker_meet, m)?)
}
