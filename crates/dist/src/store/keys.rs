//! The key cache: a list of rows goes over a link once and is named by its hash after that.
//!
//! A worker that reads and writes the same rows step after step (a batch it has seen before, the
//! features of its part of the data) sends eight bytes in the place of the list. Messages of a link
//! arrive in order, so both ends remember the same lists, and forget the oldest at the same message;
//! a new link begins with none.

use crate::kinds::store::{PULL, PUSH};
use crate::store::message::Rows;
use crate::store::wire::Parts;
use crate::{Error, Result, pool};
use net::Header;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Of a message's flags: the list is to be remembered under the hash that follows it,
const NEW: u16 = 0x4000;
/// or the hash stands for the list.
const KNOWN: u16 = 0x8000;
/// Shorter lists are not worth it.
const ROWS_MIN: usize = 16;
/// Lists remembered at most, and rows of all of them together.
const LISTS_MAX: usize = 64;
const ROWS_MAX: usize = 1 << 22;

/// Lists by their hash, the oldest first.
struct Lists<T> {
    order: VecDeque<(u64, usize)>,
    lists: HashMap<u64, T>,
    rows: usize,
}
impl<T> Default for Lists<T> {
    fn default() -> Lists<T> {
        Lists { order: VecDeque::new(), lists: HashMap::new(), rows: 0 }
    }
}
impl<T> Lists<T> {
    fn remember(&mut self, hash: u64, rows: usize, list: T) {
        if self.lists.insert(hash, list).is_some() {
            return;
        }
        self.order.push_back((hash, rows));
        self.rows += rows;
        while self.order.len() > LISTS_MAX || self.rows > ROWS_MAX {
            let Some((old, n)) = self.order.pop_front() else { break };
            self.lists.remove(&old);
            self.rows -= n;
        }
    }
}

/// Words of a message behind its list.
fn behind(kind: u8) -> Option<usize> {
    match kind {
        PUSH => Some(2),
        PULL => Some(0),
        _ => None,
    }
}

/// Lists of rows that the sending end of a link has sent.
#[derive(Default)]
pub(crate) struct SentLists(Lists<()>);

impl SentLists {
    /// Makes a message shorter if the other end knows its list of rows.
    pub fn shorten(&mut self, h: &mut Header, parts: &mut Parts) {
        let n = parts.rows.len();
        if behind(h.kind).is_none() || !(ROWS_MIN..=ROWS_MAX).contains(&n) {
            return;
        }
        let mut hasher = DefaultHasher::new();
        parts.rows.hash(&mut hasher);
        let hash = hasher.finish();
        if self.0.lists.contains_key(&hash) {
            h.flags |= KNOWN;
            parts.rows = Rows::default();
        } else {
            h.flags |= NEW;
            self.0.remember(hash, n, ());
        }
        parts.hash = Some([hash as u32, (hash >> 32) as u32]);
    }
}

/// What the receiving end of a link has heard.
#[derive(Default)]
pub(crate) struct KnownLists(Lists<Rows>);

impl KnownLists {
    /// The list of rows of a message that names one or says how it will be named; what stood for it
    /// is taken out of the payload.
    pub fn rows(&mut self, h: &mut Header, payload: &mut Arc<Vec<f32>>) -> Result<Option<Rows>> {
        let flags = h.flags & (NEW | KNOWN);
        let Some(behind) = behind(h.kind).filter(|_| flags != 0) else { return Ok(None) };
        h.flags &= !(NEW | KNOWN);
        let n = h.count as usize;
        let short = || Error::refused("a message with a list of rows is cut short");
        let at = payload.len().checked_sub(behind + 2).ok_or_else(short)?;
        let hash = u64::from(payload[at].to_bits()) | u64::from(payload[at + 1].to_bits()) << 32;
        let (start, rows) = if flags == NEW {
            let start = at.checked_sub(n).ok_or_else(short)?;
            if n > ROWS_MAX {
                return Err(Error::refused(format!("a list of {n} rows is too long to be remembered")));
            }
            let rows = Rows::of(payload[start..at].iter().map(|w| w.to_bits()));
            self.0.remember(hash, n, rows.clone());
            (start, rows)
        } else {
            let known = self.0.lists.get(&hash).filter(|l| l.len() == n).cloned();
            (at, known.ok_or_else(|| Error::refused(format!("an unknown hash of a list of {n} rows")))?)
        };
        pool::make_mut(payload).drain(start..at + 2);
        Ok(Some(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::message::{Envelope, Message, Update};

    fn message(rows: Vec<u32>, push: bool) -> Envelope {
        let data = Arc::new(vec![0.5; rows.len()]);
        let message = if push {
            let update = Update {
                table: 1,
                block: 2,
                rows: rows.into(),
                data,
                rate: 0.1,
                numbers: None,
                count: 7,
                filter: None,
            };
            Message::Push { life: 1, clock: 8, index: 2, last: true, update: Some(update) }
        } else {
            Message::Pull { clock: 8, request: 1, table: 1, block: 2, rows: rows.into() }
        };
        Envelope { partition: 3, epoch: 4, message }
    }
    /// Sends a message through both ends; returns how many bytes of payload it took.
    fn through(told: &mut SentLists, heard: &mut KnownLists, e: &Envelope) -> usize {
        let (mut h, mut parts) = e.encode(1);
        told.shorten(&mut h, &mut parts);
        let bytes = parts.slices().concat();
        let words: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect();
        let mut words = words.into();
        let rows = heard.rows(&mut h, &mut words).unwrap();
        assert_eq!(&Envelope::decode_with(&h, words, rows).unwrap(), e);
        bytes.len()
    }

    #[test]
    fn a_list_goes_over_the_link_once() {
        let (mut told, mut heard) = (SentLists::default(), KnownLists::default());
        let list = |i: u32| (0..100).map(|k| i * 1000 + k * 3).collect::<Vec<u32>>();
        let first = through(&mut told, &mut heard, &message(list(0), true));
        let again = through(&mut told, &mut heard, &message(list(0), true));
        assert_eq!(first - again, 400, "a hundred numbers");
        assert_eq!(through(&mut told, &mut heard, &message(list(0), false)), 8, "a read of the same rows");
        assert_eq!(through(&mut told, &mut heard, &message(vec![1, 2], false)), 8, "short lists go as they are");
        // Both ends forget the oldest at the same time.
        for i in 1..=LISTS_MAX as u32 {
            through(&mut told, &mut heard, &message(list(i), i % 2 == 0));
        }
        assert_eq!(through(&mut told, &mut heard, &message(list(0), false)), 408);
        assert_eq!(through(&mut told, &mut heard, &message(list(2), false)), 8);
        assert_eq!(heard.0.order, told.0.order);
    }

    #[test]
    fn names_that_nobody_has_told_are_refused() {
        let mut told = SentLists::default();
        let e = message((0..50).collect(), true);
        told.shorten(&mut e.encode(1).0, &mut e.encode(1).1);
        let (mut h, mut parts) = e.encode(1);
        told.shorten(&mut h, &mut parts);
        let words: Vec<f32> =
            parts.slices().concat().as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect();
        let mut heard = KnownLists::default();
        assert!(heard.rows(&mut h.clone(), &mut words.clone().into()).is_err(), "another link has heard it");
        for n in 0..words.len() {
            for flags in [NEW, KNOWN, NEW | KNOWN] {
                let mut h = Header { flags, ..h };
                let _ = heard.rows(&mut h, &mut words[..n].to_vec().into());
            }
        }
    }
}
