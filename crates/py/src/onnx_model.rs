//! ONNX models: reading and running one, and writing one from a Python function.

use crate::error::OrRaise;
use crate::site::here;
use crate::tensor::{PyTensor, wrap};
use crate::transform::{is_tracing, traced};
use crate::tree::flatten;
use ::tensor::Tensor;
use ir::Type;
use onnx::{Export, Model, Options, Sizes};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::path::PathBuf;

/// A model from an ONNX file.
#[pyclass(name = "OnnxModel", module = "talweg.onnx", frozen)]
struct PyOnnx(Model);

/// A port: name, element type, and sizes (numbers or names) or `None`.
type PyPort = (String, String, Option<Vec<Py<PyAny>>>);

fn ports(py: Python<'_>, ports: &[onnx::Port]) -> PyResult<Vec<PyPort>> {
    let size = |d: Result<usize, String>| -> PyResult<Py<PyAny>> {
        Ok(match d {
            Ok(n) => n.into_pyobject(py)?.into_any().unbind(),
            Err(n) if n.is_empty() => py.None(),
            Err(n) => n.into_pyobject(py)?.into_any().unbind(),
        })
    };
    let one = |p: &onnx::Port| {
        let kind = p.elem().map_or_else(|| p.describe(), |e| e.name().to_string());
        let sizes = p.sizes().map(|s| s.into_iter().map(size).collect::<PyResult<Vec<_>>>()).transpose()?;
        Ok((p.name.clone(), kind, sizes))
    };
    ports.iter().map(one).collect()
}

#[pymethods]
impl PyOnnx {
    /// Reads a file, with external data from its folder.
    #[staticmethod]
    #[pyo3(signature = (path, memory_limit=None))]
    fn open(py: Python<'_>, path: PathBuf, memory_limit: Option<u64>) -> PyResult<PyOnnx> {
        py.detach(|| Model::open_with(path, Options { memory_limit })).map(PyOnnx).or_raise(py)
    }
    /// Reads a model in memory.
    #[staticmethod]
    #[pyo3(signature = (data, memory_limit=None))]
    fn from_bytes(py: Python<'_>, data: Vec<u8>, memory_limit: Option<u64>) -> PyResult<PyOnnx> {
        py.detach(|| Model::from_bytes(data, Options { memory_limit })).map(PyOnnx).or_raise(py)
    }
    /// The outputs for these inputs. Part of a trace or of a gradient where one is asked for, else compiled with the
    /// weights inside.
    fn run(&self, py: Python<'_>, inputs: Vec<Py<PyTensor>>, is_recorded: bool) -> PyResult<Vec<Py<PyTensor>>> {
        let inputs: Vec<Tensor> = inputs.iter().map(|t| t.get().tensor()).collect();
        let is_recorded = is_recorded || is_tracing();
        let site = here(py);
        let run = || if is_recorded { self.0.forward(&inputs) } else { self.0.run_tensors(&inputs) };
        let outputs = py.detach(|| site.scope(run)).or_raise(py)?;
        outputs.into_iter().map(|t| wrap(py, t)).collect()
    }
    /// Name, element type and sizes of each input.
    fn inputs(&self, py: Python<'_>) -> PyResult<Vec<PyPort>> {
        ports(py, self.0.inputs())
    }
    /// Name, element type and sizes of each output.
    fn outputs(&self, py: Python<'_>) -> PyResult<Vec<PyPort>> {
        ports(py, self.0.outputs())
    }
    /// Its weights by name: variables, which can be trained.
    fn weights(&self, py: Python<'_>) -> PyResult<Vec<(String, Py<PyTensor>)>> {
        let one = |(n, v): &(String, ::tensor::Variable)| Ok((n.clone(), Py::new(py, PyTensor::from(v.clone()))?));
        self.0.weights().iter().map(one).collect()
    }
    /// How often each operator occurs.
    fn operators(&self) -> Vec<(String, usize)> {
        self.0.operators()
    }
    /// Its operator sets with their versions.
    fn opsets(&self) -> Vec<(String, i64)> {
        self.0.opsets().to_vec()
    }
    /// Whether it runs node by node because sizes depend on values; known after the first run.
    fn is_eager(&self) -> bool {
        self.0.is_eager()
    }
    /// Writes it in Talweg's own format; sizes that are given are fixed.
    fn export(&self, py: Python<'_>, directory: PathBuf, name: &str, sizes: &Bound<'_, PyDict>) -> PyResult<()> {
        let sizes: Sizes = sizes.extract()?;
        py.detach(|| self.0.export(directory, name, &sizes)).or_raise(py)
    }
}

/// Writes a function of tensors as an ONNX file: `axes` names the free axes of each input, "" is a fixed one.
#[pyfunction]
fn onnx_save(
    py: Python<'_>,
    f: Py<PyAny>,
    path: PathBuf,
    name: &str,
    inputs: Vec<(String, Py<PyTensor>, Vec<String>)>,
    outputs: Vec<String>,
) -> PyResult<()> {
    let mut export = Export::new(name).outputs(&outputs.iter().map(String::as_str).collect::<Vec<_>>());
    for (name, example, axes) in &inputs {
        let t = example.get().tensor();
        let ty: Type = t.value().or_raise(py)?.ty().clone();
        export = export.input(name, ty, &axes.iter().map(String::as_str).collect::<Vec<_>>());
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
    py.detach(|| site.scope(|| export.write(&path, call))).or_raise(py)
}

/// Adds the functions and the class.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyOnnx>()?;
    m.add_function(wrap_pyfunction!(onnx_save, m)?)
}
