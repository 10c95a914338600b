//! Figures over many batches: accuracy, confusion, area under the curve, perplexity.

use crate::convert::{Like, arg};
use crate::error::value_error;
use crate::tensor::{PyTensor, run};
use nn::metrics::{Accuracy, Auc, Average, Confusion, Perplexity, TopK};
use parking_lot::Mutex;
use pyo3::prelude::*;

macro_rules! metric {
    ($(#[$doc:meta])* $class:ident $name:literal $inner:ty, new($($arg:ident: $ty:ty = $default:expr),*) = $make:expr, value = $value:expr) => {
        $(#[$doc])*
        #[pyclass(name = $name, module = "talweg.metrics", frozen)]
        struct $class(Mutex<$inner>);
        #[pymethods]
        impl $class {
            #[new]
            #[pyo3(signature = ($($arg = $default),*))]
            fn new($(#[pyo3(from_py_with = arg)] $arg: $ty),*) -> $class {
                $class(Mutex::new($make))
            }
            /// Adds a batch.
            fn update(&self, py: Python<'_>, scores: Like, targets: Like) -> PyResult<()> {
                let metric = &self.0;
                run(py, move || metric.lock().update(&scores.0, &targets.0))
            }
            /// The figure so far.
            fn value(&self) -> f64 {
                let f: fn(&$inner) -> f64 = $value;
                f(&self.0.lock())
            }
        }
    };
}
metric! {
    /// Share of examples whose highest score is the target.
    PyAccuracy "Accuracy" Accuracy, new() = Accuracy::default(), value = |m| m.value()
}
metric! {
    /// Share of examples whose target is among the `k` highest scores.
    PyTopK "TopK" TopK, new(k: usize = 5) = TopK::new(k), value = |m| m.value()
}
metric! {
    /// Area under the receiver operating characteristic.
    PyAuc "Auc" Auc, new() = Auc::default(), value = |m| m.value()
}

/// Classes that are told apart at most: the table has the square of it.
const CLASSES_MAX: usize = 1 << 14;

/// How often each class was taken for each other.
#[pyclass(name = "Confusion", module = "talweg.metrics", frozen)]
struct PyConfusion(Mutex<Confusion>);

#[pymethods]
impl PyConfusion {
    #[new]
    fn new(#[pyo3(from_py_with = arg)] classes: usize) -> PyResult<PyConfusion> {
        if classes > CLASSES_MAX {
            let e = format!("a table of {classes} times {classes} classes is too large: at most {CLASSES_MAX}");
            return Err(value_error(e));
        }
        Ok(PyConfusion(Mutex::new(Confusion::new(classes))))
    }
    /// Adds a batch of predicted and true classes.
    fn update(&self, py: Python<'_>, predicted: Like, targets: Like) -> PyResult<()> {
        let metric = &self.0;
        run(py, move || metric.lock().update(&predicted.0, &targets.0))
    }
    /// Counts, a row for each true class.
    fn tensor(&self) -> PyTensor {
        PyTensor::from(self.0.lock().tensor())
    }
    /// Share of right predictions.
    fn accuracy(&self) -> f64 {
        self.0.lock().accuracy()
    }
    /// Of the examples predicted as a class, the share that is.
    fn precision(&self, #[pyo3(from_py_with = arg)] class_: usize) -> f64 {
        self.0.lock().precision_of(class_)
    }
    /// Of the examples of a class, the share predicted as it.
    fn recall(&self, #[pyo3(from_py_with = arg)] class_: usize) -> f64 {
        self.0.lock().recall_of(class_)
    }
    /// The harmonic mean of precision and recall: `macro`, `micro` or `weighted`.
    #[pyo3(signature = (average="macro"))]
    fn f1(&self, #[pyo3(from_py_with = arg)] average: &str) -> PyResult<f64> {
        let average = match average {
            "macro" => Average::Macro,
            "micro" => Average::Micro,
            "weighted" => Average::Weighted,
            other => return Err(value_error(format!("expected macro, micro or weighted, not {other:?}"))),
        };
        Ok(self.0.lock().f1(average))
    }
}

/// The exponential of the mean loss of a token.
#[pyclass(name = "Perplexity", module = "talweg.metrics", frozen)]
struct PyPerplexity(Mutex<Perplexity>);

#[pymethods]
impl PyPerplexity {
    #[new]
    fn new() -> PyPerplexity {
        PyPerplexity(Mutex::default())
    }
    /// Adds a mean loss over `tokens`.
    fn update(&self, #[pyo3(from_py_with = arg)] loss: f64, #[pyo3(from_py_with = arg)] tokens: u64) {
        self.0.lock().update(loss, tokens);
    }
    /// The figure so far.
    fn value(&self) -> f64 {
        self.0.lock().value()
    }
}

/// Adds the classes.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyAccuracy>()?;
    m.add_class::<PyTopK>()?;
    m.add_class::<PyAuc>()?;
    m.add_class::<PyConfusion>()?;
    m.add_class::<PyPerplexity>()
}
