//! State outside of a graph that decides what a program traces: a module's mode, whether a
//! variable is trained, the gradient it has collected. A trace records which settings it read, so
//! that its owner knows when it no longer holds.

use rustc_hash::FxHashSet;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A value that code reads while it builds a graph; clones are the same setting.
#[derive(Clone, Debug)]
pub struct Setting(Arc<AtomicU64>);

/// A setting with the value it had when it was first read.
pub type SettingRead = (Setting, u64);

/// What a recording has seen so far.
#[derive(Default)]
struct Recording {
    /// Settings that were read or set: only a first read that comes before any write depends on
    /// the world outside.
    seen: FxHashSet<usize>,
    reads: Vec<SettingRead>,
    /// Keeps the addresses in `seen` from being used again.
    written: Vec<Setting>,
}
thread_local! {
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

impl Setting {
    /// With this value.
    pub fn new(value: u64) -> Setting {
        Setting(Arc::new(AtomicU64::new(value)))
    }
    /// Its value; a trace that reads it depends on it.
    pub fn get(&self) -> u64 {
        let value = self.0.load(Ordering::Relaxed);
        RECORDING.with_borrow_mut(|r| {
            if let Some(r) = r
                && r.seen.insert(Arc::as_ptr(&self.0).addr())
            {
                r.reads.push((self.clone(), value));
            }
        });
        value
    }
    /// Sets it. What the trace in progress reads from now on is its own doing.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
        RECORDING.with_borrow_mut(|r| {
            if let Some(r) = r
                && r.seen.insert(Arc::as_ptr(&self.0).addr())
            {
                r.written.push(self.clone());
            }
        });
    }
    /// Whether it has this value; nothing is recorded.
    pub fn is(&self, value: u64) -> bool {
        self.0.load(Ordering::Relaxed) == value
    }
}

/// Runs `f` and records every setting it reads before it sets it, with the value read.
pub fn record_settings<R>(f: impl FnOnce() -> R) -> (R, Vec<SettingRead>) {
    struct Restore(Option<Recording>);
    impl Drop for Restore {
        fn drop(&mut self) {
            RECORDING.set(self.0.take());
        }
    }
    let outer = Restore(RECORDING.replace(Some(Recording::default())));
    let result = f();
    let reads = RECORDING.take().map_or_else(Vec::new, |r| r.reads);
    drop(outer);
    (result, reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_read_before_any_write_is_recorded() {
        let (mode, own, unread) = (Setting::new(1), Setting::new(0), Setting::new(0));
        let (_, reads) = record_settings(|| {
            assert_eq!((mode.get(), mode.get()), (1, 1));
            own.set(5);
            assert_eq!(own.get(), 5);
            mode.set(0);
            unread.set(2);
        });
        assert_eq!(reads.len(), 1);
        let (setting, value) = &reads[0];
        assert!(*value == 1 && !setting.is(1) && setting.is(0), "the mode was changed by the function itself");
        mode.set(1);
        assert!(setting.is(1));
    }

    #[test]
    fn recordings_nest_and_end_with_a_panic() {
        let (a, b) = (Setting::new(0), Setting::new(0));
        let (inner, outer) = record_settings(|| {
            a.get();
            let caught = std::panic::catch_unwind(|| record_settings::<()>(|| panic!("in the middle")));
            assert!(caught.is_err());
            record_settings(|| b.get()).1
        });
        assert_eq!((inner.len(), outer.len()), (1, 1));
        assert!(RECORDING.with_borrow(Option::is_none));
    }
}
