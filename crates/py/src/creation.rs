//! Tensors from nothing: filled, counted and random ones; the state of the generator; gradients on
//! and off.

use crate::convert::{
    Count, DTypeArg, Like, PyDType, ShapeArg, arg, default_complex, default_float, dtype_object, is_numpy_scalar,
    stored,
};
use crate::device::placed;
use crate::error::{OrRaise, exception};
use crate::error::{type_error, value_error};
use crate::exchange::required;
use crate::gradient::collecting;
use crate::site::here;
use crate::tensor::{PyTensor, call};
use ::tensor::{DType, Literal, Shape, Tensor, generator};
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyDict, PyInt, PyTuple};

fn f32_or(dtype: Option<DTypeArg>) -> DType {
    dtype.map_or_else(default_float, |d| d.0)
}

/// What every function that makes a tensor takes beside its own arguments.
#[derive(Default)]
struct Settings {
    requires_grad: bool,
    out: Option<Py<PyTensor>>,
    size: Option<Shape>,
}
impl Settings {
    /// From the arguments of these names. The layout of a value is the compiler's to choose, and its memory is
    /// pinned where that helps: such settings change nothing.
    fn of(function: &str, named: Option<&Bound<'_, PyDict>>) -> PyResult<Settings> {
        let mut out = Settings::default();
        for (name, value) in named.into_iter().flatten() {
            match name.extract::<String>()?.as_str() {
                "requires_grad" => out.requires_grad = arg(&value)?,
                "out" if value.is_none() => {}
                "out" => out.out = Some(arg(&value)?),
                "size" | "shape" => out.size = Some(value.extract::<ShapeArg>()?.0),
                "pin_memory" | "memory_format" => {}
                "layout" if value.is_none() || value.str()?.to_string().ends_with("strided") => {}
                "layout" => return Err(value_error(format!("{function}: there is no layout {value} but strided"))),
                other => {
                    // In the interpreter's words, which the package turns into its own.
                    let e = format!("{function}() got an unexpected keyword argument '{other}'");
                    return Err(pyo3::exceptions::PyTypeError::new_err(e));
                }
            }
        }
        Ok(out)
    }
    /// The tensor as they say.
    fn made(self, py: Python<'_>, t: impl FnOnce() -> Tensor) -> PyResult<Py<PyAny>> {
        let y = call(py, t);
        if !self.requires_grad {
            return stored(py, self.out, y);
        }
        let value = y?.bind(py).cast::<PyTensor>().map_err(PyErr::from)?.get().tensor();
        Ok(Py::new(py, PyTensor::from(collecting(py, &value)?))?.into_any())
    }
}

/// A tensor from data, without its history; `dtype` converts it, `requires_grad` makes it collect gradients.
#[pyfunction]
#[pyo3(name = "tensor", signature = (data, dtype=None, *, device=None, copy=None, requires_grad=false, pin_memory=false))]
fn from_data(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    dtype: Option<DTypeArg>,
    #[pyo3(from_py_with = arg)] device: Option<&str>,
    #[pyo3(from_py_with = arg)] copy: Option<bool>,
    #[pyo3(from_py_with = arg)] requires_grad: bool,
    #[pyo3(from_py_with = arg)] pin_memory: bool,
) -> PyResult<PyTensor> {
    let _ = pin_memory; // the host's memory is pinned where that helps
    let t = if copy == Some(false) { uncopied(data, dtype)? } else { required(data, dtype.map(|d| d.0))? };
    let t = here(py).scope(|| placed(t, device));
    if let Some(e) = t.error() {
        return Err(exception(py, e));
    }
    let out = PyTensor::from(t);
    if requires_grad {
        return Ok(PyTensor::from(collecting(py, &out.tensor())?));
    }
    if copy.is_none() && out.requires_grad() {
        return Ok(PyTensor::from(here(py).scope(|| out.tensor().detach())));
    }
    Ok(out)
}

/// A tensor, or the memory of an array itself; fails if that would have to be copied.
fn uncopied(data: &Bound<'_, PyAny>, dtype: Option<DTypeArg>) -> PyResult<Tensor> {
    let t = match data.cast::<PyTensor>() {
        Ok(t) => t.get().tensor(),
        Err(_) => match crate::exchange::shared(data)? {
            Some(l) => here(data.py()).scope(|| Tensor::from(l)),
            None => return Err(value_error("the data has to be copied: only dense floats are shared")),
        },
    };
    match (dtype, t.dtype()) {
        (Some(d), Ok(now)) if d.0 != now => Err(value_error(format!("{now} has to be copied to become {}", d.0))),
        _ => Ok(t),
    }
}

/// A shape given as one sequence or size by size, or by its name.
fn shape_of(sizes: &Bound<'_, PyTuple>, named: Option<Shape>) -> PyResult<Shape> {
    if let Some(shape) = named {
        return Ok(shape);
    }
    if sizes.len() == 1 {
        return Ok(sizes.get_item(0)?.extract::<ShapeArg>()?.0);
    }
    Ok(sizes.extract::<ShapeArg>()?.0)
}

macro_rules! filled {
    ($($(#[$doc:meta])* $name:ident = |$shape:ident, $dtype:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (*size, dtype=None, device=None, **named), text_signature = "(*size, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False)")]
        fn $name(
            py: Python<'_>,
            size: &Bound<'_, PyTuple>,
            dtype: Option<DTypeArg>,
            device: Option<&str>,
            named: Option<&Bound<'_, PyDict>>,
        ) -> PyResult<Py<PyAny>> {
            let mut settings = Settings::of(stringify!($name), named)?;
            let ($shape, $dtype) = (shape_of(size, settings.size.take())?, f32_or(dtype));
            settings.made(py, || placed($body, device))
        }
    )*};
}
filled! {
    /// Zeros.
    zeros = |shape, dtype| Tensor::full_of(shape, 0.0, dtype);
    /// Ones.
    ones = |shape, dtype| Tensor::full_of(shape, 1.0, dtype);
    /// A tensor whose elements do not matter: zeros.
    empty = |shape, dtype| Tensor::full_of(shape, 0.0, dtype);
    /// Uniform random numbers from 0 to 1.
    rand = |shape, dtype| uniform_of(shape, 0.0, 1.0, dtype);
    /// Normal random numbers of mean 0 and variance 1.
    randn = |shape, dtype| {
        // A type that is no real float converts numbers of f32.
        let of = if dtype.is_float() { dtype } else { dtype.part().to_float() };
        Tensor::random_normal_of(&generator::next_key(), shape, of).cast(dtype)
    };
}

/// Uniform random numbers with all the bits of their type; one that is no real float converts
/// numbers of f32.
fn uniform_of(shape: Shape, low: f64, high: f64, dtype: DType) -> Tensor {
    let of = if dtype.is_float() { dtype } else { dtype.part().to_float() };
    Tensor::random_uniform_of(&generator::next_key(), shape, low, high, of).cast(dtype)
}

/// A tensor of one number.
#[pyfunction]
#[pyo3(signature = (size=None, fill_value=None, *, dtype=None, device=None, **named))]
fn full(
    py: Python<'_>,
    size: Option<ShapeArg>,
    fill_value: Option<&Bound<'_, PyAny>>,
    dtype: Option<DTypeArg>,
    #[pyo3(from_py_with = arg)] device: Option<&str>,
    named: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let mut settings = Settings::of("full", named)?;
    let (Some(shape), Some(x)) = (size.map(|s| s.0).or(settings.size.take()), fill_value) else {
        return Err(type_error("full: expected size and fill_value"));
    };
    // Made in the wanted type: a number must not lose bits on the way there.
    let x = if is_numpy_scalar(x) { x.call_method0("item")? } else { x.clone() };
    let x = required(&x, dtype.map(|d| d.0))?;
    settings.made(py, || placed(x.broadcast_to(shape), device))
}

/// Uniform random numbers from `low` to `high`.
#[pyfunction]
#[pyo3(signature = (shape, low=0.0, high=1.0, *, dtype=None))]
fn uniform(
    py: Python<'_>,
    shape: ShapeArg,
    #[pyo3(from_py_with = arg)] low: f64,
    #[pyo3(from_py_with = arg)] high: f64,
    dtype: Option<DTypeArg>,
) -> PyResult<Py<PyAny>> {
    call(py, || placed(uniform_of(shape.0, low, high, f32_or(dtype)), None))
}
/// Whole random numbers from `low` up to but not including `high`.
#[pyfunction]
#[pyo3(signature = (low, high, shape, *, dtype=None))]
fn randint(
    py: Python<'_>,
    #[pyo3(from_py_with = arg)] low: i64,
    #[pyo3(from_py_with = arg)] high: i64,
    shape: ShapeArg,
    dtype: Option<DTypeArg>,
) -> PyResult<Py<PyAny>> {
    call(py, || placed(Tensor::randint(shape.0, low..high).cast(dtype.map_or(DType::I64, |d| d.0)), None))
}
/// The numbers 0 to n - 1 in a random order.
#[pyfunction]
fn randperm(py: Python<'_>, n: Count) -> PyResult<Py<PyAny>> {
    call(py, || placed(Tensor::randperm(n.0), None))
}
/// A key of the random functions that take one: the same key gives the same numbers.
#[pyfunction]
#[pyo3(signature = (seed=None))]
fn random_key(py: Python<'_>, #[pyo3(from_py_with = arg)] seed: Option<u64>) -> PyResult<Py<PyAny>> {
    call(py, || match seed {
        None => generator::next_key(),
        Some(s) => Tensor::from(Literal::from_i64(DType::I64, [2], &[s as i64, 0])),
    })
}

/// A Python number, also of a tensor with one element or a number of NumPy's.
fn number<'py>(x: Option<&Bound<'py, PyAny>>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let has_item = |x: &Bound<'py, PyAny>| x.is_instance_of::<PyTensor>() || is_numpy_scalar(x);
    x.map(|x| if has_item(x) { x.call_method0("item") } else { Ok(x.clone()) }).transpose()
}

/// Numbers from `start` up to but not including `end`.
#[pyfunction]
#[pyo3(signature = (start=None, end=None, step=None, *, stop=None, dtype=None, device=None, **named),
    text_signature = "(start=0, end, step=1, *, out=None, dtype=None, layout=None, device=None, requires_grad=False)")]
#[allow(clippy::too_many_arguments)]
fn arange(
    py: Python<'_>,
    start: Option<&Bound<'_, PyAny>>,
    end: Option<&Bound<'_, PyAny>>,
    step: Option<&Bound<'_, PyAny>>,
    stop: Option<&Bound<'_, PyAny>>,
    dtype: Option<DTypeArg>,
    #[pyo3(from_py_with = arg)] device: Option<&str>,
    named: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let settings = Settings::of("arange", named)?;
    let (start, end, step) = (number(start)?, number(end.or(stop))?, number(step)?);
    // One number is the end.
    let (start, stop) = match (start, end) {
        (Some(start), end) => (start, end),
        (None, Some(end)) => (end, None),
        (None, None) => return Err(type_error("arange: expected an end")),
    };
    let (start, stop, step) = (&start, stop.as_ref(), step.as_ref());
    let given: Vec<&Bound<'_, PyAny>> = [Some(start), stop, step].into_iter().flatten().collect();
    let is_whole = given.iter().all(|x| x.is_instance_of::<PyInt>());
    let dtype = dtype.map_or(if is_whole { DType::I64 } else { default_float() }, |d| d.0);
    if is_whole {
        let (mut a, mut b) = (arg::<i64>(start)?, stop.map_or(Ok(0), arg)?);
        if stop.is_none() {
            (a, b) = (0, a);
        }
        let step = step.map_or(Ok(1), arg::<i64>)?;
        return settings.made(py, || placed(Tensor::arange_step(a..b, step).cast(dtype), device));
    }
    let (mut a, mut b) = (arg::<f64>(start)?, stop.map_or(Ok(0.0), arg)?);
    if stop.is_none() {
        (a, b) = (0.0, a);
    }
    let step = step.map_or(Ok(1.0), arg::<f64>)?;
    settings.made(py, || placed(Tensor::arange_step(a..b, step).cast(dtype), device))
}

/// `num` numbers evenly spaced from `start` to `stop`.
#[pyfunction]
#[pyo3(signature = (start, stop, /, num, *, dtype=None, device=None, endpoint=true))]
fn linspace(
    py: Python<'_>,
    start: &Bound<'_, PyAny>,
    stop: &Bound<'_, PyAny>,
    num: Count,
    dtype: Option<DTypeArg>,
    #[pyo3(from_py_with = arg)] device: Option<&str>,
    #[pyo3(from_py_with = arg)] endpoint: bool,
) -> PyResult<Py<PyAny>> {
    let ((a, c), (b, d)) = (parts(start)?, parts(stop)?);
    if start.is_instance_of::<PyComplex>() || stop.is_instance_of::<PyComplex>() {
        let dtype = dtype.map_or_else(default_complex, |d| d.0).to_complex();
        let part = |from, to| spaced(from, to, num.0, dtype.part(), endpoint);
        return call(py, || placed(Tensor::complex(&part(a, b), &part(c, d)), device));
    }
    let dtype = f32_or(dtype);
    call(py, || placed(spaced(a, b, num.0, dtype.part(), endpoint).cast(dtype), device))
}

/// Real and imaginary part of a number.
fn parts(x: &Bound<'_, PyAny>) -> PyResult<(f64, f64)> {
    match x.cast::<PyComplex>() {
        Ok(z) => Ok((z.real(), z.imag())),
        Err(_) => Ok((arg(x)?, 0.0)),
    }
}

fn spaced(start: f64, stop: f64, num: usize, dtype: DType, endpoint: bool) -> Tensor {
    if endpoint || num == 0 {
        return Tensor::linspace_of(start, stop, num, dtype);
    }
    // The same numbers as of one more, without the last.
    Tensor::linspace_of(start, stop, num + 1, dtype).narrow(0, 0, num)
}

/// Ones on a diagonal, zeros elsewhere.
#[pyfunction]
#[pyo3(signature = (n, m=None, *, k=0, dtype=None, device=None, **named))]
fn eye(
    py: Python<'_>,
    n: Count,
    m: Option<Count>,
    #[pyo3(from_py_with = arg)] k: i64,
    dtype: Option<DTypeArg>,
    #[pyo3(from_py_with = arg)] device: Option<&str>,
    named: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let (dtype, columns) = (f32_or(dtype), m.map_or(n.0, |n| n.0));
    Settings::of("eye", named)?.made(py, || {
        if k == 0 {
            return placed(Tensor::eye_of(n.0, columns, dtype), device);
        }
        let rows = Tensor::iota(n.0, DType::I64).unsqueeze(1) + k;
        placed(rows.eq(Tensor::iota(columns, DType::I64).unsqueeze(0)).cast(dtype), device)
    })
}

macro_rules! alike {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (input, *, dtype=None, device=None, **named))]
        fn $name(
            py: Python<'_>,
            input: Like,
            dtype: Option<DTypeArg>,
            device: Option<&str>,
            named: Option<&Bound<'_, PyDict>>,
        ) -> PyResult<Py<PyAny>> {
            Settings::of(stringify!($name), named)?.made(py, || {
                let x = input.0;
                let y = x.then(|t| Ok(Tensor::full_of(&t.shape, $value, dtype.map_or(t.dtype, |d| d.0))));
                placed(y, device)
            })
        }
    )*};
}
alike! {
    /// Zeros in the shape of another tensor.
    zeros_like = 0.0;
    /// Ones in the shape of another tensor.
    ones_like = 1.0;
    /// Zeros in the shape of another tensor, to be filled.
    empty_like = 0.0;
}

/// One number in the shape of another tensor.
#[pyfunction]
#[pyo3(signature = (input, fill_value, *, dtype=None, device=None, **named))]
fn full_like(
    py: Python<'_>,
    input: Like,
    fill_value: &Bound<'_, PyAny>,
    dtype: Option<DTypeArg>,
    #[pyo3(from_py_with = arg)] device: Option<&str>,
    named: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let t = input.0.value().or_raise(py)?.ty().clone();
    let number = required(fill_value, Some(dtype.map_or(t.dtype, |d| d.0)))?;
    Settings::of("full_like", named)?.made(py, || placed(number.broadcast_to(&t.shape), device))
}

/// Seeds the generator of this thread.
#[pyfunction]
fn manual_seed(#[pyo3(from_py_with = arg)] seed: u64) {
    generator::manual_seed(seed);
}
/// The state of this thread's generator: seed and number of draws.
#[pyfunction]
fn random_state() -> (u64, u64) {
    generator::state()
}
/// Puts this thread's generator into a state.
#[pyfunction]
fn set_random_state(#[pyo3(from_py_with = arg)] state: (u64, u64)) {
    generator::set_state(state);
}
/// Records, or does not record, that results depend on trainable values; what it was before.
#[pyfunction]
fn set_grad_enabled(#[pyo3(from_py_with = arg)] on: bool) -> bool {
    ir::set_grad(on)
}
/// True unless inside `no_grad`.
#[pyfunction]
fn is_grad_enabled() -> bool {
    ir::is_grad_on()
}
/// The element type that tensors of two types have together.
#[pyfunction]
fn promote(py: Python<'_>, a: DTypeArg, b: DTypeArg) -> PyResult<Py<PyDType>> {
    let both = a.0.promote(b.0);
    if a.0 != b.0 {
        both.check_computes().or_raise(py)?;
    }
    dtype_object(py, both)
}
/// Computes several tensors together, sharing what they have in common.
#[pyfunction]
#[pyo3(signature = (*tensors))]
fn eval_all(py: Python<'_>, tensors: &Bound<'_, PyTuple>) -> PyResult<()> {
    let mut all = Vec::new();
    for t in tensors {
        let t = t.cast::<PyTensor>().map_err(|_| type_error("only tensors can be computed"))?;
        all.push(t.get().tensor());
    }
    crate::tensor::run(py, move || Tensor::eval_all(&all.iter().collect::<Vec<_>>()))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    macro_rules! add {
        ($($f:ident)*) => {$( m.add_function(wrap_pyfunction!($f, m)?)?; )*};
    }
    add!(from_data zeros ones empty rand randn full uniform randint randperm random_key arange linspace eye);
    add!(zeros_like ones_like empty_like full_like manual_seed random_state set_random_state);
    add!(set_grad_enabled is_grad_enabled promote eval_all);
    Ok(())
}
