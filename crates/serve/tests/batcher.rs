//! The batcher under simulated load: a seeded clock, arrivals and execution times; no thread, no sleep.

use talweg_serve::batcher::{Asked, Batcher, Entry, FullBatch, Load, Policy, Step, admit, rung};

struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
    fn exponential(&mut self, mean: f64) -> f64 {
        -self.uniform().ln() * mean
    }
}

const SIZES: [usize; 32] = {
    let mut out = [0; 32];
    let mut i = 0;
    while i < 32 {
        out[i] = i + 1;
        i += 1;
    }
    out
};

const ONE: Asked = Asked { rows: 1, bytes: 0 };

/// What a batch costs: a part for the batch, a part for each row.
fn cost_us(size: usize) -> f64 {
    1000.0 + 150.0 * size as f64
}

#[derive(Debug, Default)]
struct Outcome {
    offered: usize,
    refused: usize,
    latencies_us: Vec<u64>,
    rows: usize,
    batches: usize,
}

impl Outcome {
    fn percentile(&mut self, p: f64) -> u64 {
        self.latencies_us.sort_unstable();
        self.latencies_us[((self.latencies_us.len() as f64 * p) as usize).min(self.latencies_us.len() - 1)]
    }
}

/// Poisson arrivals at a rate, for so many seconds of simulated time.
fn simulate(policy: Policy, rate: f64, seconds: f64, seed: u64) -> Outcome {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut batcher = Batcher::new(policy, false);
    let mut out = Outcome::default();
    let (mut free_at, mut next_arrival, mut id) = (0u64, 0f64, 0u64);
    let mut running: Vec<u64> = Vec::new();
    let mut waiting = std::collections::HashMap::new();
    let end = seconds * 1e6;
    let mut now = 0u64;
    let mut seen = 0usize;
    loop {
        if now >= free_at {
            for arrived in running.drain(..) {
                let us = free_at - arrived;
                batcher.record_latency(us);
                out.latencies_us.push(us);
            }
            let plan = batcher.next(now, |_| &SIZES);
            assert!(plan.compile.is_empty(), "every size is compiled");
            if let Step::Run(batch) = plan.step {
                assert!(batch.rows <= policy.batch_max && batch.size == batch.rows);
                let us = cost_us(batch.size) * (0.9 + 0.2 * random.uniform());
                free_at = now + us as u64;
                batcher.record_cost(batch.size, us as u64);
                running = batch.ids.iter().map(|id| waiting.remove(id).expect("it waited")).collect();
                (out.rows, out.batches) = (out.rows + batch.rows, out.batches + 1);
                seen += batch.ids.len();
            }
        }
        let is_busy = !running.is_empty();
        if next_arrival > end && !is_busy && batcher.is_empty() {
            break;
        }
        now = match (is_busy, next_arrival <= end) {
            (true, true) => free_at.min(next_arrival as u64).max(now),
            (true, false) => free_at,
            (false, true) => (next_arrival as u64).max(now),
            (false, false) => now + 1,
        };
        if next_arrival <= end && now >= next_arrival as u64 {
            out.offered += 1;
            let load = Load {
                requests: batcher.len(),
                rows: batcher.len(),
                running_us: if is_busy { free_at.saturating_sub(now) } else { 0 },
                batch: batcher.full_batch(),
                target_us: batcher.target_us(),
                ..Load::default()
            };
            match admit(&policy, &load, ONE) {
                Err(refusal) => {
                    assert!(refusal.retry_us > 0);
                    out.refused += 1;
                }
                Ok(_) => {
                    id += 1;
                    waiting.insert(id, now);
                    let entry = Entry { id, group: 0, rows: 1, priority: 16, arrived_us: now, deadline_us: None };
                    batcher.push(entry);
                }
            }
            next_arrival += random.exponential(1e6 / rate);
        }
    }
    assert_eq!(seen + out.refused, out.offered, "nothing is lost");
    out
}

/// Rows a second at the largest batch.
fn saturation(batch: usize) -> f64 {
    batch as f64 * 1e6 / cost_us(batch)
}

#[test]
fn the_batch_follows_the_load() {
    let policy = Policy::default();
    let mean = |rate| {
        let o = simulate(policy, rate, 2.0, 1);
        o.rows as f64 / o.batches as f64
    };
    let (idle, half, near) = (mean(50.0), mean(0.5 * saturation(32)), mean(0.8 * saturation(32)));
    assert!(idle < 1.2, "alone at once: {idle}");
    assert!(half > 2.0 && near > half * 1.5, "{half} {near}");
}

#[test]
fn the_percentile_is_kept_near_saturation_and_beyond() {
    for seed in 1..4 {
        let policy = Policy { latency_us: 25_000, ..Policy::default() };
        let mut near = simulate(policy, 0.8 * saturation(32), 4.0, seed);
        assert!(near.percentile(0.99) <= 25_000, "seed {seed}: {} us", near.percentile(0.99));
        assert!(near.refused * 100 < near.offered, "seed {seed}: {} of {} refused", near.refused, near.offered);
        let mut twice = simulate(policy, 2.0 * saturation(32), 4.0, seed);
        assert!(twice.percentile(0.99) <= 25_000, "seed {seed}: {} us", twice.percentile(0.99));
        let goodput = twice.latencies_us.len() as f64 / 4.0;
        assert!(goodput > 0.9 * saturation(32), "seed {seed}: {goodput} of {}", saturation(32));
    }
}

#[test]
fn a_tight_target_makes_small_batches() {
    let loose = simulate(Policy { latency_us: 50_000, ..Policy::default() }, 5000.0, 2.0, 3);
    let mut tight = simulate(Policy { latency_us: 6_000, ..Policy::default() }, 5000.0, 2.0, 3);
    let (small, large) = (tight.rows / tight.batches, loose.rows / loose.batches);
    assert!(small <= 13 && large >= 15, "{small} {large}");
    assert!(tight.percentile(0.99) <= 6_600, "{}", tight.percentile(0.99));
}

#[test]
fn a_slow_front_end_leaves_less_time_to_a_batch() {
    let mut b = Batcher::new(Policy { batch_max: 256, ..Policy::default() }, false);
    for _ in 0..100 {
        b.record_cost(1, 100);
        b.record_cost(100, 10_000);
    }
    let all = b.rows_max();
    assert!((112..=113).contains(&all), "45 % of 25 ms: {all}");
    b.set_front_us(5_000);
    let less = b.rows_max();
    assert!((67..=68).contains(&less), "45 % of 15 ms: {less}");
    b.set_front_us(500_000);
    assert!(b.rows_max() >= 56, "a front end that does not answer at all must not stop the engine");
}

#[test]
fn an_unreachable_target_neither_refuses_all_nor_stops_batching() {
    // A row alone takes 1.15 ms: nothing is answered within 1 ms.
    let policy = Policy { latency_us: 1_000, ..Policy::default() };
    let half = simulate(policy, 0.5 * saturation(4), 4.0, 5);
    assert!(half.refused * 5 < half.offered, "{} of {} refused", half.refused, half.offered);
    let over = simulate(policy, 2.0 * saturation(32), 4.0, 5);
    assert!(over.rows / over.batches >= 2, "{} rows in {} batches", over.rows, over.batches);
}

#[test]
fn batching_beats_one_at_a_time() {
    let one = Policy { batch_max: 1, ..Policy::default() };
    let offered = 2.0 * saturation(32);
    let (single, many) = (simulate(one, offered, 2.0, 7), simulate(Policy::default(), offered, 2.0, 7));
    assert!(many.latencies_us.len() > 3 * single.latencies_us.len());
}

fn entry(id: u64, rows: usize) -> Entry {
    Entry { id, group: 0, rows, priority: 16, arrived_us: 0, deadline_us: None }
}

fn run(b: &mut Batcher, now: u64, sizes: &[usize]) -> (Vec<u64>, usize, Vec<(u64, usize)>) {
    let plan = b.next(now, |_| sizes);
    match plan.step {
        Step::Run(batch) => (batch.ids, batch.size, plan.compile),
        _ => (Vec::new(), 0, plan.compile),
    }
}

#[test]
fn sizes_that_are_not_compiled_are_padded_split_or_awaited() {
    let mut b = Batcher::new(Policy::default(), false);
    b.push(entry(1, 3));
    b.push(entry(2, 2));
    assert_eq!(run(&mut b, 0, &[1, 8]), (vec![1, 2], 8, vec![(0, 5)]), "padded");
    b.push(entry(3, 3));
    b.push(entry(4, 2));
    assert_eq!(run(&mut b, 0, &[1, 4]), (vec![3], 4, vec![(0, 5)]), "split");
    assert_eq!(run(&mut b, 0, &[1]), (vec![], 0, vec![(0, 2)]), "awaited");
    assert_eq!(run(&mut b, 0, &[1, 2]), (vec![4], 2, vec![]));
    assert_eq!(run(&mut b, 0, &[1, 2]), (vec![], 0, vec![]));
}

#[test]
fn groups_do_not_mix_and_none_waits_for_another() {
    let mut b = Batcher::new(Policy::default(), false);
    b.push(Entry { group: 1, ..entry(1, 1) });
    b.push(entry(2, 1));
    b.push(Entry { group: 1, ..entry(3, 1) });
    let none: [usize; 0] = [];
    let plan = b.next(0, |g| if g == 1 { &none } else { &SIZES });
    assert_eq!(plan.compile, [(1, 2)]);
    assert!(matches!(plan.step, Step::Run(batch) if batch.ids == [2]));
    let plan = b.next(0, |_| &SIZES);
    assert!(matches!(plan.step, Step::Run(batch) if batch.ids == [1, 3]));
}

#[test]
fn priority_goes_first_and_deadlines_are_kept() {
    let mut b = Batcher::new(Policy { batch_max: 1, ..Policy::default() }, false);
    b.push(entry(1, 1));
    b.push(Entry { priority: 1, ..entry(2, 1) });
    b.push(Entry { deadline_us: Some(500), ..entry(3, 1) });
    b.record_cost(1, 100);
    assert_eq!(run(&mut b, 0, &SIZES).0, [2]);
    assert!(b.expire(300).is_empty(), "100 us and deviations are left");
    assert_eq!(b.expire(450), [3], "it could not be answered in time");
    assert_eq!(b.remove(|id| id == 1), [1]);
    assert!(b.is_empty());
}

#[test]
fn a_delay_waits_for_more() {
    let mut b = Batcher::new(Policy { delay_us: 1000, batch_max: 4, ..Policy::default() }, false);
    b.push(entry(1, 1));
    assert_eq!(b.next(400, |_| &SIZES).step, Step::Wait(1000));
    b.push(entry(2, 3));
    assert_eq!(run(&mut b, 500, &SIZES).0, [1, 2], "full");
    b.push(Entry { arrived_us: 600, ..entry(3, 1) });
    assert_eq!(run(&mut b, 1600, &SIZES).0, [3], "late");
}

#[test]
fn rungs_are_few_and_near() {
    let mut rungs: Vec<usize> = (1..=4096).map(rung).collect();
    for (i, r) in rungs.iter().enumerate() {
        let rows = i + 1;
        assert!(*r >= rows && (*r - rows) as f64 <= 0.13 * rows as f64, "{rows}: {r}");
        assert_eq!(rung(*r), *r);
    }
    rungs.dedup();
    assert!(rungs.len() < 100, "{}", rungs.len());
}

#[test]
fn queues_are_bounded() {
    let policy = Policy { requests_max: 2, bytes_max: 100, ..Policy::default() };
    let load = |requests, bytes| Load { requests, bytes, ..Load::default() };
    let of = |bytes| Asked { rows: 1, bytes };
    assert!(admit(&policy, &load(1, 50), of(50)).is_ok());
    assert!(admit(&policy, &load(2, 0), of(1)).is_err());
    assert!(admit(&policy, &load(1, 60), of(50)).is_err());
    assert!(admit(&policy, &load(0, 0), of(500)).is_ok(), "a single large request is not stuck for ever");
}

#[test]
fn what_would_come_too_late_is_refused() {
    let policy = Policy::default(); // 25 ms
    let batch = FullBatch { us: 11_000, spread_us: 0, rows: 8 };
    let load = Load { requests: 5, rows: 1, running_us: 10_000, batch, ..Load::default() };
    assert!(admit(&policy, &load, ONE).is_ok(), "it joins the batch that gathers");
    assert!(admit(&policy, &Load { rows: 7, ..load }, ONE).is_ok());
    let full = admit(&policy, &Load { rows: 8, ..load }, ONE).unwrap_err();
    assert_eq!(full.retry_us, 10_000 + 2 * 11_000 - 22_500, "that batch is full: it would be the next one");
    assert!(admit(&policy, &load, Asked { rows: 16, bytes: 0 }).is_err(), "it is as long as two batches");
    let varied = |us, spread_us, rows| Load { batch: FullBatch { us, spread_us, rows: 8 }, rows, ..load };
    assert!(admit(&policy, &varied(11_000, 2_000, 1), ONE).is_err(), "it may take 2 ms longer");
    assert!(admit(&policy, &varied(1_000, 2_000, 64), ONE).is_err(), "nine batches: 9 ms and three times 2 ms");
    assert!(admit(&policy, &varied(1_000, 1_100, 64), ONE).is_ok(), "not all of them are slow at once");
    assert!(admit(&policy, &Load { others_us: 5_000, ..load }, ONE).is_err(), "another model runs first");
    assert!(admit(&policy, &Load { front_us: 3_000, ..load }, ONE).is_err(), "the front end is late");
    assert!(
        admit(&policy, &Load { waited_us: 1_000, out_us: 1_000, ..load }, ONE).is_err(),
        "so are the ways in and out"
    );
}

#[test]
fn the_margin_leaves_room_for_three_batches() {
    let policy = Policy::default(); // 25 ms
    let batch = FullBatch { us: 2_000, spread_us: 0, rows: 8 };
    let load = |rows, margin_us| Load { requests: rows, rows, running_us: 2_000, batch, margin_us, ..Load::default() };
    let is_refusable = |rows, margin_us| admit(&policy, &load(rows, margin_us), ONE).map(|a| a.is_refusable).ok();
    assert_eq!(is_refusable(72, 0), Some(true), "22 ms");
    assert_eq!(is_refusable(72, 1_000), None);
    assert_eq!(is_refusable(64, 1_000), Some(true), "20 ms");
    assert_eq!(is_refusable(15, 25_000), Some(false), "the running batch, a full one, and its own");
    assert_eq!(is_refusable(16, 25_000), None);
    // A target that has no room for three batches is not narrowed.
    let slow = Load { batch: FullBatch { us: 10_000, ..batch }, rows: 1, ..load(1, 20_000) };
    assert_eq!(admit(&policy, &slow, ONE).map(|a| a.is_refusable), Ok(false));
}

#[test]
fn an_empty_queue_takes_a_request_whatever_it_costs() {
    let policy = Policy::default();
    let costly = Load { batch: FullBatch { us: 90_000, spread_us: 0, rows: 1 }, ..Load::default() };
    assert!(admit(&policy, &costly, ONE).is_ok(), "nothing runs");
    assert!(admit(&policy, &Load { requests: 1, running_us: 90_000, ..costly }, ONE).is_ok(), "nothing waits");
    assert!(admit(&policy, &Load { requests: 2, rows: 1, running_us: 90_000, ..costly }, ONE).is_err());
    assert!(admit(&policy, &Load { front_us: 13_000, ..costly }, ONE).is_err(), "26 ms pass outside of the engine");
}
