//! Programs over the tensors of another library, such as PyTorch: called with its tensors, they return its tensors.
//!
//! Arrays cross by DLPack's C exchange table (`__dlpack_c_exchange_api__`, DLPack 1.3), which costs a fraction of a
//! microsecond each. On GPUs, streams wait for each other, and the host for none. Memory is shared where its elements are dense in any order of the axes. Each
//! result has its own memory, in the order of axes that the library expects.

use crate::dlpack::{
    self, Array, CPU, CUDA, Dense, Device, Export, HOST, Imported, OnGpu, Share, Taken, Versioned, data_type,
    delete_versioned, dense_strides, described, inverse, start,
};
use crate::error::{OrRaise, type_error};
use crate::interrupt;
use crate::site::here;
use crate::tensor::{PyTensor, wrap};
use crate::transform::traced;
use ::tensor::{DType, Literal, Result, Tensor, Traces, engine_named};
use ir::{Buffer, Bytes, DeviceMemory, Outside, Type, Value};
use parking_lot::Mutex;
use pyo3::exceptions::PyBufferError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyType};
use pyo3::{ffi, intern};
use std::any::Any;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Forms of arguments kept at most; the one that was not used for the longest goes first.
const FORMS_MAX: usize = 64;

type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// DLPack's functions of one library's tensors.
#[repr(C)]
struct ExchangeTable {
    major: u32,
    minor: u32,
    older: *const ExchangeTable,
    allocate: Option<unsafe extern "C" fn(*mut Array, *mut *mut Versioned, *mut c_void, SetError) -> c_int>,
    from_object: Option<unsafe extern "C" fn(*mut ffi::PyObject, *mut *mut Versioned) -> c_int>,
    to_object: Option<unsafe extern "C" fn(*mut Versioned, *mut *mut ffi::PyObject) -> c_int>,
    describe: Option<unsafe extern "C" fn(*mut ffi::PyObject, *mut Array) -> c_int>,
    stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

/// A class of tensors and what it offers.
struct Library {
    class: Py<PyType>,
    /// A static of the library, which is never unloaded.
    table: *const ExchangeTable,
}
// SAFETY: the table is constant, and its functions are called with the interpreter held.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    fn new(class: &Bound<'_, PyType>) -> PyResult<Library> {
        let capsule = class.getattr("__dlpack_c_exchange_api__")?;
        let name = c"dlpack_exchange_api";
        // SAFETY: fails with an exception unless the object is a capsule of this name.
        let table = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()) }.cast::<ExchangeTable>();
        if table.is_null() {
            return Err(PyErr::fetch(class.py()));
        }
        let mut table = table.cast_const();
        // SAFETY: the header is the same in all versions; older tables follow newer ones.
        unsafe {
            while (*table).major > 1 && !(*table).older.is_null() {
                table = (*table).older;
            }
            if (*table).major != 1 || (*table).from_object.is_none() || (*table).to_object.is_none() {
                return Err(type_error(format!("DLPack {} has another exchange table", (*table).major)));
            }
        }
        Ok(Library { class: class.clone().unbind(), table })
    }
    fn table(&self) -> &ExchangeTable {
        // SAFETY: not null, and it lives as long as the process.
        unsafe { &*self.table }
    }
    fn is_own(&self, obj: &Bound<'_, PyAny>) -> bool {
        // SAFETY: both are types; the interpreter is held.
        unsafe { ffi::PyType_IsSubtype(ffi::Py_TYPE(obj.as_ptr()), self.class.as_ptr().cast()) == 1 }
    }
    /// The stream of a GPU that the library works on now.
    fn stream(&self, py: Python<'_>, number: i32) -> PyResult<u64> {
        let Some(stream) = self.table().stream else { return Err(type_error("the library does not say its stream")) };
        let mut out = std::ptr::null_mut();
        // SAFETY: on success the pointer is written.
        if unsafe { stream(CUDA, number, &mut out) } != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(out.addr() as u64)
    }
    /// What a tensor says of itself, without holding it; `None` where the library does not say.
    fn place(&self, obj: &Bound<'_, PyAny>) -> PyResult<Option<Place>> {
        let Some(describe) = self.table().describe else { return Ok(None) };
        let mut array = std::mem::MaybeUninit::<Array>::uninit();
        // SAFETY: the object is one of the library's tensors; on success the structure is filled.
        unsafe {
            if describe(obj.as_ptr(), array.as_mut_ptr()) != 0 {
                return Err(PyErr::fetch(obj.py()));
            }
            let array = array.assume_init();
            if ![CPU, CUDA].contains(&array.device.kind) {
                return Ok(None);
            }
            let (dtype, layout) = described(&array)?;
            let (address, device) = (start(&array).addr(), array.device);
            Ok(Some(Place { address, device, dtype, shape: layout.shape, strides: layout.strides }))
        }
    }
    fn taken(&self, obj: &Bound<'_, PyAny>) -> PyResult<Taken> {
        let mut out: *mut Versioned = std::ptr::null_mut();
        // SAFETY: the object is one of the library's tensors; on success the pointer is ours to give back.
        let code = unsafe { (self.table().from_object.expect("checked in new"))(obj.as_ptr(), &mut out) };
        if code != 0 || out.is_null() {
            return Err(PyErr::fetch(obj.py()));
        }
        Ok(Taken::Versioned(out))
    }
    /// A tensor of the library's over a value in host memory without another holder.
    fn object<'py>(&self, py: Python<'py>, value: Literal, order: Option<&[usize]>) -> PyResult<Bound<'py, PyAny>> {
        let is_own = Arc::strong_count(value.buffer()) == 1 && !value.buffer().is_foreign();
        let value = if is_own {
            value
        } else {
            Literal::from_bytes(value.dtype(), value.shape().clone(), value.bytes()).or_raise(py)?
        };
        let ty = Type::new(value.dtype(), value.shape().clone());
        let data = value.bytes().as_ptr().cast_mut().cast();
        self.made(py, &ty, order, (data, HOST), Box::new(Outside::new(value.into_buffer())))
    }
    /// A tensor of the library's over dense memory without another holder, and what keeps it.
    fn made<'py>(
        &self,
        py: Python<'py>,
        ty: &Type,
        order: Option<&[usize]>,
        (data, device): (*mut c_void, Device),
        memory: Box<dyn Any + Send + Sync>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let sizes: Vec<i64> = ty.shape.iter().map(|&d| d as i64).collect();
        let dense = dense_strides(&sizes.iter().map(|d| (*d).max(1)).collect::<Vec<_>>());
        let (shape, strides) = match order {
            None => (sizes, dense),
            Some(order) => {
                let (mut shape, mut strides) = (sizes.clone(), dense.clone());
                order.iter().enumerate().for_each(|(i, &a)| (shape[a], strides[a]) = (sizes[i], dense[i]));
                (shape, strides)
            }
        };
        let (dtype, ndim) = (data_type(ty.dtype), shape.len() as i32);
        let mut kept = Box::new(Export { _memory: memory, shape, strides });
        let (shape, strides) = (kept.shape.as_mut_ptr(), kept.strides.as_mut_ptr());
        let array = Array { data, device, ndim, dtype, shape, strides, byte_offset: 0 };
        let context = Box::into_raw(kept).cast();
        let managed = Versioned { major: 1, minor: 0, context, deleter: Some(delete_versioned), flags: 0, array };
        let managed = Box::into_raw(Box::new(managed));
        let mut out: *mut ffi::PyObject = std::ptr::null_mut();
        // SAFETY: the structure is complete, and the library owns it on success.
        unsafe {
            if (self.table().to_object.expect("checked in new"))(managed, &mut out) != 0 || out.is_null() {
                delete_versioned(managed);
                return Err(PyErr::fetch(py));
            }
            Ok(Bound::from_owned_ptr(py, out))
        }
    }
}

/// Where and how a tensor lies.
#[derive(Clone, PartialEq)]
struct Place {
    address: usize,
    device: Device,
    dtype: DType,
    shape: ir::Shape,
    strides: Vec<i64>,
}

/// An argument as a program is chosen by it.
#[derive(Clone, PartialEq)]
enum Key {
    /// A tensor whose elements are dense in this order of its axes; without one, in their own.
    Tensor(Type, Option<Vec<usize>>),
    /// A tensor that is compiled in: where it lies, and how often it was changed.
    Frozen(Option<Place>, usize, i64),
    Int(i64),
    Float(u64),
    Bool(bool),
    None,
}

impl Key {
    /// A number as Python has it.
    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match *self {
            Key::Int(i) => i.into_pyobject(py)?.into_any(),
            Key::Float(bits) => f64::from_bits(bits).into_pyobject(py)?.into_any(),
            Key::Bool(b) => b.into_pyobject(py)?.to_owned().into_any(),
            _ => py.None().into_bound(py),
        })
    }
}

/// A tensor argument: how it is looked up, and its value.
type Argument = (Key, Buffer);

/// The elements of an array in host memory, shared where they are dense; and whether they are.
fn host(array: Taken) -> PyResult<(Type, Option<Vec<usize>>, Literal, bool)> {
    let (dtype, layout) = described(array.array())?;
    let (begin, len) = (start(array.array()), layout.count() * dtype.size());
    if len == 0 {
        return Ok((Type::new(dtype, layout.shape.clone()), None, Literal::zeros(dtype, layout.shape), true));
    }
    if array.array().data.is_null() {
        return Err(PyBufferError::new_err("the tensor has no memory"));
    }
    let order = if layout.is_dense() { None } else { layout.order() };
    let is_dense = layout.is_dense() || order.is_some();
    let shape = match &order {
        Some(order) => order.iter().map(|&a| layout.shape[a]).collect(),
        None => layout.shape.clone(),
    };
    let is_aligned = begin.addr().is_multiple_of(dtype.part().size());
    // A boolean of another library may be any byte.
    let is_shared = is_dense && is_aligned && dtype != DType::Bool;
    let literal = if is_shared {
        Literal::from_buffer(dtype, shape.clone(), Arc::new(Bytes::foreign(Box::new(Dense { array, len }))))
    } else if is_dense {
        // SAFETY: this many bytes lie one after the other, and the array is held.
        let bytes = unsafe { std::slice::from_raw_parts(begin, len) };
        truth(dtype, &shape, bytes.to_vec())
    } else {
        // SAFETY: the layout is the array's own.
        truth(dtype, &shape, unsafe { layout.gather(begin, dtype.size()) })
    };
    Ok((Type::new(dtype, shape), order, literal, is_shared))
}

/// A value of bytes, of which booleans are 0 or 1.
fn truth(dtype: DType, shape: &ir::Shape, mut bytes: Vec<u8>) -> Literal {
    if dtype == DType::Bool {
        bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
    }
    Literal::from_buffer(dtype, shape.clone(), Arc::new(Bytes::copy_of(&bytes)))
}

/// What a program returns in one place.
enum Out {
    /// The next of its results, whose axes lie in this order.
    Tensor(Option<Vec<usize>>),
    /// Something that the function returned beside tensors, such as a size.
    Object(Py<PyAny>),
}

/// What was traced for one form of the arguments.
struct Form {
    keys: Vec<Key>,
    traces: Traces<Arc<Vec<Out>>>,
    /// Whether the last call took next to no time.
    is_brief: AtomicBool,
}

/// A GPU whose stream and the library's wait for each other around a call.
struct Ordered {
    number: i32,
    device: Arc<dyn runtime::Device>,
    stream: u64,
}
impl Drop for Ordered {
    fn drop(&mut self) {
        // The library's memory is given back next, also after an error.
        let _ = self.device.lead(self.stream);
    }
}

/// A weight that was taken over at an earlier call.
struct Adopted {
    place: Place,
    argument: Argument,
}

/// A function over another library's tensors, traced for each form of its arguments.
///
/// `f` is called with a list of arguments, tensors of ours in place of theirs, and returns a list. An item is a tensor,
/// a pair of a tensor and the order in which its axes lie, or any other object. `passed` says of each result which
/// argument it is, if it is one: that object itself is returned. `adopted` are arguments that stay where they are from
/// call to call; `frozen` says that those are compiled in as they are, again after each change.
#[pyclass(name = "ForeignCall", module = "talweg._native", frozen, weakref)]
struct ForeignCall {
    f: Py<PyAny>,
    library: Library,
    passed: Vec<Option<usize>>,
    adopted: Mutex<Vec<Option<Adopted>>>,
    is_adopted: Vec<bool>,
    is_frozen: bool,
    /// The last used is the last.
    forms: Mutex<Vec<Arc<Form>>>,
}

impl ForeignCall {
    /// A tensor of the library's.
    fn argument(&self, obj: &Bound<'_, PyAny>) -> PyResult<Argument> {
        Ok(self.taken_over(obj)?.0)
    }
    /// The same, and whether its memory is the library's: a copy does not see later changes.
    fn taken_over(&self, obj: &Bound<'_, PyAny>) -> PyResult<(Argument, bool)> {
        let array = self.library.taken(obj)?;
        let device = &array.array().device;
        if device.kind == CUDA {
            return self.on_gpu(obj, array);
        }
        if device.kind != CPU {
            let e = format!("a tensor on DLPack device {}, neither in host memory nor on an NVIDIA GPU", device.kind);
            return Err(PyBufferError::new_err(e));
        }
        let (ty, order, literal, is_shared) = host(array)?;
        Ok(((Key::Tensor(ty, order), Buffer::Host(literal)), is_shared))
    }
    fn on_gpu(&self, obj: &Bound<'_, PyAny>, array: Taken) -> PyResult<(Argument, bool)> {
        let py = obj.py();
        let (dtype, layout) = described(array.array())?;
        if layout.count() == 0 {
            let zeros = Literal::zeros(dtype, layout.shape.clone());
            return Ok(((Key::Tensor(Type::new(dtype, layout.shape), None), Buffer::Host(zeros)), true));
        }
        let order = if layout.is_dense() { None } else { layout.order() };
        if layout.is_dense() || order.is_some() {
            let shape = match &order {
                Some(order) => order.iter().map(|&a| layout.shape[a]).collect(),
                None => layout.shape.clone(),
            };
            let ty = Type::new(dtype, shape);
            let device = engine_named(&format!("cuda:{}", array.array().device.id)).or_raise(py)?.device();
            let loan = DeviceMemory { address: start(array.array()).addr() as u64, owner: Box::new(OnGpu(array)) };
            let (buffer, was_copied) = device.adopt_in_order(loan, ty.clone()).or_raise(py)?;
            return Ok(((Key::Tensor(ty, order), buffer), !was_copied));
        }
        drop(array);
        let plain = obj.call_method0(intern!(py, "detach"))?;
        let t = match dlpack::import(&plain, Share::Possible)? {
            Imported::Gpu(t, _) => t,
            Imported::Host(l) => Tensor::from(l),
        };
        let (ty, buffer) = PyTensor::from(t).buffer(py)?;
        Ok(((Key::Tensor(ty, None), buffer), false))
    }
    /// A tensor that stays where it is.
    fn weight(&self, i: usize, obj: &Bound<'_, PyAny>) -> PyResult<Argument> {
        let Some(place) = self.library.place(obj)? else { return self.argument(obj) };
        if let Some(a) = self.adopted.lock()[i].as_ref().filter(|a| a.place == place) {
            return Ok(a.argument.clone());
        }
        let (argument, is_shared) = self.taken_over(obj)?;
        if !is_shared {
            return Ok(argument);
        }
        let gone = self.adopted.lock()[i].replace(Adopted { place, argument: argument.clone() });
        drop(gone);
        Ok(argument)
    }
    /// How a tensor that is compiled in is known again.
    fn frozen_key(&self, obj: &Bound<'_, PyAny>) -> PyResult<Key> {
        let py = obj.py();
        let place = self.library.place(obj)?;
        let address = match &place {
            Some(p) => p.address,
            None => obj.call_method0(intern!(py, "data_ptr"))?.extract()?,
        };
        Ok(Key::Frozen(place, address, obj.getattr(intern!(py, "_version"))?.extract()?))
    }
    /// The keys of all arguments, and the values of those that are fed.
    fn taken_apart(&self, args: &[Bound<'_, PyAny>]) -> PyResult<(Vec<Key>, Vec<Buffer>)> {
        let (mut keys, mut feeds) = (Vec::with_capacity(args.len()), Vec::with_capacity(args.len()));
        for (i, obj) in args.iter().enumerate() {
            let is_adopted = self.is_adopted.get(i).copied().unwrap_or(false);
            let key = if self.library.is_own(obj) {
                if is_adopted && self.is_frozen {
                    self.frozen_key(obj)?
                } else {
                    let (key, buffer) = if is_adopted { self.weight(i, obj)? } else { self.argument(obj)? };
                    feeds.push(buffer);
                    key
                }
            } else if let Ok(b) = obj.cast_exact::<PyBool>() {
                Key::Bool(b.is_true())
            } else if obj.cast::<PyInt>().is_ok() {
                Key::Int(obj.extract()?)
            } else if let Ok(x) = obj.cast::<PyFloat>() {
                Key::Float(x.value().to_bits())
            } else if obj.is_none() {
                Key::None
            } else {
                return Err(type_error(format!("argument {i} is neither a tensor nor a number: {}", obj.get_type())));
            };
            keys.push(key);
        }
        Ok((keys, feeds))
    }
    fn form(&self, keys: Vec<Key>) -> Arc<Form> {
        let mut forms = self.forms.lock();
        if let Some(i) = forms.iter().rposition(|f| f.keys == keys) {
            forms[i..].rotate_left(1);
            return forms[forms.len() - 1].clone();
        }
        // A weight that was changed leaves nothing behind: the program held the old one.
        let is_same_but_weights = |f: &Arc<Form>| {
            let is_like = |(a, b): (&Key, &Key)| a == b || matches!((a, b), (Key::Frozen(..), Key::Frozen(..)));
            self.is_frozen && f.keys.iter().zip(&keys).all(is_like)
        };
        let mut gone: Vec<Arc<Form>> = Vec::new();
        while let Some(i) = forms.iter().position(is_same_but_weights) {
            gone.push(forms.remove(i));
        }
        if forms.len() >= FORMS_MAX {
            gone.push(forms.remove(0));
        }
        let traces = if self.is_frozen { Traces::frozen() } else { Traces::default() };
        let form = Arc::new(Form { keys, traces, is_brief: AtomicBool::new(false) });
        forms.push(form.clone());
        drop(forms);
        drop(gone);
        form
    }
    /// Calls the function with stand-ins.
    fn trace(&self, form: &Form, objects: &Py<PyList>, fed: &[Tensor]) -> Result<(Vec<Tensor>, Arc<Vec<Out>>)> {
        traced(|py| {
            let mut fed = fed.iter();
            let mut args: Vec<Bound<'_, PyAny>> = Vec::with_capacity(form.keys.len());
            for (i, key) in form.keys.iter().enumerate() {
                let (tensor, order) = match key {
                    Key::Tensor(_, order) => {
                        (fed.next().ok_or_else(|| type_error("fewer values than tensors"))?.clone(), order.clone())
                    }
                    Key::Frozen(..) => {
                        let (key, buffer) = self.argument(&objects.bind(py).get_item(i)?)?;
                        let Key::Tensor(ty, order) = key else { return Err(type_error("a weight is no tensor")) };
                        (Tensor::from(Value::computed(ty, buffer, false, here(py))), order)
                    }
                    number => {
                        args.push(number.object(py)?);
                        continue;
                    }
                };
                let t = if let Some(order) = order { tensor.permute(&inverse(&order)) } else { tensor };
                args.push(wrap(py, t)?.into_bound(py).into_any());
            }
            let results = self.f.bind(py).call1((PyList::new(py, args)?,))?;
            let (mut tensors, mut outs) = (Vec::new(), Vec::new());
            for item in results.try_iter()? {
                let item = item?;
                if let Ok(t) = item.cast::<PyTensor>() {
                    tensors.push(t.get().tensor());
                    outs.push(Out::Tensor(None));
                } else if let Ok((t, order)) = item.extract::<(Py<PyTensor>, Vec<usize>)>() {
                    let axes: Vec<i64> = order.iter().map(|&a| a as i64).collect();
                    tensors.push(t.get().tensor().permute(&axes));
                    outs.push(Out::Tensor(Some(order)));
                } else {
                    outs.push(Out::Object(item.unbind()));
                }
            }
            Ok((tensors, Arc::new(outs)))
        })
    }
    /// A result as the library's tensor.
    fn result<'py>(
        &self,
        py: Python<'py>,
        (ty, buffer): (Type, Buffer),
        order: Option<&[usize]>,
        gpu: Option<&Ordered>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match buffer.in_host() {
            Buffer::Host(value) => self.library.object(py, value, order),
            Buffer::Device(storage) => {
                let Some(gpu) = gpu else { return Err(type_error("a result on a GPU of arguments that are not")) };
                let is_shared = Arc::strong_count(&storage) > 1 || storage.is_shared();
                let loan = storage.lend_in_order(is_shared, gpu.stream).or_raise(py)?;
                let none = || PyBufferError::new_err(format!("{} does not lend its memory", storage.device()));
                let loan = loan.ok_or_else(none)?;
                let data = std::ptr::with_exposed_provenance_mut(loan.address as usize);
                let device = dlpack::Device { kind: CUDA, id: gpu.number };
                drop(storage);
                self.library.made(py, &ty, order, (data, device), loan.owner)
            }
        }
    }
    /// The GPU of the arguments, which waits for what the library has asked of it.
    fn ordered(&self, py: Python<'_>, feeds: &[Buffer]) -> PyResult<Option<Ordered>> {
        let on_gpu = |b: &Buffer| match b {
            Buffer::Device(s) => s.device().strip_prefix("cuda:").and_then(|n| n.parse::<i32>().ok()),
            Buffer::Host(_) => None,
        };
        let Some(number) = feeds.iter().find_map(on_gpu) else { return Ok(None) };
        let device = engine_named(&format!("cuda:{number}")).or_raise(py)?.device().clone();
        let stream = self.library.stream(py, number)?;
        device.follow(stream).or_raise(py)?;
        Ok(Some(Ordered { number, device, stream }))
    }
}

#[pymethods]
impl ForeignCall {
    #[new]
    fn new(
        f: Py<PyAny>,
        library: &Bound<'_, PyType>,
        passed: Vec<Option<usize>>,
        adopted: Vec<usize>,
        frozen: bool,
    ) -> PyResult<ForeignCall> {
        let count = adopted.iter().max().map_or(0, |m| m + 1);
        let mut is_adopted = vec![false; count];
        adopted.iter().for_each(|&i| is_adopted[i] = true);
        let slots = Mutex::new((0..count).map(|_| None).collect());
        let library = Library::new(library)?;
        Ok(ForeignCall { f, library, passed, adopted: slots, is_adopted, is_frozen: frozen, forms: Mutex::default() })
    }
    /// Calls it with a list of arguments, which is emptied: values without another holder are freed during the call.
    fn __call__<'py>(&self, py: Python<'py>, args: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let objects: Vec<Bound<'py, PyAny>> = args.iter().collect();
        let (keys, feeds) = self.taken_apart(&objects)?;
        let form = self.form(keys);
        let types: Vec<Type> =
            form.keys.iter().filter_map(|k| if let Key::Tensor(ty, _) = k { Some(ty.clone()) } else { None }).collect();
        let kept: Vec<Option<Bound<'py, PyAny>>> =
            self.passed.iter().map(|p| p.and_then(|i| objects.get(i).cloned())).collect();
        let site = here(py);
        // Tracing looks at weights once more to compile them in.
        let list = if self.is_frozen { PyList::new(py, &objects)? } else { PyList::empty(py) }.unbind();
        drop(objects);
        // SAFETY: a slice of a list is set to nothing, which empties it.
        if unsafe { ffi::PyList_SetSlice(args.as_ptr(), 0, ffi::Py_ssize_t::MAX, std::ptr::null_mut()) } != 0 {
            return Err(PyErr::fetch(py));
        }
        let gpu = self.ordered(py, &feeds)?;
        let call = || form.traces.call_values(&types, &feeds, |xs| self.trace(&form, &list, xs), Arc::clone);
        let (values, outs) = interrupt::run_again(py, &form.is_brief, || site.scope(call))?.or_raise(py)?;
        let mut values = values.into_iter();
        let results = PyList::empty(py);
        let mut outs = outs.iter();
        for kept in kept {
            if let Some(obj) = kept {
                results.append(obj)?;
                continue;
            }
            match outs.next() {
                Some(Out::Object(obj)) => results.append(obj)?,
                Some(Out::Tensor(order)) => {
                    let value = values.next().ok_or_else(|| type_error("fewer results than outputs"))?;
                    results.append(self.result(py, value, order.as_deref(), gpu.as_ref())?)?;
                }
                None => return Err(type_error("the function returned fewer results than it said")),
            }
        }
        drop(gpu);
        drop(feeds);
        Ok(results)
    }
    /// The graph that was compiled for each form of the arguments so far, as text.
    fn explain(&self) -> Vec<String> {
        self.forms.lock().iter().map(|f| f.traces.explained()).collect()
    }
    /// How many forms of arguments are kept.
    #[getter]
    fn traces(&self) -> usize {
        self.forms.lock().iter().map(|f| f.traces.count()).sum()
    }
    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.f)
    }
}

/// Adds the class.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<ForeignCall>()
}
