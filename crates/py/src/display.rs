//! What notebooks show: a tensor with its figures, a graph as an image.

use crate::convert::{Like, PyDType};
use crate::error::OrRaise;
use crate::tensor::{PyTensor, run};
use ::tensor::Literal;
use ir::{Collect, Graph, Value, collect, drawing};
use pyo3::prelude::*;
use std::fmt::Write;

/// Elements that figures are computed of at most: a notebook must not wait for them.
const COUNTED_MAX: usize = 1 << 24;

/// What a graph computes, as text and as an image.
#[pyclass(name = "Graph", module = "talweg", frozen)]
pub struct PyGraph(pub Graph);

#[pymethods]
impl PyGraph {
    fn __str__(&self) -> String {
        self.0.to_string()
    }
    fn __repr__(&self) -> String {
        format!("<graph of {} nodes with {} results>", self.0.nodes.len(), self.0.outputs.len())
    }
    fn __len__(&self) -> usize {
        self.0.nodes.len()
    }
    /// The names of its ops, in order.
    #[getter]
    fn ops(&self) -> Vec<&'static str> {
        self.0.nodes.iter().map(|n| n.op.name).collect()
    }
    /// The image as SVG.
    fn svg(&self) -> String {
        drawing::to_svg(&self.0)
    }
    fn _repr_svg_(&self) -> String {
        self.svg()
    }
    /// The graph in Graphviz' language.
    fn dot(&self) -> String {
        drawing::to_dot(&self.0)
    }
}

/// The graph that computes tensors which are not computed yet: variables, placeholders and what is
/// computed are its inputs.
#[pyfunction]
#[pyo3(signature = (*tensors))]
fn graph(py: Python<'_>, tensors: Vec<Like>) -> PyResult<PyGraph> {
    let values = tensors.iter().map(|t| t.0.value().cloned()).collect::<::tensor::Result<Vec<Value>>>().or_raise(py)?;
    collect(&values, Collect::Later).map(|c| PyGraph(c.graph)).or_raise(py)
}

/// Text that stands in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Least, mean and greatest element, and how many are not finite.
fn figures(l: &Literal) -> String {
    let (mut low, mut high, mut sum, mut odd) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0usize);
    let all = l.to_f64();
    for &x in all.iter() {
        if x.is_finite() {
            (low, high, sum) = (low.min(x), high.max(x), sum + x);
        } else {
            odd += 1;
        }
    }
    let mut out = String::new();
    let finite = all.len() - odd;
    if finite > 0 {
        let mean = sum / finite as f64;
        let _ = write!(out, ", from {low:.4} to {high:.4}, mean {mean:.4}");
    }
    if odd > 0 {
        let _ = write!(out, ", <b>{odd} not finite</b>");
    }
    out
}

/// A tensor for notebooks: what it is, its figures, its elements.
pub fn tensor_html(py: Python<'_>, t: &PyTensor, text: &str) -> PyResult<String> {
    let tensor = t.tensor();
    let ty = tensor.value().or_raise(py)?.ty().clone();
    let mut head = format!("<b>{}</b> {}", PyDType(ty.dtype).__repr__(), ty.shape);
    let is_known = !tensor.value().or_raise(py)?.node().is_symbolic();
    if is_known && (1..=COUNTED_MAX).contains(&ty.shape.count()) {
        head += &run(py, move || Ok(figures(&tensor.literal()?)))?;
    }
    Ok(format!("<div><small>{head}</small><pre>{}</pre></div>", escaped(text)))
}

/// Adds the class and the function.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyGraph>()?;
    m.add_function(wrap_pyfunction!(graph, m)?)
}
