//! `jit`: a Python function traced once for each form of its arguments, then replayed without
//! calling it.

use crate::display::PyGraph;
use crate::error::{OrRaise, trace_error, type_error};
use crate::interrupt;
use crate::site::here;
use crate::tensor::{PyTensor, wrap};
use crate::transform::{is_tracing, traced, written};
use crate::tree::{Tree, flatten, handles};
use ::tensor::{Result, Tensor, Traces};
use parking_lot::Mutex;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Forms of arguments kept at most; the one that was not used for the longest goes first.
const FORMS_MAX: usize = 64;

/// What was traced for one form of the arguments: tensors at the same leaves, equal elsewhere. The
/// form of its result stands beside each trace.
struct Form {
    inputs: (Tree, Tree),
    traces: Traces<Arc<Made>>,
    /// Whether the last call took next to no time.
    is_brief: AtomicBool,
}

/// What a trace makes beside the values of its results.
struct Made {
    /// The form of its result.
    tree: Tree,
    /// The tensors of the arguments that it changes in place: their new values come after those of the result.
    written: Vec<usize>,
    /// The tensors of the result that are tensors of the arguments, as pairs of numbers.
    returned: Vec<(usize, usize)>,
}

impl Form {
    /// Calls the function with stand-ins.
    fn trace(&self, f: &Py<PyAny>, xs: &[Tensor]) -> Result<(Vec<Tensor>, Arc<Made>)> {
        traced(|py| {
            let mut stand_ins = xs.iter().cloned();
            let args = self.inputs.0.build(py, &mut stand_ins)?.into_bound(py);
            let kwargs = self.inputs.1.build(py, &mut stand_ins)?.into_bound(py);
            let both = PyTuple::new(py, [&args, &kwargs])?.into_any();
            let before = handles(&both)?;
            // The call makes its own dict of the named arguments.
            let out = f.bind(py).call(args.cast::<PyTuple>()?, Some(kwargs.cast::<PyDict>()?))?;
            let mut leaves = Vec::new();
            let tree = flatten(&out, &mut leaves)?;
            self.check_containers(py, &both, &before)?;
            let written = written(py, &before, xs);
            leaves.extend(written.iter().filter_map(|&i| before[i].as_ref()).map(|h| h.bind(py).get().tensor()));
            let argument = |y: &Py<PyTensor>| before.iter().position(|h| h.as_ref().is_some_and(|h| h.is(y)));
            let results = handles(&out)?;
            let pairs = results.iter().enumerate().filter_map(|(i, y)| Some((i, argument(y.as_ref()?)?)));
            Ok((leaves, Arc::new(Made { tree, written, returned: pairs.collect() })))
        })
    }
    /// Fails if the function put other objects into the lists and dicts it was given.
    fn check_containers(
        &self,
        py: Python<'_>,
        both: &Bound<'_, PyAny>,
        before: &[Option<Py<PyTensor>>],
    ) -> PyResult<()> {
        let both = both.cast::<PyTuple>()?;
        let is_like = |i: usize, tree: &Tree| tree.is_like(&flatten(&both.get_item(i)?, &mut Vec::new())?, py);
        let after = handles(both.as_any())?;
        let is_same = |(a, b): (&Option<Py<PyTensor>>, &Option<Py<PyTensor>>)| match (a, b) {
            (Some(a), Some(b)) => a.is(b),
            _ => true,
        };
        let is_kept = after.len() == before.len() && before.iter().zip(&after).all(is_same);
        if is_kept && is_like(0, &self.inputs.0)? && is_like(1, &self.inputs.1)? {
            return Ok(());
        }
        let e = "a list or dict among the arguments is changed by a function that is traced, which its caller would not \
                 see: return the new one";
        Err(trace_error(py, e))
    }
}

/// The result of a call whose function changes or returns tensors among its arguments: the caller's own.
fn with_arguments(
    py: Python<'_>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
    made: &Made,
    mut ys: Vec<Tensor>,
) -> PyResult<Py<PyAny>> {
    let mut given = handles(args.as_any())?;
    if let Some(k) = kwargs {
        given.extend(handles(k.as_any())?);
    }
    let values = ys.split_off(ys.len() - made.written.len());
    for (&i, value) in made.written.iter().zip(values) {
        match given.get(i) {
            Some(Some(h)) => h.bind(py).get().change(py, value)?,
            _ => return Err(type_error("jit: an array of another library is changed in place: pass a tensor")),
        }
    }
    let own = |i: usize| made.returned.iter().find(|r| r.0 == i).and_then(|r| given.get(r.1)?.as_ref());
    let mut results = ys.into_iter().enumerate();
    made.tree.build_of(py, &mut || match results.next() {
        Some((i, y)) => own(i).map_or_else(|| wrap(py, y), |h| Ok(h.clone_ref(py))),
        None => Err(type_error("jit: fewer results than outputs")),
    })
}

/// A function that is traced once for each form and type of its arguments, scope around the call and
/// mode of the modules it uses, and then replayed: variables it reads are read at each call, those it
/// assigns are assigned, random draws are drawn again. Python's own control flow, numbers, strings,
/// attributes and captured tensors that are no variables are fixed when traced.
#[pyclass(name = "Jit", module = "talweg", frozen, dict, weakref)]
struct PyJit {
    f: Py<PyAny>,
    /// The last used is the last.
    forms: Mutex<Vec<Arc<Form>>>,
    /// Whether variables are compiled in as they are.
    is_frozen: bool,
}

impl PyJit {
    /// The form with this structure.
    fn form(&self, py: Python<'_>, inputs: (Tree, Tree)) -> PyResult<Arc<Form>> {
        // Comparing may call Python, which must not happen under the lock.
        let forms: Vec<Arc<Form>> = self.forms.lock().clone();
        for f in forms.into_iter().rev() {
            if f.inputs.0.is_like(&inputs.0, py)? && f.inputs.1.is_like(&inputs.1, py)? {
                let mut forms = self.forms.lock();
                if let Some(i) = forms.iter().position(|g| Arc::ptr_eq(&f, g)) {
                    forms[i..].rotate_left(1);
                }
                return Ok(f);
            }
        }
        let traces = if self.is_frozen { Traces::frozen() } else { Traces::default() };
        let form = Arc::new(Form { inputs, traces, is_brief: AtomicBool::new(false) });
        let mut forms = self.forms.lock();
        let gone = if forms.len() >= FORMS_MAX { Some(forms.remove(0)) } else { None };
        forms.push(form.clone());
        drop(forms);
        drop(gone);
        Ok(form)
    }
}

impl PyJit {
    /// Names the parameters of the modules that the function uses, for people.
    fn name_parameters(&self, py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<()> {
        py.import("talweg._inspection")?.call_method1("name_parameters", (&self.f, args))?;
        Ok(())
    }
}

/// The positional and the named arguments of a call, and their tensors.
fn taken_apart(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<((Tree, Tree), Vec<Tensor>)> {
    let mut leaves = Vec::new();
    let positional = flatten(args, &mut leaves)?;
    let named = kwargs.map_or(Ok(Tree::Dict(vec![])), |k| flatten(k, &mut leaves))?;
    Ok(((positional, named), leaves))
}

#[pymethods]
impl PyJit {
    #[new]
    fn new(f: Py<PyAny>) -> PyJit {
        PyJit { f, forms: Mutex::new(Vec::new()), is_frozen: false }
    }
    /// The same function for inference: parameters and captured tensors are compiled in as they are when a form of
    /// arguments is first called, so that weights are brought into the form that kernels want, once.
    fn frozen(&self, py: Python<'_>) -> PyJit {
        PyJit { f: self.f.clone_ref(py), forms: Mutex::new(Vec::new()), is_frozen: true }
    }
    /// As a method it is bound to the object.
    fn __get__<'py>(
        slf: &Bound<'py, PyJit>,
        obj: &Bound<'py, PyAny>,
        _class: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if obj.is_none() {
            return Ok(slf.clone().into_any());
        }
        slf.py().import("types")?.getattr("MethodType")?.call1((slf, obj))
    }
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        // Inside another traced function it is part of that one.
        if is_tracing() {
            return Ok(self.f.bind(py).call(args, kwargs)?.unbind());
        }
        let (inputs, leaves) = taken_apart(args, kwargs)?;
        if leaves.iter().any(|t| t.value().is_ok_and(|v| v.node().is_symbolic())) {
            return Ok(self.f.bind(py).call(args, kwargs)?.unbind());
        }
        let (form, site) = (self.form(py, inputs)?, here(py));
        let leaves: Vec<&Tensor> = leaves.iter().collect();
        // Tracing calls Python under the traces' lock: no thread may wait for that lock while holding
        // the interpreter.
        let call = || form.traces.call(&leaves, |xs| form.trace(&self.f, xs), Arc::clone);
        let (ys, made) = interrupt::run_again(py, &form.is_brief, || site.scope(call))?.or_raise(py)?;
        if !made.written.is_empty() || !made.returned.is_empty() {
            return with_arguments(py, args, kwargs, &made, ys);
        }
        made.tree.build(py, &mut ys.into_iter())
    }
    /// The cycle collector asks what it refers to. What is being traced now is not shown, and so
    /// is not collected.
    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.f)?;
        let Some(forms) = self.forms.try_lock() else { return Ok(()) };
        // A caller holds the form as well.
        for form in forms.iter().filter(|f| Arc::strong_count(f) == 1) {
            form.inputs.0.traverse(&visit)?;
            form.inputs.1.traverse(&visit)?;
            let mut done = Ok(());
            form.traces.visit(|made| {
                if done.is_ok() && Arc::strong_count(made) == 1 {
                    done = made.tree.traverse(&visit);
                }
            });
            done?;
        }
        Ok(())
    }
    fn __clear__(&self) {
        let gone = std::mem::take(&mut *self.forms.lock());
        drop(gone);
    }
    fn __reduce__(&self) -> PyResult<Py<PyAny>> {
        Err(type_error(
            "a jitted function cannot be pickled or copied: pickle the function itself, and jit it where it is loaded",
        ))
    }
    /// What becomes of it for these arguments: the graph as written, after each pass and as compiled.
    #[pyo3(signature = (*args, **kwargs))]
    fn explain(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        self.name_parameters(py, args)?;
        let (inputs, leaves) = taken_apart(args, kwargs)?;
        let form = self.form(py, inputs)?;
        let (site, leaves) = (here(py), leaves.iter().collect::<Vec<_>>());
        let graph =
            py.detach(|| site.scope(|| form.traces.graph(&leaves, |xs| form.trace(&self.f, xs)))).or_raise(py)?;
        py.detach(|| talweg::explain(&graph, true)).or_raise(py)
    }
    /// The graph that was traced for these arguments; the variables' new values come after the
    /// results.
    #[pyo3(signature = (*args, **kwargs))]
    fn graph(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyGraph> {
        self.name_parameters(py, args)?;
        let (inputs, leaves) = taken_apart(args, kwargs)?;
        let form = self.form(py, inputs)?;
        let (site, leaves) = (here(py), leaves.iter().collect::<Vec<_>>());
        let graph = py.detach(|| site.scope(|| form.traces.graph(&leaves, |xs| form.trace(&self.f, xs))));
        graph.map(PyGraph).or_raise(py)
    }
    /// How many traces are kept.
    #[getter]
    fn traces(&self) -> usize {
        self.forms.lock().iter().map(|f| f.traces.count()).sum()
    }
}

/// Adds the class.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyJit>()
}
