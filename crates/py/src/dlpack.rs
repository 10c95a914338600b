//! DLPack: the structures that libraries hand arrays to each other with, in both directions.

use crate::error::OrRaise;
use crate::exchange::can_share;
use crate::tensor::PyTensor;
use ::tensor::{DType, Literal, Shape};
use ir::{Bytes, Lent};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::{CStr, c_void};
use std::sync::Arc;

#[repr(C)]
struct Device {
    kind: i32,
    id: i32,
}
#[repr(C)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}
#[repr(C)]
struct Array {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}
/// The structure from before versions.
#[repr(C)]
struct Managed {
    array: Array,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}
/// The structure since version 1, which can say that memory must not be written to.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    array: Array,
}

const CPU: i32 = 1;
const READ_ONLY: u64 = 1;
const PLAIN: &CStr = c"dltensor";
const PLAIN_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

/// What an exported array keeps until the other side is done.
struct Export {
    _value: Literal,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

fn data_type(d: DType) -> DataType {
    let code = match d {
        DType::Bool => 6,
        DType::BF16 => 4,
        d if d.is_float() => 2,
        d if d.is_complex() => 5,
        d if d.is_unsigned() => 1,
        _ => 0,
    };
    DataType { code, bits: 8 * d.size() as u8, lanes: 1 }
}
fn dtype(t: &DataType) -> Option<DType> {
    DType::ALL.into_iter().find(|&d| {
        let o = data_type(d);
        (o.code, o.bits, o.lanes) == (t.code, t.bits, t.lanes)
    })
}

/// The array over a value, and what keeps it alive.
fn export(value: Literal) -> (Array, *mut c_void) {
    let shape: Vec<i64> = value.shape().iter().map(|&d| d as i64).collect();
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i].max(1);
    }
    let data = value.bytes().as_ptr().cast_mut().cast();
    let (dtype, ndim) = (data_type(value.dtype()), shape.len() as i32);
    let mut kept = Box::new(Export { _value: value, shape, strides });
    let (shape, strides) = (kept.shape.as_mut_ptr(), kept.strides.as_mut_ptr());
    let array = Array { data, device: Device { kind: CPU, id: 0 }, ndim, dtype, shape, strides, byte_offset: 0 };
    (array, Box::into_raw(kept).cast())
}

/// SAFETY: `m` was made by `Box::into_raw`, as was its context; called once.
unsafe extern "C" fn delete_plain(m: *mut Managed) {
    // SAFETY: as above.
    unsafe {
        drop(Box::from_raw((*m).context.cast::<Export>()));
        drop(Box::from_raw(m));
    }
}
/// SAFETY: as `delete_plain`.
unsafe extern "C" fn delete_versioned(m: *mut Versioned) {
    // SAFETY: as above.
    unsafe {
        drop(Box::from_raw((*m).context.cast::<Export>()));
        drop(Box::from_raw(m));
    }
}
/// Frees what nobody has taken out of its capsule.
///
/// SAFETY: called by the interpreter with one of our capsules.
unsafe extern "C" fn free_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule under its first name still owns what it points to.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, PLAIN.as_ptr()) == 1 {
            delete_plain(ffi::PyCapsule_GetPointer(capsule, PLAIN.as_ptr()).cast());
        } else if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}

#[pymethods]
impl PyTensor {
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        if stream.is_some() {
            return Err(PyBufferError::new_err("a tensor in host memory has no stream"));
        }
        if let Some(d) = dl_device.filter(|d| *d != (CPU, 0)) {
            return Err(PyBufferError::new_err(format!("the tensor is in host memory, not on device {d:?}")));
        }
        let value = self.literal(py)?;
        let is_versioned = max_version.is_some_and(|v| v.0 >= 1);
        // Who does not know of read-only memory gets memory of its own.
        let value = if copy == Some(true) || !is_versioned {
            Literal::from_bytes(value.dtype(), value.shape().clone(), value.bytes()).or_raise(py)?
        } else {
            value
        };
        let (array, context) = export(value);
        // SAFETY: the boxes are freed by their deleters, which the capsule or its taker calls.
        let capsule = unsafe {
            if is_versioned {
                let flags = if copy == Some(true) { 2 } else { READ_ONLY };
                let m = Versioned { major: 1, minor: 0, context, deleter: Some(delete_versioned), flags, array };
                ffi::PyCapsule_New(Box::into_raw(Box::new(m)).cast(), VERSIONED.as_ptr(), Some(free_capsule))
            } else {
                let m = Managed { array, context, deleter: Some(delete_plain) };
                ffi::PyCapsule_New(Box::into_raw(Box::new(m)).cast(), PLAIN.as_ptr(), Some(free_capsule))
            }
        };
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, capsule) }.map(Bound::unbind)
    }
    fn __dlpack_device__(&self) -> (i32, i32) {
        (CPU, 0)
    }
}

/// Whether an array's own memory may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// It is copied.
    Never,
    /// Where its layout allows.
    Possible,
}

/// An array of another library that is ours until it is given back.
enum Taken {
    Plain(*mut Managed),
    Versioned(*mut Versioned),
}
impl Taken {
    fn array(&self) -> &Array {
        // SAFETY: the pointers are valid until they are given back in `drop`.
        unsafe {
            match self {
                Taken::Plain(m) => &(**m).array,
                Taken::Versioned(m) => &(**m).array,
            }
        }
    }
}
impl Drop for Taken {
    fn drop(&mut self) {
        // A tensor over lent memory may die in any thread, and the owner may be a Python object;
        // when the interpreter is gone, so is the owner.
        Python::try_attach(|_| {
            // SAFETY: given back once.
            unsafe {
                match *self {
                    Taken::Plain(m) => (*m).deleter.into_iter().for_each(|delete| delete(m)),
                    Taken::Versioned(m) => (*m).deleter.into_iter().for_each(|delete| delete(m)),
                }
            }
        });
    }
}

/// The memory of an array that is dense.
struct Dense {
    array: Taken,
    len: usize,
}
// SAFETY: the memory is only read, and is given back with the interpreter held.
unsafe impl Send for Dense {}
// SAFETY: as above.
unsafe impl Sync for Dense {}
impl Lent for Dense {
    fn bytes(&self) -> &[u8] {
        // SAFETY: `import` has counted the elements of the array, which lie one after the other.
        unsafe { std::slice::from_raw_parts(start(self.array.array()), self.len) }
    }
}

/// Another library's array.
pub fn import(obj: &Bound<'_, PyAny>, share: Share) -> PyResult<Literal> {
    let py = obj.py();
    let array = taken(obj)?;
    let (dtype, layout) = described(array.array())?;
    let len = layout.count() * dtype.size();
    let begin = start(array.array());
    if share == Share::Possible && layout.is_dense() && can_share(dtype, begin, len) {
        let bytes = Bytes::lent(Box::new(Dense { array, len }));
        return Ok(Literal::from_buffer(dtype, layout.shape, Arc::new(bytes)));
    }
    // SAFETY: the layout is the array's own.
    let bytes = unsafe { layout.gather(begin, dtype.size()) };
    Literal::from_bytes(dtype, layout.shape, &bytes).or_raise(py)
}

/// Takes the array out of its capsule.
fn taken(obj: &Bound<'_, PyAny>) -> PyResult<Taken> {
    let py = obj.py();
    let kwargs = PyDict::new(py);
    kwargs.set_item("max_version", (1, 0))?;
    let capsule = match obj.call_method("__dlpack__", (), Some(&kwargs)) {
        // Older libraries do not know of versions.
        Err(e) if e.is_instance_of::<PyTypeError>(py) => obj.call_method0("__dlpack__")?,
        other => other?,
    };
    let raw = capsule.as_ptr();
    // SAFETY: the name says what the pointer is; the capsule is renamed, so that nobody frees it
    // twice.
    unsafe {
        if ffi::PyCapsule_IsValid(raw, VERSIONED.as_ptr()) == 1 {
            let m = ffi::PyCapsule_GetPointer(raw, VERSIONED.as_ptr()).cast::<Versioned>();
            if (*m).major != 1 {
                return Err(PyBufferError::new_err(format!("DLPack {} is not known here", (*m).major)));
            }
            ffi::PyCapsule_SetName(raw, VERSIONED_USED.as_ptr());
            return Ok(Taken::Versioned(m));
        }
        if ffi::PyCapsule_IsValid(raw, PLAIN.as_ptr()) == 1 {
            let m = ffi::PyCapsule_GetPointer(raw, PLAIN.as_ptr()).cast::<Managed>();
            ffi::PyCapsule_SetName(raw, PLAIN_USED.as_ptr());
            return Ok(Taken::Plain(m));
        }
    }
    Err(PyTypeError::new_err("__dlpack__ must return a capsule that nobody has used"))
}

/// Where an array's elements begin.
fn start(a: &Array) -> *const u8 {
    a.data.cast::<u8>().cast_const().wrapping_add(a.byte_offset as usize)
}

/// Sizes, and how many elements each axis steps.
struct Strided {
    shape: Shape,
    strides: Vec<i64>,
}

/// What an array says of itself.
fn described(a: &Array) -> PyResult<(DType, Strided)> {
    let Some(dtype) = dtype(&a.dtype) else {
        let t = &a.dtype;
        let e = format!("arrays of DLPack type code {}, {} bits, {} lanes are not supported", t.code, t.bits, t.lanes);
        return Err(PyTypeError::new_err(e));
    };
    if a.device.kind != CPU {
        return Err(PyBufferError::new_err("the array is not in host memory: move it there first"));
    }
    let n = a.ndim.max(0) as usize;
    // SAFETY: `ndim` sizes, and as many strides unless the memory is row-major.
    let shape: &[i64] = if n == 0 { &[] } else { unsafe { std::slice::from_raw_parts(a.shape, n) } };
    if let Some(d) = shape.iter().find(|&&d| d < 0) {
        return Err(PyBufferError::new_err(format!("an axis of the array has size {d}")));
    }
    let mut strides = dense_strides(shape);
    if !a.strides.is_null() && n > 0 {
        // SAFETY: as above.
        strides.copy_from_slice(unsafe { std::slice::from_raw_parts(a.strides, n) });
    }
    Ok((dtype, Strided { shape: shape.iter().map(|&d| d as usize).collect(), strides }))
}

fn dense_strides(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    strides
}

impl Strided {
    fn count(&self) -> usize {
        self.shape.count()
    }
    /// True if the elements lie one after the other in row-major order; steps along axes of size 1
    /// do not count.
    fn is_dense(&self) -> bool {
        let sizes: Vec<i64> = self.shape.iter().map(|&d| d as i64).collect();
        dense_strides(&sizes).iter().zip(&self.strides).zip(&sizes).all(|((a, b), &d)| a == b || d <= 1)
    }
    /// The elements in row-major order.
    ///
    /// SAFETY: `start` and the layout describe memory that may be read.
    unsafe fn gather(&self, start: *const u8, size: usize) -> Vec<u8> {
        let mut out = vec![0u8; self.count() * size];
        let mut place = vec![0usize; self.strides.len()];
        for slot in out.chunks_exact_mut(size) {
            let at: i64 = place.iter().zip(&self.strides).map(|(&p, s)| p as i64 * s).sum();
            // SAFETY: every place inside the shape lies in the array's memory.
            unsafe {
                std::ptr::copy_nonoverlapping(start.offset(at as isize * size as isize), slot.as_mut_ptr(), size)
            };
            for i in (0..place.len()).rev() {
                place[i] += 1;
                if place[i] < self.shape[i] {
                    break;
                }
                place[i] = 0;
            }
        }
        out
    }
}
