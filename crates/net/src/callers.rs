//! Callers who have proved nothing yet: how many of them are heard at once, for how long, and how
//! often what was wrong with them is told. They cost this process a bounded number of threads and
//! sockets, whatever they do, and cannot keep out those who prove themselves.

use crate::{Connection, Error, Listener, Pending, Result, Sender};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Handshakes in progress at most.
pub const HANDSHAKES_MAX: usize = 128;
/// When there are this many, the oldest makes room if it has had this long: who can prove itself
/// needs some milliseconds.
const AGE_MIN: Duration = Duration::from_millis(250);
/// Between two lines about refused callers at first, and at most while they go on calling.
const TOLD_EVERY: Duration = Duration::from_secs(1);
const TOLD_EVERY_MAX: Duration = Duration::from_secs(60);
/// How long to wait when the system has no thread to give.
const NO_THREAD: Duration = Duration::from_millis(20);

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handshake in progress, and a handle to end it.
struct UnderWay {
    number: u64,
    began: Instant,
    handle: Sender,
}

#[derive(Default)]
struct Handshakes {
    next: u64,
    list: VecDeque<UnderWay>,
}

/// What is told of callers that were refused.
#[derive(Default)]
struct Refused {
    count: u64,
    last: String,
    is_watched: bool,
}

struct Shared {
    patience: Duration,
    handshakes: Mutex<Handshakes>,
    room: Condvar,
    refused: Mutex<Refused>,
    report: Box<dyn Fn(&str) + Send + Sync>,
    serve: Box<dyn Fn(Connection) + Send + Sync>,
}

impl Listener {
    /// Accepts callers until the process ends. A caller that proves itself within `patience` is passed to
    /// `serve`, on a separate thread; `report` hears of the others, a line a second at most.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub fn serve(
        self,
        patience: Duration,
        report: impl Fn(&str) + Send + Sync + 'static,
        serve: impl Fn(Connection) + Send + Sync + 'static,
    ) -> Result<()> {
        let shared = Arc::new(Shared {
            patience,
            handshakes: Mutex::default(),
            room: Condvar::new(),
            refused: Mutex::default(),
            report: Box::new(report),
            serve: Box::new(serve),
        });
        let accepting = move || {
            while let Ok(pending) = self.accept() {
                shared.hear(pending);
            }
        };
        let spawned = std::thread::Builder::new().name("accept".into()).spawn(accepting);
        spawned.map(drop).map_err(|e| Error::Io { what: "starting a thread that accepts callers".into(), source: e })
    }
}

impl Shared {
    /// Lets a caller prove itself on a separate thread, once there is room.
    fn hear(self: &Arc<Self>, pending: Pending) {
        // A handle that cannot be had, as there are too many files: the caller may try again.
        let Ok(handle) = pending.handle() else { return };
        let number = self.enter(handle);
        let shared = self.clone();
        let heard = move || {
            let done = pending.handshake(Instant::now() + shared.patience);
            shared.leave(number);
            match done {
                Ok(connection) => (shared.serve)(connection),
                Err(e) => shared.refuse(&e.to_string()),
            }
        };
        if std::thread::Builder::new().spawn(heard).is_err() {
            self.leave(number);
            // A silent caller has had its thread for long enough.
            self.end_oldest(Duration::ZERO);
            std::thread::sleep(NO_THREAD);
        }
    }
    /// Waits for room, at the cost of the oldest if that has been at it for long; returns a number.
    fn enter(&self, handle: Sender) -> u64 {
        let mut all = lock(&self.handshakes);
        while all.list.len() >= HANDSHAKES_MAX {
            let age = all.list.front().map_or(AGE_MIN, |h| h.began.elapsed());
            if age < AGE_MIN {
                all = self.room.wait_timeout(all, AGE_MIN - age).unwrap_or_else(PoisonError::into_inner).0;
            } else if let Some(oldest) = all.list.pop_front() {
                oldest.handle.close();
            }
        }
        all.next += 1;
        let number = all.next;
        all.list.push_back(UnderWay { number, began: Instant::now(), handle });
        number
    }
    fn leave(&self, number: u64) {
        lock(&self.handshakes).list.retain(|h| h.number != number);
        self.room.notify_one();
    }
    fn end_oldest(&self, age: Duration) {
        let oldest = lock(&self.handshakes).list.pop_front_if(|h| h.began.elapsed() >= age);
        oldest.iter().for_each(|h| h.handle.close());
    }
    /// Tells of a refused caller: at once if it is the first, with the others of its time if there
    /// are many. One thread, that of the first, does the telling.
    fn refuse(&self, why: &str) {
        let mut refused = lock(&self.refused);
        if refused.is_watched {
            refused.count += 1;
            refused.last.clear();
            refused.last.push_str(why);
            return;
        }
        refused.is_watched = true;
        drop(refused);
        (self.report)(&format!("a connection was rejected: {why}"));
        let mut pause = TOLD_EVERY;
        loop {
            std::thread::sleep(pause);
            let mut refused = lock(&self.refused);
            if refused.count == 0 {
                refused.is_watched = false;
                return;
            }
            let (n, last) = (std::mem::take(&mut refused.count), std::mem::take(&mut refused.last));
            drop(refused);
            (self.report)(&format!("{n} more connections were rejected in {} s, the last: {last}", pause.as_secs()));
            pause = (2 * pause).min(TOLD_EVERY_MAX);
        }
    }
}
