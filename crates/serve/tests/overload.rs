//! Overload in simulated time: requests wait in sockets, the front end reads, admits or refuses, the engine runs batches,
//! and the front end writes answers. Decisions are the server's own; the clock, arrivals and costs are simulated.

use std::collections::{BTreeMap, VecDeque};
use talweg_serve::batcher::{Asked, Batcher, Entry, Load, Policy, Step, admit};
use talweg_serve::ticket::Lag;

struct Random(u64);

impl Random {
    fn exponential(&mut self, mean: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        -(((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64).ln() * mean
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

/// What the parts of a server take, in microseconds.
#[derive(Clone, Copy)]
struct Costs {
    batch: u64,
    row: u64,
    /// Reading and decoding a request that is admitted, refusing one, and writing an answer.
    read: u64,
    refuse: u64,
    write: u64,
}

impl Costs {
    fn batch_us(self, rows: usize) -> u64 {
        self.batch + self.row * rows as u64
    }
    /// Requests a second that front end and engine can answer, side by side.
    fn saturation(self) -> f64 {
        (1e6 / (self.read + self.write) as f64).min(32e6 / self.batch_us(32) as f64)
    }
}

/// What waits for the front end.
enum Item {
    Request(u64),
    Answer(u64),
}

#[derive(Default)]
struct Outcome {
    answers_us: Vec<u64>,
    refusals_us: Vec<u64>,
    missed: usize,
}

fn percentile(all: &mut [u64], p: f64) -> u64 {
    all.sort_unstable();
    all.get(((all.len() as f64 * p) as usize).min(all.len().saturating_sub(1))).copied().unwrap_or(0)
}

struct Server {
    costs: Costs,
    policy: Policy,
    batcher: Batcher,
    lag: Lag,
    /// Ready connections, in order; each with the time that it became ready.
    ready: VecDeque<(u64, Item)>,
    /// When each request that is admitted arrived.
    arrived: BTreeMap<u64, u64>,
    running: Vec<u64>,
    engine_free_at: u64,
    next_id: u64,
    out: Outcome,
}

impl Server {
    fn admit(&self, now: u64) -> bool {
        let load = Load {
            requests: self.arrived.len(),
            rows: self.batcher.len(),
            running_us: if self.running.is_empty() { 0 } else { self.engine_free_at.saturating_sub(now) },
            batch: self.batcher.full_batch(),
            target_us: self.batcher.target_us(),
            front_us: self.lag.least_us(),
            ..Load::default()
        };
        admit(&self.policy, &load, Asked { rows: 1, bytes: 4096 }).is_ok()
    }

    /// The front end takes the first of what is ready; returns when it is free again.
    fn serve(&mut self, now: u64) -> u64 {
        let Some((since, item)) = self.ready.pop_front() else { return now };
        match item {
            Item::Answer(arrived) => {
                self.out.answers_us.push(now + self.costs.write - arrived);
                now + self.costs.write
            }
            Item::Request(arrived) if self.admit(now) => {
                self.next_id += 1;
                let (id, counted) = (self.next_id, now.saturating_sub(self.lag.least_us()));
                self.arrived.insert(id, arrived);
                self.batcher.push(Entry {
                    id,
                    group: 0,
                    rows: 1,
                    priority: 16,
                    arrived_us: counted,
                    deadline_us: None,
                });
                now + self.costs.read
            }
            Item::Request(_) => {
                self.out.refusals_us.push(now + self.costs.refuse - since);
                now + self.costs.refuse
            }
        }
    }

    /// The engine ends its batch, hands its answers to the front end, and begins the next one.
    fn step(&mut self, now: u64) {
        if now < self.engine_free_at {
            return;
        }
        for id in std::mem::take(&mut self.running) {
            let arrived = self.arrived.remove(&id).expect("it was admitted");
            self.batcher.record_latency(now + self.lag.least_us() - arrived);
            self.ready.push_back((now, Item::Answer(arrived)));
        }
        self.batcher.set_front_us(self.lag.least_us());
        if let Step::Run(batch) = self.batcher.next(now, |_| &SIZES).step {
            let us = self.costs.batch_us(batch.size);
            self.engine_free_at = now + us;
            self.batcher.record_cost(batch.size, us);
            self.running = batch.ids;
        }
    }
}

/// Poisson arrivals over so many connections at most. Every millisecond the lag of the front end is measured.
fn simulate(costs: Costs, rate: f64, connections: usize, seconds: f64, seed: u64) -> Outcome {
    let policy = Policy::default();
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut s = Server {
        costs,
        policy,
        batcher: Batcher::new(policy, false),
        lag: Lag::default(),
        ready: VecDeque::new(),
        arrived: BTreeMap::new(),
        running: Vec::new(),
        engine_free_at: 0,
        next_id: 0,
        out: Outcome::default(),
    };
    for size in SIZES {
        (0..3).for_each(|_| s.batcher.record_cost(size, costs.batch_us(size)));
    }
    let (mut next, mut front_free_at, mut probe_at, mut now) = (0f64, 0u64, 0u64, 0u64);
    while (now as f64) < seconds * 1e6 {
        while next as u64 <= now {
            if s.ready.len() + s.arrived.len() < connections {
                s.ready.push_back((next as u64, Item::Request(next as u64)));
            } else {
                s.out.missed += 1;
            }
            next += random.exponential(1e6 / rate);
        }
        if now >= probe_at {
            // A task that yields comes after what is ready now: it takes as long as the first in line has waited.
            s.lag.record(s.ready.front().map_or(0, |(since, _)| now - since));
            probe_at = now + 1000;
        }
        s.step(now);
        if now >= front_free_at {
            front_free_at = s.serve(now).max(now);
        }
        let engine = if s.running.is_empty() { u64::MAX } else { s.engine_free_at };
        let front = if s.ready.is_empty() { u64::MAX } else { front_free_at };
        now = engine.min(front).min(next as u64).min(probe_at).max(now + 1);
    }
    s.out
}

/// Of simulated time.
const SECONDS: f64 = 1.0;

/// A perceptron whose rows cost less than their requests, a model that is the bottleneck itself, and both alike.
const CASES: [Costs; 3] = [
    Costs { batch: 100, row: 22, read: 30, refuse: 14, write: 15 },
    Costs { batch: 1000, row: 150, read: 30, refuse: 14, write: 15 },
    Costs { batch: 200, row: 40, read: 30, refuse: 14, write: 15 },
];

#[test]
fn at_eighty_percent_nearly_all_are_answered_in_time() {
    for (i, costs) in CASES.into_iter().enumerate() {
        let mut out = simulate(costs, 0.8 * costs.saturation(), 512, SECONDS, 1);
        let (p99, refused) = (percentile(&mut out.answers_us, 0.99), out.refusals_us.len());
        assert!(p99 <= 25_000 && out.missed == 0, "case {i}: p99 {p99} us, {} missed", out.missed);
        assert!(refused * 100 <= out.answers_us.len(), "case {i}: {refused} of {} refused", out.answers_us.len());
    }
}

#[test]
fn at_twice_saturation_answers_keep_the_target_and_refusals_are_prompt() {
    for (i, costs) in CASES.into_iter().enumerate() {
        for seed in 1..4 {
            let rate = costs.saturation();
            let mut out = simulate(costs, 2.0 * rate, 1024, SECONDS, seed);
            let p99 = percentile(&mut out.answers_us, 0.99);
            assert!(p99 <= 25_000, "case {i}, seed {seed}: answers {p99} us");
            let refusal = percentile(&mut out.refusals_us, 0.99);
            assert!(refusal <= 20_000, "case {i}, seed {seed}: refusals {refusal} us");
            // Refusing takes a part of the front end that answers would need.
            let share = out.answers_us.len() as f64 / SECONDS / rate;
            assert!(share > 0.5, "case {i}, seed {seed}: {share} of saturation");
        }
    }
}
