//! The class `Tensor`: a handle to a value, or to a variable that collects gradients.

use crate::convert::{DTypeArg, Other, PyDType, arg, default_float, dtype_object, size_object, type_name};
use crate::deepcopy;
use crate::display;
use crate::error::{OrRaise, STAND_INS, exception, trace_error, unknown_value};
use crate::error::{type_error, value_error};
use crate::exchange;
use crate::interrupt;
use crate::site::here;
use crate::strict;
use crate::transform::is_tracing;
use crate::view::{Cell, Kind, Strides};
use ::tensor::{DType, Error, ErrorKind, Literal, Operand, Result, Tensor, Variable};
use ir::{Buffer, Complex, Source, Type, Value};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyDict, PyFloat, PyInt, PyList, PyTuple};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A multi-dimensional array: computed, or to be computed when it is read.
#[pyclass(name = "Tensor", module = "talweg", subclass, weakref, frozen)]
pub struct PyTensor(pub Arc<Cell>);

impl From<Tensor> for PyTensor {
    fn from(t: Tensor) -> PyTensor {
        PyTensor(Cell::new(Kind::Value(t)))
    }
}
impl From<Variable> for PyTensor {
    fn from(v: Variable) -> PyTensor {
        PyTensor(Cell::new(Kind::Variable(v)))
    }
}

impl PyTensor {
    /// Its value at this point of the program.
    pub fn tensor(&self) -> Tensor {
        self.0.tensor()
    }
    /// The variable, if it is one.
    pub fn variable(&self) -> Option<Variable> {
        self.0.variable()
    }
    /// Its value on the host, computed without holding the interpreter.
    pub fn literal(&self, py: Python<'_>) -> PyResult<Literal> {
        let t = self.concrete(py)?;
        run(py, move || t.literal())
    }
    /// Its value wherever it was computed, and its type.
    pub fn buffer(&self, py: Python<'_>) -> PyResult<(Type, Buffer)> {
        let t = self.concrete(py)?;
        run(py, move || {
            t.eval()?;
            let value = t.value()?;
            let Some(buffer) = value.buffer() else { return Err(Error::bug("evaluated, but without a value")) };
            // What lies on a logical device of the host is host memory to other libraries.
            Ok((value.ty().clone(), buffer.in_host()))
        })
    }
    /// Writes a value in place: to the handle, or to what it is a view of.
    pub fn change(&self, py: Python<'_>, new: Tensor) -> PyResult<()> {
        match new.error() {
            Some(e) => Err(exception(py, e)),
            None => self.0.write(py, new),
        }
    }
    /// Its value, which must not depend on placeholders.
    fn concrete(&self, py: Python<'_>) -> PyResult<Tensor> {
        let t = self.tensor();
        concrete(py, &t)?;
        Ok(t)
    }
    /// Fails for complex numbers, of which Python's real types would lose a part.
    fn is_real(&self, what: &str) -> PyResult<()> {
        match self.dtype_now() {
            d if d.is_complex() => Err(type_error(format!("{} does not become {what}", PyDType(d).__repr__()))),
            _ => Ok(()),
        }
    }
    /// Its element type.
    pub fn dtype_now(&self) -> DType {
        self.tensor().dtype().unwrap_or(DType::F32)
    }
}

/// A handle to a tensor, or the exception for the error it carries.
pub fn wrap(py: Python<'_>, t: Tensor) -> PyResult<Py<PyTensor>> {
    match t.error() {
        Some(e) => Err(exception(py, e)),
        None => Py::new(py, PyTensor::from(t)),
    }
}

/// Makes a handle of a result.
pub type Handle<'a> = &'a dyn Fn(Tensor) -> PyTensor;

/// What ops return.
pub trait Out: Sized {
    /// As a Python object; `handle` makes the handles.
    fn object_by(self, py: Python<'_>, handle: Handle<'_>) -> PyResult<Py<PyAny>>;
    /// As a Python object.
    fn object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.object_by(py, &PyTensor::from)
    }
}
fn made(py: Python<'_>, t: Tensor, handle: Handle<'_>) -> PyResult<Py<PyTensor>> {
    match t.error() {
        Some(e) => Err(exception(py, e)),
        None => Py::new(py, handle(t)),
    }
}
impl Out for Tensor {
    fn object_by(self, py: Python<'_>, handle: Handle<'_>) -> PyResult<Py<PyAny>> {
        Ok(made(py, self, handle)?.into_any())
    }
}
impl<const N: usize> Out for [Tensor; N] {
    fn object_by(self, py: Python<'_>, handle: Handle<'_>) -> PyResult<Py<PyAny>> {
        let items = self.into_iter().map(|t| made(py, t, handle)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyTuple::new(py, items)?.into_any().unbind())
    }
}
impl Out for Vec<Tensor> {
    fn object_by(self, py: Python<'_>, handle: Handle<'_>) -> PyResult<Py<PyAny>> {
        let items = self.into_iter().map(|t| made(py, t, handle)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyTuple::new(py, items)?.into_any().unbind())
    }
}

/// Makes nodes in the name of the calling Python line.
pub fn call<R: Out>(py: Python<'_>, f: impl FnOnce() -> R) -> PyResult<Py<PyAny>> {
    let site = here(py);
    interrupt::caught(py, || site.scope(f))?.object(py)
}
/// As `call`, of an op on a tensor's value: results that share its elements are views of it.
pub fn call_on<R: Out>(py: Python<'_>, me: &PyTensor, f: impl FnOnce(&Tensor) -> R) -> PyResult<Py<PyAny>> {
    viewed(py, me, Strides::Positive, f)
}
/// As `call_on`, of an op that only arranges elements: a result that is the whole tensor is a view as well.
pub fn arrange<R: Out>(py: Python<'_>, me: &PyTensor, f: impl FnOnce(&Tensor) -> R) -> PyResult<Py<PyAny>> {
    viewed(py, me, Strides::Arranged, f)
}
fn viewed<R: Out>(
    py: Python<'_>,
    me: &PyTensor,
    strides: Strides,
    f: impl FnOnce(&Tensor) -> R,
) -> PyResult<Py<PyAny>> {
    let (site, value) = (here(py), me.tensor());
    let out = interrupt::caught(py, || site.scope(|| f(&value)))?;
    out.object_by(py, &|y| PyTensor(me.0.derive(&value, y, strides)))
}

/// Fails if a value cannot be known yet.
pub fn concrete(py: Python<'_>, t: &Tensor) -> PyResult<()> {
    let value = t.value().or_raise(py)?;
    if !value.node().is_symbolic() {
        return Ok(());
    }
    if is_tracing() || depends_on_stand_in(value) {
        return Err(trace_error(py, unknown_value()));
    }
    let e = "the value is not known before the graph is run: it depends on a placeholder (run it in a Session with a feed, \
             and use cond, while_loop and scan instead of Python's control flow)";
    Err(exception(py, &Error::new(ErrorKind::Feed, e).at(here(py))))
}

/// True if a value depends on an argument of a function that was traced.
fn depends_on_stand_in(value: &Value) -> bool {
    let mut seen = BTreeSet::new();
    let mut stack = vec![value.clone()];
    while let Some(v) = stack.pop() {
        if !v.node().is_symbolic() || !seen.insert(v.node().id()) {
            continue;
        }
        match v.node().source() {
            Source::Placeholder(name) if STAND_INS.contains(&&**name) => return true,
            _ => stack.extend(v.node().inputs()),
        }
    }
    false
}

/// Computes without holding the interpreter, in the name of the calling Python line.
pub fn run<R: Send>(py: Python<'_>, f: impl FnOnce() -> Result<R> + Send) -> PyResult<R> {
    let site = here(py);
    interrupt::run(py, || site.scope(f))?.or_raise(py)
}

/// What `Tensor(...)` is made of: sizes, one by one, or data, whose numbers are floats unless a type
/// is given. `is_variable`: the data as it is.
fn constructed(data: &Bound<'_, PyTuple>, dtype: Option<DType>, is_variable: bool) -> PyResult<Tensor> {
    let sizes = data.iter().map(|d| d.cast::<PyInt>().is_ok().then(|| d.extract::<usize>().ok()).flatten());
    let sizes: Option<Vec<usize>> = sizes.collect();
    let single = if data.len() == 1 { Some(data.get_item(0)?) } else { None };
    match (sizes, single, dtype) {
        (_, Some(x), _) if is_variable || dtype.is_some() => exchange::required(&x, dtype),
        (Some(sizes), _, None) if !is_variable => {
            let sizes = if sizes.is_empty() { vec![0] } else { sizes };
            Ok(here(data.py()).scope(|| Tensor::full_of(sizes, 0.0, default_float())))
        }
        (_, Some(x), _) if x.cast::<PyTensor>().is_ok() => exchange::required(&x, None),
        (_, Some(x), _) => exchange::required(&x, Some(default_float())),
        _ => Err(type_error("Tensor: expected sizes, such as Tensor(2, 3), or data, such as Tensor([1, 2])")),
    }
}

/// Operators: forward, reflected and in place, each from the method of the same meaning.
/// The exception for an operator with an object that is no number.
fn no_operand(other: &Bound<'_, PyAny>, op: &str) -> PyErr {
    type_error(format!("{op}: expected a tensor, a number or an array, not {}", type_name(other)))
}
/// An operator is left to the other object if its class defines the reflected one; those of Python's own
/// classes know no tensors.
fn left_to(other: &Bound<'_, PyAny>, op: &str, reflected: &str) -> PyResult<Py<PyAny>> {
    let py = other.py();
    let class = other.get_type();
    let own = class.getattr(reflected).ok();
    let plain = py.get_type::<PyAny>().getattr(reflected).ok();
    let is_defined = own.is_some_and(|own| plain.is_none_or(|plain| !own.is(&plain)));
    let is_builtin = class.module().is_ok_and(|m| m == "builtins");
    if is_defined && !is_builtin { Ok(py.NotImplemented()) } else { Err(no_operand(other, op)) }
}

/// True for a list or tuple, which operators leave to Python, as PyTorch's do.
fn is_sequence(other: &Bound<'_, PyAny>) -> bool {
    other.is_instance_of::<PyList>() || other.is_exact_instance_of::<PyTuple>()
}

macro_rules! operators {
    ($($forward:ident $reflected:ident $in_place:ident $method:ident,)*) => {$(
        #[pymethods]
        impl PyTensor {
            fn $forward(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
                if is_sequence(other) {
                    return left_to(other, stringify!($method), stringify!($reflected));
                }
                match Other::of(other)? {
                    Some(o) => {
                        strict::operator(stringify!($method), || self.dtype_now(), &o, false)?;
                        call(py, || self.tensor().$method(o))
                    }
                    None => left_to(other, stringify!($method), stringify!($reflected)),
                }
            }
            fn $reflected(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
                if is_sequence(other) {
                    // `[0] * n` repeats the list.
                    let repeats = stringify!($method) == "mul";
                    return if repeats { Ok(py.NotImplemented()) } else { Err(no_operand(other, stringify!($method))) };
                }
                match Other::of(other)? {
                    Some(o) => {
                        strict::operator(stringify!($method), || self.dtype_now(), &o, true)?;
                        call(py, || o.operand(self.dtype_now()).$method(Other::Tensor(self.tensor())))
                    }
                    None => Err(no_operand(other, stringify!($method))),
                }
            }
            fn $in_place(&self, py: Python<'_>, other: Other) -> PyResult<()> {
                strict::operator(stringify!($method), || self.dtype_now(), &other, false)?;
                self.change(py, here(py).scope(|| self.tensor().$method(other)))
            }
        }
    )*};
}
operators! {
    __add__ __radd__ __iadd__ add,
    __sub__ __rsub__ __isub__ sub,
    __mul__ __rmul__ __imul__ mul,
    __truediv__ __rtruediv__ __itruediv__ div,
    __floordiv__ __rfloordiv__ __ifloordiv__ floor_divide,
    __mod__ __rmod__ __imod__ rem,
    __matmul__ __rmatmul__ __imatmul__ matmul,
    __and__ __rand__ __iand__ and,
    __or__ __ror__ __ior__ or,
    __xor__ __rxor__ __ixor__ xor,
    __lshift__ __rlshift__ __ilshift__ shl,
    __rshift__ __rrshift__ __irshift__ shr,
}

#[pymethods]
impl PyTensor {
    #[new]
    #[pyo3(signature = (*data, dtype=None, requires_grad=false, variable=false, trainable=true, name="", _of=None), text_signature = "(*data, dtype=None, requires_grad=False, variable=False, trainable=True, name='')")]
    #[expect(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        data: &Bound<'_, PyTuple>,
        dtype: Option<DTypeArg>,
        #[pyo3(from_py_with = arg)] requires_grad: bool,
        #[pyo3(from_py_with = arg)] variable: bool,
        #[pyo3(from_py_with = arg)] trainable: bool,
        #[pyo3(from_py_with = arg)] name: &str,
        _of: Option<Py<PyTensor>>,
    ) -> PyResult<PyTensor> {
        // Another class for the same handle.
        if let Some(same) = _of {
            return Ok(PyTensor(same.get().0.clone()));
        }
        let t = constructed(data, dtype.map(|d| d.0), variable || requires_grad)?;
        here(py).scope(|| match (requires_grad, variable) {
            (false, false) => match t.error() {
                Some(e) => Err(exception(py, e)),
                None => Ok(PyTensor::from(t)),
            },
            (true, false) => Variable::new(name, t).map(PyTensor::from).or_raise(py),
            (_, true) if trainable => Variable::new(name, t).map(PyTensor::from).or_raise(py),
            (_, true) => Variable::buffer(name, t).map(PyTensor::from).or_raise(py),
        })
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        strict::unary("neg", self.dtype_now())?;
        call(py, || self.tensor().neg())
    }
    fn __pos__(slf: Py<PyTensor>) -> PyResult<Py<PyTensor>> {
        strict::unary("positive", slf.get().dtype_now())?;
        Ok(slf)
    }
    fn __abs__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        strict::unary("abs", self.dtype_now())?;
        call(py, || self.tensor().abs())
    }
    fn __invert__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        call(py, || self.tensor().not())
    }
    fn __pow__(&self, py: Python<'_>, other: &Bound<'_, PyAny>, modulo: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        match Other::of(other)? {
            Some(o) if modulo.is_none() => {
                strict::operator("pow", || self.dtype_now(), &o, false)?;
                call(py, || self.tensor().pow(o))
            }
            Some(_) => Err(type_error("pow: tensors have no power with a modulus")),
            None => left_to(other, "pow", "__rpow__"),
        }
    }
    fn __rpow__(&self, py: Python<'_>, other: &Bound<'_, PyAny>, _modulo: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        match Other::of(other)? {
            Some(o) => call(py, || o.operand(self.dtype_now()).pow(Other::Tensor(self.tensor()))),
            None => Err(no_operand(other, "pow")),
        }
    }
    fn __richcmp__(&self, py: Python<'_>, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let (name, reflected) = match op {
            CompareOp::Lt => ("lt", "__gt__"),
            CompareOp::Le => ("le", "__ge__"),
            CompareOp::Gt => ("gt", "__lt__"),
            CompareOp::Ge => ("ge", "__le__"),
            CompareOp::Eq | CompareOp::Ne => ("", ""),
        };
        let o = match (Other::of(other), name) {
            (Ok(Some(o)), _) => o,
            // What is no number is not equal, as everywhere in Python.
            (_, "") => return Ok(py.NotImplemented()),
            _ => return left_to(other, name, reflected),
        };
        let t = self.tensor();
        call(py, || match op {
            CompareOp::Lt => t.lt(o),
            CompareOp::Le => t.le(o),
            CompareOp::Eq => t.eq(o),
            CompareOp::Ne => t.ne(o),
            CompareOp::Gt => t.gt(o),
            CompareOp::Ge => t.ge(o),
        })
    }
    /// By identity, so that placeholders can be keys of a feed.
    fn __hash__(slf: &Bound<'_, PyTensor>) -> isize {
        slf.as_ptr() as isize >> 4
    }

    /// Sizes of its dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        size_object(py, &self.tensor().shape().or_raise(py)?)
    }
    /// Element type.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDType>> {
        dtype_object(py, self.tensor().dtype().or_raise(py)?)
    }
    /// Number of dimensions.
    #[getter]
    fn ndim(&self, py: Python<'_>) -> PyResult<usize> {
        self.tensor().rank().or_raise(py)
    }
    /// Number of elements.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<usize> {
        self.tensor().count().or_raise(py)
    }
    /// Number of elements.
    fn numel(&self, py: Python<'_>) -> PyResult<usize> {
        self.size(py)
    }
    /// Bytes its elements take.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.size(py)? * self.dtype_now().size())
    }
    /// The matrix transposed; the order of all axes reversed for other ranks.
    #[getter(T)]
    fn transposed(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let rank = self.tensor().rank().or_raise(py)? as i64;
        call_on(py, self, |t| t.permute(&(0..rank).rev().collect::<Vec<_>>()))
    }
    /// The last two axes exchanged.
    #[getter(mT)]
    fn matrix_transposed(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let rank = self.tensor().rank().or_raise(py)?;
        if rank < 2 {
            return Err(value_error(format!("mT: expected a matrix or a batch of matrices, not {rank} dimensions")));
        }
        call_on(py, self, Tensor::t)
    }
    /// The conjugates: a view; of real numbers the tensor itself.
    fn _conj(slf: Py<PyTensor>, py: Python<'_>) -> PyResult<Py<PyTensor>> {
        let me = slf.get();
        if !me.dtype_now().is_complex() {
            return Ok(slf);
        }
        let y = here(py).scope(|| me.tensor().conj());
        match y.error() {
            Some(e) => Err(exception(py, e)),
            None => Py::new(py, PyTensor(me.0.conjugate(y))),
        }
    }
    /// The real parts.
    #[getter]
    fn real(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let y = here(py).scope(|| self.tensor().real());
        y.object_by(py, &|y| PyTensor(self.0.part(y, false)))
    }
    /// The imaginary parts; zeros of real numbers.
    #[getter]
    fn imag(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let y = here(py).scope(|| self.tensor().imag());
        y.object_by(py, &|y| PyTensor(self.0.part(y, true)))
    }
    /// A matrix transposed; a vector stays as it is.
    fn t(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let rank = self.tensor().rank().or_raise(py)?;
        if rank > 2 {
            return Err(value_error(format!(
                "t: expected at most 2 dimensions, not {rank}: mT transposes each matrix"
            )));
        }
        call_on(py, self, Tensor::t)
    }
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        match self.tensor().shape().or_raise(py)?.first() {
            Some(&n) => Ok(n),
            None => Err(type_error("a tensor without dimensions has no length")),
        }
    }
    fn __iter__<'py>(slf: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        slf.get().__len__(py)?;
        let parts = call_on(py, slf.get(), |t| t.unbind(0))?;
        Ok(parts.into_bound(py).try_iter()?.into_any())
    }
    fn __contains__(&self, py: Python<'_>, x: Other) -> PyResult<bool> {
        let found = here(py).scope(|| self.tensor().eq(x).any(..));
        run(py, move || found.item::<bool>())
    }
    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let t = self.concrete(py)?;
        run(py, move || Ok(t.item::<Complex<f64>>()? != Complex::ZERO))
    }
    fn __complex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyComplex>> {
        let t = self.concrete(py)?;
        let z = run(py, move || t.item::<Complex<f64>>())?;
        Ok(PyComplex::from_doubles(py, z.re, z.im))
    }
    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        self.is_real("a float")?;
        let t = self.concrete(py)?;
        run(py, move || t.item::<f64>())
    }
    fn __int__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.is_real("an int")?;
        let t = self.concrete(py)?;
        if t.dtype().or_raise(py)?.is_float() {
            // As Python's own: NaN and infinity are no integers.
            let x = run(py, move || t.item::<f64>())?;
            return Ok(PyFloat::new(py, x).call_method0("__int__")?.unbind());
        }
        let i = run(py, move || {
            if t.dtype()? == DType::U64 { t.item::<u64>().map(i128::from) } else { t.item::<i64>().map(i128::from) }
        })?;
        Ok(i.into_pyobject(py)?.into_any().unbind())
    }
    fn __index__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if !self.dtype_now().is_int() {
            return Err(type_error(format!("only an integer is an index, not {}", self.dtype_now())));
        }
        self.__int__(py)
    }
    /// The only element, as a Python number.
    fn item(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let t = self.concrete(py)?;
        let l = run(py, move || {
            t.item::<f64>()?; // fails unless there is one
            Ok(t.literal()?.reshaped(()))
        })?;
        exchange::to_list(py, &l)
    }
    /// The elements as nested lists.
    fn tolist(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        exchange::to_list(py, &self.literal(py)?)
    }
    /// The elements as a NumPy array: a view that cannot be written to.
    fn numpy(slf: &Bound<'_, PyTensor>) -> PyResult<Py<PyAny>> {
        exchange::to_numpy(slf, None, None)
    }
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__(slf: &Bound<'_, PyTensor>, dtype: Option<Py<PyAny>>, copy: Option<bool>) -> PyResult<Py<PyAny>> {
        exchange::to_numpy(slf, dtype, copy)
    }
    /// NumPy leaves operators with a tensor to the tensor.
    #[classattr]
    fn __array_ufunc__() -> Option<bool> {
        None
    }
    #[pyo3(signature = (*, api_version=None))]
    fn __array_namespace__<'py>(&self, py: Python<'py>, api_version: Option<&str>) -> PyResult<Bound<'py, PyModule>> {
        match api_version {
            None | Some("2021.12" | "2022.12" | "2023.12" | "2024.12" | "2025.12") => py.import("talweg.array_api"),
            Some(v) => Err(value_error(format!("there is no version {v} of the array API here"))),
        }
    }
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let t = self.tensor();
        let v = t.value().or_raise(py)?;
        if v.node().is_symbolic() {
            return Ok(format!("Tensor({}, shape={}, to be computed)", PyDType(v.ty().dtype).__repr__(), v.ty().shape));
        }
        let needs_grad = self.requires_grad();
        let dtype = v.ty().dtype;
        let (text, device) = run(py, {
            let t = t.clone();
            move || Ok((t.eval()?.to_string(), t.device()?))
        })?;
        let text = text.replace(&format!("dtype={dtype}"), &format!("dtype={}", PyDType(dtype).__repr__()));
        let Some(open) = text.strip_suffix(')') else { return Ok(text) };
        let device = if device == "cpu" { String::new() } else { format!(", device='{device}'") };
        Ok(format!("{open}{device}{})", if needs_grad { ", requires_grad=True" } else { "" }))
    }
    /// Strides and offset of a view; `None` for a tensor whose elements lie in order.
    fn _strides(&self) -> Option<(Vec<i64>, i64)> {
        self.0.strides().map(|l| (l.strides.iter().map(|&s| s as i64).collect(), l.offset as i64))
    }
    fn __format__(slf: &Bound<'_, PyTensor>, spec: &str) -> PyResult<String> {
        let t = slf.get();
        let is_number = t.tensor().shape().is_ok_and(|s| s.rank() == 0)
            && !t.tensor().value().is_ok_and(|v| v.node().is_symbolic());
        if !is_number && spec.is_empty() {
            return t.__repr__(slf.py());
        }
        if t.size(slf.py())? != 1 {
            let e = format!("format: {spec:?} is of one number: write it for each of x.tolist()");
            return Err(type_error(e));
        }
        t.item(slf.py())?.bind(slf.py()).call_method1("__format__", (spec,))?.extract()
    }
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        display::tensor_html(py, self, &self.__repr__(py)?)
    }
    /// Another handle to the same elements: of a variable, to the same variable.
    fn _alias(&self) -> PyTensor {
        match self.variable() {
            Some(_) => PyTensor(self.0.clone()),
            None => PyTensor(self.0.same(self.tensor())),
        }
    }
    fn __reduce__<'py>(slf: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyTuple>> {
        exchange::reduce(slf)
    }
    fn __deepcopy__<'py>(slf: &Bound<'py, PyTensor>, memo: Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(copied) = deepcopy::shared(slf, &memo)? {
            return Ok(copied);
        }
        let (make, args) = exchange::reduce(slf)?.extract::<(Bound<'py, PyAny>, Bound<'py, PyTuple>)>()?;
        make.call1(args)
    }

    /// Computes the value now, if it was not yet.
    fn eval(slf: Py<PyTensor>, py: Python<'_>) -> PyResult<Py<PyTensor>> {
        let t = slf.get().tensor();
        run(py, move || t.eval().map(|_| ()))?;
        Ok(slf)
    }
}
