//! The membership store: a few keys that everybody sees, with leases. One process keeps it (the
//! launcher); the names are those of PyTorch's store.
//!
//! A state machine like the rest: it is given the time and what arrived, and says what to answer.
//! A key that hangs on a lease vanishes with it: when its owner's connection ends, or when the
//! owner has not been heard of for the lease's time.

use crate::{Error, Result};
use net::Header;
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of a connection.
pub type Caller = u64;

/// What a caller may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The value of a key, if there is one.
    Get(String),
    /// The value of a key once its version is above the given one; versions count changes of the
    /// whole store, so 0 waits until the key exists.
    Wait(String, u64),
    /// Sets a key.
    Set(String, Vec<u8>),
    /// Sets a key that vanishes with the caller.
    Lease(String, Vec<u8>),
    /// Adds to a number and answers the sum; a key that is not there counts as 0.
    Add(String, i64),
    /// Sets a key if it has the expected value (none: if it does not exist); answers its value.
    CompareSet(String, Option<Vec<u8>>, Vec<u8>),
    /// Removes a key.
    Delete(String),
    /// The caller is alive.
    Beat,
}

/// A value with the number of the change that made it; no value if there is none.
pub type Answer = (u64, Option<Vec<u8>>);

struct Entry {
    value: Vec<u8>,
    version: u64,
    owner: Option<Caller>,
}

/// A change that the keeper may want to react to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key has a new value.
    Set(String),
    /// A key is gone.
    Gone(String),
}

/// The state machine. Time is a duration since any fixed point.
#[derive(Default)]
pub struct Registry {
    entries: BTreeMap<String, Entry>,
    version: u64,
    waiting: Vec<(Caller, u64, String, u64)>,
    heard: BTreeMap<Caller, Duration>,
    changes: Vec<Change>,
}

/// Answers: to whom, to which request, what.
pub type Answers = Vec<(Caller, u64, Answer)>;

/// Longest key and most keys; a store of a job is small.
const KEY_MAX: usize = 256;
const KEYS_MAX: usize = 100_000;

impl Registry {
    /// Takes a request and answers what can be answered now.
    pub fn handle(&mut self, now: Duration, from: Caller, request: u64, ask: Ask) -> Result<Answers> {
        self.heard.insert(from, now);
        let mut out = Vec::new();
        match ask {
            Ask::Beat => {}
            Ask::Get(key) => out.push((from, request, self.get(&key))),
            Ask::Wait(key, after) => {
                let found = self.get(&key);
                if found.1.is_some() && found.0 > after {
                    out.push((from, request, found));
                } else {
                    // Whoever asks again has given the last question up.
                    self.waiting.retain(|w| (w.0, &w.2) != (from, &key));
                    self.waiting.push((from, request, key, after));
                }
            }
            Ask::Set(key, value) => {
                self.set(&key, value, None)?;
                out.push((from, request, (self.version, None)));
            }
            Ask::Lease(key, value) => {
                self.set(&key, value, Some(from))?;
                out.push((from, request, (self.version, None)));
            }
            Ask::Add(key, n) => {
                let old = self.get(&key).1.unwrap_or_else(|| b"0".to_vec());
                let old: i64 = std::str::from_utf8(&old).ok().and_then(|s| s.parse().ok()).unwrap_or(0);
                self.set(&key, old.wrapping_add(n).to_string().into_bytes(), None)?;
                out.push((from, request, self.get(&key)));
            }
            Ask::CompareSet(key, expected, value) => {
                if self.get(&key).1 == expected {
                    self.set(&key, value, None)?;
                }
                out.push((from, request, self.get(&key)));
            }
            Ask::Delete(key) => {
                self.remove(&key);
                out.push((from, request, (self.version, None)));
            }
        }
        out.extend(self.wake());
        Ok(out)
    }
    /// The value of a key.
    pub fn get(&self, key: &str) -> Answer {
        self.entries.get(key).map_or((self.version, None), |e| (e.version, Some(e.value.clone())))
    }
    /// Keys that start with `prefix`, with their values.
    pub fn list(&self, prefix: &str) -> Vec<(&str, &[u8])> {
        let from = self.entries.range(prefix.to_string()..);
        from.take_while(|(k, _)| k.starts_with(prefix)).map(|(k, e)| (k.as_str(), e.value.as_slice())).collect()
    }
    /// Sets a key, as the keeper itself; answers who was waiting for it.
    pub fn publish(&mut self, key: &str, value: Vec<u8>) -> Result<Answers> {
        self.set(key, value, None)?;
        Ok(self.wake())
    }
    /// A connection has ended: its leases end with it.
    pub fn lost(&mut self, caller: Caller) -> Answers {
        self.heard.remove(&caller);
        self.waiting.retain(|w| w.0 != caller);
        let keys: Vec<String> =
            self.entries.iter().filter(|(_, e)| e.owner == Some(caller)).map(|(k, _)| k.clone()).collect();
        keys.iter().for_each(|k| self.remove(k));
        self.wake()
    }
    /// Callers not heard of for `silence`: they hang, or their machine does.
    pub fn silent(&self, now: Duration, silence: Duration) -> Vec<Caller> {
        self.heard.iter().filter(|(_, at)| now.saturating_sub(**at) > silence).map(|(c, _)| *c).collect()
    }
    /// Everybody counts as heard of now: it was the keeper that was away.
    pub fn forgive(&mut self, now: Duration) {
        self.heard.values_mut().for_each(|at| *at = now);
    }
    /// What has changed since the last question.
    pub fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    fn set(&mut self, key: &str, value: Vec<u8>, owner: Option<Caller>) -> Result<()> {
        let is_new = !self.entries.contains_key(key);
        if key.len() > KEY_MAX || (is_new && self.entries.len() >= KEYS_MAX) {
            return Err(Error::refused("too long a key, or too many"));
        }
        self.version += 1;
        self.entries.insert(key.to_string(), Entry { value, version: self.version, owner });
        self.changes.push(Change::Set(key.to_string()));
        Ok(())
    }
    fn remove(&mut self, key: &str) {
        if self.entries.remove(key).is_some() {
            self.version += 1;
            self.changes.push(Change::Gone(key.to_string()));
        }
    }
    /// Answers everybody whose key has come.
    fn wake(&mut self) -> Answers {
        let mut out = Vec::new();
        let waiting = std::mem::take(&mut self.waiting);
        for (caller, request, key, after) in waiting {
            match self.get(&key) {
                (version, Some(value)) if version > after => out.push((caller, request, (version, Some(value)))),
                _ => self.waiting.push((caller, request, key, after)),
            }
        }
        out
    }
}

const GET: u8 = 80;
const WAIT: u8 = 81;
const SET: u8 = 82;
const LEASE: u8 = 83;
const ADD: u8 = 84;
const COMPARE_SET: u8 = 85;
const DELETE: u8 = 86;
const BEAT: u8 = 87;
/// Kind of an answer.
pub(crate) const ANSWER: u8 = 88;
/// Of an answer or an expectation: there is a value.
const SOME: u16 = 2;

impl Ask {
    /// Header and payload. The key's length stands in `count`, a number in `clock`.
    pub fn encode(&self, request: u64) -> (Header, Vec<u8>) {
        let mut h = Header { request, ..Header::default() };
        let mut payload = Vec::new();
        let mut key = |k: &str| {
            payload.extend_from_slice(k.as_bytes());
            k.len() as u32
        };
        match self {
            Ask::Get(k) => (h.kind, h.count) = (GET, key(k)),
            Ask::Wait(k, after) => (h.kind, h.count, h.clock) = (WAIT, key(k), *after),
            Ask::Set(k, v) => {
                (h.kind, h.count) = (SET, key(k));
                payload.extend_from_slice(v);
            }
            Ask::Lease(k, v) => {
                (h.kind, h.count) = (LEASE, key(k));
                payload.extend_from_slice(v);
            }
            Ask::Add(k, n) => (h.kind, h.count, h.clock) = (ADD, key(k), *n as u64),
            Ask::CompareSet(k, expected, v) => {
                (h.kind, h.count) = (COMPARE_SET, key(k));
                if let Some(e) = expected {
                    (h.flags, h.key) = (SOME, e.len() as u64);
                    payload.extend_from_slice(e);
                }
                payload.extend_from_slice(v);
            }
            Ask::Delete(k) => (h.kind, h.count) = (DELETE, key(k)),
            Ask::Beat => h.kind = BEAT,
        }
        (h, payload)
    }
    /// Reads a request.
    pub fn decode(h: &Header, payload: &[u8]) -> Result<Ask> {
        let bad = || Error::refused("a request to the membership store is malformed");
        let (key, rest) = payload.split_at_checked(h.count as usize).ok_or_else(bad)?;
        let key = std::str::from_utf8(key).map_err(|_| bad())?.to_string();
        Ok(match h.kind {
            GET => Ask::Get(key),
            WAIT => Ask::Wait(key, h.clock),
            SET => Ask::Set(key, rest.to_vec()),
            LEASE => Ask::Lease(key, rest.to_vec()),
            ADD => Ask::Add(key, h.clock as i64),
            COMPARE_SET => {
                let len = usize::try_from(h.key).map_err(|_| bad())?;
                let (expected, value) = rest.split_at_checked(len).ok_or_else(bad)?;
                Ask::CompareSet(key, (h.flags & SOME != 0).then(|| expected.to_vec()), value.to_vec())
            }
            DELETE => Ask::Delete(key),
            BEAT => Ask::Beat,
            _ => return Err(bad()),
        })
    }
}

/// Header and payload of an answer.
pub(crate) fn encode_answer(request: u64, (version, value): &Answer) -> (Header, Vec<u8>) {
    let flags = if value.is_some() { SOME } else { 0 };
    (Header { request, clock: *version, flags, ..Header::new(ANSWER) }, value.clone().unwrap_or_default())
}
/// Reads an answer.
pub(crate) fn decode_answer(h: &Header, payload: Vec<u8>) -> Answer {
    (h.clock, (h.flags & SOME != 0).then_some(payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(t: u64) -> Duration {
        Duration::from_secs(t)
    }

    #[test]
    fn keys_are_set_added_compared_and_waited_for() {
        let mut r = Registry::default();
        assert!(r.handle(s(0), 1, 7, Ask::Wait("a".into(), 0)).unwrap().is_empty());
        let answers = r.handle(s(0), 2, 1, Ask::Set("a".into(), b"x".to_vec())).unwrap();
        assert_eq!(answers[1], (1, 7, (1, Some(b"x".to_vec()))));
        assert_eq!(r.handle(s(0), 2, 2, Ask::Add("n".into(), 5)).unwrap()[0].2.1, Some(b"5".to_vec()));
        assert_eq!(r.handle(s(0), 2, 3, Ask::Add("n".into(), -7)).unwrap()[0].2.1, Some(b"-2".to_vec()));
        let cas = |e: Option<&[u8]>, v: &[u8]| Ask::CompareSet("a".into(), e.map(<[u8]>::to_vec), v.to_vec());
        assert_eq!(r.handle(s(0), 2, 4, cas(None, b"y")).unwrap()[0].2.1, Some(b"x".to_vec()));
        assert_eq!(r.handle(s(0), 2, 5, cas(Some(b"x"), b"y")).unwrap()[0].2.1, Some(b"y".to_vec()));
    }

    #[test]
    fn a_lease_ends_with_its_owner() {
        let mut r = Registry::default();
        r.handle(s(0), 1, 0, Ask::Lease("worker/0".into(), vec![])).unwrap();
        r.handle(s(1), 2, 0, Ask::Beat).unwrap();
        assert_eq!(r.list("worker/").len(), 1);
        assert_eq!(r.silent(s(3), s(2)), [1]);
        r.forgive(s(3));
        assert!(r.silent(s(3), s(2)).is_empty());
        r.changes();
        r.lost(1);
        assert_eq!(r.changes(), [Change::Gone("worker/0".into())]);
        assert!(r.list("worker/").is_empty());
    }

    #[test]
    fn requests_read_back() {
        let asks = [
            Ask::Get("k".into()),
            Ask::Wait("k".into(), 9),
            Ask::Set("k".into(), b"v".to_vec()),
            Ask::Lease("k".into(), vec![]),
            Ask::Add("k".into(), -3),
            Ask::CompareSet("k".into(), None, b"v".to_vec()),
            Ask::CompareSet("k".into(), Some(b"old".to_vec()), b"v".to_vec()),
            Ask::Delete("k".into()),
            Ask::Beat,
        ];
        for ask in asks {
            let (h, payload) = ask.encode(3);
            assert_eq!(Ask::decode(&h, &payload).unwrap(), ask);
        }
        assert!(Ask::decode(&Header { count: 9, ..Header::new(GET) }, b"short").is_err());
        assert!(Ask::decode(&Header::new(1), b"").is_err());
    }
}
