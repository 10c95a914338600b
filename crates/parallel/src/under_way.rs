//! Exchanges that go on while the process computes: one thread runs them, in the order in which they were started. As
//! every rank starts the same ones in the same order, none waits for a rank that waits for it.

use crate::status::lock;
use ir::{Job, Pending};
use std::cell::Cell;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use tensor::{Error, Result};

thread_local! {
    /// Whether this thread runs exchanges.
    static IS_EXCHANGING: Cell<bool> = const { Cell::new(false) };
}

/// The exchanges of a process that are under way.
#[derive(Default)]
pub(crate) struct UnderWay {
    /// Where the thread takes its jobs from, once there is one; closed when this is dropped.
    jobs: Mutex<Option<Sender<(Job, Ending)>>>,
    /// The newest one.
    last: Mutex<Option<Ending>>,
}

/// How an exchange ended, once it has.
#[derive(Clone, Default)]
struct Ending(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
enum State {
    #[default]
    Runs,
    Ended(Result<()>),
    /// Its result was taken.
    Taken,
}

impl Ending {
    fn set(&self, done: Result<()>) {
        *lock(&self.0.0) = State::Ended(done);
        self.0.1.notify_all();
    }
    /// Waits for the end, and looks at it.
    fn wait<T>(&self, take: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.0.0);
        while matches!(*state, State::Runs) {
            state = self.0.1.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        take(&mut state)
    }
}
impl Pending for Ending {
    fn wait(&mut self) -> Result<()> {
        Ending::wait(self, |state| match std::mem::replace(state, State::Taken) {
            State::Ended(done) => done,
            _ => Ok(()),
        })
    }
}

impl UnderWay {
    /// Runs a job after those that were started before.
    pub fn start(&self, job: Job) -> Box<dyn Pending> {
        let ending = Ending::default();
        let mut jobs = lock(&self.jobs);
        if jobs.is_none() {
            match spawn() {
                Ok(sender) => *jobs = Some(sender),
                Err(e) => {
                    ending.set(Err(Error::value(format!("starting a thread for exchanges: {e}"))));
                    return Box::new(ending);
                }
            }
        }
        *lock(&self.last) = Some(ending.clone());
        let is_sent = jobs.as_ref().is_some_and(|j| j.send((job, ending.clone())).is_ok());
        if !is_sent {
            ending.set(Err(Error::bug("the thread of exchanges has ended")));
        }
        Box::new(ending)
    }
    /// Waits until nothing is under way, unless this is part of it.
    pub fn wait_for_all(&self) {
        if !IS_EXCHANGING.get()
            && let Some(last) = lock(&self.last).take()
        {
            // Its own caller hears how it ended.
            last.wait(|_| ());
        }
    }
}

/// The thread; it ends when no exchange can be started any more.
fn spawn() -> std::io::Result<Sender<(Job, Ending)>> {
    let (sender, jobs) = channel::<(Job, Ending)>();
    let body = move || {
        IS_EXCHANGING.set(true);
        for (job, ending) in jobs {
            // The op that waits must hear of a panic as well.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            ending.set(done.unwrap_or_else(|_| Err(Error::bug("an exchange panicked"))));
        }
    };
    std::thread::Builder::new().name("exchange".to_string()).spawn(body)?;
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_run_in_order_and_report_once() {
        let (all, seen) = (UnderWay::default(), Arc::new(Mutex::new(Vec::new())));
        let job = |i: usize| -> Job {
            let seen = seen.clone();
            Box::new(move || {
                lock(&seen).push(i);
                if i == 1 { Err(Error::value("one")) } else { Ok(()) }
            })
        };
        let mut started: Vec<_> = (0..4).map(|i| all.start(job(i))).collect();
        all.wait_for_all();
        assert_eq!(*lock(&seen), [0, 1, 2, 3]);
        let results: Vec<bool> = started.iter_mut().map(|p| p.wait().is_ok()).collect();
        assert_eq!(results, [true, false, true, true]);
        assert!(started[1].wait().is_ok(), "the error was taken");
        let mut bad = all.start(Box::new(|| panic!("as expected")));
        assert!(bad.wait().unwrap_err().to_string().contains("panicked"));
        all.wait_for_all();
    }
}
