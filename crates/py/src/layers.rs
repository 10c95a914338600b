//! The mode of modules, initial values, and the rows of layers: their settings and parameters. What layers compute is
//! Python over the ops (`talweg/nn/layers`).

use crate::convert::Ints;
use crate::error::value_error;
use crate::optim::{settings_rows, values};
use crate::site::here;
use crate::tensor::{PyTensor, wrap};
use nn::Mode;
use nn::layers::rows::{ROWS, Start};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

/// An orthogonal matrix, the only initial value that Python does not draw itself.
#[pyfunction]
fn orthogonal(py: Python<'_>, shape: Ints, gain: f64) -> PyResult<Py<PyTensor>> {
    let sizes: Vec<usize> = shape.0.iter().map(|&d| d.max(0) as usize).collect();
    wrap(py, here(py).scope(|| nn::init::orthogonal(sizes, gain)))
}

/// Name, shape (None where the settings leave it out), initial distribution with its bound, and whether it is a buffer.
type PyParameter = (String, Option<Vec<usize>>, (&'static str, f64), bool);

/// Parameters and buffers of a layer with these settings, by its row.
#[pyfunction]
fn layer_parameters(name: &str, settings: &Bound<'_, PyDict>) -> PyResult<Vec<PyParameter>> {
    let row = ROWS.iter().find(|r| r.name == name);
    let row = row.ok_or_else(|| value_error(format!("there is no layer {name:?}")))?;
    let all = (row.parameters)(&values(settings)?).map_err(|e| value_error(format!("{name}: {}", e.message)))?;
    let one = |p: nn::layers::rows::Parameter| {
        let start = match p.start {
            Start::Uniform(bound) => ("uniform", bound),
            Start::Normal => ("normal", 1.0),
            Start::Zeros => ("zeros", 0.0),
            Start::Ones => ("ones", 1.0),
        };
        (p.name, p.is_present.then_some(p.shape), start, p.is_buffer)
    };
    Ok(all.into_iter().map(one).collect())
}

/// The rows by name: required settings (name, type, documentation) and those with defaults.
fn layers(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for row in ROWS {
        all.set_item(row.name, (row.required.to_vec(), settings_rows(py, &(row.settings)())?))?;
    }
    Ok(all)
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
    m.add("LAYERS", layers(m.py())?)?;
    m.add_function(wrap_pyfunction!(layer_parameters, m)?)?;
    m.add_function(wrap_pyfunction!(orthogonal, m)?)
}
