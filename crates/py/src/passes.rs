//! Passes written in Python: what computes a tensor, and rules that put another in its place.

use crate::convert::{Like, arg, dtype_object, type_name};
use crate::error::OrRaise;
use crate::error::type_error;
use crate::tensor::{PyTensor, wrap};
use crate::transform::traced;
use ::tensor::{Result, Tensor, engine};
use ir::{Attr, Graph, Value};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The op that computes a tensor, with what it is applied to.
#[pyclass(name = "Op", module = "talweg", frozen, get_all)]
pub struct PyOp {
    /// Its name in the op table.
    name: &'static str,
    /// The tensors it is applied to.
    inputs: Py<PyTuple>,
    /// Its attributes by name.
    attrs: Py<PyDict>,
    /// The line of the program that made it.
    line: String,
}

#[pymethods]
impl PyOp {
    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.inputs)?;
        visit.call(&self.attrs)
    }
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<op {} of {} inputs, {}>", self.name, self.inputs.bind(py).len(), self.attrs.bind(py).repr()?))
    }
}

#[pymethods]
impl PyTensor {
    /// What is to compute it; `None` for what is computed already, variables and placeholders.
    #[getter]
    fn op(&self, py: Python<'_>) -> PyResult<Option<PyOp>> {
        let tensor = self.tensor();
        let value = tensor.value().or_raise(py)?;
        let node = value.node();
        let (Some(op), false) = (node.op(), value.is_computed()) else { return Ok(None) };
        let inputs = node.inputs().into_iter().map(|v| wrap(py, Tensor::from(v))).collect::<PyResult<Vec<_>>>()?;
        let attrs = PyDict::new(py);
        for (name, attr) in node.attrs().iter() {
            attrs.set_item(name, object(py, attr)?)?;
        }
        let inputs = PyTuple::new(py, inputs)?.unbind();
        Ok(Some(PyOp { name: op.name, inputs, attrs: attrs.unbind(), line: node.site().to_string() }))
    }
}

/// An attribute as Python knows it.
fn object(py: Python<'_>, attr: &Attr) -> PyResult<Py<PyAny>> {
    Ok(match attr {
        Attr::Bool(b) => b.into_pyobject(py)?.to_owned().into_any().unbind(),
        Attr::Int(i) => i.into_pyobject(py)?.into_any().unbind(),
        Attr::Float(x) => x.into_pyobject(py)?.into_any().unbind(),
        Attr::Str(s) => s.into_pyobject(py)?.into_any().unbind(),
        Attr::Ints(l) => PyTuple::new(py, l.iter())?.into_any().unbind(),
        Attr::DType(d) => dtype_object(py, *d)?.into_any(),
        Attr::Literal(l) => wrap(py, Tensor::from(l.clone()))?.into_any(),
        Attr::Peers(p) => format!("{p:?}").into_pyobject(py)?.into_any().unbind(),
        Attr::Custom(c) => c.0.name().into_pyobject(py)?.into_any().unbind(),
        Attr::Graph(g) => crate::display::PyGraph((**g).clone()).into_pyobject(py)?.into_any().unbind(),
    })
}

/// Adds a pass that every graph of the current device goes through from now on, imperative, jitted
/// or run by a session: `rule(tensor)` sees each value, and gives the tensor that is to stand in its
/// place, or `None`.
#[pyfunction]
fn add_pass(py: Python<'_>, #[pyo3(from_py_with = arg)] name: &str, rule: Py<PyAny>) -> PyResult<()> {
    if !rule.bind(py).is_callable() {
        let e = format!("add_pass: expected a function of a tensor, not {}", type_name(rule.bind(py)));
        return Err(type_error(e));
    }
    let name: &'static str = Box::leak(name.to_string().into_boxed_str());
    let pass = move |graph: &Graph| graph.rewrite(|v| in_place_of(v, &rule));
    py.detach(|| engine().add_pass(name, pass));
    Ok(())
}

/// Removes the pass that was added last under this name; true if there was one.
#[pyfunction]
fn remove_pass(py: Python<'_>, #[pyo3(from_py_with = arg)] name: &str) -> bool {
    py.detach(|| engine().remove_pass(name))
}

fn in_place_of(value: &Value, rule: &Py<PyAny>) -> Result<Option<Value>> {
    let given = traced(|py| {
        let given = rule.call1(py, (wrap(py, Tensor::from(value.clone()))?,))?;
        if given.is_none(py) {
            return Ok(None);
        }
        given.bind(py).extract::<Like>().map(|t| Some(t.0))
    })?;
    given.map(|t| t.value().cloned()).transpose()
}

/// Adds the class and the function.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyOp>()?;
    m.add_function(wrap_pyfunction!(remove_pass, m)?)?;
    m.add_function(wrap_pyfunction!(add_pass, m)?)
}
