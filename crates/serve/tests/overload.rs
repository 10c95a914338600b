//! Overload in simulated time: requests wait in sockets, the front end reads, admits or refuses, the engine runs batches,
//! and the front end writes answers. Decisions are the server's own; the clock, arrivals and costs are simulated.

use std::collections::{BTreeMap, VecDeque};
use talweg_serve::batcher::{Admitted, Asked, Batcher, Entry, Load, Policy, Step, admit, inside_us};
use talweg_serve::margin::{Margin, Written};
use talweg_serve::ticket::Lag;

struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        1.0 - (-self.exponential(1.0)).exp()
    }
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
    /// Answers a second at most where `rate` requests come and the front end runs for a part of the time.
    fn best(self, rate: f64, part: f64) -> f64 {
        let front = (part * 1e6 - rate * self.refuse as f64) / (self.read + self.write - self.refuse) as f64;
        front.min(self.saturation())
    }
}

/// How often the front end is stopped, if it is.
const STALL_EVERY_US: u64 = 50_000;

/// What varies, besides arrivals.
#[derive(Clone, Copy, Default)]
struct Noise {
    /// The time of a batch varies by so many parts of it, both ways.
    service: f64,
    /// From this time on, batches take three times as long.
    slow_from_us: Option<u64>,
    /// The front end does not run for so long at times: other processes have its processor.
    stall_us: u64,
}

impl Noise {
    fn factor(self, now: u64, random: &mut Random) -> f64 {
        let slow = if self.slow_from_us.is_some_and(|t| now >= t) { 3.0 } else { 1.0 };
        slow * (1.0 + self.service * (2.0 * random.uniform() - 1.0))
    }
}

/// A request that was admitted.
#[derive(Clone, Copy)]
struct Taken {
    arrived_us: u64,
    is_refusable: bool,
}

/// What waits for the front end.
enum Item {
    Request(u64),
    Answer(Taken),
}

#[derive(Default)]
struct Outcome {
    /// When each answer was written, and its latency.
    answers: Vec<(u64, u64)>,
    refusals_us: Vec<u64>,
    /// The margin, every millisecond.
    margins_us: Vec<u64>,
    missed: usize,
}

impl Outcome {
    /// Latencies of what was answered from this time on.
    fn answers_us(&self, from_us: u64) -> Vec<u64> {
        self.answers.iter().filter(|(at, _)| *at >= from_us).map(|(_, us)| *us).collect()
    }
}

fn percentile(all: &mut [u64], p: f64) -> u64 {
    all.sort_unstable();
    all.get(((all.len() as f64 * p) as usize).min(all.len().saturating_sub(1))).copied().unwrap_or(0)
}

struct Server {
    costs: Costs,
    policy: Policy,
    batcher: Batcher,
    noise: Noise,
    random: Random,
    margin: Margin,
    margin_us: u64,
    lag: Lag,
    /// Ready connections, in order; each with the time that it became ready.
    ready: VecDeque<(u64, Item)>,
    /// Requests that are admitted.
    taken: BTreeMap<u64, Taken>,
    running: Vec<u64>,
    engine_free_at: u64,
    next_id: u64,
    out: Outcome,
}

impl Server {
    fn admit(&self, now: u64, since: u64) -> Option<Admitted> {
        let load = Load {
            requests: self.taken.len(),
            rows: self.batcher.len(),
            running_us: if self.running.is_empty() { 0 } else { self.engine_free_at.saturating_sub(now) },
            batch: self.batcher.full_batch(),
            target_us: self.batcher.target_us(),
            front_us: self.lag.least_us(),
            waited_us: now - since,
            margin_us: self.margin_us,
            ..Load::default()
        };
        admit(&self.policy, &load, Asked { rows: 1, bytes: 4096 }).ok()
    }

    /// The front end takes the first of what is ready; returns when it is free again.
    fn serve(&mut self, now: u64) -> u64 {
        let Some((since, item)) = self.ready.pop_front() else { return now };
        let arrived_us = match item {
            Item::Answer(Taken { arrived_us, is_refusable }) => {
                let written_us = now + self.costs.write;
                let answer = Written { arrived_us, written_us, is_refusable };
                let target_us = inside_us(self.policy.latency_us.max(self.batcher.target_us()));
                self.margin_us = self.margin.record(answer, target_us, self.policy.late_permille);
                self.out.answers.push((written_us, written_us - arrived_us));
                return written_us;
            }
            Item::Request(arrived_us) => arrived_us,
        };
        let Some(Admitted { is_refusable }) = self.admit(now, since) else {
            self.out.refusals_us.push(now + self.costs.refuse - since);
            return now + self.costs.refuse;
        };
        self.next_id += 1;
        let id = self.next_id;
        self.taken.insert(id, Taken { arrived_us, is_refusable });
        self.batcher.push(Entry { id, group: 0, rows: 1, priority: 16, arrived_us, deadline_us: None });
        now + self.costs.read
    }

    /// The engine ends its batch, hands its answers to the front end, and begins the next one.
    fn step(&mut self, now: u64) {
        if now < self.engine_free_at {
            return;
        }
        for id in std::mem::take(&mut self.running) {
            let taken = self.taken.remove(&id).expect("it was admitted");
            self.batcher.record_latency(now + self.lag.least_us() - taken.arrived_us);
            self.ready.push_back((now, Item::Answer(taken)));
        }
        self.batcher.set_front_us(self.lag.least_us());
        if let Step::Run(batch) = self.batcher.next(now, |_| &SIZES).step {
            let us = self.costs.batch_us(batch.size) as f64 * self.noise.factor(now, &mut self.random);
            let us = us as u64;
            self.engine_free_at = now + us;
            self.batcher.record_cost(batch.size, us);
            self.running = batch.ids;
        }
    }
}

/// Poisson arrivals over so many connections at most. Every millisecond the lag of the front end is measured.
fn simulate(costs: Costs, noise: Noise, rate: f64, connections: usize, seconds: f64, seed: u64) -> Outcome {
    let policy = Policy::default();
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut s = Server {
        costs,
        policy,
        batcher: Batcher::new(policy, false),
        noise,
        random: Random(seed.wrapping_mul(0xd134_2543_de82_ef95) | 1),
        margin: Margin::default(),
        margin_us: 0,
        lag: Lag::default(),
        ready: VecDeque::new(),
        taken: BTreeMap::new(),
        running: Vec::new(),
        engine_free_at: 0,
        next_id: 0,
        out: Outcome::default(),
    };
    for size in SIZES {
        (0..3).for_each(|_| s.batcher.record_cost(size, costs.batch_us(size)));
    }
    let (mut next, mut front_free_at, mut probe_at, mut now, mut stall_at) = (0f64, 0u64, 0u64, 0u64, STALL_EVERY_US);
    while (now as f64) < seconds * 1e6 {
        while next as u64 <= now {
            if s.ready.len() + s.taken.len() < connections {
                s.ready.push_back((next as u64, Item::Request(next as u64)));
            } else {
                s.out.missed += 1;
            }
            next += random.exponential(1e6 / rate);
        }
        if now >= probe_at {
            // A task that yields comes after what is ready now: it takes as long as the first in line has waited.
            s.lag.record(s.ready.front().map_or(0, |(since, _)| now - since));
            s.out.margins_us.push(s.margin_us);
            probe_at = now + 1000;
        }
        s.step(now);
        if noise.stall_us > 0 && now >= stall_at {
            front_free_at = front_free_at.max(now + noise.stall_us);
            stall_at = now + STALL_EVERY_US;
        }
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

const NOISES: [Noise; 4] = [
    Noise { service: 0.0, slow_from_us: None, stall_us: 0 },
    Noise { service: 0.6, slow_from_us: None, stall_us: 0 },
    Noise { service: 0.0, slow_from_us: None, stall_us: 6_000 },
    Noise { service: 0.6, slow_from_us: None, stall_us: 6_000 },
];

#[test]
fn at_eighty_percent_nearly_all_are_answered_in_time() {
    for (i, costs) in CASES.into_iter().enumerate() {
        for (n, noise) in NOISES.into_iter().enumerate() {
            // A front end that is stopped for an eighth of the time can do as much less.
            let can = 1.0 - noise.stall_us as f64 / STALL_EVERY_US as f64;
            let out = simulate(costs, noise, 0.8 * can * costs.saturation(), 512, SECONDS, 1);
            let (mut answers, refused) = (out.answers_us(0), out.refusals_us.len());
            let p99 = percentile(&mut answers, 0.99);
            assert!(p99 <= 25_000 && out.missed == 0, "case {i}, noise {n}: p99 {p99} us, {} missed", out.missed);
            assert!(refused * 100 <= answers.len(), "case {i}, noise {n}: {refused} of {} refused", answers.len());
        }
    }
}

#[test]
fn at_twice_saturation_answers_keep_the_target_and_refusals_are_prompt() {
    for (i, costs) in CASES.into_iter().enumerate() {
        for (n, noise) in NOISES.into_iter().enumerate() {
            for seed in 1..4 {
                let rate = costs.saturation();
                let mut out = simulate(costs, noise, 2.0 * rate, 1024, SECONDS, seed);
                let mut answers = out.answers_us(0);
                let p99 = percentile(&mut answers, 0.99);
                assert!(p99 <= 25_000, "case {i}, noise {n}, seed {seed}: answers {p99} us");
                let refusal = percentile(&mut out.refusals_us, 0.99);
                assert!(refusal <= 20_000, "case {i}, noise {n}, seed {seed}: refusals {refusal} us");
                // Refusing takes a part of the front end that answers would need.
                let best = costs.best(2.0 * rate, 1.0 - noise.stall_us as f64 / STALL_EVERY_US as f64);
                let share = answers.len() as f64 / SECONDS / best;
                assert!(share > 0.9, "case {i}, noise {n}, seed {seed}: {share} of what is possible");
            }
        }
    }
}

/// A model that becomes three times as slow under twice the load: after half a second answers are in time again.
#[test]
fn a_model_that_slows_down_is_given_fewer_requests() {
    for (i, costs) in CASES.into_iter().enumerate() {
        for seed in 1..4 {
            let noise = Noise { service: 0.3, slow_from_us: Some(500_000), stall_us: 0 };
            let out = simulate(costs, noise, 2.0 * costs.saturation(), 1024, 2.0, seed);
            let mut answers = out.answers_us(1_000_000);
            let (p99, count) = (percentile(&mut answers, 0.99), answers.len());
            assert!(p99 <= 25_000, "case {i}, seed {seed}: answers {p99} us");
            // Full batches may be beyond the target now, and smaller ones answer fewer requests.
            let full = 32e6 / (3.0 * costs.batch_us(32) as f64);
            assert!(count as f64 >= 0.2 * full, "case {i}, seed {seed}: {count} answers");
        }
    }
}

/// Under a steady load the margin stays where it is, but for what is given back and taken again.
#[test]
fn the_margin_settles() {
    for (i, costs) in CASES.into_iter().enumerate() {
        for (n, noise) in NOISES.into_iter().enumerate() {
            let out = simulate(costs, noise, 2.0 * costs.saturation(), 1024, 4.0, 7);
            let late = &out.margins_us[out.margins_us.len() / 2..];
            let (least, most) = (late.iter().min().unwrap(), late.iter().max().unwrap());
            assert!(most - least <= 6_000, "case {i}, noise {n}: from {least} to {most} us");
            let widened = late.windows(2).filter(|w| w[1] > w[0]).count();
            assert!(widened <= 8, "case {i}, noise {n}: widened {widened} times in two seconds");
        }
    }
}
