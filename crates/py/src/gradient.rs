//! Gradients and variables: what is collected, and values that change.

use crate::convert::{Like, PyDType, arg};
use crate::error::{OrRaise, exception, type_error, value_error};
use crate::site::here;
use crate::tensor::{PyTensor, call, wrap};
use crate::view::{Cell, Kind};
use ::tensor::{Tensor, Variable};
use pyo3::prelude::*;

/// A variable that collects gradients, with the value of a tensor.
pub fn collecting(py: Python<'_>, t: &Tensor) -> PyResult<Variable> {
    match t.dtype() {
        Ok(d) if !d.is_inexact() => {
            let name = PyDType(d).__repr__();
            Err(type_error(format!("only tensors of floats or complex numbers can require gradients, not {name}")))
        }
        _ => here(py).scope(|| Variable::new("", t.detach())).or_raise(py),
    }
}

#[pymethods]
impl PyTensor {
    /// True if gradients are collected for it or for something it depends on.
    #[getter]
    pub fn requires_grad(&self) -> bool {
        match &self.0.kind() {
            Kind::Value(t) => t.value().is_ok_and(|v| v.node().needs_grad() && !v.node().is_symbolic()),
            Kind::Variable(v) => v.is_trainable(),
        }
    }
    #[setter(requires_grad)]
    fn set_requires_grad(&self, py: Python<'_>, #[pyo3(from_py_with = arg)] yes: bool) -> PyResult<()> {
        if let Some(v) = self.variable() {
            v.set_trainable(yes);
        } else if yes {
            let t = self.tensor();
            if t.value().is_ok_and(|v| v.node().is_symbolic()) {
                // A variable would outlive the graph that is being made.
                let leaf = here(py).scope(|| t.requires_grad());
                if let Some(e) = leaf.error() {
                    return Err(exception(py, e));
                }
                self.0.set(Kind::Value(leaf));
                return Ok(());
            }
            self.0.set(Kind::Variable(collecting(py, &t)?));
        }
        Ok(())
    }
    /// Begins or stops to collect gradients for it.
    #[pyo3(signature = (yes=true))]
    fn requires_grad_(
        slf: Py<PyTensor>,
        py: Python<'_>,
        #[pyo3(from_py_with = arg)] yes: bool,
    ) -> PyResult<Py<PyTensor>> {
        slf.get().set_requires_grad(py, yes)?;
        Ok(slf)
    }
    /// True if it was given, not computed.
    #[getter]
    fn is_leaf(&self) -> bool {
        match &self.0.kind() {
            Kind::Value(t) => t.value().is_ok_and(|v| v.node().op().is_none()),
            Kind::Variable(_) => true,
        }
    }
    /// True if it can be assigned.
    #[getter]
    fn is_variable(&self) -> bool {
        matches!(self.0.kind(), Kind::Variable(_))
    }
    /// True if it is a variable that was made to be trained; freezing does not change that.
    #[getter]
    fn is_parameter(&self) -> bool {
        self.variable().is_some_and(|v| v.var().is_parameter())
    }
    /// A number that is the same for all handles of one variable.
    #[getter]
    fn variable_id(&self) -> Option<u64> {
        self.variable().map(|v| v.var().id())
    }
    /// True if it depends on a placeholder.
    #[getter]
    fn is_symbolic(&self) -> bool {
        self.tensor().value().is_ok_and(|v| v.node().is_symbolic())
    }
    /// A variable's name.
    #[getter]
    fn name(&self) -> String {
        self.variable().map_or_else(String::new, |v| v.name().to_string())
    }
    /// The gradient that `backward` has collected.
    #[getter]
    fn grad(&self, py: Python<'_>) -> PyResult<Option<Py<PyTensor>>> {
        match &self.0.kind() {
            Kind::Value(t) => t.grad().map(|g| wrap(py, g)).transpose(),
            Kind::Variable(v) => v.grad().map(|g| Py::new(py, PyTensor(Cell::gradient(v, g)))).transpose(),
        }
    }
    #[setter(grad)]
    fn set_grad(&self, py: Python<'_>, grad: Option<Like>) -> PyResult<()> {
        let Some(v) = self.variable() else {
            return Err(type_error("only a tensor made with requires_grad=True has a gradient"));
        };
        match grad {
            None => v.zero_grad(),
            Some(g) => {
                let value = g.0.value().or_raise(py)?;
                if value.ty() != v.var().ty() {
                    let e = format!("the gradient is {}, but the tensor is {}", value.ty(), v.var().ty());
                    return Err(value_error(e));
                }
                // Handles to the one before keep it.
                v.zero_grad();
                v.var().set_grad(Some(value.clone()));
            }
        }
        Ok(())
    }
    /// Adds this scalar's gradient to everything it depends on that collects one; with `gradient`,
    /// that of its product with it.
    #[pyo3(signature = (gradient=None))]
    fn backward(&self, py: Python<'_>, gradient: Option<Like>) -> PyResult<()> {
        let t = self.tensor();
        let site = here(py);
        py.detach(|| {
            site.scope(|| match gradient {
                None => t.backward(),
                Some(g) => (&t * g.0.stop_gradient()).sum(..).backward(),
            })
        })
        .or_raise(py)
    }
    /// The same elements without their history: a view.
    fn detach(&self, py: Python<'_>) -> PyResult<Py<PyTensor>> {
        let y = here(py).scope(|| self.tensor().detach());
        match y.error() {
            Some(e) => Err(exception(py, e)),
            None => Py::new(py, PyTensor(self.0.detached(y))),
        }
    }
    /// The same elements without their history: a view.
    #[getter]
    fn data(&self, py: Python<'_>) -> PyResult<Py<PyTensor>> {
        self.detach(py)
    }
    #[setter(data)]
    fn set_data(&self, py: Python<'_>, value: Like) -> PyResult<()> {
        match self.variable() {
            Some(v) => here(py).scope(|| v.assign(&value.0)).or_raise(py),
            None => {
                self.0.set(Kind::Value(value.0));
                Ok(())
            }
        }
    }
    /// The same value under another handle.
    fn clone(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        call(py, || self.tensor())
    }
    /// Gives a variable, or this handle, another value of the same shape.
    fn assign(slf: Py<PyTensor>, py: Python<'_>, value: Like) -> PyResult<Py<PyTensor>> {
        slf.get().set_data(py, value)?;
        Ok(slf)
    }
    /// Takes the values of another tensor, which is broadcast and converted.
    fn copy_(slf: Py<PyTensor>, py: Python<'_>, other: Like) -> PyResult<Py<PyTensor>> {
        let t = slf.get().tensor();
        let (shape, dtype) = (t.shape().or_raise(py)?, t.dtype().or_raise(py)?);
        slf.get().change(py, here(py).scope(|| other.0.cast(dtype).broadcast_to(shape)))?;
        Ok(slf)
    }
    /// Makes every element the same number.
    fn fill_(slf: Py<PyTensor>, py: Python<'_>, #[pyo3(from_py_with = arg)] x: f64) -> PyResult<Py<PyTensor>> {
        slf.get().change(py, here(py).scope(|| slf.get().tensor().full_like(x)))?;
        Ok(slf)
    }
    /// Makes every element zero.
    fn zero_(slf: Py<PyTensor>, py: Python<'_>) -> PyResult<Py<PyTensor>> {
        PyTensor::fill_(slf, py, 0.0)
    }
}
