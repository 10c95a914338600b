//! Interrupting a long run. A signal handler asks; programs check between two regions. Where the
//! host language has signal handlers of its own, a [`Listener`] runs them there, and they decide
//! whether the run ends or goes on.

use ir::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);
static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Who decides about requests; without one every run ends.
#[derive(Clone, Copy)]
pub struct Listener {
    /// Whether this thread is the one whose runs are interrupted.
    pub is_here: fn() -> bool,
    /// Runs the pending signal handlers; an error ends the run.
    pub attend: fn() -> Result<()>,
}

/// When the signal handlers of a request run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// At once, in the middle of the run.
    Inside,
    /// After the run, which ends at once: it holds locks that a handler might wait for.
    Outside,
    /// After the run, which goes on to its end: it cannot be taken back.
    Later,
}

thread_local! {
    static HANDLING: Cell<Handling> = const { Cell::new(Handling::Inside) };
    static ENDED: Cell<bool> = const { Cell::new(false) };
}

/// Asks for attention. May be called in a signal handler.
pub fn ask() {
    ASKED.store(true, Ordering::Relaxed);
}

/// Takes the request back; true if there was one.
pub fn clear() -> bool {
    ASKED.swap(false, Ordering::Relaxed)
}

/// Says who decides about requests; the first stays.
pub fn listen(listener: Listener) {
    let _ = LISTENER.set(listener);
}

/// Runs `f` with another way of handling requests on this thread.
pub fn handling<R>(how: Handling, f: impl FnOnce() -> R) -> R {
    struct Restore(Handling);
    impl Drop for Restore {
        fn drop(&mut self) {
            HANDLING.set(self.0);
        }
    }
    let _restore = Restore(HANDLING.replace(how));
    f()
}

/// Fails if the run is to end.
#[inline]
pub fn check() -> Result<()> {
    if ASKED.load(Ordering::Relaxed) { respond() } else { Ok(()) }
}

/// After a run that [`Handling::Outside`] may have ended: attends to the request, and answers
/// whether the run ended because of it and should be repeated. An error is the handlers'.
pub fn was_ended() -> Result<bool> {
    if !ENDED.take() {
        return Ok(false);
    }
    clear();
    LISTENER.get().map_or(Ok(true), |l| (l.attend)().map(|()| true))
}

#[cold]
fn respond() -> Result<()> {
    let ended = || Err(Error::new(ErrorKind::Device, "the run was interrupted"));
    let Some(listener) = LISTENER.get() else { return ended() };
    if !(listener.is_here)() {
        return Ok(());
    }
    match HANDLING.get() {
        Handling::Inside => {
            clear();
            (listener.attend)()
        }
        Handling::Outside => {
            ENDED.set(true);
            ended()
        }
        Handling::Later => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    thread_local!(static IS_MAIN: Cell<bool> = const { Cell::new(false) });
    static CALLS: AtomicUsize = AtomicUsize::new(0);

    /// One test, as requests are for the whole process.
    #[test]
    fn handlers_decide_where_and_when_they_may() {
        assert!(check().is_ok());
        listen(Listener {
            is_here: || IS_MAIN.get(),
            attend: || match CALLS.fetch_add(1, Ordering::Relaxed) {
                0 | 2 => Ok(()),
                _ => Err(Error::value("raised")),
            },
        });
        ask();
        assert!(check().is_ok() && ASKED.load(Ordering::Relaxed), "not this thread's business");
        IS_MAIN.set(true);
        assert!(check().is_ok(), "the handler does not raise");
        assert!(check().is_ok() && !clear(), "and was called once");
        ask();
        assert_eq!(check().unwrap_err().message, "raised");
        ask();
        assert!(handling(Handling::Later, check).is_ok());
        assert!(handling(Handling::Outside, check).is_err());
        assert!(was_ended().unwrap(), "to be repeated: the third call does not raise");
        assert!(!was_ended().unwrap());
        ask();
        assert!(handling(Handling::Outside, check).is_err());
        assert_eq!(was_ended().unwrap_err().message, "raised");
        assert_eq!(CALLS.load(Ordering::Relaxed), 4);
        assert!(!clear());
    }
}
