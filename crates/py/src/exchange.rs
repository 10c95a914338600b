//! Values from and to Python: numbers, nested lists, buffers, NumPy arrays, pickles.
//!
//! What comes in is copied, as a tensor's value must not change under it, unless the caller asks for
//! the other library's memory itself. What goes out through the buffer protocol is the tensor's own
//! memory, which cannot be written to.

use crate::convert::{DTypeArg, arg, default_complex, default_float, dtype_object, type_name};
use crate::dlpack::{self, Imported};
use crate::error::{OrRaise, exception};
use crate::error::{type_error, value_error};
use crate::nested::{check_fits, nested, number_of};
use crate::site::here;
use crate::tensor::{PyTensor, run};
use ::tensor::{DType, Literal, Shape, Tensor, Variable};
use ir::{Bytes, Complex, ForeignMemory};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyComplex, PyFloat, PyInt, PyList, PyTuple, PyType};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

/// A tensor from an object, or `None` if the object is nothing of the kind.
pub fn tensor_of(obj: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Option<Tensor>> {
    if let Ok(t) = obj.cast::<PyTensor>() {
        let t = t.get().tensor();
        return Ok(Some(dtype.map_or(t.clone(), |d| t.cast(d))));
    }
    let literal = if obj.is_instance_of::<PyBool>() {
        Some(Literal::from_i64(DType::Bool, (), &[obj.extract::<bool>()? as i64]))
    } else if obj.is_instance_of::<PyInt>() {
        let x = whole(obj)?;
        Some(Literal::from_ints(whole_type(x), (), &[x]))
    } else if let Ok(z) = obj.cast_exact::<PyComplex>() {
        let dtype = dtype.filter(|d| d.is_complex()).unwrap_or_else(default_complex);
        Some(Literal::from_complex(dtype, (), &[Complex::new(z.real(), z.imag())]))
    } else if obj.is_instance_of::<PyFloat>() && obj.get_type().is(&obj.py().get_type::<PyFloat>()) {
        Some(Literal::scalar_f64(dtype.filter(|d| d.is_float()).unwrap_or_else(default_float), obj.extract()?))
    } else if obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>() {
        return nested(obj, dtype).map(Some);
    } else if obj.get_type().fully_qualified_name()? == "range" {
        let numbers = PyList::new(obj.py(), obj.try_iter()?.collect::<PyResult<Vec<_>>>()?)?;
        return nested(&numbers, dtype).map(Some);
    } else {
        match foreign(obj)? {
            Some(Imported::Gpu(t, _)) => return Ok(Some(dtype.map_or(t.clone(), |d| t.cast(d)))),
            Some(Imported::Host(l)) => Some(l),
            None => None,
        }
    };
    let Some(literal) = literal else { return Ok(None) };
    if let Some(d) = dtype
        && let Some(x) = number_of(obj)?
    {
        check_fits(d, &[x])?;
    }
    let literal = converted(literal, dtype)?;
    Ok(Some(here(obj.py()).scope(|| Tensor::from(literal))))
}

/// A value in the type that is asked for.
pub fn converted(l: Literal, dtype: Option<DType>) -> PyResult<Literal> {
    match dtype {
        Some(d) if l.dtype().is_complex() && !d.is_complex() => {
            Err(type_error(format!("complex numbers do not become {d}: take their real parts")))
        }
        Some(d) => Ok(l.cast(d)),
        None => Ok(l),
    }
}

/// An integer that a type of 64 bits holds.
pub fn whole(obj: &Bound<'_, PyAny>) -> PyResult<i128> {
    obj.extract::<i64>().map(i128::from).or_else(|e| obj.extract::<u64>().map(i128::from).map_err(|_| e))
}
/// The type that an integer has by itself: int64, or uint64 where it is too great.
pub fn whole_type(x: i128) -> DType {
    if x > i64::MAX as i128 { DType::U64 } else { DType::I64 }
}

/// A tensor from an object that must be one.
pub fn required(obj: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Tensor> {
    tensor_of(obj, dtype)?.ok_or_else(|| type_error(format!("a tensor cannot be made of {}", type_name(obj))))
}

/// From another library's array.
fn foreign(obj: &Bound<'_, PyAny>) -> PyResult<Option<Imported>> {
    // SAFETY: only asks whether the type has the protocol.
    if unsafe { ffi::PyObject_CheckBuffer(obj.as_ptr()) } == 1 {
        if obj.is_instance_of::<PyBytes>() {
            return Ok(None);
        }
        return from_buffer(obj).map(|l| Some(Imported::Host(l)));
    }
    if obj.hasattr("__dlpack__")? {
        return dlpack::import(obj, dlpack::Share::Never).map(Some);
    }
    if obj.hasattr("__array__")? {
        let array = obj.call_method0("__array__")?;
        return if array.is(obj) { Ok(None) } else { from_buffer(&array).map(|l| Some(Imported::Host(l))) };
    }
    Ok(None)
}

/// An instance of a subclass of `tuple` that holds sizes, made as `tuple.__new__` makes it, without a call.
pub fn tuple_of<'py>(class: &Bound<'py, PyType>, sizes: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let type_ptr = class.as_type_ptr();
    // SAFETY: the class is a subclass of `tuple`, whose slot `tp_alloc` makes an instance with empty slots that no code
    // else has seen; each is set once, with a number that the tuple then owns.
    unsafe {
        let slot = ffi::PyType_GetSlot(type_ptr, ffi::Py_tp_alloc);
        if slot.is_null() {
            return Err(value_error("the class of shapes cannot be made"));
        }
        let alloc: ffi::allocfunc = std::mem::transmute(slot);
        let made = Bound::from_owned_ptr_or_err(py, alloc(type_ptr, sizes.len() as ffi::Py_ssize_t))?;
        for (i, &size) in sizes.iter().enumerate() {
            let number = ffi::PyLong_FromSize_t(size);
            if number.is_null() || ffi::PyTuple_SetItem(made.as_ptr(), i as ffi::Py_ssize_t, number) != 0 {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(made)
    }
}

/// A held view of an object's memory.
struct View(Box<ffi::Py_buffer>);
impl View {
    fn of(obj: &Bound<'_, PyAny>) -> PyResult<View> {
        let mut raw = Box::new(ffi::Py_buffer::new());
        // SAFETY: the structure is valid; the object checks the rest.
        if unsafe { ffi::PyObject_GetBuffer(obj.as_ptr(), &mut *raw, ffi::PyBUF_FULL_RO) } != 0 {
            return Err(PyErr::fetch(obj.py()));
        }
        Ok(View(raw))
    }
    fn format(&self) -> &str {
        if self.0.format.is_null() {
            return "B";
        }
        // SAFETY: the protocol promises a C string that lives as long as the view.
        unsafe { CStr::from_ptr(self.0.format) }.to_str().unwrap_or("?")
    }
    fn shape(&self) -> Shape {
        let n = self.0.ndim as usize;
        if n == 0 || self.0.shape.is_null() {
            return Shape::new(&[]);
        }
        // SAFETY: the protocol promises `ndim` sizes.
        let dims = unsafe { std::slice::from_raw_parts(self.0.shape, n) };
        dims.iter().map(|&d| d as usize).collect()
    }
    /// The elements in row-major order.
    fn bytes(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let mut out = vec![0u8; self.0.len as usize];
        let raw: *const ffi::Py_buffer = &*self.0;
        // SAFETY: the destination has the length that the view states.
        let bad =
            unsafe { ffi::PyBuffer_ToContiguous(out.as_mut_ptr().cast(), raw.cast_mut(), self.0.len, b'C' as c_char) };
        if bad != 0 { Err(PyErr::fetch(py)) } else { Ok(out) }
    }
}
impl Drop for View {
    fn drop(&mut self) {
        // A tensor over lent memory may die in any thread; when the interpreter is gone, so is the
        // memory's owner.
        Python::try_attach(|_| {
            // SAFETY: acquired in `of` and released once, with the interpreter held.
            unsafe { ffi::PyBuffer_Release(&mut *self.0) }
        });
    }
}
// SAFETY: the memory is only read, and the view is released with the interpreter held.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}
impl ForeignMemory for View {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the view holds this many bytes, one after the other (see `shared`), until it is
        // released. A concurrent write changes values of which any bits are valid.
        unsafe { std::slice::from_raw_parts(self.0.buf.cast::<u8>(), self.0.len as usize) }
    }
}

/// A buffer's format without the order of its bytes, and whether that is not this machine's.
fn plain_format(format: &str) -> (&str, bool) {
    let foreign = if cfg!(target_endian = "little") { ['>', '!'] } else { ['<', '<'] };
    (format.trim_start_matches(['@', '=', '<', '>', '!', '|']), format.starts_with(foreign))
}

/// The element type of a buffer's format, where there is the same here.
fn exact_dtype(format: &str, size: usize) -> Option<DType> {
    Some(match (plain_format(format).0, size) {
        ("?", 1) => DType::Bool,
        ("B" | "c", 1) => DType::U8,
        ("b", 1) => DType::I8,
        ("h", 2) => DType::I16,
        ("H", 2) => DType::U16,
        ("i" | "l", 4) => DType::I32,
        ("I" | "L", 4) => DType::U32,
        ("l" | "q", 8) => DType::I64,
        ("L" | "Q", 8) => DType::U64,
        ("e", 2) => DType::F16,
        ("f", 4) => DType::F32,
        ("d", 8) => DType::F64,
        ("Zf", 8) => DType::C64,
        ("Zd", 16) => DType::C128,
        _ => return None,
    })
}

/// Whether the memory of another library can be used as it is. Only floats: integers may be
/// places in memory that were checked, and must not change after that.
pub fn can_share(dtype: DType, start: *const u8, bytes: usize) -> bool {
    dtype.is_inexact() && bytes > 0 && (start as usize).is_multiple_of(dtype.part().size())
}

/// A value over the memory of an object with the buffer protocol, or `None` if it has to be copied.
pub fn shared(obj: &Bound<'_, PyAny>) -> PyResult<Option<Literal>> {
    // SAFETY: only asks whether the type has the protocol.
    if unsafe { ffi::PyObject_CheckBuffer(obj.as_ptr()) } != 1 {
        return Ok(None);
    }
    let view = View::of(obj)?;
    // SAFETY: the view is held.
    let is_dense = unsafe { ffi::PyBuffer_IsContiguous(&*view.0, b'C' as c_char) } == 1;
    let dtype = exact_dtype(view.format(), view.0.itemsize as usize);
    let (shape, len) = (view.shape(), view.0.len as usize);
    match dtype {
        Some(d)
            if is_dense
                && !plain_format(view.format()).1
                && shape.count() * d.size() == len
                && can_share(d, view.0.buf.cast(), len) =>
        {
            Ok(Some(Literal::from_buffer(d, shape, Arc::new(Bytes::foreign(Box::new(view))))))
        }
        _ => Ok(None),
    }
}

/// A tensor over the memory of a NumPy array or another buffer; `None` if it would have to be copied.
#[pyfunction]
fn share(obj: &Bound<'_, PyAny>) -> PyResult<Option<PyTensor>> {
    Ok(shared(obj)?.map(|l| PyTensor::from(here(obj.py()).scope(|| Tensor::from(l)))))
}

fn from_buffer(obj: &Bound<'_, PyAny>) -> PyResult<Literal> {
    let view = View::of(obj)?;
    let (format, shape, size) = (view.format().to_string(), view.shape(), view.0.itemsize as usize);
    let Some(dtype) = exact_dtype(&format, size) else {
        return Err(type_error(format!("arrays of type {format:?} are not supported")));
    };
    let mut bytes = view.bytes(obj.py())?;
    if plain_format(&format).1 {
        bytes.chunks_exact_mut(dtype.part().size()).for_each(<[u8]>::reverse);
    }
    Literal::from_bytes(dtype, shape, &bytes).or_raise(obj.py())
}

/// Nested lists of numbers.
pub fn to_list(py: Python<'_>, l: &Literal) -> PyResult<Py<PyAny>> {
    let items: Vec<Py<PyAny>> = if l.dtype().is_complex() {
        l.to_complex().into_iter().map(|z| PyComplex::from_doubles(py, z.re, z.im).into_any().unbind()).collect()
    } else if l.dtype().is_float() {
        l.to_f64().into_iter().map(|x| Ok(x.into_pyobject(py)?.into_any().unbind())).collect::<PyResult<_>>()?
    } else if l.dtype() == DType::Bool {
        let one = |x: i64| Ok((x != 0).into_pyobject(py)?.to_owned().into_any().unbind());
        l.to_i64().into_iter().map(one).collect::<PyResult<_>>()?
    } else if l.dtype() == DType::U64 {
        let all = l.to_vec::<u64>().or_raise(py)?;
        all.into_iter().map(|x| Ok(x.into_pyobject(py)?.into_any().unbind())).collect::<PyResult<_>>()?
    } else {
        l.to_i64().into_iter().map(|x| Ok(x.into_pyobject(py)?.into_any().unbind())).collect::<PyResult<_>>()?
    };
    let mut level = items;
    for &d in l.shape().iter().rev() {
        if d == 0 {
            // Inner sizes are lost, as in NumPy.
            let outer: usize = l.shape().iter().take_while(|&&d| d != 0).product();
            level = (0..outer).map(|_| PyList::empty(py).into_any().unbind()).collect();
            continue;
        }
        let mut rows = Vec::with_capacity(level.len() / d);
        let mut rest = level.into_iter().peekable();
        while rest.peek().is_some() {
            let row: Vec<Py<PyAny>> = rest.by_ref().take(d).collect();
            rows.push(PyList::new(py, row)?.into_any().unbind());
        }
        level = rows;
    }
    Ok(level.into_iter().next().unwrap_or_else(|| PyList::empty(py).into_any().unbind()))
}

/// A NumPy array over the tensor's memory; bfloat16 and fp8, which NumPy lacks, come as float32.
pub fn to_numpy(slf: &Bound<'_, PyTensor>, dtype: Option<Py<PyAny>>, copy: Option<bool>) -> PyResult<Py<PyAny>> {
    let py = slf.py();
    let numpy = py.import("numpy")?;
    let t = slf.get().tensor();
    let dtype_here = t.dtype().or_raise(py)?;
    let source = if format_of(dtype_here).is_none() {
        if copy == Some(false) {
            let name = crate::convert::PyDType(dtype_here).long_name();
            return Err(value_error(format!("{name} must be copied to become a NumPy array")));
        }
        Bound::new(py, PyTensor::from(t.cast(DType::F32)))?
    } else {
        slf.clone()
    };
    let view = py.import("builtins")?.getattr("memoryview")?.call1((&source,))?;
    let array = numpy.getattr("asarray")?.call1((view,))?;
    let array = match dtype {
        Some(d) => array.call_method1("astype", (d,))?,
        None if copy == Some(true) => array.call_method0("copy")?,
        None => array,
    };
    Ok(array.unbind())
}

/// What the exporter of a buffer keeps until the view is released.
struct Export {
    _value: Literal,
    shape: Vec<ffi::Py_ssize_t>,
    strides: Vec<ffi::Py_ssize_t>,
}

fn format_of(d: DType) -> Option<&'static CStr> {
    Some(match d {
        DType::Bool => c"?",
        DType::U8 => c"B",
        DType::I8 => c"b",
        DType::U16 => c"H",
        DType::I16 => c"h",
        DType::I32 => c"i",
        DType::U32 => c"I",
        DType::U64 => c"Q",
        DType::I64 => c"q",
        DType::F16 => c"e",
        DType::F32 => c"f",
        DType::F64 => c"d",
        DType::C64 => c"Zf",
        DType::C128 => c"Zd",
        DType::BF16 | DType::F8E4M3 | DType::F8E5M2 => return None,
    })
}

#[pymethods]
impl PyTensor {
    /// SAFETY: called by the interpreter with a valid structure, as the protocol says.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view was given"));
        }
        // SAFETY: not null, and the caller's to be filled.
        let view = unsafe { &mut *view };
        view.obj = std::ptr::null_mut();
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("a tensor's memory cannot be written to: make a copy"));
        }
        let value = slf.get().literal(slf.py())?;
        let Some(format) = format_of(value.dtype()) else {
            let name = crate::convert::PyDType(value.dtype()).long_name();
            return Err(PyBufferError::new_err(format!("there is no buffer of {name}: convert it first")));
        };
        let size = value.dtype().size() as ffi::Py_ssize_t;
        let shape: Vec<_> = value.shape().iter().map(|&d| d as ffi::Py_ssize_t).collect();
        let mut strides = vec![size; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i] * shape[i].max(1);
        }
        view.buf = value.bytes().as_ptr().cast_mut().cast::<c_void>();
        view.len = value.bytes().len() as ffi::Py_ssize_t;
        view.readonly = 1;
        view.itemsize = size;
        view.format = if flags & ffi::PyBUF_FORMAT != 0 { format.as_ptr().cast_mut() } else { std::ptr::null_mut() };
        view.ndim = shape.len() as c_int;
        let mut export = Box::new(Export { _value: value, shape, strides });
        view.shape = export.shape.as_mut_ptr();
        view.strides = export.strides.as_mut_ptr();
        view.suboffsets = std::ptr::null_mut();
        view.internal = Box::into_raw(export).cast();
        view.obj = slf.into_ptr();
        Ok(())
    }
    /// SAFETY: called once for each view that `__getbuffer__` has filled.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `internal` was made by `Box::into_raw` there.
        unsafe { drop(Box::from_raw((*view).internal.cast::<Export>())) };
    }
}

/// A pickle: the bytes, the type, and whether gradients are collected.
pub fn reduce<'py>(slf: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyTuple>> {
    let py = slf.py();
    let l = slf.get().literal(py)?;
    let (is_variable, trains) = slf.get().variable().map_or((false, false), |v| (true, v.is_trainable()));
    let make = py.import("talweg._native")?.getattr("_rebuild")?;
    let shape = PyTuple::new(py, l.shape().iter())?;
    let args = (slf.get_type(), PyBytes::new(py, l.bytes()), dtype_object(py, l.dtype())?, shape, is_variable, trains);
    (make, args).into_pyobject(py)
}

/// A tensor from its pickle.
#[pyfunction]
fn _rebuild<'py>(
    class: &Bound<'py, PyAny>,
    bytes: &[u8],
    dtype: DTypeArg,
    #[pyo3(from_py_with = arg)] shape: Vec<usize>,
    #[pyo3(from_py_with = arg)] is_variable: bool,
    #[pyo3(from_py_with = arg)] trains: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let l = Literal::from_bytes(dtype.0, Shape::new(&shape), bytes).or_raise(py)?;
    let t = Tensor::from(l);
    if !is_variable {
        return Ok(Bound::new(py, PyTensor::from(t))?.into_any());
    }
    let v = if trains { Variable::new("", t) } else { Variable::buffer("", t) };
    Ok(Bound::new(py, PyTensor::from(v.or_raise(py)?))?.into_any())
}

/// A tensor over the memory of an object with DLPack, on the device where that is, copied where its
/// layout asks for it or another device is asked for. `copy` says that it must be, or must not.
#[pyfunction]
#[pyo3(signature = (x, /, *, device=None, copy=None))]
fn from_dlpack(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = arg)] device: Option<&str>,
    #[pyo3(from_py_with = arg)] copy: Option<bool>,
) -> PyResult<PyTensor> {
    let share = if copy == Some(true) { dlpack::Share::Never } else { dlpack::Share::Possible };
    let (t, is_shared) = match dlpack::import(x, share)? {
        Imported::Host(value) => {
            let is_shared = value.buffer().is_foreign();
            (here(py).scope(|| Tensor::from(value)), is_shared)
        }
        Imported::Gpu(t, is_shared) => (t, is_shared),
    };
    let there = t.device().or_raise(py)?;
    let elsewhere = device.filter(|d| *d != there && !(*d == "cuda" && there == "cuda:0"));
    if copy == Some(false) && (!is_shared || elsewhere.is_some()) {
        return Err(PyBufferError::new_err("the array has to be copied: only dense floats are shared, where they are"));
    }
    let t = match elsewhere {
        Some(d) => run(py, || Ok(t.to(d)))?,
        None => t,
    };
    match t.error() {
        Some(e) => Err(exception(py, e)),
        None => Ok(PyTensor::from(t)),
    }
}

/// Writes tensors by name to a safetensors file.
#[pyfunction]
fn save_tensors(
    py: Python<'_>,
    #[pyo3(from_py_with = arg)] path: std::path::PathBuf,
    #[pyo3(from_py_with = arg)] tensors: Vec<(String, Py<PyTensor>)>,
) -> PyResult<()> {
    let list: Vec<(String, Tensor)> = tensors.into_iter().map(|(n, t)| (n, t.get().tensor())).collect();
    run(py, move || ::tensor::save(path, &list.iter().map(|(n, t)| (n.as_str(), t)).collect::<Vec<_>>()))
}

/// Reads every tensor of a safetensors file.
#[pyfunction]
fn load_tensors(
    py: Python<'_>,
    #[pyo3(from_py_with = arg)] path: std::path::PathBuf,
) -> PyResult<Vec<(String, PyTensor)>> {
    let all = run(py, move || ::tensor::load(path))?;
    Ok(all.into_iter().map(|(n, t)| (n, PyTensor::from(t))).collect())
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_rebuild, m)?)?;
    m.add_function(wrap_pyfunction!(from_dlpack, m)?)?;
    m.add_function(wrap_pyfunction!(share, m)?)?;
    m.add_function(wrap_pyfunction!(save_tensors, m)?)?;
    m.add_function(wrap_pyfunction!(load_tensors, m)?)
}
