//! The threads behind a [`Loader`](crate::Loader): they take batch numbers in
//! order, prepare them in any order, and hand them over in order.
//!
//! Bound: at most `prefetch` batches are ready or in preparation. Dropping the
//! pool stops the threads after the sample each is reading.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use crate::collate::Batch;
use crate::error::{Error, Result};
use crate::loader::{Order, Source};

/// Worker threads and the queue between them and the loader.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    source: Arc<Source>,
    prefetch: usize,
    queue: Mutex<Queue>,
    /// There may be a batch to prepare, or it is time to stop.
    work: Condvar,
    /// A batch became ready.
    ready: Condvar,
    /// Counts jobs (an epoch or part of one); work for an older job is void.
    /// Also in an atomic so that workers can look between samples.
    job: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    stop: bool,
    /// The order of the job, if there is one.
    order: Option<Arc<Order>>,
    /// The batch the loader takes next; `slots[0]` is for it.
    head: u64,
    /// The batch a worker takes next.
    next: u64,
    /// One past the last batch of the job.
    end: u64,
    /// Batches `head..next`, once they are ready.
    slots: VecDeque<Option<Result<Batch>>>,
}

impl Pool {
    pub(crate) fn start(source: &Arc<Source>, workers: usize, prefetch: usize) -> Result<Pool> {
        let shared = Arc::new(Shared {
            source: Arc::clone(source),
            prefetch,
            queue: Mutex::default(),
            work: Condvar::new(),
            ready: Condvar::new(),
            job: AtomicU64::new(0),
        });
        let mut pool = Pool { shared, threads: Vec::with_capacity(workers) };
        for worker in 0..workers {
            let shared = Arc::clone(&pool.shared);
            let thread = std::thread::Builder::new()
                .name(format!("loader-{worker}"))
                .spawn(move || shared.work())
                .map_err(|error| Error::mismatch(format!("cannot start a worker: {error}")))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Sets the workers to batches `first..end` of an order.
    pub(crate) fn begin(&self, order: Arc<Order>, first: u64, end: u64) {
        let mut queue = self.shared.queue.lock();
        self.shared.job.fetch_add(1, Ordering::Relaxed);
        *queue = Queue { order: Some(order), head: first, next: first, end, ..Queue::default() };
        self.shared.work.notify_all();
    }

    /// Forgets the present job.
    pub(crate) fn idle(&self) {
        let mut queue = self.shared.queue.lock();
        self.shared.job.fetch_add(1, Ordering::Relaxed);
        *queue = Queue::default();
    }

    /// The next batch, in order; waits until it is ready.
    pub(crate) fn take(&self) -> Result<Batch> {
        let mut queue = self.shared.queue.lock();
        assert!(queue.head < queue.end, "no batch was left to take");
        loop {
            if matches!(queue.slots.front(), Some(Some(_)))
                && let Some(Some(batch)) = queue.slots.pop_front()
            {
                queue.head += 1;
                self.shared.work.notify_one();
                return batch;
            }
            self.shared.ready.wait(&mut queue);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.queue.lock().stop = true;
        self.shared.job.fetch_add(1, Ordering::Relaxed);
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // Workers catch panics of user code; a panic of theirs has been
            // printed already and a destructor can do no more about it.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The life of one worker.
    fn work(&self) {
        let mut queue = self.queue.lock();
        while !queue.stop {
            let ahead = queue.next - queue.head;
            let order = match &queue.order {
                Some(order) if queue.next < queue.end && ahead < self.prefetch as u64 => Arc::clone(order),
                _ => {
                    self.work.wait(&mut queue);
                    continue;
                }
            };
            let batch = queue.next;
            queue.next += 1;
            queue.slots.push_back(None);
            let job = self.job.load(Ordering::Relaxed);
            drop(queue);

            let cancelled = || self.job.load(Ordering::Relaxed) != job;
            let result = self.source.assemble(&order, batch, &cancelled);

            queue = self.queue.lock();
            // `job` changes under the lock (but for the stop, when no thread
            // takes batches any more), so an equal number means that the slot
            // is still ours.
            if self.job.load(Ordering::Relaxed) == job {
                let slot = (batch - queue.head) as usize;
                queue.slots[slot] = Some(result);
                self.ready.notify_one();
            }
        }
    }
}
