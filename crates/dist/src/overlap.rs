//! Sums that go on while the caller computes: values are gathered into buckets, and a bucket that
//! is full is reduced by a thread of its own while the next one fills.
//!
//! Everybody must add the same numbers of values in the same order, as with any collective. How
//! they are cut into buckets changes no bit: each element is summed by itself.

use crate::{Error, Result};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A reduction in the background.
pub struct Overlap {
    /// Closed when this is dropped, which ends the thread.
    buckets: Option<Sender<Vec<f32>>>,
    done: Receiver<Result<Vec<f32>>>,
    thread: Option<JoinHandle<()>>,
    filling: Vec<f32>,
    len_max: usize,
    under_way: usize,
    added: usize,
    /// Buckets that are used again.
    spare: Vec<Vec<f32>>,
}

impl Overlap {
    /// Reduces buckets of about `bytes` bytes with `reduce`: a group's all-reduce, or a
    /// [`crate::Reducer`]'s mean.
    ///
    /// ```
    /// # use talweg_dist::Overlap;
    /// let mut sums = Overlap::new(1 << 20, |bucket| Ok(bucket.iter_mut().for_each(|x| *x *= 2.0)))?;
    /// sums.add(&[1.0, 2.0])?;
    /// sums.add(&[3.0])?;
    /// let mut out = [0.0; 3];
    /// sums.finish(&mut out)?;
    /// assert_eq!(out, [2.0, 4.0, 6.0]);
    /// # Ok::<(), talweg_dist::Error>(())
    /// ```
    pub fn new(bytes: usize, mut reduce: impl FnMut(&mut [f32]) -> Result<()> + Send + 'static) -> Result<Overlap> {
        let (buckets, jobs) = channel::<Vec<f32>>();
        let (answers, done) = channel();
        let body = move || {
            for mut bucket in jobs {
                let reduced = reduce(&mut bucket).map(|()| bucket);
                if answers.send(reduced).is_err() {
                    break;
                }
            }
        };
        let started = std::thread::Builder::new().name("reduce".to_string()).spawn(body);
        let thread = Some(started.map_err(Error::io("starting a thread"))?);
        let (filling, spare) = (Vec::new(), Vec::new());
        let len_max = (bytes / 4).max(1);
        Ok(Overlap { buckets: Some(buckets), done, thread, filling, len_max, under_way: 0, added: 0, spare })
    }
    /// Adds values; whenever a bucket is full, its reduction begins.
    pub fn add(&mut self, mut values: &[f32]) -> Result<()> {
        self.added += values.len();
        while !values.is_empty() {
            let (now, later) = values.split_at(values.len().min(self.len_max - self.filling.len()));
            self.filling.extend_from_slice(now);
            values = later;
            if self.filling.len() == self.len_max {
                self.begin()?;
            }
        }
        Ok(())
    }
    fn begin(&mut self) -> Result<()> {
        let bucket = std::mem::replace(&mut self.filling, self.spare.pop().unwrap_or_default());
        let sent = self.buckets.as_ref().is_some_and(|b| b.send(bucket).is_ok());
        if !sent {
            return Err(Error::value("the reducing thread has ended"));
        }
        self.under_way += 1;
        Ok(())
    }
    /// Waits for everything that was added since the last time, and writes the results in order.
    /// After an error nothing is under way any more, and what came before it counts for nothing.
    pub fn finish(&mut self, into: &mut [f32]) -> Result<()> {
        if !self.filling.is_empty() {
            self.begin()?;
        }
        let (mut at, mut failed) = (0, None);
        let added = std::mem::take(&mut self.added);
        let fits = added == into.len();
        for _ in 0..std::mem::take(&mut self.under_way) {
            match self.done.recv().map_err(|_| Error::value("the reducing thread has ended")).and_then(|r| r) {
                Ok(mut bucket) => {
                    if let Some(place) = into.get_mut(at..at + bucket.len()).filter(|_| fits) {
                        place.copy_from_slice(&bucket);
                    }
                    at += bucket.len();
                    bucket.clear();
                    self.spare.push(bucket);
                }
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        match failed {
            Some(e) => Err(e),
            None if !fits => Err(Error::value(format!("{added} values were added, not {}", into.len()))),
            None => Ok(()),
        }
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
