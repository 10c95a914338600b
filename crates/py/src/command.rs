//! The `talweg` command from the wheel.

use pyo3::prelude::*;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use talweg::cli::{self, Consistency, Program};
use talweg::{Error, Result};

/// Runs the `talweg` command; the exit status. `own` is how this command is started again, `args` are its arguments
/// without the name of the program.
#[pyfunction]
fn main(py: Python<'_>, python: OsString, own: Vec<OsString>, args: Vec<OsString>) -> u8 {
    let args = std::iter::once("talweg".into()).chain(args);
    py.detach(|| cli::main(&Program { own, python, consistency: Some(rule) }, args))
}

/// A rule of consistency in Python: `admit(step, settled)` says whether a read at a step is answered, given how many
/// steps each worker has settled.
struct Admit {
    f: Py<PyAny>,
    text: String,
}

impl fmt::Debug for Admit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Consistency for Admit {
    fn closed(&self, settled: &[u64]) -> u64 {
        settled.iter().copied().min().unwrap_or(0)
    }
    fn admit(&self, step: u64, settled: &[u64]) -> bool {
        let said = Python::attach(|py| self.f.call1(py, (step, settled.to_vec()))?.is_truthy(py));
        said.unwrap_or_else(|e| {
            // A server that waits for ever would say nothing: the job ends, and shows why.
            Python::attach(|py| e.display(py));
            eprintln!("{} failed: the server ends", self.text);
            std::process::exit(1)
        })
    }
    fn gathers(&self) -> bool {
        false
    }
    fn drops(&self) -> bool {
        false
    }
}

/// Finds `FILE.py:FUNCTION`.
fn rule(text: &str) -> Result<Arc<dyn Consistency>> {
    let found = Python::attach(|py| py.import("talweg._rules")?.call_method1("find", (text,)).map(Bound::unbind));
    let f = found.map_err(|e| Error::value(format!("--consistency {text}: {e}")))?;
    Ok(Arc::new(Admit { f, text: text.to_string() }))
}

/// Adds the function.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(main, m)?)
}
