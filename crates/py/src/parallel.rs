//! Among other processes: which worker this is, and letting in those that replace lost ones.

use crate::error::OrRaise;
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

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(worker_rank, m)?)?;
    m.add_function(wrap_pyfunction!(worker_count, m)?)?;
    m.add_function(wrap_pyfunction!(worker_meet, m)?)
}
