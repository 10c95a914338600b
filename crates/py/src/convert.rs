//! Python objects as what ops take: tensors and what can become one, axes, shapes, words.

use crate::error::{OrRaise, exception, ours, type_error};
use crate::exchange;
use crate::site::here;
use crate::tensor::PyTensor;
use ::tensor::linalg::{FftNorm, MatrixNorm, Triangle};
use ::tensor::loss::Reduction;
use ::tensor::nn::{Interpolation, Padding, PerAxis};
use ::tensor::{Axes, Combine, DType, Error, Number, Operand, Result, Shape, Tensor};
use ir::Complex;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyString, PyTuple, PyType};
use std::sync::atomic::{AtomicUsize, Ordering};

type Any<'a, 'py> = Borrowed<'a, 'py, PyAny>;

/// The name of an object's type, for messages.
pub fn type_name(obj: &Bound<'_, PyAny>) -> String {
    obj.get_type().name().map_or_else(|_| "object".into(), |n| n.to_string())
}

/// An argument of a type that PyO3 converts. What is not of that type raises our exceptions, with the
/// line of the program, instead of Python's plain ones.
pub fn arg<'a, 'py, T: FromPyObject<'a, 'py>>(obj: &'a Bound<'py, PyAny>) -> PyResult<T> {
    obj.extract::<T>().map_err(|e| ours(obj.py(), e.into()))
}

/// Something that is a tensor or can become one.
pub struct Like(pub Tensor);
impl<'a, 'py> FromPyObject<'a, 'py> for Like {
    type Error = PyErr;
    fn extract(obj: Any<'a, 'py>) -> PyResult<Like> {
        match exchange::tensor_of(&obj, None)? {
            Some(t) => Ok(Like(t)),
            None => {
                let e = format!("expected a tensor, a number or an array, not {}", type_name(&obj));
                Err(type_error(e))
            }
        }
    }
}

/// Several of them.
pub struct Likes(pub Vec<Tensor>);
impl<'a, 'py> FromPyObject<'a, 'py> for Likes {
    type Error = PyErr;
    fn extract(obj: Any<'a, 'py>) -> PyResult<Likes> {
        let items = obj.try_iter().map_err(|e| ours(obj.py(), e))?.map(|x| Ok(x?.extract::<Like>()?.0));
        Ok(Likes(items.collect::<PyResult<_>>()?))
    }
}

/// The other side of an operator: a tensor, or a number that takes the tensor's type.
pub enum Other {
    /// A tensor.
    Tensor(Tensor),
    /// A complex number.
    Complex(Complex<f64>),
    /// A float.
    Float(f64),
    /// An integer that some type of 64 bits holds.
    Int(i128),
    /// A boolean.
    Bool(bool),
}
impl Other {
    /// From an object, if it is any of these.
    pub fn of(obj: &Bound<'_, PyAny>) -> PyResult<Option<Other>> {
        if let Ok(t) = obj.cast::<PyTensor>() {
            return Ok(Some(Other::Tensor(t.get().tensor())));
        }
        if let Ok(x) = obj.cast_exact::<PyFloat>() {
            return Ok(Some(Other::Float(x.extract()?)));
        }
        if let Ok(z) = obj.cast_exact::<PyComplex>() {
            return Ok(Some(Other::Complex(Complex::new(z.real(), z.imag()))));
        }
        if obj.is_instance_of::<PyBool>() {
            return Ok(Some(Other::Bool(obj.extract()?)));
        }
        if obj.is_instance_of::<PyInt>() {
            return Ok(Some(match exchange::whole(obj) {
                Ok(i) => Other::Int(i),
                Err(_) => Other::Float(obj.extract()?),
            }));
        }
        if is_numpy_scalar(obj) {
            return Other::of(&obj.call_method0("item")?);
        }
        Ok(exchange::tensor_of(obj, None)?.map(Other::Tensor))
    }
}
/// True for a number of NumPy's, such as `np.sqrt(2)`, which takes the tensor's type as Python's numbers do.
pub fn is_numpy_scalar(obj: &Bound<'_, PyAny>) -> bool {
    let class = obj.get_type();
    let is_numpy = class.module().is_ok_and(|m| m == "numpy");
    is_numpy && !class.name().is_ok_and(|n| n == "ndarray") && class.hasattr("item").unwrap_or(false)
}
impl<'a, 'py> FromPyObject<'a, 'py> for Other {
    type Error = PyErr;
    fn extract(obj: Any<'a, 'py>) -> PyResult<Other> {
        Other::of(&obj)?
            .ok_or_else(|| type_error(format!("expected a tensor, a number or an array, not {}", type_name(&obj))))
    }
}
impl Operand for Other {
    #[track_caller]
    fn operand(self, dtype: DType) -> Tensor {
        fn number<N: Number>(n: N, dtype: DType) -> Tensor {
            n.operand(dtype)
        }
        match self {
            Other::Tensor(t) => t,
            Other::Complex(z) => number(z, dtype),
            Other::Float(x) if !dtype.is_inexact() && default_float() != DType::F32 => number(x, default_float()),
            Other::Float(x) => number(x, dtype),
            Other::Int(x) => match i64::try_from(x) {
                Ok(x) => number(x, dtype),
                Err(_) if dtype == DType::U64 => number(x as u64, dtype),
                Err(_) => number(x as f64, dtype),
            },
            Other::Bool(x) => number(x, dtype),
        }
    }
    /// As in PyTorch, a tensor without dimensions takes the type of one with some, unless its kind is higher.
    fn beside(self, left: &Tensor) -> Result<(Tensor, Tensor)> {
        let a = left.value()?.ty();
        let Other::Tensor(right) = self else { return Ok((left.clone(), self.operand(a.dtype))) };
        let b = right.value()?.ty();
        let weak = |t: &Tensor, strong: DType, own: DType| t.cast(weak_type(strong, own));
        Ok(match (a.shape.rank(), b.shape.rank()) {
            (0, n) if n > 0 => (weak(left, b.dtype, a.dtype), right),
            (n, 0) if n > 0 => (left.clone(), weak(&right, a.dtype, b.dtype)),
            _ => (left.clone(), right),
        })
    }
}
/// The type of a tensor of type `own` without dimensions that meets one of type `strong` with some.
pub fn weak_type(strong: DType, own: DType) -> DType {
    match (strong, own) {
        (a, b) if a == b || a.is_f8() || b.is_f8() => b,
        (DType::F64, b) if b.is_complex() => DType::C128,
        (a, b) if a.is_float() && b.is_complex() => DType::C64,
        (a, b) => a.promote_scalar(b),
    }
}

/// One integer or several.
fn integers(obj: Any<'_, '_>) -> PyResult<Vec<i64>> {
    if let Ok(i) = obj.extract::<i64>() {
        return Ok(vec![i]);
    }
    if let Ok(v) = obj.extract::<Vec<i64>>() {
        return Ok(v);
    }
    if let Ok(t) = obj.cast::<PyTensor>() {
        let l = t.get().literal(obj.py())?;
        if l.dtype().is_int() {
            return Ok(l.to_i64());
        }
    }
    Err(type_error(format!("expected an int or a sequence of ints, not {}", type_name(&obj))))
}
/// The same, none negative.
fn sizes(obj: Any<'_, '_>) -> PyResult<Vec<usize>> {
    let py = obj.py();
    let v = integers(obj)?;
    match v.iter().find(|&&d| d < 0) {
        Some(d) => Err(refused(py, format!("a size must not be negative: {d}"))),
        None => Ok(v.into_iter().map(|d| d as usize).collect()),
    }
}

/// How many of something an op may be asked for: more is a mistake, and some ops make a list of them.
const COUNT_MAX: i64 = 1 << 32;

fn count(obj: Any<'_, '_>) -> PyResult<usize> {
    match obj.extract::<i64>() {
        Ok(n) if (0..=COUNT_MAX).contains(&n) => Ok(n as usize),
        Ok(n) => Err(refused(obj.py(), format!("expected a number from 0 to {COUNT_MAX}, not {n}"))),
        Err(e) => Err(ours(obj.py(), e)),
    }
}

/// The exception for an argument of the right type that makes no sense.
pub fn refused(py: Python<'_>, why: String) -> PyErr {
    exception(py, &Error::value(why).at(here(py)))
}

macro_rules! arguments {
    ($($(#[$doc:meta])* $name:ident($inner:ty) = $from:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name(pub $inner);
        impl<'a, 'py> FromPyObject<'a, 'py> for $name {
            type Error = PyErr;
            fn extract(obj: Any<'a, 'py>) -> PyResult<$name> {
                let from: fn(Any<'_, '_>) -> PyResult<$inner> = $from;
                from(obj).map($name)
            }
        }
    )*};
}
arguments! {
    /// How many of something.
    Count(usize) = count;
    /// Integers.
    Ints(Vec<i64>) = integers;
    /// Sizes.
    Sizes(Vec<usize>) = sizes;
    /// A shape: one size or several.
    ShapeArg(Shape) = |o| Ok(Shape::new(&sizes(o)?));
    /// One axis or several.
    AxesArg(Axes) = |o| {
        // An empty list is all of them, as in PyTorch.
        let axes = integers(o)?;
        Ok(if axes.is_empty() { Axes::All } else { Axes::from(axes) })
    };
    /// One size for every spatial dimension, or one for each.
    PerAxisArg(PerAxis) = |o| Ok(PerAxis::from(sizes(o)?));
    /// Padding of a convolution: a word, or widths.
    PaddingArg(Padding) = |o| Ok(match o.extract::<&str>() {
        Ok(word) => Padding::from(word),
        Err(_) => Padding::from(PerAxis::from(sizes(o)?)),
    });
    /// An element type.
    DTypeArg(DType) = dtype_of;
}

/// A result written to the tensor of `out=`, if there is one.
pub fn stored(py: Python<'_>, out: Option<Py<PyTensor>>, y: PyResult<Py<PyAny>>) -> PyResult<Py<PyAny>> {
    let Some(out) = out else { return y };
    let y = y?;
    let value = y.bind(py).cast::<PyTensor>().map_err(PyErr::from)?.get().tensor();
    let (is, was) = (value.shape().or_raise(py)?, out.get().tensor().shape().or_raise(py)?);
    if is != was {
        let e = format!("out= has shape {was}, the result {is}; a tensor keeps its shape, so make it of that shape");
        return Err(refused(py, e));
    }
    out.get().change(py, value)?;
    Ok(out.into_any())
}

/// PyTorch's spelling of a dimension, or NumPy's.
pub fn either<T>(axis: Option<T>, dim: Option<T>) -> PyResult<Option<T>> {
    match (axis, dim) {
        (Some(_), Some(_)) => Err(type_error("axis and dim are the same argument: give one of them")),
        (a, d) => Ok(a.or(d)),
    }
}

/// A setting with few values, given as a word.
pub trait Worded: Sized {
    /// From the Python object.
    fn of(obj: &Bound<'_, PyAny>) -> PyResult<Self>;
}
/// A setting given as a word.
pub struct Word<T>(pub T);
impl<'a, 'py, T: Worded> FromPyObject<'a, 'py> for Word<T> {
    type Error = PyErr;
    fn extract(obj: Any<'a, 'py>) -> PyResult<Word<T>> {
        T::of(&obj).map(Word)
    }
}
/// One of the words, or an error that lists them.
fn among<T: Clone>(obj: &Bound<'_, PyAny>, words: &[(&str, T)]) -> PyResult<T> {
    let given = obj.cast::<PyString>().map_err(PyErr::from).and_then(|s| s.extract::<String>());
    let given = given.map_err(|e| ours(obj.py(), e))?;
    match words.iter().find(|(w, _)| *w == given) {
        Some((_, t)) => Ok(t.clone()),
        None => {
            let known: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
            Err(refused(obj.py(), format!("expected one of {known:?}, not {given:?}")))
        }
    }
}
impl Worded for Reduction {
    fn of(obj: &Bound<'_, PyAny>) -> PyResult<Reduction> {
        let words = [
            ("none", Reduction::None),
            ("mean", Reduction::Mean),
            ("sum", Reduction::Sum),
            ("batchmean", Reduction::BatchMean),
        ];
        among(obj, &words)
    }
}
impl Worded for FftNorm {
    fn of(obj: &Bound<'_, PyAny>) -> PyResult<FftNorm> {
        among(obj, &[("backward", FftNorm::Backward), ("ortho", FftNorm::Ortho), ("forward", FftNorm::Forward)])
    }
}
impl Worded for Interpolation {
    fn of(obj: &Bound<'_, PyAny>) -> PyResult<Interpolation> {
        let words = [
            ("nearest", Interpolation::Nearest),
            ("nearest-exact", Interpolation::NearestExact),
            ("linear", Interpolation::Linear),
            ("bilinear", Interpolation::Linear),
            ("trilinear", Interpolation::Linear),
            ("bicubic", Interpolation::Cubic),
            ("area", Interpolation::Area),
        ];
        among(obj, &words)
    }
}
impl Worded for Combine {
    fn of(obj: &Bound<'_, PyAny>) -> PyResult<Combine> {
        let words = [
            ("sum", Combine::Sum),
            ("mean", Combine::Mean),
            ("prod", Combine::Prod),
            ("amax", Combine::Max),
            ("amin", Combine::Min),
        ];
        among(obj, &words)
    }
}
impl Worded for Triangle {
    fn of(obj: &Bound<'_, PyAny>) -> PyResult<Triangle> {
        among(obj, &[("L", Triangle::Lower), ("U", Triangle::Upper)])
    }
}
impl Worded for MatrixNorm {
    fn of(obj: &Bound<'_, PyAny>) -> PyResult<MatrixNorm> {
        if let Ok(x) = obj.extract::<f64>() {
            return Ok(MatrixNorm::Order(x));
        }
        among(obj, &[("fro", MatrixNorm::Frobenius), ("nuc", MatrixNorm::Nuclear)])
    }
}

/// An element type.
#[pyclass(name = "dtype", module = "talweg", frozen, eq, hash)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PyDType(pub DType);

impl PyDType {
    /// NumPy's name.
    pub fn long_name(self) -> &'static str {
        match self.0 {
            DType::Bool => "bool",
            DType::U8 => "uint8",
            DType::I8 => "int8",
            DType::U16 => "uint16",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::U32 => "uint32",
            DType::U64 => "uint64",
            DType::I64 => "int64",
            DType::F8E4M3 => "float8_e4m3fn",
            DType::F8E5M2 => "float8_e5m2",
            DType::F16 => "float16",
            DType::BF16 => "bfloat16",
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::C64 => "complex64",
            DType::C128 => "complex128",
        }
    }
}

static DTYPES: PyOnceLock<Vec<Py<PyDType>>> = PyOnceLock::new();

/// The one object of an element type, so that `x.dtype is tw.float32`.
pub fn dtype_object(py: Python<'_>, dtype: DType) -> PyResult<Py<PyDType>> {
    let made = || DType::ALL.iter().map(|d| Py::new(py, PyDType(*d))).collect::<PyResult<Vec<_>>>();
    let all = DTYPES.get_or_try_init(py, made)?;
    let place = DType::ALL.iter().position(|d| *d == dtype).unwrap_or_default();
    Ok(all[place].clone_ref(py))
}
/// The one object of the element type that something stands for.
#[pyfunction]
fn dtype_of_name(py: Python<'_>, what: DTypeArg) -> PyResult<Py<PyDType>> {
    dtype_object(py, what.0)
}

/// The default floating-point dtype: float32, unless `set_default_dtype` changed it.
static DEFAULT_FLOAT: AtomicUsize = AtomicUsize::new(usize::MAX);
pub fn default_float() -> DType {
    DType::ALL.get(DEFAULT_FLOAT.load(Ordering::Relaxed)).copied().unwrap_or(DType::F32)
}
/// Sets the default floating-point dtype.
#[pyfunction]
fn set_default_float(dtype: DTypeArg) -> PyResult<()> {
    if !dtype.0.is_float() {
        return Err(type_error(format!(
            "set_default_dtype: expected a float type, not {}",
            PyDType(dtype.0).__repr__()
        )));
    }
    let place = DType::ALL.iter().position(|d| *d == dtype.0).unwrap_or_default();
    DEFAULT_FLOAT.store(place, Ordering::Relaxed);
    Ok(())
}
/// The default floating-point dtype.
#[pyfunction]
fn get_default_float(py: Python<'_>) -> PyResult<Py<PyDType>> {
    dtype_object(py, default_float())
}
/// The complex type whose parts are default floats.
pub fn default_complex() -> DType {
    if default_float() == DType::F64 { DType::C128 } else { DType::C64 }
}

/// The Python class of shapes, a tuple.
static SIZE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
/// Says which class shapes are of.
#[pyfunction]
fn set_size_class(class: &Bound<'_, PyType>) -> PyResult<()> {
    if !class.is_subclass_of::<PyTuple>()? {
        return Err(type_error("a shape is a tuple"));
    }
    let _ = SIZE.set(class.py(), class.clone().unbind());
    Ok(())
}
/// A shape as Python's object.
pub fn size_object<'py>(py: Python<'py>, shape: &Shape) -> PyResult<Bound<'py, PyAny>> {
    match SIZE.get(py) {
        Some(class) => exchange::tuple_of(class.bind(py), shape),
        None => Ok(PyTuple::new(py, shape.iter())?.into_any()),
    }
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyDType>()?;
    m.add_function(wrap_pyfunction!(dtype_of_name, m)?)?;
    m.add_function(wrap_pyfunction!(set_default_float, m)?)?;
    m.add_function(wrap_pyfunction!(get_default_float, m)?)?;
    m.add_function(wrap_pyfunction!(set_size_class, m)?)
}

#[pymethods]
impl PyDType {
    #[new]
    fn new(what: DTypeArg) -> PyDType {
        PyDType(what.0)
    }
    /// NumPy's name of it.
    #[getter]
    fn name(&self) -> &'static str {
        self.long_name()
    }
    /// Bytes an element takes.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size()
    }
    /// True for floats.
    #[getter]
    fn is_floating_point(&self) -> bool {
        self.0.is_float()
    }
    /// True if there are negative numbers of it.
    #[getter]
    fn is_signed(&self) -> bool {
        !matches!(self.0, DType::Bool | DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }
    /// The type of a complex type's parts; others are their own.
    #[pyo3(name = "to_real")]
    fn real_type(&self, py: Python<'_>) -> PyResult<Py<PyDType>> {
        dtype_object(py, self.0.part())
    }
    /// The complex type with parts of this one.
    #[pyo3(name = "to_complex")]
    fn complex_type(&self, py: Python<'_>) -> PyResult<Py<PyDType>> {
        dtype_object(py, self.0.to_complex())
    }
    /// True for complex numbers.
    #[getter]
    fn is_complex(&self) -> bool {
        self.0.is_complex()
    }
    pub fn __repr__(&self) -> String {
        format!("talweg.{}", self.long_name())
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyType>, (&'static str,)) {
        (py.get_type::<PyDType>().unbind(), (self.long_name(),))
    }
}

/// An element type from what people write: `tw.float32`, `"float32"`, `np.float32`, `float`.
fn dtype_of(obj: Any<'_, '_>) -> PyResult<DType> {
    if let Ok(d) = obj.cast::<PyDType>() {
        return Ok(d.get().0);
    }
    let py = obj.py();
    if obj.is(&py.get_type::<PyFloat>()) {
        return Ok(DType::F64);
    }
    if obj.is(&py.get_type::<PyComplex>()) {
        return Ok(DType::C128);
    }
    if obj.is(&py.get_type::<PyBool>()) {
        return Ok(DType::Bool);
    }
    if obj.is(&py.get_type::<PyInt>()) {
        return Ok(DType::I64);
    }
    // NumPy's types have `__name__` (classes) or `name` (dtype objects).
    let name = if obj.is_instance_of::<PyString>() {
        obj.extract::<String>()?
    } else if obj.is_instance_of::<PyType>() {
        obj.getattr("__name__")?.extract()?
    } else {
        match obj.getattr("name").and_then(|n| n.extract()) {
            Ok(name) => name,
            Err(_) => return Err(type_error(format!("expected an element type, not {}", type_name(&obj)))),
        }
    };
    let short = name.rsplit('.').next().unwrap_or(&name).trim_end_matches('_');
    DType::parse(short).ok_or_else(|| {
        let known: Vec<&str> = DType::ALL.iter().map(|d| PyDType(*d).long_name()).collect();
        type_error(format!("{name:?} is not an element type; there are {}", known.join(", ")))
    })
}
