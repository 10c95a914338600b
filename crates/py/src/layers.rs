//! The mode of modules, and initial values. Layers are Python over the ops (`talweg/nn/layers`).

use crate::convert::Ints;
use crate::error::value_error;
use crate::site::here;
use crate::tensor::{PyTensor, wrap};
use nn::Mode;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Initial values by name: `xavier_uniform`, `kaiming_normal` and the like.
#[pyfunction]
#[pyo3(signature = (kind, shape, gain=1.0))]
fn initial(py: Python<'_>, kind: &str, shape: Ints, gain: f64) -> PyResult<Py<PyTensor>> {
    use nn::init;
    let sizes: Vec<usize> = shape.0.iter().map(|&d| d.max(0) as usize).collect();
    let t = here(py).scope(|| {
        Some(match kind {
            "uniform" => init::uniform(sizes, gain),
            "xavier_uniform" => init::xavier_uniform(sizes, gain),
            "xavier_normal" => init::xavier_normal(sizes, gain),
            "kaiming_uniform" => init::kaiming_uniform(sizes, gain),
            "kaiming_normal" => init::kaiming_normal(sizes, gain),
            "truncated_normal" => init::truncated_normal(sizes, gain),
            "orthogonal" => init::orthogonal(sizes, gain),
            _ => return None,
        })
    });
    wrap(py, t.ok_or_else(|| value_error(format!("unknown initializer {kind:?}")))?)
}

/// Whether a module behaves as in training. A jitted function that asks is traced for each answer.
#[pyclass(name = "Mode", module = "talweg._native", frozen)]
struct PyMode(Mode);

#[pymethods]
impl PyMode {
    #[new]
    #[pyo3(signature = (training=true))]
    fn new(training: bool) -> PyMode {
        PyMode(Mode::new(training))
    }
    #[getter]
    fn training(&self) -> bool {
        self.0.is_training()
    }
    #[setter]
    fn set_training(&self, on: bool) {
        self.0.set_training(on);
    }
    fn __reduce__<'py>(slf: &Bound<'py, PyMode>) -> (Bound<'py, PyType>, (bool,)) {
        (slf.get_type(), (slf.get().training(),))
    }
}

/// Adds the class and the function.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyMode>()?;
    m.add_function(wrap_pyfunction!(initial, m)?)
}
