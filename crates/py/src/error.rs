//! Errors as Python exceptions. The classes are in `talweg/errors.py`, as each is two: one of ours
//! and the one of Python's that people catch.

use ::tensor::{Error, ErrorKind, Result};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::cell::RefCell;

static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

thread_local! {
    /// What a Python function raised while Rust code was calling it.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Shape => "ShapeError",
        ErrorKind::DType => "DTypeError",
        ErrorKind::Value => "ArgumentError",
        ErrorKind::Index => "OutOfRangeError",
        ErrorKind::Feed => "FeedError",
        ErrorKind::Gradient => "GradientError",
        ErrorKind::Format => "FormatError",
        ErrorKind::Io => "FileError",
        ErrorKind::Lost => "PeerLostError",
        ErrorKind::Deadline => "DeadlineError",
        ErrorKind::Refused => "RefusedError",
        ErrorKind::Device => "DeviceError",
        ErrorKind::Numerics => "NumericsError",
        _ => "InternalError",
    }
}

/// The exception for an error.
pub fn exception(py: Python<'_>, e: &Error) -> PyErr {
    if let Some(raised) = RAISED.take() {
        return raised;
    }
    crate::custom::raised(e).unwrap_or_else(|| of_class(py, class(e.kind), e))
}
/// The exception for too little memory, with the line of the program.
pub fn memory_error(py: Python<'_>, what: &str) -> PyErr {
    of_class(py, "OutOfMemoryError", &Error::value(what).at(crate::site::here(py)))
}
fn of_class(py: Python<'_>, class: &str, e: &Error) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let module = CLASSES.get_or_try_init(py, || py.import("talweg.errors").map(Bound::unbind))?;
        let class = module.bind(py).getattr(class)?;
        Ok(PyErr::from_value(class.call1((e.to_string(),))?))
    };
    build().unwrap_or_else(|e| e)
}

/// The exception for an object of a wrong type, with the line of the program.
pub fn type_error(what: impl Into<String>) -> PyErr {
    wrong(ErrorKind::DType, what)
}
/// The exception for an argument that is not allowed, with the line of the program.
pub fn value_error(what: impl Into<String>) -> PyErr {
    wrong(ErrorKind::Value, what)
}
/// The exception for an index that is none, with the line of the program.
pub fn index_error(what: impl Into<String>) -> PyErr {
    wrong(ErrorKind::Index, what)
}
fn wrong(kind: ErrorKind, what: impl Into<String>) -> PyErr {
    Python::attach(|py| exception(py, &Error::new(kind, what).at(crate::site::here(py))))
}

/// What Python itself says of an argument (a plain `TypeError`, `ValueError` or `OverflowError`), as
/// ours with the line of the program. Other exceptions stay as they are.
pub fn ours(py: Python<'_>, e: PyErr) -> PyErr {
    let what = e.value(py).to_string();
    translated(py, e, what)
}
/// The same of a setting with a name.
pub fn named(py: Python<'_>, name: &str, e: PyErr) -> PyErr {
    let what = format!("{name}: {}", e.value(py));
    translated(py, e, what)
}
fn translated(py: Python<'_>, e: PyErr, what: String) -> PyErr {
    let class = e.get_type(py);
    if class.is(&py.get_type::<PyTypeError>()) {
        type_error(what)
    } else if class.is(&py.get_type::<PyValueError>()) || class.is(&py.get_type::<PyOverflowError>()) {
        value_error(what)
    } else {
        e
    }
}

/// Carries what a Python function raised through Rust code, which sees an ordinary error.
pub fn carried(e: PyErr) -> Error {
    RAISED.set(Some(e));
    Error::value("the Python function raised an exception")
}

/// A result with its error as an exception.
pub trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}
impl<T> OrRaise<T> for Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|e| exception(py, &e))
    }
}
