//! Optimizers and clipping.

use crate::convert::{Like, arg};
use crate::error::{OrRaise, carried, named};
use crate::error::{type_error, value_error};
use crate::graph::PyUpdate;
use crate::records::State;
use crate::site::here;
use crate::tensor::{PyTensor, wrap};
use crate::transform::traced;
use ::tensor::{Shape, Tensor, Variable};
use nn::optim::{self, Hyperparameter, Lbfgs, LbfgsOptions, Optimizer, Rule, Settings, Step, Value};
use nn::schedule;
use parking_lot::{Mutex, MutexGuard};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple};
use std::sync::Arc;

/// The variables behind tensors.
pub fn variables(params: &[Py<PyTensor>]) -> PyResult<Vec<Variable>> {
    let one = |p: &Py<PyTensor>| {
        let e = "an optimizer trains tensors made with requires_grad=True, Parameters and Variables";
        p.get().variable().ok_or_else(|| type_error(e))
    };
    params.iter().map(one).collect()
}

/// A setting as Python gives it.
fn value(x: &Bound<'_, PyAny>) -> PyResult<Value> {
    if x.is_none() {
        return Ok(Value::None);
    }
    if let Ok(b) = x.cast::<PyBool>() {
        return Ok(Value::Bool(b.is_true()));
    }
    if let Ok(name) = x.cast::<PyString>() {
        return Ok(Value::Text(name.extract()?));
    }
    if x.is_instance_of::<PyTuple>() || x.is_instance_of::<PyList>() {
        return Ok(Value::Tuple(x.try_iter()?.map(|x| value(&x?)).collect::<PyResult<_>>()?));
    }
    x.extract().map(Value::Float)
}
/// Settings by name.
pub fn values(settings: &Bound<'_, PyDict>) -> PyResult<Vec<(String, Value)>> {
    let one = |(name, x): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let name: String = name.extract()?;
        let x = value(&x).map_err(|e| named(x.py(), &name, e))?;
        Ok((name, x))
    };
    settings.iter().map(one).collect()
}
fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::None => py.None().into_bound(py),
        Value::Bool(b) => PyBool::new(py, *b).to_owned().into_any(),
        Value::Float(x) => x.into_pyobject(py)?.into_any(),
        Value::Text(name) => name.into_pyobject(py)?.into_any(),
        Value::Tuple(all) => {
            let all = all.iter().map(|v| object(py, v)).collect::<PyResult<Vec<_>>>()?;
            PyTuple::new(py, all)?.into_any()
        }
    })
}

/// A rule from its name and settings: those of its row.
fn rule(kind: &str, settings: &Bound<'_, PyDict>) -> PyResult<Box<dyn Rule>> {
    let row = optim::ROWS.iter().find(|r| r.name == kind);
    let row = row.ok_or_else(|| value_error(format!("there is no optimizer {kind:?}")))?;
    (row.make)(&values(settings)?).map_err(|e| type_error(format!("{kind}: {}", e.message)))
}

/// The rows of settings: name, Python's type, default and documentation.
pub type Rows<'py> = Vec<(&'static str, &'static str, Bound<'py, PyAny>, &'static str)>;

/// The rows of a list of settings.
pub fn settings_rows<'py>(py: Python<'py>, settings: &[Hyperparameter]) -> PyResult<Rows<'py>> {
    settings.iter().map(|s| Ok((s.name, s.python, object(py, &s.default)?, s.doc.trim()))).collect()
}
/// The optimizers that Python makes by name: documentation and settings.
fn rows<'py>(
    py: Python<'py>,
    list: impl Iterator<Item = (&'static str, &'static str, Vec<Hyperparameter>)>,
) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (name, doc, settings) in list {
        all.set_item(name, (doc.trim(), settings_rows(py, &settings)?))?;
    }
    Ok(all)
}

/// A rule that Python says: `update` of an object, traced.
struct PyRule {
    /// Shared with the optimizer's class, which shows it to the cycle collector.
    object: Arc<Py<PyAny>>,
    lr: f64,
    weight_decay: f64,
    /// Names and first values of the state.
    slots: Vec<(&'static str, f64)>,
}

impl PyRule {
    fn update(&self, s: &Step) -> ::tensor::Result<(Tensor, Vec<Tensor>)> {
        traced(|py| {
            let state = PyDict::new(py);
            for ((name, _), value) in self.slots.iter().zip(s.slots) {
                state.set_item(name, wrap(py, value.clone())?)?;
            }
            let [param, grad, lr, t] = [s.param, s.grad, s.lr, s.t].map(|t| wrap(py, t.clone()));
            let out = self.object.bind(py).call_method1("update", (param?, grad?, state, lr?, t?, s.weight_decay))?;
            let wrong = || {
                let found = crate::convert::type_name(&out);
                type_error(format!(
                    "update: expected a tuple of the new parameter and a dict of its state, not {found}"
                ))
            };
            let (next, state) = out.extract::<(Like, Bound<'_, PyDict>)>().map_err(|_| wrong())?;
            let slot = |(name, _): &(&'static str, f64)| match state.get_item(name)? {
                Some(value) => Ok(value.extract::<Like>()?.0),
                None => Err(value_error(format!("update: the new state has no {name:?}"))),
            };
            Ok((next.0, self.slots.iter().map(slot).collect::<PyResult<_>>()?))
        })
    }
}
impl Rule for PyRule {
    fn lr(&self) -> f64 {
        self.lr
    }
    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        self.slots.iter().map(|(name, first)| (*name, Tensor::full(shape.clone(), *first as f32))).collect()
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        // An error comes out where the step is computed.
        self.update(s).unwrap_or_else(|e| (Tensor::from(e.clone()), vec![Tensor::from(e); self.slots.len()]))
    }
}

/// A rule applied to parameters.
#[pyclass(name = "Optimizer", module = "talweg._native", frozen)]
pub struct PyOptimizer {
    optimizer: Mutex<Optimizer>,
    /// The custom rule, which may hold the optimizer.
    rule: Option<Arc<Py<PyAny>>>,
    /// Those of groups and of later settings.
    others: Mutex<Vec<Arc<Py<PyAny>>>>,
}

impl PyOptimizer {
    /// The rule of another optimizer, which this one takes over.
    fn rule_of(&self, other: &PyOptimizer) -> Arc<dyn Rule> {
        self.others.lock().extend(other.rule.clone());
        other.inner().rule()
    }
    /// The optimizer itself.
    pub fn inner(&self) -> MutexGuard<'_, Optimizer> {
        self.optimizer.lock()
    }
}

#[pymethods]
impl PyOptimizer {
    #[new]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arg)] kind: &str,
        #[pyo3(from_py_with = arg)] params: Vec<Py<PyTensor>>,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<PyOptimizer> {
        let rule = rule(kind, settings)?;
        let params = variables(&params)?;
        let o = here(py).scope(|| Optimizer::new(rule, params.as_slice())).or_raise(py)?;
        Ok(PyOptimizer { optimizer: Mutex::new(o), rule: None, others: Mutex::default() })
    }
    /// With a custom rule: an object with a method `update`.
    #[staticmethod]
    fn of_rule(
        py: Python<'_>,
        object: Py<PyAny>,
        #[pyo3(from_py_with = arg)] params: Vec<Py<PyTensor>>,
        #[pyo3(from_py_with = arg)] lr: f64,
        #[pyo3(from_py_with = arg)] weight_decay: f64,
        #[pyo3(from_py_with = arg)] slots: Vec<(String, f64)>,
    ) -> PyResult<PyOptimizer> {
        // Names of a rule's state are there as long as the program.
        let slots = slots.into_iter().map(|(name, first)| (&*name.leak(), first)).collect();
        let object = Arc::new(object);
        let rule = PyRule { object: object.clone(), lr, weight_decay, slots };
        let params = variables(&params)?;
        let o = here(py).scope(|| Optimizer::new(rule, params.as_slice())).or_raise(py)?;
        Ok(PyOptimizer { optimizer: Mutex::new(o), rule: Some(object), others: Mutex::default() })
    }
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self.rule.as_deref())?;
        self.others.lock().iter().try_for_each(|rule| visit.call(&**rule))
    }
    /// Adds parameters with their own learning rate and weight decay, and the rule of another optimizer.
    fn add_group(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg)] params: Vec<Py<PyTensor>>,
        #[pyo3(from_py_with = arg)] lr: f64,
        #[pyo3(from_py_with = arg)] weight_decay: f64,
        like: &PyOptimizer,
    ) -> PyResult<()> {
        let params = variables(&params)?;
        let rule = self.rule_of(like);
        self.optimizer.lock().add_group_with(rule, params.as_slice(), lr, weight_decay).or_raise(py)
    }
    /// Gives a group the rule of another optimizer and this decay; false if that keeps another state.
    fn tune(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg)] group: usize,
        #[pyo3(from_py_with = arg)] weight_decay: f64,
        like: &PyOptimizer,
    ) -> PyResult<bool> {
        let rule = self.rule_of(like);
        here(py).scope(|| self.optimizer.lock().tune(group, rule, weight_decay)).or_raise(py)
    }
    /// One step with the collected gradients, which are then forgotten.
    fn step(&self, py: Python<'_>) -> PyResult<()> {
        here(py).scope(|| self.optimizer.lock().step()).or_raise(py)
    }
    /// If parameters live in a parameter store: brings them and their state here.
    fn fetch(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.optimizer.lock().fetch()).or_raise(py)
    }
    /// Of a run's state, what a worker keeps of its own beside the parameter store.
    fn beside_store(&self, state: State) -> State {
        let variable = |(n, t): &(String, Py<PyTensor>)| Some((n.clone(), t.get().variable()?));
        let all: Vec<(String, Variable)> = state.iter().filter_map(variable).collect();
        let mut own = self.inner().beside_store(&all).into_iter().peekable();
        let mut stays = |(n, t): &(String, Py<PyTensor>)| {
            t.get().variable().is_none() || own.next_if(|(name, _)| name == n).is_some()
        };
        state.into_iter().filter(|s| stays(s)).collect()
    }
    /// If parameters live in a parameter store: takes what was restored there, unless the run has
    /// begun already.
    fn give(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.optimizer.lock().give()).or_raise(py)
    }
    /// If parameters live in a parameter store: their values there become those here.
    fn take(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.optimizer.lock().take()).or_raise(py)
    }
    /// Forgets the collected gradients.
    fn zero_grad(&self) {
        self.optimizer.lock().parameters().iter().for_each(Variable::zero_grad);
    }
    /// The assignments that make a loss smaller.
    fn minimize(&self, py: Python<'_>, loss: Like) -> PyResult<PyUpdate> {
        here(py).scope(|| self.optimizer.lock().minimize(&loss.0)).map(PyUpdate).or_raise(py)
    }
    #[getter]
    fn lr(&self, py: Python<'_>) -> PyResult<f64> {
        self.optimizer.lock().lr().or_raise(py)
    }
    #[setter]
    fn set_lr(&self, py: Python<'_>, #[pyo3(from_py_with = arg)] lr: f64) -> PyResult<()> {
        self.optimizer.lock().set_lr(lr).or_raise(py)
    }
    /// Sets the learning rate of one group.
    fn set_group_lr(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg)] group: usize,
        #[pyo3(from_py_with = arg)] lr: f64,
    ) -> PyResult<()> {
        let name = format!("group.{group}.lr");
        let state = self.optimizer.lock().state();
        match state.iter().find(|(n, _)| *n == name) {
            Some((_, rate)) => here(py).scope(|| rate.assign(&Tensor::from(lr as f32))).or_raise(py),
            None => Err(value_error(format!("there is no group {group}"))),
        }
    }
    /// Everything a checkpoint needs, by name; parameters are numbered, as in PyTorch.
    fn state(&self) -> Vec<(String, PyTensor)> {
        let state = self.optimizer.lock().state_by(|place, _| format!("state.{place}"));
        state.into_iter().map(|(n, v)| (n, PyTensor::from(v))).collect()
    }
}

/// Limited-memory BFGS, which asks for the loss several times a step.
#[pyclass(name = "Lbfgs", module = "talweg._native", frozen)]
struct PyLbfgs(Lbfgs);

#[pymethods]
impl PyLbfgs {
    #[new]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arg)] params: Vec<Py<PyTensor>>,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<PyLbfgs> {
        let o = LbfgsOptions::given(&values(settings)?).map_err(|e| type_error(format!("LBFGS: {}", e.message)))?;
        let params = variables(&params)?;
        Lbfgs::new(o, params.as_slice()).map(PyLbfgs).or_raise(py)
    }
    /// One step; `closure` returns the loss for the parameters as they are.
    fn step(&self, py: Python<'_>, closure: &Bound<'_, PyAny>) -> PyResult<f64> {
        let loss = || match closure.call0().and_then(|x| x.extract::<Like>()) {
            Ok(x) => Ok(x.0),
            Err(e) => Err(carried(e)),
        };
        here(py).scope(|| self.0.step(loss)).or_raise(py)
    }
    /// Everything a checkpoint needs, by name.
    fn state(&self) -> Vec<(String, PyTensor)> {
        self.0.state().into_iter().map(|(n, v)| (n, PyTensor::from(v))).collect()
    }
}

/// Scales gradients so that their common norm is at most `max_norm`; the norm before.
#[pyfunction]
fn clip_grad_norm(
    py: Python<'_>,
    #[pyo3(from_py_with = arg)] params: Vec<Py<PyTensor>>,
    #[pyo3(from_py_with = arg)] max_norm: f64,
) -> PyResult<Py<PyTensor>> {
    let params = variables(&params)?;
    wrap(py, here(py).scope(|| optim::clip_grad_norm(&params, max_norm)).or_raise(py)?)
}
/// Makes gradients the means over workers, where these reduce gradients.
#[pyfunction]
fn mean_gradients(py: Python<'_>, #[pyo3(from_py_with = arg)] params: Vec<Py<PyTensor>>) -> PyResult<()> {
    let params = variables(&params)?;
    here(py).scope(|| optim::mean_gradients(&params)).or_raise(py)
}
/// Makes gradients the means over workers, for a program that averages them itself.
#[pyfunction]
fn average_gradients(py: Python<'_>, #[pyo3(from_py_with = arg)] params: Vec<Py<PyTensor>>) -> PyResult<()> {
    let params = variables(&params)?;
    here(py).scope(|| optim::average_gradients(&params)).or_raise(py)
}
/// Cuts gradients off at ±`max`.
#[pyfunction]
fn clip_grad_value(
    py: Python<'_>,
    #[pyo3(from_py_with = arg)] params: Vec<Py<PyTensor>>,
    #[pyo3(from_py_with = arg)] max: f64,
) -> PyResult<()> {
    let params = variables(&params)?;
    here(py).scope(|| optim::clip_grad_value(&params, max)).or_raise(py)
}

/// Adds the classes and functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("OPTIMIZERS", rows(m.py(), optim::ROWS.iter().map(|r| (r.name, r.doc, (r.settings)())))?)?;
    m.add("SCHEDULES", rows(m.py(), schedule::ROWS.iter().map(|r| (r.python, r.doc, (r.settings)())))?)?;
    m.add_class::<PyOptimizer>()?;
    m.add_class::<PyLbfgs>()?;
    m.add_function(wrap_pyfunction!(clip_grad_norm, m)?)?;
    m.add_function(wrap_pyfunction!(mean_gradients, m)?)?;
    m.add_function(wrap_pyfunction!(average_gradients, m)?)?;
    m.add_function(wrap_pyfunction!(clip_grad_value, m)?)
}
