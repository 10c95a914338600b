//! Errors as Python exceptions. The classes are in `talweg/errors.py`, as each is two: one of ours
//! and the one of Python's that people catch.

use crate::convert::PyDType;
use ::tensor::{DType, Error, ErrorKind, Result};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
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
    if let Some(raised) = crate::custom::raised(e) {
        return raised;
    }
    if e.kind == ErrorKind::Feed && e.message.contains(UNFED) {
        let is_stand_in = STAND_INS.iter().any(|name| e.message.starts_with(&format!("placeholder {name:?}")));
        if crate::transform::is_tracing() || is_stand_in {
            return trace_error(py, unknown_value());
        }
    }
    of_class(py, if errno(e) == Some(NOT_FOUND) { "FileMissingError" } else { class(e.kind) }, e)
}

/// The system's number of an error that says that a file is not there.
const NOT_FOUND: i32 = 2;

/// The system's number of an error with a file, which Rust puts behind its message.
fn errno(e: &Error) -> Option<i32> {
    let (_, number) = e.message.rsplit_once("(os error ").filter(|_| e.kind == ErrorKind::Io)?;
    number.split_once(')')?.0.parse().ok()
}

/// Fails if a method was given keywords that it does not take; the message names the nearest one that it does.
pub fn known(py: Python<'_>, name: &str, takes: &str, unknown: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    let Some(keyword) = unknown.and_then(|u| u.keys().get_item(0).ok()) else { return Ok(()) };
    let error = py.import("talweg._calls")?.call_method1("unknown_keyword", (name, takes, keyword))?;
    Err(PyErr::from_value(error))
}

/// What the engine says of a placeholder.
const UNFED: &str = "has no value: run the graph in a Session and feed it";
/// Names of the placeholders that stand for arguments of traced functions.
pub const STAND_INS: [&str; 3] = ["", "argument", "vmap"];

/// Why the value of a tensor that depends on a stand-in cannot be had.
pub fn unknown_value() -> &'static str {
    if crate::transform::is_tracing() {
        "the value is unknown while the function is traced (by jit, vmap, cond, scan...): write tw.where or tw.cond \
         instead of Python's if, tw.while_loop or tw.scan instead of its loops, or move this line out of the function"
    } else {
        "the tensor was made while a function was traced, and has no value outside of it: return it from the function \
         instead of storing it"
    }
}
/// The exception for what cannot be done while a function is traced, with the line of the program.
pub fn trace_error(py: Python<'_>, what: &str) -> PyErr {
    of_class(py, "TraceError", &Error::new(ErrorKind::Feed, what).at(crate::site::here(py)))
}
/// The exception for too little memory, with the line of the program.
pub fn memory_error(py: Python<'_>, what: &str) -> PyErr {
    of_class(py, "OutOfMemoryError", &Error::value(what).at(crate::site::here(py)))
}
fn of_class(py: Python<'_>, class: &str, e: &Error) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let module = CLASSES.get_or_try_init(py, || py.import("talweg.errors").map(Bound::unbind))?;
        let class = module.bind(py).getattr(class)?;
        let text = Error { message: spelled(&e.message), ..e.clone() }.to_string();
        let raised = class.call1((text,))?;
        errno(e).map_or(Ok(()), |number| raised.setattr("errno", number))?;
        Ok(PyErr::from_value(raised))
    };
    build().unwrap_or_else(|e| e)
}

/// A message with element types as Python spells them.
fn spelled(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len()).max(first.len_utf8());
        let (word, after) = rest.split_at(end);
        match DType::ALL.iter().find(|d| d.to_string() == word) {
            Some(&d) => out.push_str(PyDType(d).long_name()),
            None => out.push_str(word),
        }
        rest = after;
    }
    out
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
