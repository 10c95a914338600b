//! Tables of the parameter store that a Python program uses itself.

use crate::convert::{Like, arg};
use crate::error::{OrRaise, index_error, named, type_error};
use crate::tensor::{Out, PyTensor, run, wrap};
use crate::transform::traced;
use crate::tree::{Tree, flatten};
use ::tensor::{Result, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use talweg::distributed::{self as parallel, Table, Takes};

/// Rows of float32 that all workers share.
#[pyclass(name = "Table", module = "talweg._native", frozen)]
struct PyTable(Table);

/// Traces an update: the new values, and the new state.
fn traced_update(f: &Py<PyAny>, value: &Tensor, sum: &Tensor, state: &[Tensor]) -> Result<(Tensor, Vec<Tensor>)> {
    traced(|py| {
        let args = [value, sum].into_iter().chain(state);
        let args = args.map(|t| wrap(py, t.clone())).collect::<PyResult<Vec<Py<PyTensor>>>>()?;
        let out = f.bind(py).call1(PyTuple::new(py, args)?)?;
        let mut leaves = Vec::new();
        let tree = flatten(&out, &mut leaves)?;
        let is_good = match &tree {
            Tree::Leaf => true,
            Tree::Tuple(parts, _) | Tree::List(parts) => parts.iter().all(|p| matches!(p, Tree::Leaf)),
            _ => false,
        };
        if !is_good || leaves.is_empty() {
            let found = crate::convert::type_name(&out);
            let e = "update: it must return the new values, or a tuple of them and of the new state";
            return Err(type_error(format!("{e}, all tensors; it returned {found}")));
        }
        Ok((leaves.remove(0), leaves))
    })
}

/// Numbers of rows; `None` for all of them.
fn numbers(obj: &Bound<'_, PyAny>) -> PyResult<Option<Vec<usize>>> {
    let rows = obj.extract::<Option<Vec<i64>>>().map_err(|e| named(obj.py(), "rows", e))?;
    let one = |r: i64| usize::try_from(r).map_err(|_| index_error(format!("rows are counted from 0: there is no {r}")));
    rows.map(|rows| rows.into_iter().map(one).collect()).transpose()
}

#[pymethods]
impl PyTable {
    #[new]
    fn new(
        py: Python<'_>,
        values: Like,
        update: Option<Py<PyAny>>,
        #[pyo3(from_py_with = arg)] state: Vec<f32>,
        #[pyo3(from_py_with = arg)] by_rows: bool,
    ) -> PyResult<PyTable> {
        let (values, takes) = (values.0, if by_rows { Takes::Rows } else { Takes::Whole });
        let made = run(py, || match &update {
            None => Table::new(&values),
            Some(f) => Table::with_update(&values, takes, &state, |v, sum, s| traced_update(f, v, sum, s)),
        });
        made.map(PyTable)
    }
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.shape().iter())
    }
    fn push(&self, py: Python<'_>, x: Like, #[pyo3(from_py_with = numbers)] rows: Option<Vec<usize>>) -> PyResult<()> {
        run(py, || match &rows {
            None => self.0.push(&x.0),
            Some(rows) => self.0.push_rows(rows, &x.0),
        })
    }
    fn pull(&self, py: Python<'_>, #[pyo3(from_py_with = numbers)] rows: Option<Vec<usize>>) -> PyResult<Py<PyAny>> {
        let pulled = run(py, || match &rows {
            None => self.0.pull(),
            Some(rows) => self.0.pull_rows(rows),
        });
        pulled?.object(py)
    }
}

/// Ends this worker's step.
#[pyfunction]
fn store_clock(py: Python<'_>) -> PyResult<()> {
    run(py, parallel::clock)
}
/// Waits until every step so far would survive the loss of a server.
#[pyfunction]
fn store_wait(py: Python<'_>) -> PyResult<()> {
    run(py, parallel::wait)
}
/// The step this worker is in.
#[pyfunction]
fn store_step(py: Python<'_>) -> PyResult<u64> {
    run(py, parallel::step)
}
/// How many reads were this many steps ahead of the slowest worker.
#[pyfunction]
fn store_staleness(py: Python<'_>) -> PyResult<Vec<u64>> {
    py.detach(parallel::staleness_counts).or_raise(py)
}

/// Adds the class and functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyTable>()?;
    m.add_function(wrap_pyfunction!(store_clock, m)?)?;
    m.add_function(wrap_pyfunction!(store_wait, m)?)?;
    m.add_function(wrap_pyfunction!(store_step, m)?)?;
    m.add_function(wrap_pyfunction!(store_staleness, m)?)
}
