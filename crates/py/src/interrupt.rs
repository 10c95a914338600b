//! Ctrl-C during a long run. The interpreter's own handler only takes a note, to be read when Python
//! code runs again; ours also asks the running program to end.

use crate::error::{exception, memory_error};
use ::tensor::{Error, Result};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::thread::ThreadId;

#[cfg(unix)]
mod handler {
    use std::sync::OnceLock;

    /// The handler from before, which is the interpreter's.
    static BEFORE: OnceLock<extern "C" fn(libc::c_int)> = OnceLock::new();

    extern "C" fn handle(signal: libc::c_int) {
        cpu::interrupt::ask();
        if let Some(before) = BEFORE.get() {
            before(signal);
        }
    }

    /// Puts ours before the interpreter's, where that is there: a program that ignores the signal
    /// is left alone.
    pub fn install() {
        // SAFETY: plain calls with structures of our own; the handler stores a flag and calls the
        // interpreter's handler, both of which may be done in a signal handler.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGINT, std::ptr::null(), &mut old) != 0 {
                return;
            }
            let is_plain = old.sa_flags & libc::SA_SIGINFO == 0;
            if !is_plain || old.sa_sigaction == libc::SIG_DFL || old.sa_sigaction == libc::SIG_IGN {
                return;
            }
            if old.sa_sigaction == handle as extern "C" fn(libc::c_int) as usize {
                return;
            }
            // The interpreter has one handler for all signals: what was found first stays right.
            let before = std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(old.sa_sigaction);
            BEFORE.get_or_init(|| before);
            let mut new = old;
            new.sa_sigaction = handle as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(libc::SIGINT, &new, std::ptr::null_mut());
        }
    }
}
#[cfg(not(unix))]
mod handler {
    /// Only where there are signals.
    pub fn install() {}
}

/// The thread that imported the package: in most programs the one that signals are for.
static MAIN: OnceLock<ThreadId> = OnceLock::new();

/// Lets Ctrl-C end runs from now on. `signal.signal` undoes it.
#[pyfunction]
#[pyo3(name = "watch_interrupts")]
pub fn install() {
    MAIN.get_or_init(|| std::thread::current().id());
    handler::install();
}

/// Computes without holding the interpreter. Ctrl-C ends it between two regions of the program and
/// is raised here.
pub fn run<R: Send>(py: Python<'_>, f: impl FnOnce() -> Result<R> + Send) -> PyResult<Result<R>> {
    if MAIN.get() == Some(&std::thread::current().id()) {
        // A request from before was for something else, and Python has been told of it.
        cpu::interrupt::clear();
    }
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(f))).map_err(|panic| panicked(py, panic))?;
    if done.is_err() && cpu::interrupt::clear() {
        // The main thread raises what the signal's handler says; another thread just ends.
        py.check_signals()?;
        return Err(PyKeyboardInterrupt::new_err("the run was interrupted"));
    }
    py.check_signals()?;
    Ok(done)
}

/// Does something whose panic would come out as an exception that programs do not expect to catch.
pub fn caught<R>(py: Python<'_>, f: impl FnOnce() -> R) -> PyResult<R> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| panicked(py, panic))
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()
}
fn is_memory(words: &str) -> bool {
    words.starts_with(ir::OUT_OF_MEMORY) || words == "capacity overflow"
}

/// What a panic is to Python: too little memory, or a mistake of ours.
fn panicked(py: Python<'_>, panic: Box<dyn std::any::Any + Send>) -> PyErr {
    let words = words(&*panic);
    if is_memory(&words) { memory_error(py, &words) } else { exception(py, &Error::bug(words)) }
}

/// Too little memory becomes an exception: nothing is to be written to the terminal before that.
fn be_quiet_about_memory() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload_as_str().unwrap_or_default();
        if !is_memory(text) {
            before(info);
        }
    }));
}

/// Adds the function.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    install();
    be_quiet_about_memory();
    m.add_function(wrap_pyfunction!(install, m)?)
}
