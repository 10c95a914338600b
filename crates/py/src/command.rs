//! The `talweg` command from the wheel.

use pyo3::prelude::*;
use std::ffi::OsString;
use talweg::cli::{self, Program};

/// Runs the `talweg` command; the exit status. `own` is how this command is started again, `args` are its arguments
/// without the name of the program.
#[pyfunction]
fn main(py: Python<'_>, python: OsString, own: Vec<OsString>, args: Vec<OsString>) -> u8 {
    let args = std::iter::once("talweg".into()).chain(args);
    py.detach(|| cli::main(&Program { own, python }, args))
}

/// Adds the function.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(main, m)?)
}
