//! Sums that go on while the caller computes: a separate thread reduces a bucket of values while
//! the caller still makes the next one.
//!
//! Every rank must submit the same buckets of the same lengths. They may be submitted in any order, as a
//! graph happens to make them: they are reduced in the order of their numbers, and so by every rank
//! in the same. How values are cut into buckets changes no bit: each element is summed by itself.

use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A reduction in the background, bucket by bucket.
pub struct Overlap {
    /// Closed when this is dropped, which ends the thread.
    buckets: Option<Sender<(usize, Vec<f32>)>>,
    done: Receiver<Result<Vec<f32>>>,
    thread: Option<JoinHandle<()>>,
    /// Buckets that wait for those before them.
    early: BTreeMap<usize, Vec<f32>>,
    /// Results that were not taken yet.
    results: BTreeMap<usize, Result<Vec<f32>>>,
    /// Buckets of this round that were sent, have come back and were taken.
    sent: usize,
    back: usize,
    taken: usize,
    /// Buckets that are used again.
    spare: Vec<Vec<f32>>,
}

impl Overlap {
    /// Reduces buckets with `reduce`, which is told their numbers: a group's all-reduce, or a
    /// [`crate::Reducer`]'s mean.
    ///
    /// ```
    /// # use talweg_dist::Overlap;
    /// let mut sums = Overlap::new(|_, bucket| Ok(bucket.iter_mut().for_each(|x| *x *= 2.0)))?;
    /// sums.begin(1, 2, [&[3.0][..]])?;
    /// sums.begin(0, 2, [&[1.0][..], &[2.0]])?;
    /// assert_eq!(sums.end(0, 2, <[f32]>::to_vec)?, [2.0, 4.0]);
    /// assert_eq!(sums.end(1, 2, <[f32]>::to_vec)?, [6.0]);
    /// # Ok::<(), talweg_dist::Error>(())
    /// ```
    pub fn new(mut reduce: impl FnMut(usize, &mut [f32]) -> Result<()> + Send + 'static) -> Result<Overlap> {
        let (buckets, jobs) = channel::<(usize, Vec<f32>)>();
        let (answers, done) = channel();
        let body = move || {
            for (number, mut bucket) in jobs {
                let reduced = reduce(number, &mut bucket).map(|()| bucket);
                if answers.send(reduced).is_err() {
                    break;
                }
            }
        };
        let started = std::thread::Builder::new().name("reduce".to_string()).spawn(body);
        let thread = Some(started.map_err(Error::io("starting a thread"))?);
        let (early, results, spare) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Ok(Overlap { buckets: Some(buckets), done, thread, early, results, sent: 0, back: 0, taken: 0, spare })
    }
    /// Begins to reduce bucket number `bucket` of a round of this many, made of these parts, as soon
    /// as it is its turn.
    pub fn begin<'a>(&mut self, bucket: usize, of: usize, parts: impl IntoIterator<Item = &'a [f32]>) -> Result<()> {
        if bucket >= of || bucket < self.sent || self.early.contains_key(&bucket) {
            let e = format!("bucket {bucket} of {of} was begun already: the step before was left half way");
            return Err(Error::value(e));
        }
        let mut values = self.spare.pop().unwrap_or_default();
        values.clear();
        parts.into_iter().for_each(|p| values.extend_from_slice(p));
        self.early.insert(bucket, values);
        while let Some(values) = self.early.remove(&self.sent) {
            let is_sent = self.buckets.as_ref().is_some_and(|b| b.send((self.sent, values)).is_ok());
            if !is_sent {
                return Err(Error::value("the reducing thread has ended"));
            }
            self.sent += 1;
        }
        Ok(())
    }
    /// Waits for a bucket that was begun and hands its result to `take`; when the last of the round
    /// is taken, the next round may begin.
    pub fn end<T>(&mut self, bucket: usize, of: usize, take: impl FnOnce(&[f32]) -> T) -> Result<T> {
        while !self.results.contains_key(&bucket) {
            if bucket >= self.sent || bucket < self.back {
                return Err(Error::value(format!("bucket {bucket} of {of} has not begun, or was taken already")));
            }
            let result = self.done.recv().map_err(|_| Error::value("the reducing thread has ended"))?;
            self.results.insert(self.back, result);
            self.back += 1;
        }
        let result = self.results.remove(&bucket).unwrap_or_else(|| Err(Error::value("a bucket came without result")));
        self.taken += 1;
        if self.taken == of {
            (self.sent, self.back, self.taken) = (0, 0, 0);
        }
        let values = result?;
        let out = take(&values);
        self.spare.push(values);
        Ok(out)
    }
}
impl Drop for Overlap {
    fn drop(&mut self) {
        self.buckets = None;
        if let Some(thread) = self.thread.take() {
            // What it panicked with was shown already.
            let _ = thread.join();
        }
    }
}
