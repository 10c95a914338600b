//! Define, then run: placeholders, assignments that wait, sessions.

use crate::convert::{DTypeArg, Like, arg, type_name};
use crate::error::{OrRaise, exception};
use crate::error::{type_error, value_error};
use crate::exchange::required;
use crate::interrupt;
use crate::site::here;
use crate::tensor::{PyTensor, wrap};
use ::tensor::{Error, ErrorKind, Fetch, Session, Shape, Tensor, Update, Variable};
use ir::Source;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::{BTreeMap, HashSet};

/// A value to be fed when the graph is run.
#[pyfunction]
#[pyo3(signature = (dtype, shape=None, name="placeholder"))]
fn placeholder(
    py: Python<'_>,
    dtype: DTypeArg,
    #[pyo3(from_py_with = arg)] shape: Option<Vec<Option<i64>>>,
    #[pyo3(from_py_with = arg)] name: &str,
) -> PyResult<Py<PyTensor>> {
    let sizes: Option<Vec<usize>> =
        shape.unwrap_or_default().into_iter().map(|d| d.filter(|&d| d >= 0).map(|d| d as usize)).collect();
    let Some(sizes) = sizes else {
        let e = "every size must be known: a graph is compiled for one shape; for unknown sizes use talweg.compat.v1.placeholder";
        let e = Error::value(e).in_op("placeholder");
        return Err(exception(py, &e.at(here(py))));
    };
    wrap(py, here(py).scope(|| ::tensor::placeholder(name, Shape::new(&sizes), dtype.0)))
}

/// Assignments that happen when they are run.
#[pyclass(name = "Update", module = "talweg", frozen)]
pub struct PyUpdate(pub Update);

#[pymethods]
impl PyUpdate {
    /// Of variables with their new values.
    #[new]
    fn new(py: Python<'_>, #[pyo3(from_py_with = arg)] assignments: Vec<(Py<PyTensor>, Like)>) -> PyResult<PyUpdate> {
        let mut update = Update::new();
        for (to, value) in assignments {
            let Some(v) = to.get().variable() else {
                return Err(type_error("only a variable can be assigned"));
            };
            let value = here(py).scope(|| value.0.cast(v.dtype()));
            update.set(&v, value);
        }
        Ok(PyUpdate(update))
    }
    /// Carries the assignments out at this point of the program.
    fn apply(&self, py: Python<'_>) -> PyResult<()> {
        here(py).scope(|| self.0.apply()).or_raise(py)
    }
}

/// Runs graphs with placeholders; each combination of fetches and feeds is compiled once.
#[pyclass(name = "Session", module = "talweg._native", frozen)]
struct PySession(Session);

enum Fetched {
    Tensor(Tensor),
    Update(Update),
    Nothing,
}

fn fetched(obj: &Bound<'_, PyAny>) -> PyResult<Fetched> {
    if let Ok(t) = obj.cast::<PyTensor>() {
        return Ok(Fetched::Tensor(t.get().tensor()));
    }
    if let Ok(u) = obj.cast::<PyUpdate>() {
        return Ok(Fetched::Update(u.get().0.clone()));
    }
    if obj.is_none() {
        return Ok(Fetched::Nothing);
    }
    Err(type_error(format!("a tensor or an update can be fetched, not {}", type_name(obj))))
}

#[pymethods]
impl PySession {
    #[new]
    fn new() -> PySession {
        PySession(Session::new())
    }
    /// The fetched tensors, in order; `None` stands for an update.
    fn run(
        &self,
        py: Python<'_>,
        fetches: Vec<Bound<'_, PyAny>>,
        feeds: &Bound<'_, PyDict>,
    ) -> PyResult<Vec<Option<Py<PyTensor>>>> {
        let wanted = fetches.iter().map(fetched).collect::<PyResult<Vec<_>>>()?;
        let mut given = Vec::with_capacity(feeds.len());
        for (to, what) in feeds {
            let to = to.cast::<PyTensor>().map_err(|_| type_error("only a tensor can be fed"))?.get().tensor();
            let dtype = to.dtype().or_raise(py)?;
            let what = required(&what, Some(dtype))?;
            check_feed(py, &to, &what)?;
            given.push((to, what));
        }
        let site = here(py);
        let done = interrupt::run(py, || {
            let list: Vec<&dyn Fetch> = wanted
                .iter()
                .filter_map(|f| match f {
                    Fetched::Tensor(t) => Some(t as &dyn Fetch),
                    Fetched::Update(u) => Some(u as &dyn Fetch),
                    Fetched::Nothing => None,
                })
                .collect();
            let feeds: Vec<(&Tensor, &Tensor)> = given.iter().map(|(a, b)| (a, b)).collect();
            site.scope(|| self.0.run(&list, &feeds))
        })?;
        let mut results = done.or_raise(py)?.into_iter();
        let one = |f: &Fetched| match f {
            Fetched::Tensor(_) => match results.next() {
                Some(t) => wrap(py, t).map(Some),
                None => Err(value_error("a fetched tensor has no result")),
            },
            _ => Ok(None),
        };
        wanted.iter().map(one).collect()
    }
}

/// Names what does not fit in Python's words.
fn check_feed(py: Python<'_>, to: &Tensor, what: &Tensor) -> PyResult<()> {
    let (want, came) = (to.shape().or_raise(py)?, what.shape().or_raise(py)?);
    if want == came {
        return Ok(());
    }
    let e = format!("a placeholder of shape {want} was fed {came}");
    Err(exception(py, &Error::new(ErrorKind::Feed, e).in_op("run").at(here(py))))
}

/// The trainable variables that a tensor depends on, in program order.
#[pyfunction]
fn trainable_variables(py: Python<'_>, t: Like) -> PyResult<Vec<PyTensor>> {
    let mut found = BTreeMap::new();
    let mut seen = HashSet::new();
    let mut stack = vec![t.0.value().or_raise(py)?.clone()];
    while let Some(v) = stack.pop() {
        if !seen.insert(v.node().id()) {
            continue;
        }
        if let Source::Read(var) = v.node().source() {
            if var.is_trainable() {
                found.insert(var.id(), Variable::from(var.clone()));
            }
        } else {
            stack.extend(v.node().inputs());
        }
    }
    Ok(found.into_values().map(PyTensor::from).collect())
}

/// Adds the classes and functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyUpdate>()?;
    m.add_class::<PySession>()?;
    m.add_function(wrap_pyfunction!(trainable_variables, m)?)?;
    m.add_function(wrap_pyfunction!(placeholder, m)?)
}
