//! The membership store: a small key-value store with leases and watches. Operations are named as in
//! PyTorch's store.
//!
//! A state machine like the rest: it is given the time and what arrived, and says what to answer.
//! A key that hangs on a lease vanishes with it: when its owner's connection ends, or when the
//! owner has not been heard of for the lease's time.

use crate::kinds::membership::*;
use crate::{Error, Result};
use net::Header;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Number of a session.
pub type SessionId = u64;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// The value of a key, if there is one.
    Get(&'a str),
    /// The value of a key once its version is above the given one; versions count changes of the
    /// whole store, so 0 waits until the key exists.
    Wait(&'a str, u64),
    /// Sets a key.
    Set(&'a str, &'a [u8]),
    /// Sets a key that vanishes with the caller.
    Lease(&'a str, &'a [u8]),
    /// Adds to a number and returns the sum; a key that is not there counts as 0.
    Add(&'a str, i64),
    /// Sets a key if it has the expected value (none: if it does not exist); returns its value.
    CompareSet(&'a str, Option<&'a [u8]>, &'a [u8]),
    /// Removes a key.
    Delete(&'a str),
    /// The session is alive.
    Heartbeat,
}

/// A value with the number of the change that made it; no value if there is none.
pub type Reply = (u64, Option<Vec<u8>>);

struct Entry {
    key: Arc<str>,
    value: Vec<u8>,
    version: u64,
    owner: Option<SessionId>,
}

/// A change that the controller may react to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyEvent {
    /// A key has a new value.
    Set(Arc<str>),
    /// A key is gone.
    Gone(Arc<str>),
}

/// The state machine. Time is a duration since any fixed point.
#[derive(Default)]
pub struct Kv {
    entries: BTreeMap<Arc<str>, Entry>,
    version: u64,
    /// Pending waits: session, number of the request, key, and the version to exceed.
    waiting: Vec<(SessionId, u64, String, u64)>,
    heard: BTreeMap<SessionId, Duration>,
    changes: Vec<KeyEvent>,
}

/// Replies: to which session and request, and the value.
pub type Replies = SmallVec<[(SessionId, u64, Reply); 4]>;

/// Longest key and most keys; a store of a job is small.
const KEY_MAX: usize = 256;
const KEYS_MAX: usize = 100_000;

impl Kv {
    /// Takes a request and returns the replies that are due.
    pub fn handle(&mut self, now: Duration, from: SessionId, request: u64, ask: Request<'_>) -> Result<Replies> {
        self.heard.insert(from, now);
        let mut out = Replies::new();
        match ask {
            Request::Heartbeat => return Ok(out),
            Request::Get(key) => out.push((from, request, self.get(key))),
            Request::Wait(key, after) => self.wait(from, request, key, after, &mut out),
            Request::Set(key, value) => {
                self.set(key, value, None)?;
                out.push((from, request, (self.version, None)));
            }
            Request::Lease(key, value) => {
                self.set(key, value, Some(from))?;
                out.push((from, request, (self.version, None)));
            }
            Request::Add(key, n) => {
                let old = self.entries.get(key).and_then(|e| std::str::from_utf8(&e.value).ok()?.parse().ok());
                self.set(key, old.unwrap_or(0i64).wrapping_add(n).to_string().as_bytes(), None)?;
                out.push((from, request, self.get(key)));
            }
            Request::CompareSet(key, expected, value) => {
                if self.entries.get(key).map(|e| e.value.as_slice()) == expected {
                    self.set(key, value, None)?;
                }
                out.push((from, request, self.get(key)));
            }
            Request::Delete(key) => {
                self.remove(key);
                out.push((from, request, (self.version, None)));
            }
        }
        self.wake(&mut out);
        Ok(out)
    }
    /// Replies if the key is newer than that, or parks the request.
    fn wait(&mut self, from: SessionId, request: u64, key: &str, after: u64, out: &mut Replies) {
        let is_same = |w: &&mut (SessionId, u64, String, u64)| w.0 == from && w.2 == key;
        if self.entries.get(key).is_some_and(|e| e.version > after) {
            out.push((from, request, self.get(key)));
        } else if let Some(w) = self.waiting.iter_mut().find(is_same) {
            // A repeated wait replaces the last one.
            (w.1, w.3) = (request, after);
        } else {
            self.waiting.push((from, request, key.to_string(), after));
        }
    }
    /// The value of a key.
    pub fn get(&self, key: &str) -> Reply {
        self.entries.get(key).map_or((self.version, None), |e| (e.version, Some(e.value.clone())))
    }
    /// Keys that start with `prefix`, with their values.
    pub fn list(&self, prefix: &str) -> Vec<(&str, &[u8])> {
        let from = self.entries.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.take_while(|(k, _)| k.starts_with(prefix)).map(|(k, e)| (&**k, e.value.as_slice())).collect()
    }
    /// Sets a key on behalf of the coordinator; returns replies to pending waits.
    pub fn publish(&mut self, key: &str, value: &[u8]) -> Result<Replies> {
        self.set(key, value, None)?;
        let mut out = Replies::new();
        self.wake(&mut out);
        Ok(out)
    }
    /// A session has ended: its leases end with it.
    pub fn lost(&mut self, caller: SessionId) -> Replies {
        self.heard.remove(&caller);
        self.waiting.retain(|w| w.0 != caller);
        let keys: Vec<Arc<str>> =
            self.entries.values().filter(|e| e.owner == Some(caller)).map(|e| e.key.clone()).collect();
        keys.iter().for_each(|k| self.remove(k));
        assert!(self.waiting.iter().all(|w| w.0 != caller), "a lost session waits for nothing");
        let mut out = Replies::new();
        self.wake(&mut out);
        out
    }
    /// Sessions without a heartbeat for `silence`. If all of them are silent, the coordinator itself is cut
    /// off, and they have until `grace`.
    pub fn silent(&self, now: Duration, silence: Duration, grace: Duration) -> Vec<SessionId> {
        let is_silent = |at: &Duration, limit: Duration| now.saturating_sub(*at) > limit;
        let is_cut_off = self.heard.values().all(|at| is_silent(at, silence));
        let limit = if is_cut_off { grace.max(silence) } else { silence };
        self.heard.iter().filter(|(_, at)| is_silent(at, limit)).map(|(c, _)| *c).collect()
    }
    /// Renews every lease: it was the coordinator that was stopped.
    pub fn forgive(&mut self, now: Duration) {
        self.heard.values_mut().for_each(|at| *at = now);
    }
    /// The events since the last call.
    pub fn changes(&mut self) -> Vec<KeyEvent> {
        std::mem::take(&mut self.changes)
    }
    /// As [`Kv::changes`], in the place of what `into` holds, whose memory is used again.
    pub fn changes_into(&mut self, into: &mut Vec<KeyEvent>) {
        into.clear();
        std::mem::swap(&mut self.changes, into);
    }

    fn set(&mut self, key: &str, value: &[u8], owner: Option<SessionId>) -> Result<()> {
        if key.len() > KEY_MAX || (self.entries.len() >= KEYS_MAX && !self.entries.contains_key(key)) {
            return Err(Error::refused("too long a key, or too many"));
        }
        assert!(self.entries.len() <= KEYS_MAX, "a key was admitted beyond the limit");
        self.version += 1;
        let key = match self.entries.get_mut(key) {
            Some(e) => {
                (e.version, e.owner) = (self.version, owner);
                e.value.clear();
                e.value.extend_from_slice(value);
                e.key.clone()
            }
            None => {
                let key: Arc<str> = key.into();
                let e = Entry { key: key.clone(), value: value.to_vec(), version: self.version, owner };
                self.entries.insert(key.clone(), e);
                key
            }
        };
        self.changes.push(KeyEvent::Set(key));
        Ok(())
    }
    fn remove(&mut self, key: &str) {
        if let Some(e) = self.entries.remove(key) {
            self.version += 1;
            self.changes.push(KeyEvent::Gone(e.key));
        }
    }
    /// Replies to every session whose key has come.
    fn wake(&mut self, out: &mut Replies) {
        let entries = &self.entries;
        self.waiting.retain(|(caller, request, key, after)| {
            let found = entries.get(key.as_str()).filter(|e| e.version > *after);
            out.extend(found.map(|e| (*caller, *request, (e.version, Some(e.value.clone())))));
            found.is_none()
        });
    }
}

/// Of an answer or an expectation: there is a value.
const SOME: u16 = 2;

impl<'a> Request<'a> {
    /// Header and the parts of the payload. The key's length stands in `count`, a number in `clock`.
    pub fn encode(&self, request: u64) -> (Header, [&'a [u8]; 3]) {
        let mut h = Header { request, ..Header::default() };
        let none: &[u8] = &[];
        let (key, first, second) = match *self {
            Request::Get(k) => {
                h.kind = GET;
                (k, none, none)
            }
            Request::Wait(k, after) => {
                (h.kind, h.clock) = (WAIT, after);
                (k, none, none)
            }
            Request::Set(k, v) => {
                h.kind = SET;
                (k, v, none)
            }
            Request::Lease(k, v) => {
                h.kind = LEASE;
                (k, v, none)
            }
            Request::Add(k, n) => {
                (h.kind, h.clock) = (ADD, n as u64);
                (k, none, none)
            }
            Request::CompareSet(k, expected, v) => {
                h.kind = COMPARE_SET;
                if let Some(e) = expected {
                    (h.flags, h.key) = (SOME, e.len() as u64);
                }
                (k, expected.unwrap_or_default(), v)
            }
            Request::Delete(k) => {
                h.kind = DELETE;
                (k, none, none)
            }
            Request::Heartbeat => {
                h.kind = HEARTBEAT;
                ("", none, none)
            }
        };
        h.count = key.len() as u32;
        (h, [key.as_bytes(), first, second])
    }
    /// Reads a request.
    pub fn decode(h: &Header, payload: &'a [u8]) -> Result<Request<'a>> {
        let bad = || Error::refused("a request to the membership store is malformed");
        let (key, rest) = payload.split_at_checked(h.count as usize).ok_or_else(bad)?;
        let key = std::str::from_utf8(key).map_err(|_| bad())?;
        Ok(match h.kind {
            GET => Request::Get(key),
            WAIT => Request::Wait(key, h.clock),
            SET => Request::Set(key, rest),
            LEASE => Request::Lease(key, rest),
            ADD => Request::Add(key, h.clock as i64),
            COMPARE_SET => {
                let len = usize::try_from(h.key).map_err(|_| bad())?;
                let (expected, value) = rest.split_at_checked(len).ok_or_else(bad)?;
                Request::CompareSet(key, (h.flags & SOME != 0).then_some(expected), value)
            }
            DELETE => Request::Delete(key),
            HEARTBEAT => Request::Heartbeat,
            _ => return Err(bad()),
        })
    }
}

/// Header and payload of an answer.
pub(crate) fn encode_reply(request: u64, (version, value): &Reply) -> (Header, &[u8]) {
    let flags = if value.is_some() { SOME } else { 0 };
    (Header { request, clock: *version, flags, ..Header::new(REPLY) }, value.as_deref().unwrap_or_default())
}
/// Reads an answer.
pub(crate) fn decode_reply(h: &Header, payload: &[u8]) -> Reply {
    (h.clock, (h.flags & SOME != 0).then(|| payload.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(t: u64) -> Duration {
        Duration::from_secs(t)
    }

    #[test]
    fn keys_are_set_added_compared_and_waited_for() {
        let mut r = Kv::default();
        assert!(r.handle(s(0), 1, 7, Request::Wait("a", 0)).unwrap().is_empty());
        let answers = r.handle(s(0), 2, 1, Request::Set("a", b"x")).unwrap();
        assert_eq!(answers[1], (1, 7, (1, Some(b"x".to_vec()))));
        assert_eq!(r.handle(s(0), 2, 2, Request::Add("n", 5)).unwrap()[0].2.1, Some(b"5".to_vec()));
        assert_eq!(r.handle(s(0), 2, 3, Request::Add("n", -7)).unwrap()[0].2.1, Some(b"-2".to_vec()));
        let cas = |e: Option<&'static [u8]>, v: &'static [u8]| Request::CompareSet("a", e, v);
        assert_eq!(r.handle(s(0), 2, 4, cas(None, b"y")).unwrap()[0].2.1, Some(b"x".to_vec()));
        assert_eq!(r.handle(s(0), 2, 5, cas(Some(b"x"), b"y")).unwrap()[0].2.1, Some(b"y".to_vec()));
    }

    #[test]
    fn a_lease_ends_with_its_owner() {
        let mut r = Kv::default();
        r.handle(s(0), 1, 0, Request::Lease("worker/0", b"")).unwrap();
        r.handle(s(1), 2, 0, Request::Heartbeat).unwrap();
        assert_eq!(r.list("worker/").len(), 1);
        assert_eq!(r.silent(s(3), s(2), s(9)), [1]);
        r.forgive(s(3));
        assert!(r.silent(s(3), s(2), s(9)).is_empty());
        r.changes();
        r.lost(1);
        assert_eq!(r.changes(), [KeyEvent::Gone("worker/0".into())]);
        assert!(r.list("worker/").is_empty());
    }

    #[test]
    fn silence_of_everybody_at_once_is_the_keepers_own() {
        let mut r = Kv::default();
        for caller in 1..4 {
            r.handle(s(caller), caller, 0, Request::Heartbeat).unwrap();
        }
        assert_eq!(r.silent(s(4), s(2), s(10)), [1], "the others were heard");
        assert!(r.silent(s(6), s(2), s(10)).is_empty(), "none was");
        r.handle(s(7), 2, 0, Request::Heartbeat).unwrap();
        assert_eq!(r.silent(s(7), s(2), s(10)), [1, 3], "one is back: the others hang");
        assert_eq!(r.silent(s(18), s(2), s(10)), [1, 2, 3], "not for ever");
    }

    #[test]
    fn requests_read_back() {
        let asks = [
            Request::Get("k"),
            Request::Wait("k", 9),
            Request::Set("k", b"v"),
            Request::Lease("k", b""),
            Request::Add("k", -3),
            Request::CompareSet("k", None, b"v"),
            Request::CompareSet("k", Some(b"old"), b"v"),
            Request::Delete("k"),
            Request::Heartbeat,
        ];
        for ask in asks {
            let (h, parts) = ask.encode(3);
            assert_eq!(Request::decode(&h, &parts.concat()).unwrap(), ask);
        }
        assert!(Request::decode(&Header { count: 9, ..Header::new(GET) }, b"short").is_err());
        assert!(Request::decode(&Header::new(1), b"").is_err());
    }
}
