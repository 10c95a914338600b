//! Ctrl-C during a long run. The interpreter's own handler only takes a note, to be read when Python
//! code runs again; ours stands in front of it and asks the running program for attention as well.
//! The program then runs Python's signal handlers between two of its regions, on the main thread:
//! what they raise ends the run, otherwise it goes on.

use crate::error::{carried, exception, memory_error};
use ::tensor::{Error, Result};
use pyo3::prelude::*;
use runtime::interrupt::{self, Listener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::ThreadId;

#[cfg(unix)]
mod handler {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// The handler behind ours, which is the interpreter's.
    static BEHIND: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn handle(signal: libc::c_int) {
        runtime::interrupt::ask();
        let behind = BEHIND.load(Ordering::Relaxed);
        if behind != 0 {
            // SAFETY: the address of a handler that was installed for this signal.
            unsafe { std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(behind)(signal) };
        }
    }

    /// Puts ours in front, unless it is there already: `signal.signal` removes it. A program that
    /// ignores the signal is left alone.
    pub fn install() {
        let own = handle as extern "C" fn(libc::c_int) as usize;
        // SAFETY: plain calls with our structures; the handler stores a flag and calls the
        // interpreter's handler, both of which may be done in a signal handler.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGINT, std::ptr::null(), &mut old) != 0 || old.sa_sigaction == own {
                return;
            }
            let is_plain = old.sa_flags & libc::SA_SIGINFO == 0;
            if !is_plain || old.sa_sigaction == libc::SIG_DFL || old.sa_sigaction == libc::SIG_IGN {
                return;
            }
            BEHIND.store(old.sa_sigaction, Ordering::Relaxed);
            let mut new = old;
            new.sa_sigaction = own;
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

fn is_main() -> bool {
    MAIN.get() == Some(&std::thread::current().id())
}

/// Runs Python's handlers of the signals that have come.
fn attend() -> Result<()> {
    Python::attach(|py| py.check_signals().map_err(carried))
}

/// Milliseconds of a clock that is quick to read and goes forward every few of them.
#[cfg(target_os = "linux")]
fn now_ms() -> i64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a plain call with our own structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut t) };
    t.tv_sec * 1000 + t.tv_nsec / 1_000_000
}
#[cfg(not(target_os = "linux"))]
fn now_ms() -> i64 {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_millis() as i64
}

/// A run that took no more is brief.
const BRIEF_MS: i64 = 8;
/// Our handler is looked for at least so often.
const LOOK_MS: i64 = 50;
/// When it was last looked for.
static LOOKED_MS: AtomicI64 = AtomicI64::new(i64::MIN);

/// Computes without holding the interpreter. Signal handlers run between two regions of the
/// program; what they raise is raised here.
pub fn run<R: Send>(py: Python<'_>, f: impl FnOnce() -> Result<R> + Send) -> PyResult<Result<R>> {
    if is_main() {
        handler::install();
        if interrupt::clear() {
            // It came before; if it comes again from here on, the run sees it.
            py.check_signals()?;
        }
    }
    computed(py, f)
}

/// [`run`] of something that is computed again and again: where it was brief the last time, the
/// system is not asked each time whether our handler is in place.
pub fn run_again<R: Send>(
    py: Python<'_>,
    is_brief: &AtomicBool,
    f: impl FnOnce() -> Result<R> + Send,
) -> PyResult<Result<R>> {
    let start = now_ms();
    let is_known =
        is_brief.load(Ordering::Relaxed) && start.saturating_sub(LOOKED_MS.load(Ordering::Relaxed)) < LOOK_MS;
    let done = if is_known {
        computed(py, f)
    } else {
        LOOKED_MS.store(start, Ordering::Relaxed);
        run(py, f)
    };
    is_brief.store(now_ms() - start <= BRIEF_MS, Ordering::Relaxed);
    done
}

fn computed<R: Send>(py: Python<'_>, f: impl FnOnce() -> Result<R> + Send) -> PyResult<Result<R>> {
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(f))).map_err(|panic| panicked(py, panic))?;
    if done.is_ok() {
        py.check_signals()?;
    }
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

/// Listens to signals from now on.
pub fn register(_: &Bound<'_, PyModule>) -> PyResult<()> {
    MAIN.get_or_init(|| std::thread::current().id());
    interrupt::listen(Listener { is_here: is_main, attend });
    be_quiet_about_memory();
    Ok(())
}
