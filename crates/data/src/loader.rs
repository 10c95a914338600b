//! `Loader`: batches of a data set, in an order that is a pure function of the
//! seed, the epoch and the batch number.
//!
//! Because of that, the whole state is a [`Position`] of a few numbers. Workers
//! and prefetching change when a batch is made, never what is in it; a run that
//! is resumed from a position continues bit for bit.
//!
//! Ranks share *global* batches: global batch `k` is a contiguous piece of the
//! epoch's order, and rank `r` takes the `r`-th [`Part`] of it. So all ranks
//! have equally many batches, and together they read exactly what one process
//! would read.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::collate::{Batch, Collate};
use crate::dataset::{Dataset, check_rank};
use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::random;
use crate::sample::Sample;

/// Where a loader stands: all that must be saved to continue exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Epoch, from 0.
    pub epoch: u64,
    /// Batches of that epoch already yielded.
    pub batch: u64,
    /// Samples of that epoch already yielded, over all ranks; this is what
    /// makes a position valid for another number of ranks.
    pub samples: u64,
    /// Length of the data set, to refuse another one.
    pub len: u64,
    /// Seed of the shuffle, if any, to refuse another order.
    pub seed: Option<u64>,
    /// Whether the shuffle is that of Python's `DataLoader`: see [`Loader::restore_by`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_generator: bool,
}

/// The order of an epoch that follows from a seed, the number of the epoch and the number of samples.
pub type Permute = fn(u64, u64, usize) -> Result<Vec<usize>>;

/// Which rows of a global batch are one rank's. Parts differ by one row at most, the first ones being
/// larger; of a batch with fewer rows than ranks the last ranks have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Rows before it.
    pub first: usize,
    /// Its rows.
    pub rows: usize,
    /// Rows of the global batch.
    pub total: usize,
    /// How many ranks share it.
    pub world: usize,
}

impl Part {
    /// That of rank `rank`.
    ///
    /// ```
    /// use talweg_data::Part;
    /// let rows = |total, world| (0..world).map(|r| Part::of(total, r, world).rows).collect::<Vec<_>>();
    /// assert_eq!((rows(64, 3), rows(2, 3)), (vec![22, 21, 21], vec![1, 1, 0]));
    /// ```
    pub fn of(total: usize, rank: usize, world: usize) -> Part {
        let (each, more) = (total / world, total % world);
        let first = rank * each + rank.min(more);
        Part { first, rows: each + usize::from(rank < more), total, world }
    }

    /// What a mean over its rows counts in the mean over ranks: 1 for an equal share.
    pub fn weight(&self) -> f32 {
        if self.rows * self.world == self.total {
            return 1.0;
        }
        ((self.rows * self.world) as f64 / self.total as f64) as f32
    }

    /// The rows that the rank is given. One without rows is given the first, which counts nothing: a
    /// batch is never empty.
    pub fn given(&self) -> std::ops::Range<usize> {
        if self.rows == 0 { 0..self.total.min(1) } else { self.first..self.first + self.rows }
    }
}

/// Settings of a [`Loader`]; made by [`Loader::builder`].
#[derive(Debug)]
#[must_use]
pub struct Builder<D> {
    dataset: D,
    batch: usize,
    shuffle: Option<u64>,
    drop_last: bool,
    workers: usize,
    prefetch: Option<usize>,
    rank: usize,
    world: usize,
    collate: Collate,
}

impl<D: Dataset + 'static> Builder<D> {
    /// Samples in a batch of one rank. Default 32.
    pub fn batch(mut self, size: usize) -> Self {
        self.batch = size;
        self
    }

    /// A new random order every epoch, fixed by the seed. Default: in order.
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.shuffle = Some(seed);
        self
    }

    /// Leaves out the last batch of an epoch when it is not full.
    pub fn drop_last(mut self, drop: bool) -> Self {
        self.drop_last = drop;
        self
    }

    /// Threads that prepare batches. Default 0: the calling thread does.
    pub fn workers(mut self, count: usize) -> Self {
        self.workers = count;
        self
    }

    /// How many batches may be ready or in preparation ahead of the one being
    /// used. Default: two for each worker.
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.prefetch = Some(batches);
        self
    }

    /// Reads the part of one rank of `world`; see [`Batch::part`].
    pub fn shard(mut self, rank: usize, world: usize) -> Self {
        (self.rank, self.world) = (rank, world);
        self
    }

    /// How samples become a batch. Default [`Collate::Stack`].
    pub fn collate(mut self, collate: Collate) -> Self {
        self.collate = collate;
        self
    }

    /// Checks the settings and makes the loader; nothing is read yet.
    ///
    /// # Errors
    /// If a setting makes no sense, or an epoch would have no batch at all.
    pub fn build(self) -> Result<Loader> {
        if self.batch == 0 {
            return Err(Error::mismatch("a batch needs at least 1 sample, 0 were asked for"));
        }
        check_rank(self.rank, self.world)?;
        let Some(global) = self.batch.checked_mul(self.world) else {
            return Err(Error::mismatch(format!("batch {} is too large", self.batch)));
        };
        let len = self.dataset.len();
        if len == 0 {
            return Err(Error::mismatch("the data set is empty"));
        }
        if self.drop_last && len < global {
            return Err(Error::mismatch(format!(
                "the data set has {len} samples, fewer than one batch of {} on {} ranks, \
                 and drop_last leaves out what does not fill a batch",
                self.batch, self.world
            )));
        }
        let source = Source {
            dataset: Box::new(self.dataset),
            len,
            global,
            shuffle: self.shuffle,
            permute: None,
            drop_last: self.drop_last,
            rank: self.rank,
            world: self.world,
            collate: self.collate,
        };
        Ok(Loader {
            source: Arc::new(source),
            workers: self.workers,
            prefetch: self.prefetch.unwrap_or(2 * self.workers).max(1),
            pool: None,
            order: None,
            epoch: 0,
            batch: 0,
        })
    }
}

/// Yields the batches of one epoch after another.
///
/// `next` answers `None` once at the end of each epoch; the call after that
/// begins the next one. A batch that fails answers its error in its place, and
/// the batches after it are not disturbed.
///
/// ```
/// use talweg_data::{Dataset, Digits, Loader};
///
/// let mut loader = Loader::builder(Digits::new(1, 100))
///     .batch(32)
///     .shuffle(7)
///     .workers(2)
///     .build()?;
/// assert_eq!(loader.batches(), 4);
///
/// let first = loader.next().unwrap()?;
/// assert_eq!(first.array("image")?.shape(), [32, 28, 28]);
///
/// // Saved with a checkpoint, restored in another process.
/// let saved = loader.position();
/// let expected = loader.next().unwrap()?;
/// loader.restore(&saved)?;
/// assert_eq!(loader.next().unwrap()?, expected);
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Debug)]
pub struct Loader {
    source: Arc<Source>,
    workers: usize,
    prefetch: usize,
    /// Started when the first batch is asked for.
    pool: Option<Pool>,
    /// The order of the current epoch, once it is needed.
    order: Option<Arc<Order>>,
    epoch: u64,
    batch: u64,
}

impl Loader {
    /// Begins the settings of a loader over a data set.
    pub fn builder<D: Dataset + 'static>(dataset: D) -> Builder<D> {
        Builder {
            dataset,
            batch: 32,
            shuffle: None,
            drop_last: false,
            workers: 0,
            prefetch: None,
            rank: 0,
            world: 1,
            collate: Collate::Stack,
        }
    }

    /// Batches in an epoch; the same for every rank.
    pub fn batches(&self) -> usize {
        self.source.batches() as usize
    }

    /// Samples in the data set, over all ranks.
    pub fn samples(&self) -> usize {
        self.source.len
    }

    /// Where the loader stands: after the batch that was yielded last.
    pub fn position(&self) -> Position {
        self.source.position(self.epoch, self.batch)
    }

    /// Continues from a position of this or of an earlier process, whatever the
    /// number of workers and prefetched batches there was. The number of ranks
    /// and the batch size may differ if the position lies between two batches
    /// of the new size.
    ///
    /// # Errors
    /// If the position belongs to another data set or shuffle, or lies within a
    /// batch. The loader stays where it was.
    pub fn restore(&mut self, position: &Position) -> Result<()> {
        let batch = self.source.locate(position)?;
        self.idle();
        self.order = None;
        (self.epoch, self.batch) = (position.epoch, batch);
        Ok(())
    }

    /// As [`Loader::restore`], but of a position whose shuffle another permutation makes, as Python's does
    /// (`by_generator`): a loader that shuffles takes over its seed and order.
    ///
    /// # Errors
    /// As `restore`, and if batches have been read.
    pub fn restore_by(&mut self, position: &Position, permute: Permute) -> Result<()> {
        if position.by_generator && self.source.shuffle.is_some() {
            self.idle();
            let Some(source) = Arc::get_mut(&mut self.source) else {
                return Err(Error::mismatch("batches have been read already: restore the loader before"));
            };
            let before = (source.shuffle, source.permute);
            (source.shuffle, source.permute) = (position.seed, Some(permute));
            if let Err(e) = source.locate(position) {
                (source.shuffle, source.permute) = before;
                return Err(e);
            }
        }
        self.restore(position)
    }
    fn idle(&self) {
        if let Some(pool) = &self.pool {
            pool.idle();
        }
    }

    /// Takes one rank's [`Part`] of every batch, for a loader that was made for one process: `world`
    /// such loaders read together what it alone would have read. Before the first batch.
    ///
    /// # Errors
    /// If batches have been read, or the loader is another rank's already.
    pub fn share(&mut self, rank: usize, world: usize) -> Result<()> {
        check_rank(rank, world)?;
        if (self.source.rank, self.source.world) == (rank, world) {
            return Ok(());
        }
        let Source { rank: own, world: ranks, .. } = *self.source;
        if ranks != 1 {
            let e = format!("the loader is that of rank {own} of {ranks}, not of rank {rank} of {world}");
            return Err(Error::mismatch(e));
        }
        let Some(source) = Arc::get_mut(&mut self.source) else {
            return Err(Error::mismatch("batches have been read already: share the loader before"));
        };
        (source.rank, source.world) = (rank, world);
        self.order = None;
        Ok(())
    }

    /// Continues as if this many batches had been yielded, over as many epochs as that takes.
    pub fn skip_batches(&mut self, count: u64) {
        self.idle();
        let each = self.source.batches();
        let to = self.batch + count;
        (self.epoch, self.batch, self.order) = (self.epoch + to / each, to % each, None);
    }

    /// The order of the current epoch; (re)starts the workers on it.
    fn begin(&mut self) -> Result<Arc<Order>> {
        if let Some(order) = &self.order {
            return Ok(Arc::clone(order));
        }
        let order = Arc::new(self.source.order(self.epoch)?);
        if self.workers > 0 {
            if self.pool.is_none() {
                self.pool = Some(Pool::start(&self.source, self.workers, self.prefetch)?);
            }
            if let Some(pool) = &self.pool {
                pool.begin(Arc::clone(&order), self.batch, self.source.batches());
            }
        }
        self.order = Some(Arc::clone(&order));
        Ok(order)
    }
}

impl Iterator for Loader {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        if self.batch >= self.source.batches() {
            (self.epoch, self.batch, self.order) = (self.epoch.wrapping_add(1), 0, None);
            return None;
        }
        let order = match self.begin() {
            Ok(order) => order,
            Err(error) => return Some(Err(error)),
        };
        let result = match &self.pool {
            Some(pool) => pool.take(),
            None => self.source.assemble(&order, self.batch, &|| false),
        };
        self.batch += 1;
        Some(result)
    }
}

/// What workers share: the data set and the rule that makes batches of it.
pub(crate) struct Source {
    dataset: Box<dyn Dataset>,
    len: usize,
    /// Samples of a batch, over all ranks.
    global: usize,
    shuffle: Option<u64>,
    /// What shuffles instead of this crate's permutation.
    permute: Option<Permute>,
    drop_last: bool,
    rank: usize,
    world: usize,
    collate: Collate,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} samples in batches of {}", self.len, self.global)?;
        write!(f, ", rank {} of {}", self.rank, self.world)
    }
}

/// The order of one epoch; nothing is stored when it is the natural one.
#[derive(Debug)]
pub(crate) struct Order {
    epoch: u64,
    shuffled: Option<Vec<usize>>,
}

impl Source {
    fn batches(&self) -> u64 {
        let full = self.len / self.global;
        (full + usize::from(!self.drop_last && !self.len.is_multiple_of(self.global))) as u64
    }

    fn position(&self, epoch: u64, batch: u64) -> Position {
        let (len, global) = (self.len as u64, self.global as u64);
        let samples = (batch * global).min(len);
        Position { epoch, batch, samples, len, seed: self.shuffle, by_generator: self.permute.is_some() }
    }

    /// The batch at which a position continues.
    fn locate(&self, position: &Position) -> Result<u64> {
        let refuse = |what: String| Err(Error::mismatch(format!("cannot continue: {what}")));
        let (len, global) = (self.len as u64, self.global as u64);
        if position.len != len {
            let saved = position.len;
            return refuse(format!("the position is of a data set with {saved} samples, not {len}"));
        }
        if position.seed != self.shuffle || position.by_generator != self.permute.is_some() {
            return refuse(format!("the position is of shuffle seed {:?}, not {:?}", position.seed, self.shuffle));
        }
        let samples = position.samples;
        if samples > len {
            return refuse(format!("{samples} of {len} samples were read"));
        }
        if samples == len {
            return Ok(self.batches());
        }
        if !samples.is_multiple_of(global) {
            return refuse(format!("{samples} samples of the epoch were read, which is within a batch of {global}"));
        }
        Ok(samples / global)
    }

    fn order(&self, epoch: u64) -> Result<Order> {
        let shuffle = |seed| match self.permute {
            Some(permute) => permute(seed, epoch, self.len),
            None => Ok(random::permutation(seed, random::PURPOSE_SHUFFLE, epoch, self.len)),
        };
        Ok(Order { epoch, shuffled: self.shuffle.map(shuffle).transpose()? })
    }

    /// This rank's part of a batch, and the indices of its samples.
    fn members(&self, order: &Order, batch: u64) -> (Part, Vec<usize>) {
        let start = batch as usize * self.global;
        let part = Part::of(self.global.min(self.len - start), self.rank, self.world);
        let index = |row: usize| order.shuffled.as_ref().map_or(start + row, |order| order[start + row]);
        (part, part.given().map(index).collect())
    }

    /// Reads and collates one batch. `cancelled` is asked between samples; the
    /// result is of no use then.
    pub(crate) fn assemble(&self, order: &Order, batch: u64, cancelled: &dyn Fn() -> bool) -> Result<Batch> {
        let epoch = order.epoch;
        let (part, indices) = self.members(order, batch);
        let mut samples: Vec<Sample> = Vec::with_capacity(indices.len());
        for &index in &indices {
            if cancelled() {
                return Err(Error::mismatch("cancelled"));
            }
            let sample = guard(|| self.dataset.get_at(index, epoch)).map_err(|source| Error::Sample {
                epoch,
                batch,
                index,
                source: Box::new(source),
            })?;
            samples.push(sample);
        }
        let columns = guard(|| self.collate.apply(samples)).map_err(|source| Error::Batch {
            epoch,
            batch,
            source: Box::new(source),
        })?;
        Ok(Batch { columns, indices, part, resume: self.position(epoch, batch + 1) })
    }
}

/// Runs code of the user and turns a panic into an error: a worker that dies
/// silently would leave the loader waiting for ever.
fn guard<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Error::Panic(text.unwrap_or_else(|| "no message".into())))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::array::Array;

    struct Counted(Arc<AtomicUsize>);

    impl Dataset for Counted {
        fn len(&self) -> usize {
            1000
        }
        fn get(&self, _: usize) -> Result<Sample> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(Sample::from([Array::scalar(0u8)]))
        }
    }

    /// Dropping a loader must not wait for the rest of a batch.
    #[test]
    fn a_cancelled_batch_stops_after_the_sample_it_is_at() {
        let reads = Arc::new(AtomicUsize::new(0));
        let loader = Loader::builder(Counted(Arc::clone(&reads))).batch(1000).build().unwrap();
        let order = loader.source.order(0).unwrap();
        let cancelled = || reads.load(Ordering::SeqCst) == 7;
        assert!(loader.source.assemble(&order, 0, &cancelled).is_err());
        assert_eq!(reads.load(Ordering::SeqCst), 7);
    }
}
