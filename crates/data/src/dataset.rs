//! `Dataset`: samples by index, and the ways to make data sets of data sets.
//!
//! A data set is read by several threads at once and must answer the same
//! sample for the same index. Randomness (augmentation) therefore belongs to
//! the index and the epoch, never to a state: see [`Dataset::get_at`].

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::random::{self, Random, derive};
use crate::sample::Sample;

/// Samples by index.
///
/// ```
/// use talweg_data::{Array, Dataset, Result, Sample};
///
/// struct Squares;
/// impl Dataset for Squares {
///     fn len(&self) -> usize {
///         100
///     }
///     fn get(&self, index: usize) -> Result<Sample> {
///         Ok(Sample::new().with("square", Array::scalar((index * index) as i64)))
///     }
/// }
///
/// let (train, test) = Squares.split(0.8, 1)?;
/// assert_eq!((train.len(), test.len()), (80, 20));
/// # Ok::<(), talweg_data::Error>(())
/// ```
pub trait Dataset: Send + Sync {
    /// How many samples there are.
    fn len(&self) -> usize;

    /// Sample `index`.
    ///
    /// # Errors
    /// If there is no such sample, or it cannot be read.
    fn get(&self, index: usize) -> Result<Sample>;

    /// Sample `index` as it looks in `epoch`; the loader asks this way. Only
    /// data sets whose samples vary from epoch to epoch ([`Vary`]), and those
    /// that wrap others, need to define it.
    ///
    /// # Errors
    /// As [`Dataset::get`].
    fn get_at(&self, index: usize, epoch: u64) -> Result<Sample> {
        let _ = epoch;
        self.get(index)
    }

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Applies a function to every sample when it is read.
    fn map<F>(self, function: F) -> Map<Self, F>
    where
        Self: Sized,
        F: Fn(Sample) -> Result<Sample> + Send + Sync,
    {
        Map { dataset: self, function }
    }

    /// Applies a function with randomness that is fixed by the seed, the
    /// sample's index and the epoch: augmentation.
    fn vary<F>(self, seed: u64, function: F) -> Vary<Self, F>
    where
        Self: Sized,
        F: Fn(Sample, &mut Random) -> Result<Sample> + Send + Sync,
    {
        Vary { dataset: self, seed, function }
    }

    /// The samples at the given indices, in that order; an index may repeat.
    ///
    /// # Errors
    /// If an index is beyond the end.
    fn subset(self, indices: impl Into<Vec<usize>>) -> Result<Subset<Self>>
    where
        Self: Sized,
    {
        let (indices, len) = (indices.into(), self.len());
        match indices.iter().find(|index| **index >= len) {
            Some(&index) => Err(Error::OutOfRange { index, len }),
            None => Ok(Subset { dataset: self, indices }),
        }
    }

    /// The first `count` samples, or all if there are fewer.
    fn take(self, count: usize) -> Subset<Self>
    where
        Self: Sized,
    {
        let indices = (0..count.min(self.len())).collect();
        Subset { dataset: self, indices }
    }

    /// The samples of this data set, then those of the other.
    fn concat<D: Dataset>(self, other: D) -> Concat<Self, D>
    where
        Self: Sized,
    {
        Concat { first: self, second: other }
    }

    /// Every `world`-th sample from `rank` on: the part of one process.
    ///
    /// Parts differ by at most one sample. For training use
    /// [`Builder::shard`](crate::Builder::shard) instead, which shuffles across
    /// parts and keeps the number of batches equal.
    ///
    /// # Errors
    /// If `rank` is not below `world`.
    fn shard(self, rank: usize, world: usize) -> Result<Shard<Self>>
    where
        Self: Sized,
    {
        check_rank(rank, world)?;
        Ok(Shard { dataset: self, rank, world })
    }

    /// Two disjoint random parts, the first with `share` of the samples.
    ///
    /// # Errors
    /// If `share` is not between 0 and 1.
    fn split(self, share: f64, seed: u64) -> Result<(Subset<Arc<Self>>, Subset<Arc<Self>>)>
    where
        Self: Sized,
    {
        if !(0.0..=1.0).contains(&share) {
            return Err(Error::mismatch(format!("a share is between 0 and 1, not {share}")));
        }
        let len = self.len();
        let mut first = random::permutation(seed, random::PURPOSE_SPLIT, 0, len);
        let second = first.split_off((len as f64 * share).round() as usize);
        let dataset = Arc::new(self);
        let part = |indices| Subset { dataset: Arc::clone(&dataset), indices };
        Ok((part(first), part(second)))
    }

    /// Reads every label and checks that it names one of `classes`.
    ///
    /// # Errors
    /// [`Error::Label`] with the first sample whose label is out of range, or
    /// whatever prevents a sample from being read.
    fn check_labels(&self, field: &str, classes: usize) -> Result<()> {
        for index in 0..self.len() {
            let label = self.get(index)?.array(field)?.integer()?;
            check_label(index, label, classes)?;
        }
        Ok(())
    }
}

/// Refuses a rank that is not one of `0..world`.
pub(crate) fn check_rank(rank: usize, world: usize) -> Result<()> {
    if rank < world {
        return Ok(());
    }
    Err(Error::mismatch(format!("rank {rank} is not below the world size {world}")))
}

/// Refuses a label that is not one of `0..classes`.
pub(crate) fn check_label(index: usize, label: i64, classes: usize) -> Result<()> {
    match usize::try_from(label) {
        Ok(class) if class < classes => Ok(()),
        _ => Err(Error::Label { index, label, classes }),
    }
}

/// Data sets behind pointers are data sets.
macro_rules! forward {
    ($($type:ty),*) => { $(
        impl<D: Dataset + ?Sized> Dataset for $type {
            fn len(&self) -> usize {
                (**self).len()
            }
            fn get(&self, index: usize) -> Result<Sample> {
                (**self).get(index)
            }
            fn get_at(&self, index: usize, epoch: u64) -> Result<Sample> {
                (**self).get_at(index, epoch)
            }
        }
    )* };
}
forward!(&D, Box<D>, Arc<D>);

/// See [`Dataset::map`].
#[derive(Clone, Debug)]
pub struct Map<D, F> {
    dataset: D,
    function: F,
}

impl<D: Dataset, F: Fn(Sample) -> Result<Sample> + Send + Sync> Dataset for Map<D, F> {
    fn len(&self) -> usize {
        self.dataset.len()
    }
    fn get(&self, index: usize) -> Result<Sample> {
        self.dataset.get(index).and_then(&self.function)
    }
    fn get_at(&self, index: usize, epoch: u64) -> Result<Sample> {
        self.dataset.get_at(index, epoch).and_then(&self.function)
    }
}

/// See [`Dataset::vary`].
#[derive(Clone, Debug)]
pub struct Vary<D, F> {
    dataset: D,
    seed: u64,
    function: F,
}

impl<D: Dataset, F> Dataset for Vary<D, F>
where
    F: Fn(Sample, &mut Random) -> Result<Sample> + Send + Sync,
{
    fn len(&self) -> usize {
        self.dataset.len()
    }
    fn get(&self, index: usize) -> Result<Sample> {
        self.get_at(index, 0)
    }
    fn get_at(&self, index: usize, epoch: u64) -> Result<Sample> {
        let sample = self.dataset.get_at(index, epoch)?;
        let seed = derive(self.seed, epoch);
        (self.function)(sample, &mut Random::new(seed, random::PURPOSE_AUGMENT, index as u64))
    }
}

/// See [`Dataset::subset`], [`Dataset::take`] and [`Dataset::split`].
#[derive(Clone, Debug)]
pub struct Subset<D> {
    dataset: D,
    indices: Vec<usize>,
}

impl<D> Subset<D> {
    fn at(&self, index: usize) -> Result<usize> {
        let len = self.indices.len();
        self.indices.get(index).copied().ok_or(Error::OutOfRange { index, len })
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    fn len(&self) -> usize {
        self.indices.len()
    }
    fn get(&self, index: usize) -> Result<Sample> {
        self.dataset.get(self.at(index)?)
    }
    fn get_at(&self, index: usize, epoch: u64) -> Result<Sample> {
        self.dataset.get_at(self.at(index)?, epoch)
    }
}

/// See [`Dataset::concat`].
#[derive(Clone, Debug)]
pub struct Concat<A, B> {
    first: A,
    second: B,
}

impl<A: Dataset, B: Dataset> Dataset for Concat<A, B> {
    fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }
    fn get(&self, index: usize) -> Result<Sample> {
        self.get_at(index, 0)
    }
    fn get_at(&self, index: usize, epoch: u64) -> Result<Sample> {
        let (first, len) = (self.first.len(), self.len());
        match index {
            _ if index < first => self.first.get_at(index, epoch),
            _ if index < len => self.second.get_at(index - first, epoch),
            _ => Err(Error::OutOfRange { index, len }),
        }
    }
}

/// See [`Dataset::shard`].
#[derive(Clone, Debug)]
pub struct Shard<D> {
    dataset: D,
    rank: usize,
    world: usize,
}

impl<D: Dataset> Shard<D> {
    fn at(&self, index: usize) -> Result<usize> {
        let len = self.len();
        if index >= len {
            return Err(Error::OutOfRange { index, len });
        }
        Ok(index * self.world + self.rank)
    }
}

impl<D: Dataset> Dataset for Shard<D> {
    fn len(&self) -> usize {
        let all = self.dataset.len();
        all / self.world + usize::from(self.rank < all % self.world)
    }
    fn get(&self, index: usize) -> Result<Sample> {
        self.dataset.get(self.at(index)?)
    }
    fn get_at(&self, index: usize, epoch: u64) -> Result<Sample> {
        self.dataset.get_at(self.at(index)?, epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;

    #[derive(Debug)]
    struct Count(usize);

    impl Dataset for Count {
        fn len(&self) -> usize {
            self.0
        }
        fn get(&self, index: usize) -> Result<Sample> {
            if index >= self.0 {
                return Err(Error::OutOfRange { index, len: self.0 });
            }
            Ok(Sample::from([Array::scalar(index as i64)]))
        }
    }

    fn all(dataset: &dyn Dataset) -> Vec<i64> {
        (0..dataset.len()).map(|i| dataset.get(i).unwrap().at(0).unwrap().integer().unwrap()).collect()
    }

    #[test]
    fn combinators() {
        assert_eq!(all(&Count(5).take(3)), [0, 1, 2]);
        assert_eq!(all(&Count(5).take(9)).len(), 5);
        assert_eq!(all(&Count(5).subset([4, 0, 4]).unwrap()), [4, 0, 4]);
        assert_eq!(all(&Count(2).concat(Count(3))), [0, 1, 0, 1, 2]);
        assert_eq!(all(&Count(8).shard(1, 3).unwrap()), [1, 4, 7]);
        assert_eq!(all(&Count(8).shard(2, 3).unwrap()), [2, 5]);
        let doubled = Count(3).map(|sample| Ok(Sample::from([Array::scalar(2 * sample.at(0)?.integer()?)])));
        assert_eq!(all(&doubled), [0, 2, 4]);
        assert_eq!(all(&Box::new(Count(2)) as &dyn Dataset), [0, 1]);
    }

    #[test]
    fn split_is_disjoint_and_complete() {
        let (a, b) = Count(10).split(0.7, 3).unwrap();
        assert_eq!((a.len(), b.len()), (7, 3));
        let mut union = all(&a.concat(b));
        union.sort_unstable();
        assert_eq!(union, (0..10).collect::<Vec<i64>>());
    }

    #[test]
    fn beyond_the_end() {
        let message = |r: Result<Sample>| r.unwrap_err().to_string();
        let expected = "sample 3 does not exist: the data set has 3";
        assert_eq!(message(Count(9).take(3).get(3)), expected);
        assert_eq!(message(Count(9).shard(0, 3).unwrap().get(3)), expected);
        assert_eq!(message(Count(1).concat(Count(2)).get(3)), expected);
        assert!(Count(3).subset([3]).is_err());
        assert!(Count(3).split(1.5, 0).is_err());
        assert_eq!(Count(3).shard(2, 2).unwrap_err().to_string(), "rank 2 is not below the world size 2");
    }

    #[test]
    fn vary_depends_on_seed_index_and_epoch_only() {
        let noise = |seed| Count(4).vary(seed, |_, random| Ok(Sample::from([Array::scalar(random.unit())])));
        let (a, b) = (noise(1), noise(1));
        assert_eq!(a.get_at(2, 5).unwrap(), b.get_at(2, 5).unwrap());
        assert_ne!(a.get_at(2, 5).unwrap(), a.get_at(2, 6).unwrap());
        assert_ne!(a.get_at(2, 5).unwrap(), a.get_at(3, 5).unwrap());
        assert_ne!(a.get_at(2, 5).unwrap(), noise(2).get_at(2, 5).unwrap());
        // The epoch reaches through wrappers.
        let wrapped = Arc::new(noise(1).take(4));
        assert_eq!(wrapped.get_at(2, 5).unwrap(), a.get_at(2, 5).unwrap());
    }

    #[test]
    fn labels_out_of_range_are_found() {
        let labels = Count(12).map(|s| Ok(Sample::new().with("label", s.at(0)?.clone())));
        assert!(labels.check_labels("label", 12).is_ok());
        assert_eq!(
            labels.check_labels("label", 10).unwrap_err().to_string(),
            "label 10 of sample 10 is out of range: 10 classes are 0 to 9"
        );
    }
}
