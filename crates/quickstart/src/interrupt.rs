//! Ctrl-C as a flag that a run looks at between steps.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use tensor::{Error, ErrorKind, Result};

/// The status shells give a program that Ctrl-C ended.
pub const INTERRUPTED: i32 = 130;

/// A flag that Ctrl-C, or a request to terminate, sets; give it to
/// [`Trainer::stop_when`](nn::train::Trainer::stop_when). A second Ctrl-C ends the program at once.
///
/// # Errors
/// If the operating system refuses the handler.
pub fn interrupt() -> Result<Arc<AtomicBool>> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        return Ok(flag.clone());
    }
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset and only sets it.
        register_conditional_shutdown(signal, INTERRUPTED, flag.clone())
            .and_then(|_| register(signal, flag.clone()))
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot listen to signal {signal}: {e}")))?;
    }
    Ok(FLAG.get_or_init(|| flag).clone())
}
