//! `jit`: a Python function traced once for each form of its arguments, then replayed without
//! calling it.

use crate::display::PyGraph;
use crate::error::OrRaise;
use crate::error::value_error;
use crate::interrupt;
use crate::site::here;
use crate::transform::{is_tracing, traced};
use crate::tree::{Tree, flatten};
use ::tensor::{Result, Tensor};
use ir::Type;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;

/// Forms of arguments kept at most; a function that gets ever new ones is traced each time beyond.
const FORMS_MAX: usize = 64;

type Traced = Box<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync>;

/// What was traced for one form of the arguments.
struct Form {
    inputs: Arc<(Tree, Tree)>,
    types: Vec<Type>,
    program: ::tensor::Jit<Traced>,
    outputs: Arc<Mutex<Option<Arc<Tree>>>>,
}

/// A function that is traced once for each form of its arguments and then replayed: variables it
/// reads are read at each call, those it assigns are assigned, random draws are drawn anew.
/// Python's own control flow is fixed when traced; numbers and words are part of the program.
#[pyclass(name = "Jit", module = "talweg", frozen, dict, weakref)]
struct PyJit {
    f: Py<PyAny>,
    forms: Mutex<Vec<Arc<Form>>>,
}

impl PyJit {
    /// The form with these types and this structure, if it was traced.
    fn find(&self, py: Python<'_>, args: &Tree, kwargs: &Tree, leaves: &[Tensor]) -> PyResult<Option<Arc<Form>>> {
        // Comparing may call Python, which must not happen under the lock.
        let forms: Vec<Arc<Form>> = {
            let fits = |f: &&Arc<Form>| {
                f.types.len() == leaves.len()
                    && f.types.iter().zip(leaves).all(|(t, x)| x.value().is_ok_and(|v| v.ty() == t))
            };
            self.forms.lock().iter().filter(fits).cloned().collect()
        };
        for f in forms {
            if f.inputs.0.is_like(args, py)? && f.inputs.1.is_like(kwargs, py)? {
                return Ok(Some(f));
            }
        }
        Ok(None)
    }

    fn form(&self, py: Python<'_>, args: Tree, kwargs: Tree, leaves: &[Tensor]) -> PyResult<Arc<Form>> {
        if let Some(f) = self.find(py, &args, &kwargs, leaves)? {
            return Ok(f);
        }
        let types = leaves.iter().map(|t| Ok(t.value()?.ty().clone())).collect::<Result<Vec<_>>>().or_raise(py)?;
        let inputs = Arc::new((args, kwargs));
        let outputs = Arc::new(Mutex::new(None));
        let (f, given, seen) = (self.f.clone_ref(py), inputs.clone(), outputs.clone());
        let trace: Traced = Box::new(move |xs| {
            traced(|py| {
                let mut xs = xs.iter().cloned();
                let args = given.0.build(py, &mut xs)?;
                let kwargs = given.1.build(py, &mut xs)?;
                let out = f.bind(py).call(args.bind(py).cast::<PyTuple>()?, Some(kwargs.bind(py).cast::<PyDict>()?))?;
                let mut leaves = Vec::new();
                let tree = flatten(&out, &mut leaves)?;
                *seen.lock() = Some(Arc::new(tree));
                Ok(leaves)
            })
        });
        let form = Arc::new(Form { inputs, types, program: ::tensor::jit(trace), outputs });
        let mut forms = self.forms.lock();
        if forms.len() >= FORMS_MAX {
            forms.remove(0);
        }
        forms.push(form.clone());
        Ok(form)
    }
}

#[pymethods]
impl PyJit {
    #[new]
    fn new(f: Py<PyAny>) -> PyJit {
        PyJit { f, forms: Mutex::new(Vec::new()) }
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
        let mut leaves = Vec::new();
        let positional = flatten(args, &mut leaves)?;
        let named = kwargs.map_or(Ok(Tree::Dict(vec![])), |k| flatten(k, &mut leaves))?;
        if leaves.iter().any(|t| t.value().is_ok_and(|v| v.node().is_symbolic())) {
            return Ok(self.f.bind(py).call(args, kwargs)?.unbind());
        }
        let form = self.form(py, positional, named, &leaves)?;
        let site = here(py);
        // Tracing calls Python under the program's lock: nobody may wait for that lock while
        // holding the interpreter.
        let done = interrupt::run(py, || site.scope(|| form.program.call(&leaves.iter().collect::<Vec<_>>())))?;
        let ys = done.or_raise(py)?;
        let tree = form.outputs.lock().clone();
        let tree = tree.ok_or_else(|| value_error("the function was not traced"))?;
        tree.build(py, &mut ys.into_iter())
    }
    /// What was compiled for these arguments, for people.
    #[pyo3(signature = (*args, **kwargs))]
    fn explain(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        let mut leaves = Vec::new();
        let positional = flatten(args, &mut leaves)?;
        let named = kwargs.map_or(Ok(Tree::Dict(vec![])), |k| flatten(k, &mut leaves))?;
        let form = self.form(py, positional, named, &leaves)?;
        let site = here(py);
        py.detach(|| site.scope(|| form.program.explain(&leaves.iter().collect::<Vec<_>>()))).or_raise(py)
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
        let mut leaves = Vec::new();
        let positional = flatten(args, &mut leaves)?;
        let named = kwargs.map_or(Ok(Tree::Dict(vec![])), |k| flatten(k, &mut leaves))?;
        let form = self.form(py, positional, named, &leaves)?;
        let site = here(py);
        let graph = py.detach(|| site.scope(|| form.program.graph(&leaves.iter().collect::<Vec<_>>())));
        graph.map(PyGraph).or_raise(py)
    }
    /// How many forms of arguments were traced.
    #[getter]
    fn traces(&self) -> usize {
        self.forms.lock().len()
    }
}

/// Adds the class.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyJit>()
}
