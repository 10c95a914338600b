//! Threads for what may take its time, such as writing checkpoints.

use std::thread::{Builder, JoinHandle};

/// Of the 19 steps back that a thread can take: beside one that does not step back it gets a
/// thirtieth of a processor.
const BACK: i32 = 15;

/// Starts a thread that runs when the processors have nothing else to do, and a little otherwise:
/// beside a training step that uses all of them it costs the step next to nothing. Who waits for
/// it leaves it the processor.
///
/// # Errors
/// If the system starts no more threads.
pub fn background<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_string()).spawn(move || {
        // Where this fails the thread is like any other. On other systems the call would mean the
        // whole process.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::setpriority_process(None, BACK);
        f()
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_steps_back() {
        let own = || rustix::process::getpriority_process(None).unwrap();
        let before = own();
        assert_eq!(background("test", own).unwrap().join().unwrap(), BACK);
        assert_eq!(own(), before);
    }
}
