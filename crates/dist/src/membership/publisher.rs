//! Publishes keys from a background thread, so that callers never block on a membership store that is
//! slow or stopped. Only the newest value of each key is sent, one request at a time, so a pause costs
//! neither memory nor a backlog.

use crate::membership::Member;
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request waits for as long as the process lives.
pub const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// A key and its newest value.
struct Word {
    key: String,
    value: Vec<u8>,
    is_leased: bool,
    is_new: bool,
}

#[derive(Default)]
struct State {
    words: Vec<Word>,
    /// When the pending request was sent.
    asked: Option<Instant>,
    is_over: bool,
    /// Why the session has ended, if it has.
    lost: Option<String>,
}

impl State {
    fn check(&self) -> Result<()> {
        match &self.lost {
            Some(why) => Err(Error::Lost(format!("the membership store is gone: {why}"))),
            None => Ok(()),
        }
    }
}

/// Publishes keys without waiting.
pub struct Publisher {
    shared: Arc<(Mutex<State>, Condvar)>,
    line: Arc<Member>,
}

impl Publisher {
    /// Starts the thread; it owns the session.
    pub fn start(line: Member) -> Result<Publisher> {
        let (shared, line) = (Arc::new((Mutex::new(State::default()), Condvar::new())), Arc::new(line));
        let (inside, speaks) = (shared.clone(), line.clone());
        let spawned = std::thread::Builder::new().name("publisher".into()).spawn(move || speak(&inside, &speaks));
        spawned.map_err(Error::io("starting a thread that publishes keys"))?;
        Ok(Publisher { shared, line })
    }
    /// Sets a key soon.
    pub fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.say(key, value, false)
    }
    /// Sets a key with this session's lease, soon.
    pub fn lease(&self, key: &str, value: &[u8]) -> Result<()> {
        self.say(key, value, true)
    }
    fn say(&self, key: &str, value: &[u8], is_leased: bool) -> Result<()> {
        let (lock, bell) = &*self.shared;
        let mut state = lock.lock();
        state.check()?;
        let at = state.words.iter().position(|w| w.key == key).unwrap_or_else(|| {
            state.words.push(Word { key: key.to_string(), value: Vec::new(), is_leased, is_new: false });
            state.words.len() - 1
        });
        let word = &mut state.words[at];
        (word.is_leased, word.is_new) = (is_leased, true);
        word.value.clear();
        word.value.extend_from_slice(value);
        bell.notify_all();
        Ok(())
    }
    /// Waits until everything that was said is published: for as long as the store is paused.
    pub fn flush(&self) -> Result<()> {
        let (lock, bell) = &*self.shared;
        let mut state = lock.lock();
        while state.asked.is_some() || state.words.iter().any(|w| w.is_new) {
            state.check()?;
            bell.wait(&mut state);
        }
        state.check()
    }
    /// How long the pending request has waited.
    pub fn waits(&self) -> Duration {
        self.shared.0.lock().asked.map_or(Duration::ZERO, |at| at.elapsed())
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.shared.0.lock().is_over = true;
        self.shared.1.notify_all();
        self.line.close();
    }
}

fn speak((lock, bell): &(Mutex<State>, Condvar), line: &Member) {
    let (mut key, mut value) = (String::new(), Vec::new());
    loop {
        let mut state = lock.lock();
        state.asked = None;
        bell.notify_all();
        let is_leased = loop {
            if state.is_over {
                return;
            }
            if let Some(word) = state.words.iter_mut().find(|w| w.is_new) {
                word.is_new = false;
                key.clone_from(&word.key);
                value.clone_from(&word.value);
                break word.is_leased;
            }
            bell.wait(&mut state);
        };
        state.asked = Some(Instant::now());
        drop(state);
        let deadline = Instant::now() + FOREVER;
        let done = if is_leased { line.lease(&key, &value, deadline) } else { line.set(&key, &value, deadline) };
        if let Err(e) = done {
            lock.lock().lost = Some(e.to_string());
            bell.notify_all();
            return;
        }
    }
}
