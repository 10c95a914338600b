//! Gradients and variables: what is collected, and values that change.

use crate::autograd::{GradFn, autograd_backward, grad_error};
use crate::convert::{Like, PyDType, arg, is_numpy_scalar};
use crate::error::{OrRaise, exception, type_error, value_error};
use crate::exchange::required;
use crate::site::here;
use crate::tensor::{PyTensor, call, wrap};
use crate::view::{Cell, Kind};
use ::tensor::{Tensor, Variable, aliased, is_collector};
use ir::{Node, Source, Value};
use pyo3::prelude::*;

/// A variable that collects gradients, with the value of a tensor.
pub fn collecting(py: Python<'_>, t: &Tensor) -> PyResult<Variable> {
    check_inexact(t)?;
    here(py).scope(|| Variable::new("", t.detach())).or_raise(py)
}
/// What is written over all elements of a computed tensor: as in PyTorch, what it was computed from gets gradients of
/// zero, not none.
fn with_history(old: &Tensor, new: Tensor) -> Tensor {
    let needs = |t: &Tensor| t.value().is_ok_and(|v| v.node().needs_grad() && !v.node().is_symbolic());
    let is_computed = old.value().is_ok_and(|v| !matches!(v.node().source(), Source::Read(_)));
    if ir::is_grad_on() && is_computed && needs(old) && !needs(&new) {
        Tensor::where_(&Tensor::from(true), &new, old)
    } else {
        new
    }
}
impl PyTensor {
    /// Writes a number over all elements of its value `t`.
    fn filled(&self, py: Python<'_>, t: &Tensor, x: Tensor) -> PyResult<()> {
        let shape = t.shape().or_raise(py)?;
        self.change(py, here(py).scope(|| with_history(t, x.broadcast_to(shape))))
    }
}
fn check_inexact(t: &Tensor) -> PyResult<()> {
    match t.dtype() {
        Ok(d) if !d.is_inexact() => {
            let name = PyDType(d).__repr__();
            Err(type_error(format!("only floats and complex numbers can require gradients, but this tensor is {name}")))
        }
        _ => Ok(()),
    }
}

#[pymethods]
impl PyTensor {
    /// True if gradients are collected for it or for something it depends on.
    #[getter]
    pub fn requires_grad(&self) -> bool {
        match &self.0.kind() {
            // The indices that a node like `sort` returns beside its values have no derivative.
            Kind::Value(t) => {
                t.value().is_ok_and(|v| v.ty().dtype.is_inexact() && v.node().needs_grad() && !v.node().is_symbolic())
            }
            Kind::Variable(v) => v.is_trainable(),
        }
    }
    #[setter(requires_grad)]
    fn set_requires_grad(&self, py: Python<'_>, #[pyo3(from_py_with = arg)] yes: bool) -> PyResult<()> {
        let t = self.tensor();
        if yes {
            check_inexact(&t)?;
        }
        if let Some(v) = self.variable() {
            v.set_trainable(yes);
            return Ok(());
        }
        if self.requires_grad() && !self.is_leaf() {
            if yes {
                return Ok(());
            }
            return Err(grad_error(py, "only a leaf can stop to require gradients: use detach() of what was computed"));
        }
        if !yes {
            return Ok(());
        }
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
    /// True if it was given, not computed from tensors that require gradients.
    #[getter]
    fn is_leaf(&self) -> bool {
        match &self.0.kind() {
            Kind::Value(t) => {
                let is_end = |n: &Node| is_collector(n) && !matches!(n.source(), Source::Read(_));
                !self.requires_grad() || t.value().is_ok_and(|v| is_end(v.node()))
            }
            Kind::Variable(_) => true,
        }
    }
    /// What its gradient flows back through; `None` for leaves.
    #[getter]
    fn grad_fn(&self) -> Option<GradFn> {
        let t = self.tensor();
        (!self.is_leaf()).then(|| t.value().ok().cloned().map(GradFn)).flatten()
    }
    /// True if `retain_grad` was called.
    #[getter]
    fn retains_grad(&self) -> bool {
        let keeps = |v: &Value| v.node().watched(|w| w.keeps(v.out())) == Some(true);
        self.variable().is_none() && self.tensor().value().is_ok_and(keeps)
    }
    /// Keeps the gradient of a computed tensor in `grad`.
    fn retain_grad(&self, py: Python<'_>) -> PyResult<()> {
        if !self.requires_grad() && !self.is_symbolic() {
            return Err(grad_error(py, "retain_grad: the tensor does not require gradients"));
        }
        if !self.is_leaf() || self.is_symbolic() {
            let t = self.tensor();
            let v = t.value().or_raise(py)?;
            v.node().watch(|w| w.keep(v.out()));
        }
        Ok(())
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
    pub fn is_symbolic(&self) -> bool {
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
    fn set_grad(&self, py: Python<'_>, grad: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let t = self.tensor();
        let mine = t.value().or_raise(py)?;
        let given = grad.map(|g| g.extract::<Like>()).transpose()?;
        let value = given.map(|g| g.0.value().cloned().or_raise(py)).transpose()?;
        if let Some(g) = &value
            && g.ty() != mine.ty()
        {
            return Err(value_error(format!("the gradient is {}, but the tensor is {}", g.ty(), mine.ty())));
        }
        match self.variable() {
            // Handles to the one before keep it.
            Some(v) => {
                v.zero_grad();
                if value.is_some() {
                    v.var().set_grad(value);
                }
                if let Some(handle) = grad.and_then(|g| g.cast::<PyTensor>().ok()) {
                    handle.get().0.follow_gradient(&v);
                }
            }
            None if !mine.node().needs_grad() && value.is_some() => {
                return Err(type_error("only a tensor that requires gradients has one: call requires_grad_() first"));
            }
            None if is_collector(mine.node()) => mine.node().set_grad(value),
            None if mine.node().needs_grad() => mine.node().watch(|w| w.set_kept(mine.out(), value)),
            None => {}
        }
        Ok(())
    }
    /// Adds the gradient of this scalar to every leaf it depends on that requires one, or to `inputs`. `gradient` is
    /// the gradient with respect to this tensor, for other shapes. With `create_graph` the gradients can be
    /// differentiated again; without `retain_graph` backward cannot be called again.
    #[pyo3(signature = (gradient=None, retain_graph=None, create_graph=false, inputs=None))]
    fn backward(
        slf: Py<PyTensor>,
        py: Python<'_>,
        gradient: Option<Like>,
        #[pyo3(from_py_with = arg)] retain_graph: Option<bool>,
        #[pyo3(from_py_with = arg)] create_graph: bool,
        inputs: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let inputs = match inputs {
            None => None,
            Some(t) if t.cast::<PyTensor>().is_ok() => Some(vec![arg(t)?]),
            Some(list) => Some(arg(list)?),
        };
        autograd_backward(py, vec![slf], vec![gradient], inputs, retain_graph.unwrap_or(create_graph), create_graph)
    }
    /// Forgets its history in place.
    fn detach_(slf: Py<PyTensor>, py: Python<'_>) -> PyResult<Py<PyTensor>> {
        let me = slf.get();
        match me.variable() {
            Some(v) => v.set_trainable(false),
            None if me.requires_grad() => me.0.set(Kind::Value(here(py).scope(|| me.tensor().detach()))),
            None => {}
        }
        Ok(slf)
    }
    /// Makes this handle name another's value.
    fn _become(&self, other: &PyTensor) {
        self.0.set(Kind::Value(other.tensor()));
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
            Some(v) => {
                v.var().leave_storage();
                here(py).scope(|| v.assign(&value.0)).or_raise(py)
            }
            // Each read of `grad` is another handle: what the variable collects is replaced.
            None if self.0.is_gradient() => self.0.write(py, here(py).scope(|| value.0.detach())),
            None => {
                self.0.check_born(py)?;
                self.0.rebind(Kind::Value(value.0));
                Ok(())
            }
        }
    }
    /// The same value under another handle; gradients flow through.
    fn clone(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        call(py, || aliased(&self.tensor()))
    }
    /// Gives a variable, or this handle, another value of the same shape.
    fn assign(slf: Py<PyTensor>, py: Python<'_>, value: Like) -> PyResult<Py<PyTensor>> {
        match slf.get().variable() {
            Some(v) => here(py).scope(|| v.assign(&value.0)).or_raise(py)?,
            None => {
                slf.get().0.check_born(py)?;
                slf.get().0.set(Kind::Value(value.0));
            }
        }
        Ok(slf)
    }
    /// Takes the values of another tensor, which is broadcast and converted.
    fn copy_(slf: Py<PyTensor>, py: Python<'_>, other: Like) -> PyResult<Py<PyTensor>> {
        let t = slf.get().tensor();
        let (shape, dtype) = (t.shape().or_raise(py)?, t.dtype().or_raise(py)?);
        slf.get().change(py, here(py).scope(|| with_history(&t, other.0.cast(dtype).broadcast_to(shape))))?;
        Ok(slf)
    }
    /// Makes every element the same number.
    fn fill_(slf: Py<PyTensor>, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyTensor>> {
        let t = slf.get().tensor();
        let dtype = t.dtype().or_raise(py)?;
        let x = if is_numpy_scalar(value) { value.call_method0("item")? } else { value.clone() };
        let x = required(&x, Some(dtype))?;
        let rank = x.rank().or_raise(py)?;
        if rank != 0 {
            return Err(value_error(format!("fill_: value must be a number or have no dimensions, not {rank}")));
        }
        slf.get().filled(py, &t, x)?;
        Ok(slf)
    }
    /// Makes every element zero.
    fn zero_(slf: Py<PyTensor>, py: Python<'_>) -> PyResult<Py<PyTensor>> {
        let t = slf.get().tensor();
        slf.get().filled(py, &t, t.full_like(0.0))?;
        Ok(slf)
    }
}
