//! The loader's promises: what is in a batch depends on the seed, the epoch and
//! the batch number alone; ranks share an epoch exactly; errors and shutdown
//! are orderly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use talweg_data::{Array, Batch, Collate, Dataset, Error, Loader, Position, Result, Sample};

/// Sample `i` is the number `i`.
#[derive(Clone, Copy)]
struct Numbers(usize);

impl Dataset for Numbers {
    fn len(&self) -> usize {
        self.0
    }
    fn get(&self, index: usize) -> Result<Sample> {
        Ok(Sample::new().with("x", Array::scalar(index as i64)))
    }
}

fn epoch(loader: &mut Loader) -> Vec<Batch> {
    loader.by_ref().map(Result::unwrap).collect()
}

fn numbers(batches: &[Batch]) -> Vec<i64> {
    batches.iter().flat_map(|b| b.array("x").unwrap().values::<i64>().unwrap().to_vec()).collect()
}

#[test]
fn in_order_and_drop_last() {
    let mut loader = Loader::builder(Numbers(10)).batch(4).build().unwrap();
    assert_eq!(loader.batches(), 3);
    let batches = epoch(&mut loader);
    assert_eq!(batches.iter().map(Batch::len).collect::<Vec<_>>(), [4, 4, 2]);
    assert_eq!(numbers(&batches), (0..10).collect::<Vec<_>>());
    assert_eq!((loader.position().epoch, loader.position().batch), (1, 0));

    let mut loader = Loader::builder(Numbers(10)).batch(4).drop_last(true).build().unwrap();
    assert_eq!(numbers(&epoch(&mut loader)), (0..8).collect::<Vec<_>>());
}

#[test]
fn shuffle_differs_by_epoch_and_covers_all() {
    let mut loader = Loader::builder(Numbers(100)).batch(7).shuffle(3).build().unwrap();
    let (first, second) = (numbers(&epoch(&mut loader)), numbers(&epoch(&mut loader)));
    assert_ne!(first, second);
    for mut order in [first, second] {
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any number of workers and prefetched batches, stopped anywhere, saved as
    /// JSON, restored into a loader with other threads: bit for bit the same.
    #[test]
    fn resuming_is_exact(
        len in 1usize..60, batch in 1usize..9, seed in proptest::option::of(any::<u64>()),
        workers in 0usize..4, prefetch in 1usize..5, other in 0usize..4, stop in 0usize..40,
    ) {
        let set = || Numbers(len).vary(5, |sample, random| Ok(sample.with("noise", Array::scalar(random.unit()))));
        let make = |workers: usize, prefetch: usize| {
            let mut builder = Loader::builder(set()).batch(batch).workers(workers).prefetch(prefetch);
            if let Some(seed) = seed { builder = builder.shuffle(seed); }
            builder.build().unwrap()
        };
        let step = |loader: &mut Loader| loader.next().map(Result::unwrap);
        let mut plain = make(0, 1);
        let expected: Vec<Option<Batch>> = (0..stop + 10).map(|_| step(&mut plain)).collect();

        let mut first = make(workers, prefetch);
        let mut seen: Vec<Option<Batch>> = (0..stop).map(|_| step(&mut first)).collect();
        let saved = serde_json::to_string(&first.position()).unwrap();
        drop(first);
        let mut second = make(other, prefetch);
        second.restore(&serde_json::from_str::<Position>(&saved).unwrap()).unwrap();
        seen.extend((0..10).map(|_| step(&mut second)));
        prop_assert_eq!(seen, expected);
    }

    /// Ranks have equally many batches of almost equal size, and put together they are
    /// the batches of one process.
    #[test]
    fn ranks_share_an_epoch(len in 1usize..80, batch in 1usize..20, world in 1usize..6, drop in any::<bool>()) {
        prop_assume!(!drop || len >= batch);
        let make = || Loader::builder(Numbers(len)).batch(batch).shuffle(1).drop_last(drop).build().unwrap();
        let whole = epoch(&mut make());
        let ranks: Vec<Vec<Batch>> = (0..world).map(|rank| {
            let mut shared = make();
            shared.share(rank, world).unwrap();
            epoch(&mut shared)
        }).collect();
        for (k, global) in whole.iter().enumerate() {
            let parts: Vec<&Batch> = ranks.iter().map(|rank| &rank[k]).collect();
            let rows = |b: &&Batch| b.part.rows;
            prop_assert!(parts.iter().map(rows).max().unwrap() <= parts.iter().map(rows).min().unwrap() + 1);
            prop_assert!(parts.iter().all(|b| b.len() == b.part.rows.max(1) && b.part.total == global.len()));
            let own: Vec<usize> = parts.iter().flat_map(|b| b.indices[..b.part.rows].to_vec()).collect();
            prop_assert_eq!(&own, &global.indices);
            let weights: f32 = parts.iter().map(|b| b.part.weight()).sum();
            prop_assert!((weights - world as f32).abs() < 1e-4);
        }
        prop_assert!(ranks.iter().all(|rank| rank.len() == whole.len()));
    }
}

#[test]
fn every_batch_says_where_to_continue() {
    let make = || Loader::builder(Numbers(20)).batch(3).shuffle(9).workers(2).build().unwrap();
    let mut loader = make();
    let first = loader.next().unwrap().unwrap();
    let second = loader.next().unwrap().unwrap();
    let mut resumed = make();
    resumed.restore(&first.resume).unwrap();
    assert_eq!(resumed.next().unwrap().unwrap(), second);
    // Back again, with batches of the old job still under way.
    resumed.restore(&first.resume).unwrap();
    assert_eq!(resumed.next().unwrap().unwrap(), second);
}

#[test]
fn a_position_moves_to_another_number_of_ranks() {
    let make = |batch, world| Loader::builder(Numbers(48)).batch(batch).shuffle(2).shard(0, world).build().unwrap();
    let mut two = make(4, 2);
    two.by_ref().take(3).for_each(drop);
    let mut four = make(2, 4);
    four.restore(&two.position()).unwrap();
    assert_eq!(four.position().samples, 24);
    let error = make(5, 2).restore(&two.position()).unwrap_err().to_string();
    assert_eq!(error, "cannot continue: 24 samples of the epoch were read, which is within a batch of 10");
}

#[test]
fn foreign_positions_are_refused() {
    let mut loader = Loader::builder(Numbers(10)).batch(2).shuffle(1).build().unwrap();
    let here = loader.position();
    let cases = [
        (Position { len: 11, ..here }, "a data set with 11 samples, not 10"),
        (Position { seed: Some(2), ..here }, "shuffle seed Some(2), not Some(1)"),
        (Position { seed: None, ..here }, "shuffle seed None, not Some(1)"),
        (Position { samples: 12, ..here }, "12 of 10 samples were read"),
        (Position { samples: 3, ..here }, "within a batch"),
    ];
    for (position, expected) in cases {
        let error = loader.restore(&position).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(loader.position(), here);
    }
}

#[test]
fn settings_that_make_no_sense() {
    let message = |r: Result<Loader>| r.unwrap_err().to_string();
    let builder = || Loader::builder(Numbers(10));
    assert!(message(builder().batch(0).build()).contains("at least 1 sample"));
    assert!(message(builder().shard(2, 2).build()).contains("rank 2 is not below the world size 2"));
    assert!(message(builder().shard(0, 0).build()).contains("world size 0"));
    assert!(message(builder().batch(6).shard(0, 2).drop_last(true).build()).contains("fewer than one batch"));
    assert!(message(Loader::builder(Numbers(0)).build()).contains("empty"));
}

/// Sample 13 cannot be read and sample 17 makes the code panic.
fn faulty() -> impl Dataset {
    Numbers(24).map(|sample| match sample.array("x")?.integer()? {
        13 => Err(Error::mismatch("the image is broken")),
        17 => panic!("index out of bounds"),
        _ => Ok(sample),
    })
}

#[test]
fn errors_come_at_their_batch_and_name_the_sample() {
    for workers in [0, 1, 3] {
        let mut loader = Loader::builder(faulty()).batch(4).workers(workers).build().unwrap();
        let results: Vec<Result<Batch>> = loader.by_ref().collect();
        let texts: Vec<Option<String>> = results.iter().map(|r| r.as_ref().err().map(Error::to_string)).collect();
        let expected = [
            None,
            None,
            None,
            Some("epoch 0, batch 3, sample 13: the image is broken".to_owned()),
            Some("epoch 0, batch 4, sample 17: the data set panicked: index out of bounds".to_owned()),
            None,
        ];
        assert_eq!(texts, expected, "{workers} workers");
        assert_eq!(results[5].as_ref().unwrap().indices, [20, 21, 22, 23]);
    }
}

#[test]
fn unequal_lengths() {
    let set =
        || Numbers(4).map(|s| Ok(Sample::new().with("t", Array::vector(vec![1u8; s.at(0)?.integer()? as usize]))));
    let error = Loader::builder(set()).batch(2).build().unwrap().next().unwrap().unwrap_err().to_string();
    assert!(error.starts_with("epoch 0, batch 0: \"t\": sample 1 of the batch has shape [1]"), "{error}");
    let pad = Collate::Pad { value: 0.0, multiple: 1 };
    let mut loader = Loader::builder(set()).batch(4).collate(pad).build().unwrap();
    let batch = loader.next().unwrap().unwrap();
    assert_eq!(batch.array("t").unwrap().shape(), [4, 3]);
    assert_eq!(batch.lengths("t").unwrap().values::<i64>().unwrap(), [0, 1, 2, 3]);
}

/// Counts how often it is read, and lives as long as a thread that holds it.
struct Watched {
    reads: Arc<AtomicUsize>,
    alive: Arc<()>,
}

impl Dataset for Watched {
    fn len(&self) -> usize {
        1_000_000
    }
    fn get(&self, index: usize) -> Result<Sample> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        assert!(Arc::strong_count(&self.alive) > 1);
        Numbers(self.len()).get(index)
    }
}

#[test]
fn prefetch_is_bounded_and_drop_stops_the_threads() {
    let (reads, alive) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
    let set = Watched { reads: reads.clone(), alive: alive.clone() };
    let mut loader = Loader::builder(set).batch(10).workers(3).prefetch(4).build().unwrap();
    for taken in 1..50 {
        loader.next().unwrap().unwrap();
        // Whatever the threads manage in the meantime: no more than four
        // batches ahead of those taken.
        assert!(reads.load(Ordering::SeqCst) <= (taken + 4) * 10);
    }
    drop(loader);
    // The data set went with the last thread: none is left behind.
    assert_eq!(Arc::strong_count(&alive), 1);
}
