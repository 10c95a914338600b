//! Gradients of what a program has computed: with respect to any tensor, to any order, through hooks and functions
//! whose backward pass is Python's.

use crate::convert::Like;
use crate::error::{OrRaise, carried, exception};
use crate::site::here;
use crate::tensor::{PyTensor, wrap};
use crate::view::Kind;
use ::tensor::{Error, ErrorKind, Result, Tensor, Wrt, collect_gradients, control, gradients, is_trained, tracked};
use ir::{Node, Source, Value, Var, Watch};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// The exception for a gradient that cannot be had, with the line of the program.
pub fn grad_error(py: Python<'_>, what: &str) -> PyErr {
    exception(py, &Error::new(ErrorKind::Gradient, what).at(here(py)))
}

/// Runs `f` with or without a record of what depends on trainable values.
fn recording<R>(on: bool, f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            ir::set_grad(self.0);
        }
    }
    let _restore = Restore(ir::set_grad(on));
    f()
}

/// What a handle stands for in a derivative.
fn wrt(py: Python<'_>, t: &Py<PyTensor>) -> PyResult<Wrt> {
    if let Kind::Variable(v) = t.get().0.kind() {
        if !v.is_trainable() {
            return Err(grad_error(py, "one of the inputs does not require gradients"));
        }
        return Ok(Wrt::Variable(v.var().clone()));
    }
    let t = t.get().tensor();
    let v = t.value().or_raise(py)?;
    if !v.node().needs_grad() {
        return Err(grad_error(
            py,
            "one of the inputs does not require gradients: call requires_grad_() before it is used",
        ));
    }
    Ok(Wrt::Value(v.clone()))
}

/// Outputs, with the gradients that the walk starts from.
fn seeds(py: Python<'_>, outputs: &[Py<PyTensor>], grads: Vec<Option<Like>>) -> PyResult<(Vec<Value>, Vec<Value>)> {
    let (mut ys, mut gs) = (Vec::new(), Vec::new());
    for (i, (t, g)) in outputs.iter().zip(grads).enumerate() {
        let t = t.get().tensor();
        let y = t.value().or_raise(py)?.clone();
        if !y.node().needs_grad() {
            let e = format!("output {i} does not require gradients: nothing it was computed from does");
            return Err(grad_error(py, &e));
        }
        let g = match g {
            Some(g) => {
                let shape = g.0.shape().or_raise(py)?;
                if shape != y.ty().shape {
                    let e = format!("the gradient of output {i} has shape {shape}, but the output {}", y.ty().shape);
                    return Err(exception(py, &Error::shape(e).in_op("backward").at(here(py))));
                }
                g.0.cast(y.ty().dtype)
            }
            None if y.ty().shape.count() == 1 && y.ty().dtype.is_float() => t.ones_like(),
            None => {
                let e = format!(
                    "only a float of one element can be differentiated without a gradient for it, but this is {}",
                    y.ty()
                );
                return Err(grad_error(py, &e));
            }
        };
        ys.push(y);
        gs.push(g.value().or_raise(py)?.clone());
    }
    Ok((ys, gs))
}

thread_local! {
    /// What is called when the backward pass that is in progress has ended.
    static QUEUE: RefCell<Vec<Py<PyAny>>> = const { RefCell::new(Vec::new()) };
}
/// Calls a function once when the backward pass that is in progress on this thread has ended, however often it is asked to.
#[pyfunction]
fn autograd_queue(py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
    let queued = QUEUE.with_borrow(|q| q.iter().map(|f| f.clone_ref(py)).collect::<Vec<_>>());
    for f in queued {
        if f.bind(py).eq(&callback)? {
            return Ok(());
        }
    }
    QUEUE.with_borrow_mut(|q| q.push(callback));
    Ok(())
}

/// Adds gradients to leaves.
#[pyfunction]
pub fn autograd_backward(
    py: Python<'_>,
    tensors: Vec<Py<PyTensor>>,
    grads: Vec<Option<Like>>,
    inputs: Option<Vec<Py<PyTensor>>>,
    retain_graph: bool,
    create_graph: bool,
) -> PyResult<()> {
    let site = here(py);
    let (ys, gs) = site.scope(|| seeds(py, &tensors, grads))?;
    let inputs = inputs.map(|list| list.iter().map(|t| wrt(py, t)).collect::<PyResult<Vec<_>>>()).transpose()?;
    let run = || recording(create_graph, || collect_gradients(&ys, &gs, inputs.as_deref(), !retain_graph));
    let done = py.detach(|| site.scope(run)).map_err(|e| e.at(site)).or_raise(py);
    let queue = QUEUE.take();
    done?;
    queue.iter().try_for_each(|f| f.call0(py).map(drop))
}

/// The gradients with respect to some tensors; `None` where the outputs do not depend on one.
#[pyfunction]
fn autograd_grad(
    py: Python<'_>,
    outputs: Vec<Py<PyTensor>>,
    grads: Vec<Option<Like>>,
    inputs: Vec<Py<PyTensor>>,
    retain_graph: bool,
    create_graph: bool,
) -> PyResult<Vec<Option<Py<PyTensor>>>> {
    let site = here(py);
    let (ys, gs) = site.scope(|| seeds(py, &outputs, grads))?;
    let inputs = inputs.iter().map(|t| wrt(py, t)).collect::<PyResult<Vec<_>>>()?;
    let run = || recording(create_graph, || gradients(&ys, &gs, &inputs, !retain_graph));
    let got = py.detach(|| site.scope(run)).map_err(|e| e.at(site)).or_raise(py)?;
    got.into_iter().map(|g| g.map(|g| wrap(py, Tensor::from(g))).transpose()).collect()
}

/// The gradients of Σ⟨outputs, cotangents⟩ with respect to tracked tensors, to be differentiated again; `None` where the
/// outputs do not depend on one.
#[pyfunction]
fn autograd_pull(
    py: Python<'_>,
    outputs: Vec<Py<PyTensor>>,
    cotangents: Vec<Like>,
    inputs: Vec<Py<PyTensor>>,
) -> PyResult<Vec<Option<Py<PyTensor>>>> {
    let depends = |t: &Py<PyTensor>| t.get().tensor().value().is_ok_and(|v| v.node().needs_grad());
    let (ys, gs) = outputs.into_iter().zip(cotangents).filter(|(y, _)| depends(y)).map(|(y, g)| (y, Some(g))).unzip();
    autograd_grad(py, ys, gs, inputs, true, true)
}

/// Tensors that gradients can be taken with respect to; what they are computed from stays as it is.
#[pyfunction]
fn autograd_tracked(py: Python<'_>, tensors: Vec<Py<PyTensor>>) -> PyResult<Vec<Py<PyTensor>>> {
    let site = here(py);
    let one =
        |t: Py<PyTensor>| wrap(py, site.scope(|| tracked(&t.get().tensor())).map_err(|e| e.at(site)).or_raise(py)?);
    tensors.into_iter().map(one).collect()
}

/// Results of a function that was called with tracked tensors, `own`: without a record, unless they depend on something
/// else that gradients are collected for.
#[pyfunction]
fn autograd_settled(py: Python<'_>, tensors: Vec<Py<PyTensor>>, own: Vec<Py<PyTensor>>) -> PyResult<Vec<Py<PyTensor>>> {
    let own: Vec<Tensor> = own.iter().map(|t| t.get().tensor()).collect();
    let one = |t: Py<PyTensor>| {
        let t = t.get().tensor();
        let needs_grad = t.value().or_raise(py)?.node().needs_grad();
        if !needs_grad || (ir::is_grad_on() && is_trained(&t, &own).or_raise(py)?) {
            return wrap(py, t);
        }
        wrap(py, here(py).scope(|| t.stop_gradient()))
    };
    tensors.into_iter().map(one).collect()
}

/// Results that Python computed, as tensors whose gradients with respect to `xs` Python computes as well:
/// `backward(results, grads)` gets lists, a gradient or `None` for each result, and returns one for each of `xs`.
#[pyfunction]
fn autograd_function(
    py: Python<'_>,
    ys: Vec<Py<PyTensor>>,
    xs: Vec<Py<PyTensor>>,
    backward: Py<PyAny>,
) -> PyResult<Vec<Py<PyTensor>>> {
    let list = |ts: &[Py<PyTensor>]| ts.iter().map(|t| t.get().tensor()).collect::<Vec<_>>();
    let pullback = move |ys: &[Tensor], grads: &[Option<Value>]| -> Result<Vec<Option<Value>>> {
        let call = |py: Python<'_>| -> PyResult<Vec<Option<Like>>> {
            let given = grads.iter().map(|g| g.as_ref().map(|g| wrap(py, Tensor::from(g.clone()))).transpose());
            let given = given.collect::<PyResult<Vec<_>>>()?;
            let ys = ys.iter().map(|y| wrap(py, y.clone())).collect::<PyResult<Vec<_>>>()?;
            backward.call1(py, (ys, given))?.extract(py)
        };
        let got = Python::attach(|py| call(py).map_err(carried))?;
        got.into_iter().map(|g| g.map(|g| g.0.value().cloned()).transpose()).collect()
    };
    let made = here(py).scope(|| control::function(&list(&ys), &list(&xs), Arc::new(pullback))).or_raise(py)?;
    made.into_iter().map(|t| wrap(py, t)).collect()
}

/// True while a function is called with stand-ins for its tensors.
#[pyfunction]
fn autograd_is_tracing() -> bool {
    crate::transform::is_tracing()
}

/// Whether every computed float is checked for NaN and infinity.
#[pyfunction]
fn autograd_check_numerics(on: bool) {
    ::tensor::check_numerics(on);
}

/// What a hook is attached to.
enum Target {
    Node(Weak<Node>),
    Var(Weak<Var>),
}
impl Target {
    fn watch<R>(&self, f: impl FnOnce(&mut Watch) -> R) -> Option<R> {
        match self {
            Target::Node(n) => n.upgrade().map(|n| n.watch(f)),
            Target::Var(v) => v.upgrade().map(|v| v.watch(f)),
        }
    }
}

/// A hook of a tensor.
#[pyclass(name = "Hook", module = "talweg._native", frozen)]
struct PyHook {
    target: Target,
    /// Its number.
    #[pyo3(get)]
    id: u64,
}
#[pymethods]
impl PyHook {
    /// Removes it.
    fn remove(&self) {
        self.target.watch(|w| w.remove(self.id));
    }
    fn __enter__(slf: Py<PyHook>) -> Py<PyHook> {
        slf
    }
    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.remove();
    }
}

/// Attaches a hook to a tensor: `hook(grad)` sees its gradient, and may return another; with `after`, `hook()` is called
/// when a gradient was added to it.
#[pyfunction]
fn autograd_hook(py: Python<'_>, t: Py<PyTensor>, hook: Py<PyAny>, after: bool) -> PyResult<PyHook> {
    let (target, out) = match t.get().0.kind() {
        Kind::Variable(v) if v.is_trainable() => (Target::Var(Arc::downgrade(v.var())), 0),
        Kind::Value(_) if !after || t.get().requires_grad() => {
            let t = t.get().tensor();
            let v = t.value().or_raise(py)?;
            if !v.node().needs_grad() {
                return Err(grad_error(py, "a tensor that does not require gradients has no hooks"));
            }
            (Target::Node(Arc::downgrade(v.node())), v.out())
        }
        _ => return Err(grad_error(py, "a tensor that does not require gradients has no hooks")),
    };
    let id = target.watch(|w| {
        if after {
            w.add_after(Arc::new(move || Python::attach(|py| hook.call0(py).map(drop).map_err(carried))))
        } else {
            let see = move |g: &Value| -> Result<Option<Value>> {
                let call = |py: Python<'_>| -> PyResult<Option<Tensor>> {
                    let out = hook.call1(py, (wrap(py, Tensor::from(g.clone()))?,))?;
                    if out.is_none(py) { Ok(None) } else { Ok(Some(out.extract::<Like>(py)?.0)) }
                };
                let new = Python::attach(|py| call(py).map_err(carried))?;
                new.map(|t| t.value().cloned()).transpose()
            };
            w.add_hook(out, Arc::new(see))
        }
    });
    let id = id.ok_or_else(|| grad_error(py, "the tensor is gone"))?;
    Ok(PyHook { target, id })
}

/// What a gradient flows back through: the op that computed a tensor.
#[pyclass(name = "GradFn", module = "talweg.autograd", frozen)]
pub struct GradFn(pub Value);

#[pymethods]
impl GradFn {
    /// Its name, such as `MulBackward0`.
    fn name(&self) -> String {
        let Some(op) = self.0.node().op().filter(|_| !::tensor::is_collector(self.0.node())) else {
            return "AccumulateGrad".into();
        };
        let word =
            |w: &str| w.chars().next().map_or(String::new(), |c| c.to_uppercase().chain(w.chars().skip(1)).collect());
        format!("{}Backward0", op.name.split('_').map(word).collect::<String>())
    }
    /// Where gradients go from here: pairs of this class or `None`, and the number of the output.
    #[getter]
    fn next_functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let is_end = matches!(self.0.node().source(), Source::Read(_)) || ::tensor::is_collector(self.0.node());
        let inputs = if is_end { Default::default() } else { self.0.node().inputs() };
        let one = |v: Value| (v.node().needs_grad().then(|| GradFn(v.clone())), v.out());
        PyTuple::new(py, inputs.into_iter().map(one).map(|(f, o)| (f.map(|f| Py::new(py, f).ok()), o)))
    }
    fn __repr__(&self) -> String {
        format!("<{}>", self.name())
    }
}

/// Adds the classes and functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    macro_rules! add {
        ($($f:ident)*) => {$( m.add_function(wrap_pyfunction!($f, m)?)?; )*};
    }
    add!(autograd_backward autograd_grad autograd_tracked autograd_settled autograd_function autograd_hook autograd_is_tracing);
    add!(autograd_check_numerics autograd_pull autograd_queue);
    m.add_class::<PyHook>()?;
    m.add_class::<GradFn>()
}
