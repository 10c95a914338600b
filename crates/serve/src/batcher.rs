//! The batcher: which requests run next, together, at which size. A pure state machine: time is an argument, nothing
//! is executed here, and the same calls give the same answers.
//!
//! It never idles while a request waits, unless a delay is configured: at low load a request runs alone at once, and
//! while a batch runs, the next one gathers. So the batch size follows the load. It is capped where the measured cost
//! of a batch reaches nearly half of the latency target, because a request waits for the running batch and then for its
//! own, and takes a little time on both sides of the engine.

use crate::cost::CostCurve;
use model::half_octave;
use std::collections::BTreeMap;

/// How requests are batched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The latency that the stated percentile of requests keeps.
    pub latency_us: u64,
    /// Parts of a thousand that may exceed it: 10 is the 99th percentile.
    pub late_permille: u32,
    /// Rows of a batch at most.
    pub batch_max: usize,
    /// How long an incomplete batch waits for more requests.
    pub delay_us: u64,
    /// Requests that wait at most.
    pub requests_max: usize,
    /// Bytes of inputs that wait at most.
    pub bytes_max: usize,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            latency_us: 25_000,
            late_permille: 10,
            batch_max: 32,
            delay_us: 0,
            requests_max: 1024,
            bytes_max: 256 << 20,
        }
    }
}

/// A waiting request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub id: u64,
    /// Requests of one group may be joined: their sizes are equal but for the rows.
    pub group: u64,
    /// Rows along the batch axis.
    pub rows: usize,
    /// 1 is served first.
    pub priority: u32,
    /// When it came.
    pub arrived_us: u64,
    /// When its answer is of no more use.
    pub deadline_us: Option<u64>,
}

/// Requests to run together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Their group.
    pub group: u64,
    /// Their numbers, in the order of their rows.
    pub ids: Vec<u64>,
    /// Rows of all of them.
    pub rows: usize,
    /// Rows of the program that runs them; those beyond `rows` are padding.
    pub size: usize,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing can run before another request or program comes.
    Idle,
    /// An incomplete batch waits until then.
    Wait(u64),
    /// Run this.
    Run(Batch),
}

/// What to do next, and which size should be compiled meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What to do next.
    pub step: Step,
    /// Sizes that would have served better than those that are compiled: group and rows.
    pub compile: Vec<(u64, usize)>,
}

/// Keeps the percentile: shrinks the budget of a batch while too many answers are late, and lets it grow again.
#[derive(Clone, Debug)]
struct Governor {
    factor: f64,
    seen: u32,
    late: u32,
}

/// Answers between two decisions of the governor.
const WINDOW: u32 = 128;
/// The governor does not shrink the budget further: below, lateness comes from waiting, which smaller batches prolong.
const FACTOR_MIN: f64 = 0.5;
/// What a batch may take of the latency target: two of them and a tenth for the rest.
const BATCH_SHARE: f64 = 0.45;
/// A target below so many times the cost of the cheapest batch cannot be kept while requests wait for each other.
const COSTS_MIN: u64 = 4;
/// The target then, in costs of the cheapest batch: late answers serve better than refusing most requests.
const COSTS_INSTEAD: u64 = 8;

impl Governor {
    fn record(&mut self, is_late: bool, late_permille: u32) {
        self.seen += 1;
        self.late += u32::from(is_late);
        if self.seen < WINDOW {
            return;
        }
        let is_bad = self.late * 1000 > self.seen * late_permille;
        self.factor = if is_bad { (self.factor * 0.8).max(FACTOR_MIN) } else { (self.factor + 0.05).min(1.0) };
        (self.seen, self.late) = (0, 0);
    }
}

/// The queue of one model on one engine.
#[derive(Clone, Debug)]
pub struct Batcher {
    policy: Policy,
    governor: Governor,
    cost: CostCurve,
    /// What a request waits for the front end, in and out.
    front_us: u64,
    /// Whether few batch sizes are compiled.
    is_coarse: bool,
    /// By priority, then by arrival.
    queue: BTreeMap<(u32, u64), Entry>,
}

impl Batcher {
    /// An empty queue. With `is_coarse`, two batch sizes are compiled for each doubling instead of every size.
    pub fn new(policy: Policy, is_coarse: bool) -> Batcher {
        let governor = Governor { factor: 1.0, seen: 0, late: 0 };
        Batcher { policy, governor, cost: CostCurve::default(), front_us: 0, is_coarse, queue: BTreeMap::new() }
    }
    /// Adds a request. Numbers grow from request to request.
    pub fn push(&mut self, entry: Entry) {
        let old = self.queue.insert((entry.priority, entry.id), entry);
        assert!(old.is_none(), "a request was queued twice");
    }
    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }
    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
    /// When the first request in line must be answered, with its priority: queues of several models are served in
    /// this order.
    pub fn urgency(&self) -> Option<(u32, u64)> {
        self.queue.values().next().map(|e| (e.priority, e.arrived_us + self.policy.latency_us))
    }
    /// Removes the requests that `is_gone` names, such as those whose client went away.
    pub fn remove(&mut self, mut is_gone: impl FnMut(u64) -> bool) -> Vec<u64> {
        let gone: Vec<(u32, u64)> = self.queue.iter().filter(|(_, e)| is_gone(e.id)).map(|(k, _)| *k).collect();
        gone.iter().filter_map(|k| self.queue.remove(k)).map(|e| e.id).collect()
    }
    /// Removes the requests that cannot be answered before their deadline.
    pub fn expire(&mut self, now_us: u64) -> Vec<u64> {
        let is_late =
            |e: &Entry| e.deadline_us.is_some_and(|d| now_us + self.cost.estimate_us(e.rows).unwrap_or(0) > d);
        let late: Vec<(u32, u64)> = self.queue.iter().filter(|(_, e)| is_late(e)).map(|(k, _)| *k).collect();
        late.iter().filter_map(|k| self.queue.remove(k)).map(|e| e.id).collect()
    }
    /// Records what a batch of this size took.
    pub fn record_cost(&mut self, size: usize, us: u64) {
        self.cost.record(size, us);
    }
    /// The time that a batch of this size rarely exceeds; 0 before the first measurement.
    pub fn estimate_us(&self, size: usize) -> u64 {
        self.cost.estimate_us(size).unwrap_or(0)
    }
    /// Records the latency of an answer.
    pub fn record_latency(&mut self, us: u64) {
        self.governor.record(us > self.target_us(), self.policy.late_permille);
    }
    /// States what a request waits for a thread of the front end: batches leave time for it, twice.
    pub fn set_front_us(&mut self, us: u64) {
        self.front_us = us;
    }
    /// The latency to keep: the stated one, or the least that this model can keep while requests wait for each other.
    pub fn target_us(&self) -> u64 {
        let floor_us = self.cost.floor_us();
        let is_reachable = self.policy.latency_us >= floor_us * COSTS_MIN;
        if is_reachable { self.policy.latency_us } else { floor_us * COSTS_INSTEAD }
    }
    /// Rows of a batch at most, now.
    pub fn rows_max(&self) -> usize {
        let target_us = self.target_us();
        let inside_us = target_us - (2 * self.front_us).min(target_us / 2);
        let budget = (inside_us as f64 * self.governor.factor * BATCH_SHARE) as u64;
        self.cost.size_within(budget, self.policy.batch_max)
    }
    /// What the front end needs to know to refuse what would come too late.
    pub fn full_batch(&self) -> FullBatch {
        let rows = self.rows_max();
        let (us, spread_us) = self.cost.mean_and_spread_us(rows).unwrap_or((0, 0));
        FullBatch { us, spread_us, rows }
    }

    /// What to do at this time. `compiled` lists the compiled sizes of a group, in order. The requests of a batch to
    /// run leave the queue.
    pub fn next<'a>(&mut self, now_us: u64, compiled: impl Fn(u64) -> &'a [usize]) -> Plan {
        let rows_max = self.rows_max();
        let mut plan = Plan { step: Step::Idle, compile: Vec::new() };
        let mut seen: Vec<u64> = Vec::new();
        // The first request of each group that was not looked at.
        while let Some(first) = self.queue.values().find(|e| !seen.contains(&e.group)) {
            let (group, arrived_us) = (first.group, first.arrived_us);
            seen.push(group);
            let (mut keys, mut rows) = self.gather(group, rows_max);
            let wait_until = arrived_us + self.policy.delay_us;
            if rows < rows_max && now_us < wait_until {
                let until = if let Step::Wait(t) = plan.step { t.min(wait_until) } else { wait_until };
                plan.step = Step::Wait(until);
                continue;
            }
            let sizes = compiled(group);
            let at = sizes.partition_point(|&s| s < rows);
            let rung = if self.is_coarse { half_octave(rows) } else { rung(rows) };
            if sizes.get(at) != Some(&rows) && sizes.binary_search(&rung).is_err() {
                plan.compile.push((group, rung));
            }
            let size = match (sizes.get(at), at.checked_sub(1)) {
                (Some(&size), _) => size,
                (None, Some(below)) => {
                    (keys, rows) = self.gather(group, sizes[below]);
                    if rows > sizes[below] {
                        continue; // The first request alone is larger than every program: it waits for its own.
                    }
                    sizes[below]
                }
                (None, None) => continue,
            };
            let size = sizes.get(sizes.partition_point(|&s| s < rows)).copied().unwrap_or(size);
            let ids = keys.iter().filter_map(|k| self.queue.remove(k)).map(|e| e.id).collect();
            plan.step = Step::Run(Batch { group, ids, rows, size });
            return plan;
        }
        plan
    }

    /// The first requests of a group that have up to `rows_max` rows together; the first is taken whatever its size.
    fn gather(&self, group: u64, rows_max: usize) -> (Vec<(u32, u64)>, usize) {
        let (mut keys, mut rows) = (Vec::new(), 0);
        for (key, e) in self.queue.iter().filter(|(_, e)| e.group == group) {
            if !keys.is_empty() && rows + e.rows > rows_max {
                break;
            }
            keys.push(*key);
            rows += e.rows;
        }
        (keys, rows)
    }
}

/// The size to compile for so many rows: itself up to 32, then steps of an eighth, so that programs stay few and
/// padding below 13 %.
pub fn rung(rows: usize) -> usize {
    if rows <= 32 {
        return rows.max(1);
    }
    let step = 1usize << (usize::BITS - 1 - (rows - 1).leading_zeros()).saturating_sub(3);
    rows.next_multiple_of(step)
}

/// A batch as large as batches may be now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullBatch {
    /// The time that it takes on average.
    pub us: u64,
    /// By how much it rarely exceeds that.
    pub spread_us: u64,
    /// Its rows.
    pub rows: usize,
}

/// What waits and runs on an engine, as the front end sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests of the model that wait or run.
    pub requests: usize,
    /// Bytes of their inputs.
    pub bytes: usize,
    /// Rows of the model that wait.
    pub rows: usize,
    /// Work of other models that waits.
    pub others_us: u64,
    /// What is left of the running batch.
    pub running_us: u64,
    /// A full batch of the model.
    pub batch: FullBatch,
    /// The latency to keep, if it is longer than the stated one.
    pub target_us: u64,
    /// What a ready connection waits for a thread of the front end, at least.
    pub front_us: u64,
    /// How long this request has waited in its socket.
    pub waited_us: u64,
    /// What an answer takes from the engine to the socket.
    pub out_us: u64,
    /// What is kept free of the latency target ([`crate::margin`]).
    pub margin_us: u64,
}

/// What a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Rows along the batch axis.
    pub rows: usize,
    /// Bytes of its inputs.
    pub bytes: usize,
}

/// A request that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Whether a wider margin would have refused it: it waits for more batches than there is always room for.
    pub is_refusable: bool,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which bound was reached.
    pub reason: &'static str,
    /// When another try may succeed.
    pub retry_us: u64,
}

/// The front end may be late by one of so many parts of the target. A longer line of connections answers no more requests,
/// as the front end is busy either way; it only makes every answer and refusal later.
const FRONT_PARTS: u64 = 5;

/// Batches that there is always room for, whatever the margin: the one that runs, the next one, and that of the request.
/// An engine with fewer would wait for requests while others are refused.
const BATCHES_MIN: u64 = 3;

/// What an answer may take in the server: a tenth of the target is left for the ways to and from the client, and for what
/// varies.
pub fn inside_us(target_us: u64) -> u64 {
    target_us - target_us / 10
}

/// Whether a request is taken: only if the queue has room and its answer is expected within the latency target, less the
/// margin.
///
/// Whole batches of those that wait run before it, then the batch that it is part of. If nothing of its model waits, it is
/// taken whatever its batch costs, or an unreachable target would refuse all; only a front end that is late by itself
/// refuses it.
pub fn admit(policy: &Policy, load: &Load, asked: Asked) -> Result<Admitted, Refusal> {
    let batch_rows = load.batch.rows.max(1);
    let before = (load.rows / batch_rows) as u64;
    let before_us = before * load.batch.us;
    let wait_us = load.running_us + load.others_us + before_us;
    let refuse = |reason, retry_us: u64| Err(Refusal { reason, retry_us: retry_us.max(1000) });
    if load.requests >= policy.requests_max {
        return refuse("the queue is full", wait_us / 2);
    }
    if load.requests > 0 && load.bytes.saturating_add(asked.bytes) > policy.bytes_max {
        return refuse("the queue holds too many bytes", wait_us / 2);
    }
    let target_us = policy.latency_us.max(load.target_us);
    if load.front_us > target_us / FRONT_PARTS {
        return refuse("more requests come than the server can read in time", 2 * load.front_us);
    }
    // Batches that are slower and faster than the mean make up for each other: their spread grows with the root.
    let spread_us = (load.batch.spread_us as f64 * ((before + 1) as f64).sqrt()) as u64;
    let own_us = load.batch.us * asked.rows.max(batch_rows) as u64 / batch_rows as u64 + spread_us;
    let out_us = load.out_us.max(load.front_us);
    let done_us = if load.rows == 0 { 2 * load.front_us } else { load.waited_us + wait_us + own_us + out_us };
    let inside_us = inside_us(target_us);
    let room_us = (BATCHES_MIN * load.batch.us + load.batch.spread_us + load.front_us + out_us).min(inside_us);
    let limit_us = inside_us.saturating_sub(load.margin_us).max(room_us);
    if done_us > limit_us {
        return refuse("the answer would come after the latency target", done_us.saturating_sub(limit_us));
    }
    Ok(Admitted { is_refusable: done_us > room_us })
}
