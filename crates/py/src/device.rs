//! Which device computes, and where tensors are made; products in 16 bits.

use crate::convert::{DTypeArg, PyDType, arg, dtype_object};
use crate::error::OrRaise;
use crate::error::value_error;
use crate::tensor::{PyTensor, run, wrap};
use crate::transform::is_tracing;
use ::tensor::{Error, ErrorKind, Tensor, Variable, chosen_device, engine, set_autocast, set_device};
use nn::optim::LossScale;
use pyo3::prelude::*;
use runtime::LogicalDevice;

/// A new tensor on the device that was asked for, or on that of the scope. A graph that is traced is
/// computed where its inputs are.
pub fn placed(t: Tensor, device: Option<&str>) -> Tensor {
    match device.or_else(|| if is_tracing() { None } else { chosen_device() }) {
        Some(d) => moved(&t, d),
        None => t,
    }
}

/// The name of a device that PyTorch's name stands for: the host is one device unless it is divided into logical ones,
/// and without a number the first GPU is meant.
fn resolved(name: &str) -> &str {
    match name {
        "cuda" => "cuda:0",
        n if n.starts_with("cpu:") && !runtime::is_divided("cpu") => "cpu",
        n => n,
    }
}
/// The value on a device. An error says which devices there are.
fn moved(t: &Tensor, device: &str) -> Tensor {
    let y = t.to(resolved(device));
    match y.error() {
        Some(e) if e.kind == ErrorKind::Device => Tensor::from(known(e)),
        _ => y,
    }
}
/// The error, with the devices that there are.
fn known(e: &Error) -> Error {
    let mut e = e.clone();
    e.message = if e.message.contains("\"meta\"") {
        "there is no device \"meta\": leave it out: shapes are known at once, and nothing is computed before it is read"
            .into()
    } else {
        format!("{}; the devices of this machine: {}", e.message, runtime::devices().join(", "))
    };
    e
}

/// Makes a device the current one of this thread; what was before.
#[pyfunction]
#[pyo3(name = "set_device")]
fn choose(py: Python<'_>, #[pyo3(from_py_with = arg)] name: Option<&str>) -> PyResult<Option<&'static str>> {
    let site = crate::site::here(py);
    py.detach(|| set_device(name.map(resolved))).map_err(|e| known(&e.at(site))).or_raise(py)
}
/// The device that computes what is on the host alone.
#[pyfunction]
fn current_device() -> &'static str {
    engine().device().name()
}
/// True while a function is traced.
#[pyfunction]
#[pyo3(name = "is_tracing")]
fn is_traced() -> bool {
    is_tracing()
}
/// The devices of this machine.
#[pyfunction]
fn devices(py: Python<'_>) -> Vec<String> {
    py.detach(runtime::devices)
}
/// Divides the host into logical devices: for each its limit of memory and its threads.
#[pyfunction]
fn set_logical_devices(py: Python<'_>, kind: &str, devices: Vec<(Option<usize>, Option<usize>)>) -> PyResult<()> {
    let one = |&(memory_limit, threads): &_| LogicalDevice { memory_limit, threads };
    let all: Vec<LogicalDevice> = devices.iter().map(one).collect();
    runtime::set_logical_devices(kind, &all).map_err(|e| e.at(crate::site::here(py))).or_raise(py)
}
/// The logical devices: name, limit of memory, threads.
#[pyfunction]
fn logical_devices() -> Vec<(String, Option<usize>, Option<usize>)> {
    let names = runtime::logical_names();
    names.into_iter().zip(runtime::logical_devices()).map(|(n, d)| (n, d.memory_limit, d.threads)).collect()
}
/// Computes what is asked for from now on where a tensor is computed; what was before.
#[pyfunction]
fn enter_colocation(py: Python<'_>, tensor: &PyTensor) -> PyResult<u32> {
    ::tensor::enter_colocation(&tensor.tensor()).or_raise(py)
}
/// Ends it.
#[pyfunction]
fn leave_colocation(before: u32) {
    ::tensor::leave_colocation(before);
}
/// Begins to compute products in another type; what it was before.
#[pyfunction]
#[pyo3(name = "set_autocast")]
fn convert(py: Python<'_>, dtype: DTypeArg) -> PyResult<Py<PyDType>> {
    dtype_object(py, set_autocast(dtype.0).or_raise(py)?)
}

#[pymethods]
impl PyTensor {
    /// Where its value is; `cpu` for what is not computed yet.
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<String> {
        self.tensor().device().or_raise(py)
    }
    /// The same value in the memory of a device; what uses it is computed there.
    #[pyo3(signature = (device, /, *, stream=None))]
    fn to_device(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg)] device: &str,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyTensor>> {
        if stream.is_some() {
            return Err(value_error("to_device: a device has one stream, which cannot be chosen"));
        }
        let t = self.tensor();
        let y = run(py, move || Ok(moved(&t, device)))?;
        wrap(py, y)
    }
}

/// Moves a variable's own value, or makes the handle name the moved value.
#[pyfunction]
fn move_to(py: Python<'_>, tensor: &PyTensor, #[pyo3(from_py_with = arg)] device: &str) -> PyResult<()> {
    match tensor.variable() {
        Some(v) => run(py, move || v.to(resolved(device)).map_err(|e| known(&e))),
        None => {
            let t = tensor.tensor();
            let y = run(py, move || Ok(moved(&t, device)))?;
            tensor.change(py, y)
        }
    }
}

/// Keeps the small gradients of f16 above what f16 can hold.
#[pyclass(name = "LossScale", module = "talweg._native", frozen)]
struct PyLossScale(LossScale);

#[pymethods]
impl PyLossScale {
    #[new]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arg)] factor: f32,
        #[pyo3(from_py_with = arg)] interval: u32,
    ) -> PyResult<PyLossScale> {
        LossScale::with(factor, interval).map(PyLossScale).or_raise(py)
    }
    /// The factor now.
    fn factor(&self, py: Python<'_>) -> PyResult<f32> {
        self.0.factor().or_raise(py)
    }
    /// The loss to differentiate.
    fn scaled(&self, py: Python<'_>, loss: crate::convert::Like) -> PyResult<Py<PyTensor>> {
        wrap(py, crate::site::here(py).scope(|| self.0.scaled(&loss.0)))
    }
    /// One step with the collected gradients, left out if they are not finite.
    fn step(&self, py: Python<'_>, optimizer: &crate::optim::PyOptimizer) -> PyResult<()> {
        crate::site::here(py).scope(|| self.0.step(&optimizer.inner())).or_raise(py)
    }
    /// What a checkpoint needs, by name.
    fn state(&self) -> Vec<(String, PyTensor)> {
        self.0.state().into_iter().map(|(n, v): (String, Variable)| (n, PyTensor::from(v))).collect()
    }
}

/// Adds the class and the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyLossScale>()?;
    m.add_function(wrap_pyfunction!(choose, m)?)?;
    m.add_function(wrap_pyfunction!(current_device, m)?)?;
    m.add_function(wrap_pyfunction!(move_to, m)?)?;
    m.add_function(wrap_pyfunction!(is_traced, m)?)?;
    m.add_function(wrap_pyfunction!(devices, m)?)?;
    m.add_function(wrap_pyfunction!(set_logical_devices, m)?)?;
    m.add_function(wrap_pyfunction!(logical_devices, m)?)?;
    m.add_function(wrap_pyfunction!(enter_colocation, m)?)?;
    m.add_function(wrap_pyfunction!(leave_colocation, m)?)?;
    m.add_function(wrap_pyfunction!(convert, m)?)
}
