//! Graphs in files, in the text and binary forms that every part of Talweg reads; graphs as functions.

use crate::convert::{Like, PyDType};
use crate::display::PyGraph;
use crate::error::{OrRaise, value_error};
use crate::site::here;
use crate::tensor::{PyTensor, wrap};
use ::tensor::{Error, Result, Tensor, find};
use ir::{Attr, Graph, Slot, Value};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// Reads either form.
fn decode(bytes: &[u8]) -> Result<Graph> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Graph::parse(text, &find),
        Err(_) => Graph::from_bytes(bytes, &find),
    }
}

/// Fails if a graph calls something that lives in this process only.
fn check(graph: &Graph) -> Result<()> {
    for n in &graph.nodes {
        for (_, a) in n.attrs.iter() {
            match a {
                Attr::Custom(c) => {
                    let e = format!("{} is a callback or an op of this process: a file cannot hold it", c.0.name());
                    return Err(Error::value(e).at(n.site));
                }
                Attr::Peers(p) => {
                    let e = format!("{} exchanges with other processes ({p:?}): a file cannot hold it", n.op.name);
                    return Err(Error::value(e).at(n.site));
                }
                Attr::Graph(g) => check(g)?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// Element type and shape of a value, with its name where it has one.
type Described = (String, PyDType, Vec<usize>);

impl PyGraph {
    fn described(&self, s: Slot) -> Described {
        let (n, ty) = (&self.0.nodes[s.node as usize], self.0.ty(s));
        (n.attrs.str("name").unwrap_or("").to_string(), PyDType(ty.dtype), ty.shape.to_vec())
    }
}

#[pymethods]
impl PyGraph {
    /// Reads the text form.
    #[staticmethod]
    fn parse(py: Python<'_>, text: &str) -> PyResult<PyGraph> {
        Graph::parse(text, &find).map(PyGraph).or_raise(py)
    }
    /// Reads the binary form.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<PyGraph> {
        Graph::from_bytes(data, &find).map(PyGraph).or_raise(py)
    }
    /// Reads a file in either form.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<PyGraph> {
        let in_file = |e: Error| Error { message: format!("{}: {}", path.display(), e.message), ..e };
        let bytes = std::fs::read(&path).map_err(|e| in_file(e.into())).or_raise(py)?;
        decode(&bytes).map_err(in_file).map(PyGraph).or_raise(py)
    }
    /// The binary form.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        check(&self.0).or_raise(py)?;
        Ok(PyBytes::new(py, &self.0.to_bytes()))
    }
    /// Writes a file: the text form if its name ends in `.txt`, else the binary form.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        check(&self.0).or_raise(py)?;
        let is_text = path.extension().is_some_and(|e| e == "txt");
        let bytes = if is_text { self.0.to_string().into_bytes() } else { self.0.to_bytes() };
        let in_file = |e: std::io::Error| Error::from(e);
        std::fs::write(&path, bytes).map_err(in_file).or_raise(py)
    }
    /// Name, element type and shape of each input.
    #[getter]
    fn inputs(&self) -> Vec<Described> {
        self.0.inputs.iter().map(|&i| self.described(Slot::new(i as usize, 0))).collect()
    }
    /// Element type and shape of each result.
    #[getter]
    fn outputs(&self) -> Vec<(PyDType, Vec<usize>)> {
        self.0.outputs.iter().map(|&s| (PyDType(self.0.ty(s).dtype), self.0.ty(s).shape.to_vec())).collect()
    }
    /// The results for these inputs, as tensors that are computed when they are read: gradients, `jit` and `vmap` go
    /// through them as through any other.
    #[pyo3(signature = (*args))]
    fn __call__(&self, py: Python<'_>, args: Vec<Like>) -> PyResult<Vec<Py<PyTensor>>> {
        if args.len() != self.0.inputs.len() {
            let e = format!("the graph takes {} inputs, but {} were given", self.0.inputs.len(), args.len());
            return Err(value_error(e));
        }
        for (k, (a, &i)) in args.iter().zip(&self.0.inputs).enumerate() {
            let (got, want) = (a.0.value().or_raise(py)?.ty(), &self.0.nodes[i as usize].outs[0]);
            if got != want {
                let name = self.described(Slot::new(i as usize, 0)).0;
                return Err(value_error(format!("input {k} ({name}) is {want}, but {got} was given")));
            }
        }
        let values = args.iter().map(|a| a.0.value().cloned()).collect::<Result<Vec<Value>>>().or_raise(py)?;
        let outs = here(py).scope(|| self.0.inline(&values)).or_raise(py)?;
        outs.into_iter().map(|v| wrap(py, Tensor::from(v))).collect()
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Py<PyAny>, (Bound<'py, PyBytes>,))> {
        let class = py.get_type::<PyGraph>();
        Ok((class.getattr("from_bytes")?.unbind(), (self.to_bytes(py)?,)))
    }
}
