//! Ops that Python defines: host functions that a graph calls back, kernels in C, CUDA C, with their gradients.
//!
//! A run computes without holding the interpreter; a callback takes it for as long as it lasts. What a callback raises
//! is kept here, and the error that goes through the engine says which exception it stands for: a callback may run on
//! another thread than the one that asked for the value.

use crate::convert::{DTypeArg, type_name};
use crate::error::{OrRaise, type_error, value_error};
use crate::exchange::required;
use crate::interrupt;
use crate::site::here;
use crate::tensor::{PyTensor, wrap};
use crate::transform::traced;
use crate::tree::flatten;
use ::tensor::{Error, Result, Shape, Tensor, custom};
use ir::{CudaSource, CustomOp, DType, ErrorKind, GradCall, Literal, Site, Type, Types, Value, Vmap};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Exceptions kept at most: one whose error is never raised is forgotten after this many others.
const RAISED_MAX: usize = 64;
/// What an error says that stands for an exception, before the exception's number.
const MARK: &str = "a Python callback raised exception ";
/// Inferred types remembered at most.
const INFERRED_MAX: usize = 256;

static RAISED: Mutex<VecDeque<(u64, PyErr)>> = Mutex::new(VecDeque::new());

/// Keeps an exception; the error stands for it.
fn kept(e: PyErr) -> Error {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let gone = {
        let mut raised = RAISED.lock();
        raised.push_back((number, e));
        if raised.len() > RAISED_MAX { raised.pop_front() } else { None }
    };
    drop(gone);
    Error::value(format!("{MARK}{number}"))
}

/// The exception that an error stands for.
pub fn raised(e: &Error) -> Option<PyErr> {
    let number: u64 = e.message.split_once(MARK)?.1.parse().ok()?;
    let mut raised = RAISED.lock();
    let at = raised.iter().position(|(n, _)| *n == number)?;
    raised.remove(at).map(|(_, e)| e)
}

/// A kernel in C: pointers to the inputs, to the outputs, and the dimensions of all of them one after the other. It
/// returns 0, or a number that the error names.
type CKernel = unsafe extern "C" fn(*const *const c_void, *const *mut c_void, *const i64) -> c_int;

enum Kernel {
    /// A function of tensors.
    Python(Py<PyAny>),
    /// A function in C, how many tensors it takes where that is known, and what keeps its code loaded.
    C(CKernel, usize, #[allow(dead_code)] Py<PyAny>),
    /// There is none on the host.
    Device,
}

enum Infer {
    Fixed(Types),
    /// A function of stand-ins that returns tensors of the results' types.
    Fake(Py<PyAny>),
}

/// The rules of an op that Python defines.
struct Defined {
    name: String,
    kernel: Kernel,
    infer: Infer,
    inferred: Mutex<HashMap<Vec<Type>, Types>>,
    gradient: Option<Py<PyAny>>,
    cuda: Option<CudaSource>,
    vmap: Vmap,
}

impl CustomOp for Defined {
    fn name(&self) -> &str {
        &self.name
    }
    fn infer(&self, types: &[Type]) -> Result<Types> {
        let fake = match &self.infer {
            Infer::Fixed(outs) => return Ok(outs.clone()),
            Infer::Fake(fake) => fake,
        };
        if let Some(known) = self.inferred.lock().get(types) {
            return Ok(known.clone());
        }
        let stand_ins = types.iter().map(|t| Tensor::from(Value::placeholder("", t.clone(), Site::here())));
        let leaves = traced(|py| {
            let args = stand_ins.map(|t| wrap(py, t)).collect::<PyResult<Vec<_>>>()?;
            let out = fake.bind(py).call1(PyTuple::new(py, args)?)?;
            let mut leaves = Vec::new();
            flatten(&out, &mut leaves)?;
            Ok(leaves)
        })?;
        if leaves.is_empty() {
            return Err(Error::value("the shape rule must return a tensor, or several, as the op does"));
        }
        let outs: Types = leaves.iter().map(|t| Ok(t.value()?.ty().clone())).collect::<Result<_>>()?;
        let mut known = self.inferred.lock();
        if known.len() >= INFERRED_MAX {
            known.clear();
        }
        known.insert(types.to_vec(), outs.clone());
        Ok(outs)
    }
    fn run(&self, inputs: &[(&Type, &[u8])], outputs: &mut [(&Type, &mut [u8])]) -> Result<()> {
        match &self.kernel {
            Kernel::Python(f) => Python::attach(|py| called(py, f, inputs, outputs).map_err(kept)),
            Kernel::C(_, n, _) if *n > 0 && *n != inputs.len() + outputs.len() => {
                let (i, o) = (inputs.len(), outputs.len());
                Err(Error::value(format!("the kernel takes {n} tensors, but there are {i} inputs and {o} outputs")))
            }
            Kernel::C(f, ..) => native(*f, inputs, outputs),
            Kernel::Device => {
                let e =
                    format!("{} has a kernel for GPUs only: give it one for the host, or move its inputs", self.name);
                Err(Error::new(ErrorKind::Device, e))
            }
        }
    }
    fn grad(&self, c: &GradCall) -> Result<Vec<Option<Value>>> {
        let Some(rule) = &self.gradient else {
            let e = "it has no gradient: give it one (gradient=, register_autograd), or detach its inputs";
            return Err(Error::new(ErrorKind::Gradient, e));
        };
        let zeros = |(y, g): (&Value, &Option<Value>)| match g {
            Some(g) => Tensor::from(g.clone()),
            None => Tensor::from(y.clone()).zeros_like(),
        };
        let list = |values: &[Value]| values.iter().cloned().map(Tensor::from).collect::<Vec<_>>();
        let given = [list(c.inputs), list(c.outputs), c.outputs.iter().zip(c.grads).map(zeros).collect()];
        let found = traced(|py| {
            let lists = given.map(|part| {
                let wrapped = part.into_iter().map(|t| wrap(py, t)).collect::<PyResult<Vec<_>>>()?;
                PyList::new(py, wrapped)
            });
            let [xs, ys, gs] = lists;
            gradients(&rule.bind(py).call1((xs?, ys?, gs?))?, c.inputs.len())
        })?;
        let fit = |(g, x): (Option<Tensor>, &Value)| -> Result<Option<Value>> {
            let Some(g) = g else { return Ok(None) };
            let (got, want) = (g.value()?.ty(), x.ty());
            if got.shape != want.shape {
                let e = format!("the gradient of an input of shape {} has shape {}", want.shape, got.shape);
                return Err(Error::shape(e));
            }
            g.cast(want.dtype).value().cloned().map(Some)
        };
        found.into_iter().zip(c.inputs).map(fit).collect()
    }
    fn vmap(&self) -> Vmap {
        self.vmap
    }
    fn calls_back(&self) -> bool {
        matches!(self.kernel, Kernel::Python(_))
    }
    fn cuda(&self) -> Option<&CudaSource> {
        self.cuda.as_ref()
    }
}

/// A gradient for each input, from what a rule returned: one of them, or several, `None` for zero.
fn gradients(out: &Bound<'_, PyAny>, count: usize) -> PyResult<Vec<Option<Tensor>>> {
    let items: Vec<Bound<'_, PyAny>> = match (out.cast::<PyTuple>(), out.cast::<PyList>()) {
        (Ok(t), _) => t.iter().collect(),
        (_, Ok(l)) => l.iter().collect(),
        _ => vec![out.clone()],
    };
    if items.len() != count {
        let e = format!("the gradient rule returned {} gradients, not one for each of {count} inputs", items.len());
        return Err(value_error(e));
    }
    items.iter().map(|g| if g.is_none() { Ok(None) } else { required(g, None).map(Some) }).collect()
}

/// Calls a host function with copies of the inputs and copies its results.
fn called(
    py: Python<'_>,
    f: &Py<PyAny>,
    inputs: &[(&Type, &[u8])],
    outputs: &mut [(&Type, &mut [u8])],
) -> PyResult<()> {
    let tensor = |(t, bytes): &(&Type, &[u8])| {
        let l = Literal::from_bytes(t.dtype, t.shape.clone(), bytes).or_raise(py)?;
        wrap(py, Tensor::from(l))
    };
    let args = inputs.iter().map(tensor).collect::<PyResult<Vec<_>>>()?;
    let out = f.bind(py).call1(PyTuple::new(py, args)?)?;
    let results: Vec<Bound<'_, PyAny>> = match (out.cast::<PyTuple>(), out.cast::<PyList>()) {
        _ if out.is_none() => Vec::new(),
        (Ok(t), _) => t.iter().collect(),
        (_, Ok(l)) if outputs.len() > 1 => l.iter().collect(),
        _ => vec![out],
    };
    if results.len() != outputs.len() {
        let e = format!("the callback returned {} results, but {} were announced", results.len(), outputs.len());
        return Err(value_error(e));
    }
    for (given, (ty, to)) in results.iter().zip(outputs) {
        let t = required(given, None)?;
        let l = py.detach(|| t.literal()).or_raise(py)?;
        if *l.shape() != ty.shape {
            let e = format!("the callback returned shape {}, but {} was announced", l.shape(), ty.shape);
            return Err(value_error(e));
        }
        if l.dtype() != ty.dtype && !(l.count() == 0 || is_kept(l.dtype(), ty.dtype)) {
            let e = format!("the callback returned {}, but {} was announced", l.dtype(), ty.dtype);
            return Err(type_error(e));
        }
        to.copy_from_slice(l.cast(ty.dtype).bytes());
    }
    Ok(())
}

/// Whether elements of a type may be converted without being asked: between floats, between integers, up to floats.
fn is_kept(from: DType, to: DType) -> bool {
    from.is_float() == to.is_float() && (from == DType::Bool) == (to == DType::Bool) || to.is_float()
}

/// Calls a kernel in C on the memory of the operands.
fn native(f: CKernel, inputs: &[(&Type, &[u8])], outputs: &mut [(&Type, &mut [u8])]) -> Result<()> {
    // One list: a wrapper that knows the whole signature finds all of them behind the first.
    let given = inputs.iter().map(|(_, b)| b.as_ptr().cast_mut().cast::<c_void>());
    let made = outputs.iter_mut().map(|(_, b)| b.as_mut_ptr().cast::<c_void>());
    let all: Vec<*mut c_void> = given.chain(made).collect();
    let (from, to) = (all.as_ptr().cast::<*const c_void>(), all[inputs.len()..].as_ptr());
    let types = inputs.iter().map(|(t, _)| *t).chain(outputs.iter().map(|(t, _)| *t));
    let sizes: Vec<i64> = types.flat_map(|t| t.shape.iter()).map(|&d| d as i64).collect();
    // SAFETY: the author of the op promises that the function keeps to the memory it is given.
    match unsafe { f(from, to, sizes.as_ptr()) } {
        0 => Ok(()),
        code => Err(Error::value(format!("the kernel returned {code}"))),
    }
}

/// An op that Python defines.
#[pyclass(name = "CustomOp", module = "talweg._native", frozen)]
struct PyCustomOp(Arc<Defined>);

fn vmap_of(name: &str) -> PyResult<Vmap> {
    Ok(match name {
        "sequential" => Vmap::Sequential,
        "expand_dims" => Vmap::ExpandDims,
        "broadcast_all" => Vmap::BroadcastAll,
        _ => {
            return Err(value_error(format!(
                "vmap_method: {name:?} is none of sequential, expand_dims, broadcast_all"
            )));
        }
    })
}

#[pymethods]
impl PyCustomOp {
    /// With a `kernel`: a Python function, or the address of one in C with what keeps it loaded; with fixed result
    /// types or a rule that finds them.
    #[new]
    #[pyo3(signature = (name, kernel, types, fake, gradient, cuda, vmap_method))]
    fn new(
        py: Python<'_>,
        name: String,
        kernel: Option<Py<PyAny>>,
        types: Option<Vec<(DTypeArg, Vec<usize>)>>,
        fake: Option<Py<PyAny>>,
        gradient: Option<Py<PyAny>>,
        cuda: Option<(String, String)>,
        vmap_method: &str,
    ) -> PyResult<PyCustomOp> {
        let kernel = match kernel {
            None => Kernel::Device,
            Some(k) => match k.bind(py).extract::<(usize, usize, Py<PyAny>)>() {
                Ok((0, ..)) => return Err(value_error(format!("{name}: a kernel cannot be at address 0"))),
                Ok((at, count, library)) => {
                    // SAFETY: the op's author promises that a function of this type is there.
                    Kernel::C(unsafe { std::mem::transmute::<usize, CKernel>(at) }, count, library)
                }
                Err(_) if k.bind(py).is_callable() => Kernel::Python(k),
                Err(_) => return Err(type_error(format!("{name}: {} cannot be called", type_name(k.bind(py))))),
            },
        };
        let fixed =
            |l: Vec<(DTypeArg, Vec<usize>)>| l.into_iter().map(|(d, s)| Type::new(d.0, Shape::new(&s))).collect();
        let infer = match (types, fake) {
            (Some(types), _) => Infer::Fixed(fixed(types)),
            (None, Some(fake)) => Infer::Fake(fake),
            (None, None) => return Err(value_error(format!("{name}: the types of its results are not known"))),
        };
        let cuda = cuda.map(|(source, function)| CudaSource { source, function });
        let (inferred, vmap) = (Mutex::default(), vmap_of(vmap_method)?);
        Ok(PyCustomOp(Arc::new(Defined { name, kernel, infer, inferred, gradient, cuda, vmap })))
    }
    /// The results for these inputs. An ordered op runs each time, in program order.
    fn __call__(&self, py: Python<'_>, inputs: Vec<Bound<'_, PyAny>>, ordered: bool) -> PyResult<Vec<Py<PyTensor>>> {
        let inputs = inputs.iter().map(|x| required(x, None)).collect::<PyResult<Vec<_>>>()?;
        let given: Vec<&Tensor> = inputs.iter().collect();
        let site = here(py);
        let call = || site.scope(|| custom(self.0.clone(), &given, ordered));
        // An ordered one runs now, if it can.
        let outs = if ordered { interrupt::run(py, || Ok(call()))?.or_raise(py)? } else { call() };
        outs.into_iter().map(|t| wrap(py, t)).collect()
    }
}

/// Adds the class.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyCustomOp>()
}
