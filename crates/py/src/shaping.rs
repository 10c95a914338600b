//! Methods that take sizes one by one, words, or settings that no row of the table has.

use crate::convert::{AxesArg, DTypeArg, Ints, PerAxisArg, PyDType, Sizes, Word, arg, either, refused};
use crate::error::type_error;
use crate::site::here;
use crate::tensor::{Out, PyTensor, arrange, call};
use ::tensor::nn::{InterpolateOptions, Interpolation, Resize};
use ::tensor::{Axes, Pad};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

#[pymethods]
impl PyTensor {
    /// Converted to another element type.
    #[pyo3(signature = (dtype, *, copy=true))]
    fn astype(&self, py: Python<'_>, dtype: DTypeArg, #[pyo3(from_py_with = arg)] copy: bool) -> PyResult<Py<PyAny>> {
        // Values never change, so that a copy is never needed.
        let _ = copy;
        call(py, || self.tensor().cast(dtype.0))
    }
    /// The same elements in another shape; one size may be -1 and follows from the others.
    #[pyo3(signature = (*shape), text_signature = "($self, *shape)")]
    fn reshape(&self, py: Python<'_>, shape: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let sizes = spread(shape)?;
        arrange(py, self, |t| t.view(&sizes))
    }
    /// The same elements in another shape; of a type, the same bytes as elements of that type.
    #[pyo3(signature = (*shape), text_signature = "($self, *shape)")]
    fn view<'py>(slf: &Bound<'py, PyTensor>, shape: &Bound<'py, PyTuple>) -> PyResult<Py<PyAny>> {
        match shape.get_item(0) {
            Ok(first) if first.is_instance_of::<PyDType>() => Ok(slf.call_method1("_view_type", (first,))?.unbind()),
            _ => slf.get().reshape(slf.py(), shape),
        }
    }
    /// The axes in another order.
    #[pyo3(signature = (*dims, **named), text_signature = "($self, *dims)")]
    fn permute(
        &self,
        py: Python<'_>,
        dims: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let given = named.and_then(|d| d.get_item("dims").ok().flatten());
        let axes = match (given, named.map_or(0, |d| d.len())) {
            (Some(dims), 1) => dims.extract::<Ints>()?.0,
            (None, 0) => spread(dims)?,
            _ => return Err(type_error("permute: expected dims")),
        };
        arrange(py, self, |t| t.permute(&axes))
    }
    /// Repeated along dimensions of size 1 without copying; -1 keeps a size.
    #[pyo3(signature = (*sizes), text_signature = "($self, *sizes)")]
    fn expand(&self, py: Python<'_>, sizes: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let sizes = spread(sizes)?;
        arrange(py, self, |t| t.expand(&sizes))
    }
    /// Repeated along each axis, as PyTorch's `repeat`.
    #[pyo3(signature = (*times), text_signature = "($self, *times)")]
    fn repeat(&self, py: Python<'_>, times: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let times = if times.len() == 1 { times.get_item(0)?.extract::<Sizes>()? } else { times.extract::<Sizes>()? };
        call(py, || self.tensor().repeat(&times.0))
    }
    /// Padded at the edges of the last dimensions: `widths` are before and after, last dimension
    /// first.
    #[pyo3(signature = (widths, mode="constant", value=0.0))]
    fn pad(
        &self,
        py: Python<'_>,
        widths: Ints,
        #[pyo3(from_py_with = arg)] mode: &str,
        #[pyo3(from_py_with = arg)] value: f64,
    ) -> PyResult<Py<PyAny>> {
        let mode = match mode {
            "constant" => Pad::Constant(value),
            "reflect" => Pad::Reflect,
            "replicate" => Pad::Replicate,
            "circular" => Pad::Circular,
            other => return Err(refused(py, format!("there is no padding {other:?}"))),
        };
        call(py, || self.tensor().pad(&widths.0, mode))
    }
    /// Resized images: to `size`, or by `scale_factor`.
    #[pyo3(signature = (size=None, scale_factor=None, mode=Word(Interpolation::Nearest), align_corners=false),
        text_signature = "($self, size=None, scale_factor=None, mode='nearest', align_corners=False)")]
    fn interpolate(
        &self,
        py: Python<'_>,
        size: Option<PerAxisArg>,
        scale_factor: Option<&Bound<'_, PyAny>>,
        mode: Word<Interpolation>,
        #[pyo3(from_py_with = arg)] align_corners: bool,
    ) -> PyResult<Py<PyAny>> {
        let size = match (size, scale_factor) {
            (Some(s), None) => Resize::To(s.0),
            (None, Some(f)) => Resize::By(f.extract::<f64>().map(|x| vec![x]).or_else(|_| f.extract::<Vec<f64>>())?),
            _ => return Err(type_error("give either size or scale_factor")),
        };
        let options = InterpolateOptions { mode: mode.0, align_corners, ..Default::default() };
        call(py, || self.tensor().interpolate(size, options))
    }
    /// The distinct elements in order, with the place of each element among them and how often each
    /// stands there, where asked for.
    #[pyo3(signature = (return_inverse=false, return_counts=false))]
    fn unique(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg)] return_inverse: bool,
        #[pyo3(from_py_with = arg)] return_counts: bool,
    ) -> PyResult<Py<PyAny>> {
        let t = self.tensor();
        let site = here(py);
        let [values, inverse, counts] = py.detach(|| site.scope(|| t.unique()));
        match (return_inverse, return_counts) {
            (false, false) => values.object(py),
            (true, false) => [values, inverse].object(py),
            (false, true) => [values, counts].object(py),
            (true, true) => [values, inverse, counts].object(py),
        }
    }
    /// The largest element, or the largest along axes.
    #[pyo3(name = "amax", signature = (dim=None, keepdim=false, *, axis=None, keepdims=None))]
    fn largest(
        &self,
        py: Python<'_>,
        dim: Option<AxesArg>,
        #[pyo3(from_py_with = arg)] keepdim: bool,
        axis: Option<AxesArg>,
        #[pyo3(from_py_with = arg)] keepdims: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let axes = either(axis, dim)?.map_or(Axes::All, |a| a.0);
        call(py, || if keepdims.unwrap_or(keepdim) { self.tensor().max_keep(axes) } else { self.tensor().max(axes) })
    }
    /// The smallest element, or the smallest along axes.
    #[pyo3(name = "amin", signature = (dim=None, keepdim=false, *, axis=None, keepdims=None))]
    fn smallest(
        &self,
        py: Python<'_>,
        dim: Option<AxesArg>,
        #[pyo3(from_py_with = arg)] keepdim: bool,
        axis: Option<AxesArg>,
        #[pyo3(from_py_with = arg)] keepdims: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let axes = either(axis, dim)?.map_or(Axes::All, |a| a.0);
        call(py, || if keepdims.unwrap_or(keepdim) { self.tensor().min_keep(axes) } else { self.tensor().min(axes) })
    }
}

/// Sizes given one by one or as one sequence.
fn spread(items: &Bound<'_, PyTuple>) -> PyResult<Vec<i64>> {
    if items.len() == 1 { Ok(items.get_item(0)?.extract::<Ints>()?.0) } else { Ok(items.extract::<Ints>()?.0) }
}
