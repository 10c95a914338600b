//! The response cache: answers by the content of requests. A model is a function of its inputs, so an answer stays true
//! as long as its version is served.

use crate::answer::Answer;
use crate::input::Input;
use crate::served::Served;
use ir::Literal;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

type Key = [u8; 32];

#[derive(Default)]
struct Held {
    /// The answer, when it was last used, and its bytes.
    answers: HashMap<Key, (Answer, u64, usize)>,
    by_use: BTreeMap<u64, Key>,
    bytes: usize,
    clock: u64,
}

/// Answers by the content of requests; those not used for the longest go first.
pub struct Cache {
    bytes_max: usize,
    held: Mutex<Held>,
}

/// The key of a request to a model.
pub fn key(served: &Served, inputs: &[Input]) -> Key {
    let mut h = Sha256::new();
    h.update(served.id.to_le_bytes());
    for l in inputs {
        h.update(l.dtype().name());
        h.update((l.shape().rank() as u64).to_le_bytes());
        l.shape().iter().for_each(|d| h.update((*d as u64).to_le_bytes()));
        l.slices().for_each(|p| h.update(p));
    }
    h.finalize().into()
}

impl Cache {
    /// A cache of so many bytes; 0: none.
    pub fn new(bytes_max: usize) -> Cache {
        Cache { bytes_max, held: Mutex::default() }
    }
    /// Whether it keeps anything.
    pub fn is_on(&self) -> bool {
        self.bytes_max > 0
    }
    /// The answer to a request that was answered before.
    pub fn get(&self, key: &Key) -> Option<Answer> {
        let mut held = self.held.lock();
        held.clock += 1;
        let now = held.clock;
        let (answer, used, _) = held.answers.get_mut(key)?;
        let (answer, before) = (answer.clone(), std::mem::replace(used, now));
        held.by_use.remove(&before);
        held.by_use.insert(now, *key);
        Some(answer)
    }
    /// Keeps an answer.
    pub fn put(&self, key: Key, answer: &Answer) {
        let own = |(i, l): (usize, &Literal)| {
            let (shape, bytes) = answer.output(i);
            Literal::from_bytes(l.dtype(), shape, bytes)
        };
        let Ok(outputs) = answer.outputs.iter().enumerate().map(own).collect::<ir::Result<Vec<Literal>>>() else {
            return;
        };
        let bytes = outputs.iter().map(|l| l.bytes().len() + 256).sum::<usize>();
        if bytes > self.bytes_max {
            return;
        }
        let padded = answer.padded.clone();
        let answer = Answer { padded, ..Answer::new(Arc::new(outputs), None, answer.batch_size, 0) };
        let held = &mut *self.held.lock();
        held.clock += 1;
        if let Some((_, used, old)) = held.answers.insert(key, (answer, held.clock, bytes)) {
            held.by_use.remove(&used);
            held.bytes -= old;
        }
        held.by_use.insert(held.clock, key);
        held.bytes += bytes;
        while held.bytes > self.bytes_max {
            let Some((_, oldest)) = held.by_use.pop_first() else { break };
            held.bytes -= held.answers.remove(&oldest).map_or(0, |(_, _, b)| b);
        }
    }
}
