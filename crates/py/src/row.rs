//! Rows of the op table by name, for the package's own code: those that are no methods, such as the gradients of
//! convolutions.

use crate::convert::{DTypeArg, Like};
use crate::error::{OrRaise, type_error, value_error};
use crate::site::here;
use crate::tensor::wrap;
use ::tensor::Tensor;
use ir::{Attr, AttrKind, Attrs};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// A setting of the kind that a row takes.
fn attribute(kind: AttrKind, value: &Bound<'_, PyAny>) -> PyResult<Attr> {
    Ok(match kind {
        AttrKind::Bool => value.extract::<bool>()?.into(),
        AttrKind::Int => value.extract::<i64>()?.into(),
        AttrKind::Float => value.extract::<f64>()?.into(),
        AttrKind::Str => value.extract::<String>()?.as_str().into(),
        AttrKind::Ints => value.extract::<Vec<i64>>()?.as_slice().into(),
        AttrKind::DType => value.extract::<DTypeArg>()?.0.into(),
        _ => return Err(type_error(format!("a setting of kind {kind:?} is not made of Python's values"))),
    })
}

/// Applies the row with that name; the results, always as a tuple.
#[pyfunction]
fn apply_row<'py>(
    py: Python<'py>,
    name: &str,
    inputs: &Bound<'py, PyList>,
    settings: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyTuple>> {
    let Some(op) = ::tensor::find(name) else { return Err(value_error(format!("there is no op {name:?}"))) };
    let mut attrs = Attrs::new();
    for &(attr, kind) in op.attrs {
        if let Some(value) = settings.get_item(attr)? {
            attrs = attrs.with(attr, attribute(kind, &value)?);
        }
    }
    let inputs = inputs.iter().map(|t| Ok(t.extract::<Like>()?.0)).collect::<PyResult<Vec<Tensor>>>()?;
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let results = here(py).scope(|| Tensor::apply(op, &inputs, attrs));
    results.first().map_or(Ok(()), |t| t.value().map(|_| ()).or_raise(py))?;
    PyTuple::new(py, results.into_iter().map(|t| wrap(py, t)).collect::<PyResult<Vec<_>>>()?)
}

/// Adds the function.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(apply_row, m)?)
}
