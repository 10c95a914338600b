//! DLPack: the structures that libraries hand arrays to each other with, in both directions, in host
//! memory and in that of GPUs.

use crate::convert::type_name;
use crate::error::{OrRaise, type_error};
use crate::exchange::can_share;
use crate::site::here;
use crate::tensor::{PyTensor, run};
use ::tensor::{DType, Literal, Shape, Tensor, engine_named};
use ir::{Buffer, Bytes, DeviceMemory, ForeignMemory, Outside, Storage, Type, Value};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::any::Any;
use std::ffi::{CStr, c_void};
use std::sync::Arc;

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) kind: i32,
    pub(crate) id: i32,
}
#[repr(C)]
pub(crate) struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}
#[repr(C)]
pub(crate) struct Array {
    pub(crate) data: *mut c_void,
    pub(crate) device: Device,
    pub(crate) ndim: i32,
    pub(crate) dtype: DataType,
    pub(crate) shape: *mut i64,
    pub(crate) strides: *mut i64,
    pub(crate) byte_offset: u64,
}
/// The structure from before versions.
#[repr(C)]
pub(crate) struct Managed {
    array: Array,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}
/// The structure since version 1, which can say that memory must not be written to.
#[repr(C)]
pub(crate) struct Versioned {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) context: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    pub(crate) flags: u64,
    pub(crate) array: Array,
}

pub(crate) const CPU: i32 = 1;
pub(crate) const CUDA: i32 = 2;
/// Host memory that a GPU reads quickly.
const CUDA_HOST: i32 = 3;
pub(crate) const HOST: Device = Device { kind: CPU, id: 0 };
/// The consumer's stream that needs no waiting for.
const NO_STREAM: i64 = -1;
const READ_ONLY: u64 = 1;
const COPIED: u64 = 2;
const PLAIN: &CStr = c"dltensor";
const PLAIN_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

/// What an exported array keeps until the other side is done.
pub(crate) struct Export {
    pub(crate) _memory: Box<dyn Any + Send + Sync>,
    pub(crate) shape: Vec<i64>,
    pub(crate) strides: Vec<i64>,
}

pub(crate) fn data_type(d: DType) -> DataType {
    let code = match d {
        DType::Bool => 6,
        DType::BF16 => 4,
        DType::F8E4M3 => 10,
        DType::F8E5M2 => 12,
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

/// An array over dense memory, and what keeps it alive.
fn export(ty: &Type, data: *mut c_void, device: Device, memory: Box<dyn Any + Send + Sync>) -> (Array, *mut c_void) {
    let shape: Vec<i64> = ty.shape.iter().map(|&d| d as i64).collect();
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i].max(1);
    }
    let (dtype, ndim) = (data_type(ty.dtype), shape.len() as i32);
    let mut kept = Box::new(Export { _memory: memory, shape, strides });
    let (shape, strides) = (kept.shape.as_mut_ptr(), kept.strides.as_mut_ptr());
    let array = Array { data, device, ndim, dtype, shape, strides, byte_offset: 0 };
    (array, Box::into_raw(kept).cast())
}

/// A capsule for an array, with what keeps it alive; who does not know of versions has been given
/// its own memory.
fn capsule(py: Python<'_>, (array, context): (Array, *mut c_void), flags: Option<u64>) -> PyResult<Py<PyAny>> {
    // SAFETY: the boxes are freed by their deleters, which the capsule or its taker calls.
    let capsule = unsafe {
        if let Some(flags) = flags {
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

/// Where other libraries find a device's memory.
fn device_of(name: &str) -> PyResult<Device> {
    let number = name.strip_prefix("cuda:").and_then(|n| n.parse().ok());
    let unknown = || PyBufferError::new_err(format!("DLPack does not know the memory of {name}"));
    number.map(|id| Device { kind: CUDA, id }).ok_or_else(unknown)
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
pub(crate) unsafe extern "C" fn delete_versioned(m: *mut Versioned) {
    // SAFETY: as above.
    unsafe {
        drop(Box::from_raw((*m).context.cast::<Export>()));
        drop(Box::from_raw(m));
    }
}
/// Frees a tensor that was not taken out of its capsule.
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

/// What the taker of an array asks for.
struct Wish {
    stream: Option<i64>,
    is_versioned: bool,
    device: Option<Device>,
    copy: Option<bool>,
}
impl Wish {
    /// Who does not know of read-only memory gets its own memory.
    fn needs_copy(&self) -> bool {
        self.copy == Some(true) || !self.is_versioned
    }
    fn flags(&self, is_copied: bool) -> Option<u64> {
        self.is_versioned.then_some(if is_copied { COPIED } else { READ_ONLY })
    }
    /// A value in host memory, which was copied there if `is_copied`. Memory that other values lie in is
    /// copied: not every library keeps to what it is told about writing.
    fn host(&self, py: Python<'_>, value: Literal, is_copied: bool) -> PyResult<Py<PyAny>> {
        // The tensor's own, and the one at hand.
        let is_shared = !is_copied && value.holders() > 2 && self.copy != Some(false);
        let needs_copy = self.needs_copy() || is_shared;
        let is_copied = is_copied || needs_copy;
        let value = if needs_copy {
            Literal::from_bytes(value.dtype(), value.shape().clone(), value.bytes()).or_raise(py)?
        } else {
            value
        };
        let (ty, data) = (Type::new(value.dtype(), value.shape().clone()), value.bytes().as_ptr().cast_mut().cast());
        let memory = Box::new(Outside::new(value.into_buffer()));
        capsule(py, export(&ty, data, HOST, memory), self.flags(is_copied))
    }
    /// A value in a GPU's memory.
    fn gpu(&self, py: Python<'_>, storage: &Arc<dyn Storage>, ty: &Type) -> PyResult<Py<PyAny>> {
        let here = device_of(storage.device())?;
        match self.device {
            Some(HOST) if self.copy == Some(false) => {
                return Err(PyBufferError::new_err(format!(
                    "the tensor is on {} and has to be copied",
                    storage.device()
                )));
            }
            Some(HOST) => {
                let value = run(py, || storage.read())?;
                return self.host(py, value, true);
            }
            Some(d) if d != here => {
                let e = format!("the tensor is on {}, not on device {:?}", storage.device(), (d.kind, d.id));
                return Err(PyBufferError::new_err(e));
            }
            _ => {}
        }
        if self.stream == Some(0) {
            return Err(PyBufferError::new_err("stream 0 could be two streams: pass 1 or 2"));
        }
        // The tensor's own, and the one at hand.
        let is_shared = Arc::strong_count(storage) > 2 || storage.is_shared();
        let is_copy = self.needs_copy() || is_shared && self.copy != Some(false);
        let is_unready = self.stream == Some(NO_STREAM);
        let loan = run(py, || storage.lend(is_copy, is_unready))?;
        let Some(loan) = loan else {
            return Err(PyBufferError::new_err(format!("{} does not lend its memory", storage.device())));
        };
        let data = std::ptr::with_exposed_provenance_mut(loan.address as usize);
        capsule(py, export(ty, data, here, loan.owner), self.flags(is_copy))
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
        let is_versioned = max_version.is_some_and(|v| v.0 >= 1);
        let wish = Wish { stream, is_versioned, device: dl_device.map(|(kind, id)| Device { kind, id }), copy };
        let (ty, buffer) = self.buffer(py)?;
        let value = match buffer {
            Buffer::Device(storage) => return wish.gpu(py, &storage, &ty),
            Buffer::Host(value) => value,
        };
        if stream.is_some_and(|s| s != NO_STREAM) {
            return Err(PyBufferError::new_err("a tensor in host memory has no stream"));
        }
        if let Some(d) = dl_device.filter(|d| *d != (CPU, 0)) {
            return Err(PyBufferError::new_err(format!("the tensor is in host memory, not on device {d:?}")));
        }
        wish.host(py, value, false)
    }
    fn __dlpack_device__(&self, py: Python<'_>) -> PyResult<(i32, i32)> {
        let device = match self.buffer(py)?.1 {
            Buffer::Host(_) => HOST,
            Buffer::Device(storage) => device_of(storage.device())?,
        };
        Ok((device.kind, device.id))
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
pub(crate) enum Taken {
    Plain(*mut Managed),
    Versioned(*mut Versioned),
}
impl Taken {
    pub(crate) fn array(&self) -> &Array {
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
pub(crate) struct Dense {
    pub(crate) array: Taken,
    pub(crate) len: usize,
}
// SAFETY: the memory is only read, and is given back with the interpreter held.
unsafe impl Send for Dense {}
// SAFETY: as above.
unsafe impl Sync for Dense {}
impl ForeignMemory for Dense {
    fn bytes(&self) -> &[u8] {
        // SAFETY: `import` has counted the elements of the array, which lie one after the other.
        unsafe { std::slice::from_raw_parts(start(self.array.array()), self.len) }
    }
}

/// The memory of an array on a GPU.
pub(crate) struct OnGpu(#[expect(dead_code, reason = "gives the array back when it is dropped")] pub(crate) Taken);
// SAFETY: it is not read here, and is given back with the interpreter held.
unsafe impl Send for OnGpu {}
// SAFETY: as above.
unsafe impl Sync for OnGpu {}

/// Another library's array as it came.
pub enum Imported {
    /// In host memory.
    Host(Literal),
    /// In a GPU's memory; whether that is the other library's own.
    Gpu(Tensor, bool),
}

/// Another library's array.
pub fn import(obj: &Bound<'_, PyAny>, share: Share) -> PyResult<Imported> {
    let py = obj.py();
    if !obj.hasattr("__dlpack__")? {
        return Err(type_error(format!("expected an array with __dlpack__, not {}", type_name(obj))));
    }
    let device = match obj.getattr_opt("__dlpack_device__")? {
        Some(f) => f.call0()?.extract::<(i32, i32)>()?,
        None => (CPU, 0),
    };
    if device.0 == CUDA {
        return from_gpu(obj, share, device.1);
    }
    let array = taken(obj, None)?;
    let (dtype, layout) = described(array.array())?;
    if ![CPU, CUDA_HOST].contains(&array.array().device.kind) {
        return Err(PyBufferError::new_err("the array is neither in host memory nor on an NVIDIA GPU: move it first"));
    }
    let len = layout.count() * dtype.size();
    let begin = start(array.array());
    if share == Share::Possible && layout.is_dense() && can_share(dtype, begin, len) {
        let bytes = Bytes::foreign(Box::new(Dense { array, len }));
        return Ok(Imported::Host(Literal::from_buffer(dtype, layout.shape, Arc::new(bytes))));
    }
    // SAFETY: the layout is the array's own.
    let bytes = unsafe { layout.gather(begin, dtype.size()) };
    Ok(Imported::Host(Literal::from_bytes(dtype, layout.shape, &bytes).or_raise(py)?))
}

/// An array on a GPU, which stays there.
fn from_gpu(obj: &Bound<'_, PyAny>, share: Share, number: i32) -> PyResult<Imported> {
    let py = obj.py();
    let name = format!("cuda:{number}");
    let device = run(py, || Ok(engine_named(&name)?.device()))?;
    let array = taken(obj, device.stream())?;
    let (dtype, layout) = described(array.array())?;
    if array.array().device != (Device { kind: CUDA, id: number }) {
        return Err(PyBufferError::new_err(format!("the array says that it is on {name}, but it is not")));
    }
    let site = here(py);
    if layout.count() == 0 {
        let empty = run(py, move || Ok(Tensor::from(Literal::zeros(dtype, layout.shape)).to(&name)))?;
        return Ok(Imported::Gpu(empty, false));
    }
    let order = layout.order();
    let transposed: Option<Shape> = order.as_ref().map(|o| o.iter().map(|&a| layout.shape[a]).collect());
    let Some(span) = layout.span() else {
        return Err(PyBufferError::new_err("the array runs backwards along an axis: make it contiguous first"));
    };
    let ty = Type::new(dtype, transposed.clone().unwrap_or_else(|| Shape::new(&[span])));
    let is_copy = share == Share::Never || !dtype.is_inexact();
    let loan = DeviceMemory { address: start(array.array()).addr() as u64, owner: Box::new(OnGpu(array)) };
    let (tensor, is_shared) = run(py, move || {
        let (buffer, was_copied) = device.adopt(loan, ty.clone(), is_copy)?;
        let flat = Tensor::from(Value::computed(ty, buffer, false, site));
        Ok(match order {
            Some(order) if order.is_sorted() => (flat, !was_copied),
            Some(order) => (flat.permute(&inverse(&order)), !was_copied),
            None => {
                let picked = flat.take(&layout.places(), 0).reshape(&layout.shape);
                picked.eval()?;
                (picked, false)
            }
        })
    })?;
    Ok(Imported::Gpu(tensor, is_shared))
}

/// The axes that undo a permutation.
pub(crate) fn inverse(order: &[usize]) -> Vec<i64> {
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, &a)| back[a] = i as i64);
    back
}

/// Takes the array out of its capsule.
fn taken(obj: &Bound<'_, PyAny>, stream: Option<u64>) -> PyResult<Taken> {
    let py = obj.py();
    let kwargs = PyDict::new(py);
    if let Some(stream) = stream {
        kwargs.set_item("stream", stream)?;
    }
    let plain = kwargs.copy()?;
    kwargs.set_item("max_version", (1, 0))?;
    let capsule = match obj.call_method("__dlpack__", (), Some(&kwargs)) {
        // Older libraries do not know of versions.
        Err(e) if e.is_instance_of::<PyTypeError>(py) => obj.call_method("__dlpack__", (), Some(&plain))?,
        other => other?,
    };
    let raw = capsule.as_ptr();
    // SAFETY: the name says what the pointer is; the capsule is renamed, so that it is not freed
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
    Err(type_error("__dlpack__ must return an unused capsule"))
}

/// Where an array's elements begin.
pub(crate) fn start(a: &Array) -> *const u8 {
    a.data.cast::<u8>().cast_const().wrapping_add(a.byte_offset as usize)
}

/// Sizes, and how many elements each axis steps.
pub(crate) struct Strided {
    pub(crate) shape: Shape,
    pub(crate) strides: Vec<i64>,
}

/// What an array says of itself.
pub(crate) fn described(a: &Array) -> PyResult<(DType, Strided)> {
    let Some(dtype) = dtype(&a.dtype) else {
        let t = &a.dtype;
        let e = format!("arrays of DLPack type code {}, {} bits, {} lanes are not supported", t.code, t.bits, t.lanes);
        return Err(type_error(e));
    };
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

pub(crate) fn dense_strides(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    strides
}

impl Strided {
    pub(crate) fn count(&self) -> usize {
        self.shape.count()
    }
    /// True if the elements lie one after the other in row-major order; steps along axes of size 1
    /// do not count.
    pub(crate) fn is_dense(&self) -> bool {
        let sizes: Vec<i64> = self.shape.iter().map(|&d| d as i64).collect();
        dense_strides(&sizes).iter().zip(&self.strides).zip(&sizes).all(|((a, b), &d)| a == b || d <= 1)
    }
    /// The axes from the widest steps to the narrowest, if the elements lie one after the other in
    /// that order.
    pub(crate) fn order(&self) -> Option<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.strides.len()).collect();
        order.sort_by_key(|&a| (self.shape[a] > 1, -self.strides[a]));
        let transposed = Strided {
            shape: order.iter().map(|&a| self.shape[a]).collect(),
            strides: order.iter().map(|&a| self.strides[a]).collect(),
        };
        transposed.is_dense().then_some(order)
    }
    /// How many elements there are from the first to the last; `None` if steps lead backwards.
    fn span(&self) -> Option<usize> {
        let steps = self.shape.iter().zip(&self.strides);
        steps.map(|(&d, &s)| usize::try_from(s).ok().map(|s| (d - 1) * s)).sum::<Option<usize>>().map(|n| n + 1)
    }
    /// Where each element lies, in row-major order.
    fn places(&self) -> Tensor {
        let mut places = Tensor::from([0i64]);
        for (&d, &s) in self.shape.iter().zip(&self.strides) {
            places = (places.unsqueeze(-1) + Tensor::iota(d, DType::I64) * s).flatten(0, -1);
        }
        places
    }
    /// The elements in row-major order.
    ///
    /// SAFETY: `start` and the layout describe memory that may be read.
    pub(crate) unsafe fn gather(&self, start: *const u8, size: usize) -> Vec<u8> {
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
