//! Exported models: writing one from a Python function, and running one.

use crate::error::{OrRaise, value_error};
use crate::site::here;
use crate::tensor::{PyTensor, wrap};
use crate::transform::traced;
use crate::tree::flatten;
use ::tensor::Tensor;
use model::{Axis, Dimension, Export, Model};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::path::PathBuf;

/// A free dimension: its name, least and greatest size, and what sizes are multiples of.
type Dim = (String, usize, Option<usize>, usize);

/// Writes a function of tensors as a model: `axes` names the free axes of each input, "" is a fixed one.
#[pyfunction]
fn export_model(
    py: Python<'_>,
    f: Py<PyAny>,
    directory: PathBuf,
    name: &str,
    inputs: Vec<(String, Py<PyTensor>, Vec<String>)>,
    dims: Vec<Dim>,
    outputs: Vec<String>,
) -> PyResult<()> {
    let mut export = Export::new(name).outputs(&outputs.iter().map(String::as_str).collect::<Vec<_>>());
    for (name, example, axes) in &inputs {
        let axes: Vec<&str> = axes.iter().map(String::as_str).collect();
        export = export.input(name, &example.get().tensor(), &axes);
    }
    for (name, min, max, multiple_of) in dims {
        let any = Dimension::new(&name);
        export = export.dimension(Dimension { min, max: max.unwrap_or(any.max), multiple_of, ..any });
    }
    let call = |xs: &[Tensor]| {
        traced(|py| {
            let args = xs.iter().map(|x| wrap(py, x.clone())).collect::<PyResult<Vec<_>>>()?;
            let out = f.bind(py).call1(PyTuple::new(py, args)?)?;
            let mut leaves = Vec::new();
            flatten(&out, &mut leaves)?;
            Ok(leaves)
        })
    };
    let site = here(py);
    // Tracing takes the interpreter back when it calls the function.
    py.detach(|| site.scope(|| export.write(&directory, call))).or_raise(py)
}

/// An exported model.
#[pyclass(name = "Model", module = "talweg.serve", frozen)]
struct PyModel(Model);

#[pymethods]
impl PyModel {
    /// Reads a directory that ``export`` wrote. Every file is checked.
    #[staticmethod]
    fn load(py: Python<'_>, directory: PathBuf) -> PyResult<PyModel> {
        py.detach(|| Model::load(&directory)).map(PyModel).or_raise(py)
    }
    /// The outputs for these inputs, in the order of the signature.
    fn run(&self, py: Python<'_>, inputs: Vec<Py<PyTensor>>) -> PyResult<Vec<Py<PyTensor>>> {
        let inputs: Vec<Tensor> = inputs.iter().map(|t| t.get().tensor()).collect();
        let run = || self.0.run(&inputs.iter().map(Tensor::literal).collect::<::tensor::Result<Vec<_>>>()?);
        let outputs = py.detach(run).or_raise(py)?;
        outputs.into_iter().map(|l| wrap(py, Tensor::from(l))).collect()
    }
    /// What it takes and returns: name, inputs, outputs, each with name, dtype and shape; free axes have names.
    fn signature<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let s = self.0.signature();
        let specs = |specs: &[model::TensorSpec]| -> PyResult<Bound<'py, PyList>> {
            let one = |spec: &model::TensorSpec| {
                let d = PyDict::new(py);
                d.set_item("name", &spec.name)?;
                d.set_item("dtype", &spec.dtype)?;
                let axes = PyList::empty(py);
                for axis in &spec.shape {
                    match axis {
                        Axis::Fixed(n) => axes.append(n)?,
                        Axis::Free(name) => axes.append(name)?,
                        Axis::Derived => axes.append(py.None())?,
                    }
                }
                d.set_item("shape", axes)?;
                Ok(d)
            };
            PyList::new(py, specs.iter().map(one).collect::<PyResult<Vec<_>>>()?)
        };
        let out = PyDict::new(py);
        out.set_item("name", &s.name)?;
        out.set_item("inputs", specs(&s.inputs)?)?;
        out.set_item("outputs", specs(&s.outputs)?)?;
        out.set_item("is_batched", s.is_batched)?;
        Ok(out)
    }
    /// The graph at these sizes of the free dimensions, for people.
    fn graph(&self, py: Python<'_>, sizes: Vec<usize>) -> PyResult<String> {
        if sizes.len() != self.0.signature().dims.len() {
            return Err(value_error(&format!("{} sizes are needed", self.0.signature().dims.len())));
        }
        self.0.graph(&sizes).map(|g| g.to_string()).or_raise(py)
    }
}

/// Adds the functions and the class.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyModel>()?;
    m.add_function(wrap_pyfunction!(export_model, m)?)
}
