//! Ctrl-C during a long run. The interpreter's own handler only takes a note, to be read when Python
//! code runs again; ours also asks the running program to end.

use ::tensor::Result;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
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
        if BEFORE.get().is_some() {
            return;
        }
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
            let before = std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(old.sa_sigaction);
            if BEFORE.set(before).is_err() {
                return;
            }
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

/// Lets Ctrl-C end runs from now on.
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
    let done = py.detach(f);
    if done.is_err() && cpu::interrupt::clear() {
        // The main thread raises what the signal's handler says; another thread just ends.
        py.check_signals()?;
        return Err(PyKeyboardInterrupt::new_err("the run was interrupted"));
    }
    py.check_signals()?;
    Ok(done)
}
