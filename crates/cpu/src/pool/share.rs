//! Pools of logical devices.

use super::{IS_SHARING, Job, Placement, Pool, Stretch, THREADS, THREADS_MAX, threads};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, OnceLock};

impl Pool {
    /// A pool without workers.
    pub(super) const fn new() -> Pool {
        Pool {
            busy: AtomicBool::new(false),
            gate: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            job: Job {
                task: UnsafeCell::new(None),
                dealt: AtomicUsize::new(0),
                stretches: [const { Stretch(AtomicU64::new(0)) }; THREADS_MAX],
                panic: Mutex::new(None),
            },
            started: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            bell: Condvar::new(),
            placement: Placement {
                caller: AtomicUsize::new(usize::MAX),
                threads: [const { AtomicI32::new(0) }; THREADS_MAX],
            },
            share: AtomicUsize::new(0),
        }
    }
    /// The most threads of a job.
    pub(super) fn most(&self) -> usize {
        match self.share.load(Relaxed) {
            0 => threads(),
            n => n,
        }
    }
}

/// The pools of logical devices, by number.
static SHARES: [OnceLock<&'static Pool>; SHARES_MAX] = [const { OnceLock::new() }; SHARES_MAX];
/// Logical devices with threads of their own at most; others run their tasks inline.
const SHARES_MAX: usize = 64;

thread_local! {
    /// The pool of the logical device that this thread runs a program for.
    static OWN: Cell<Option<&'static Pool>> = const { Cell::new(None) };
}

/// Runs `f` with the pool of the logical device with this number: `threads` in all, this one included.
pub fn within(number: usize, threads: usize, f: &mut dyn FnMut()) {
    struct Restore(Option<&'static Pool>, bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            OWN.set(self.0);
            IS_SHARING.set(self.1);
        }
    }
    let Some(slot) = SHARES.get(number).filter(|_| const { ir::is_linked(THREADS) }) else { return f() };
    let pool: &'static Pool = slot.get_or_init(|| Box::leak(Box::new(Pool::new())));
    pool.share.store(threads.clamp(1, THREADS_MAX), Relaxed);
    let _restore = Restore(OWN.replace(Some(pool)), IS_SHARING.replace(true));
    f();
}

/// The pool of the logical device that this thread runs a program for.
pub(super) fn own() -> Option<&'static Pool> {
    OWN.get()
}
