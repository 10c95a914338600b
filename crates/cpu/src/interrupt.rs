//! Ending a long run from outside: a signal handler may ask, programs look between two regions.

use ir::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Asks every program that is running to end with an error. May be called in a signal handler.
pub fn ask() {
    ASKED.store(true, Ordering::Relaxed);
}

/// Takes the request back; true if there was one.
pub fn clear() -> bool {
    ASKED.swap(false, Ordering::Relaxed)
}

/// Fails if programs are to end.
pub(crate) fn check() -> Result<()> {
    if ASKED.load(Ordering::Relaxed) {
        return Err(Error::new(ErrorKind::Device, "the run was interrupted"));
    }
    Ok(())
}
