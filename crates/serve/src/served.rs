//! A version of a model that is being served: what runs it, its load and its counters.

use crate::batcher::{Policy, inside_us, rung};
use crate::margin::{Margin, Written};
use crate::metrics::Stats;
use ir::{Literal, Result};
use model::{Axis, Model, Prepared, Signature, TensorSpec};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// What can be served. Exported models are; tests put in others.
pub trait Executable: Send + Sync {
    /// What it takes and returns.
    fn signature(&self) -> &Signature;
    /// What runs it at these sizes of the free dimensions. May take long: it is compiled here.
    fn prepare(&self, sizes: &[usize]) -> Result<Arc<dyn Run>>;
    /// Bytes of its weights.
    fn weight_bytes(&self) -> usize;
}

/// An [`Executable`] at fixed sizes.
pub trait Run: Send + Sync {
    /// The outputs for these inputs.
    fn run(&self, inputs: &[Literal]) -> Result<Vec<Literal>>;
}

impl Executable for Model {
    fn signature(&self) -> &Signature {
        Model::signature(self)
    }
    fn prepare(&self, sizes: &[usize]) -> Result<Arc<dyn Run>> {
        Ok(Arc::new(Model::prepare(self, sizes)?))
    }
    fn weight_bytes(&self) -> usize {
        Model::weight_bytes(self)
    }
}

impl Run for Prepared {
    fn run(&self, inputs: &[Literal]) -> Result<Vec<Literal>> {
        Prepared::run(self, inputs)
    }
}

/// The time since the process began to serve, in microseconds.
pub fn now_us() -> u64 {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    // 0 means never.
    START.elapsed().as_micros() as u64 + 1
}

/// What waits for a model on one engine.
#[derive(Default)]
pub(crate) struct Lane {
    pub requests: AtomicUsize,
    pub bytes: AtomicUsize,
    /// Rows that wait, and their work.
    pub rows: AtomicUsize,
    pub backlog_us: AtomicU64,
    /// Time of a full batch, as the engine last measured it, and by how much it rarely exceeds that.
    pub batch_us: AtomicU64,
    pub batch_spread_us: AtomicU64,
    /// Rows of a full batch.
    pub batch_rows: AtomicUsize,
    /// The latency that the engine keeps.
    pub target_us: AtomicU64,
    /// What an answer takes from the engine to the socket, smoothed.
    pub out_us: AtomicU64,
    /// What admission keeps free of the target.
    pub margin_us: AtomicU64,
    margin: Mutex<Margin>,
}

impl Lane {
    /// Counts an answer that the engine had at `done_us`.
    pub fn written(&self, policy: &Policy, done_us: u64, answer: Written) {
        let (out_us, before_us) = (answer.written_us.saturating_sub(done_us), self.out_us.load(Ordering::Relaxed));
        // Of two threads at once, one counts.
        self.out_us.store((15 * before_us + out_us) / 16, Ordering::Relaxed);
        let target_us = inside_us(policy.latency_us.max(self.target_us.load(Ordering::Relaxed)));
        let margin_us = self.margin.lock().record(answer, target_us, policy.late_permille);
        self.margin_us.store(margin_us, Ordering::Relaxed);
    }
}

/// Bytes of a row of all inputs, where every row has as many.
fn row_bytes(signature: &Signature) -> Option<usize> {
    let axis = |a: &Axis| if let Axis::Fixed(n) = a { Some(*n) } else { None };
    let input = |s: &TensorSpec| {
        let count = s.shape.iter().skip(1).map(axis).product::<Option<usize>>()?;
        Some(count * s.dtype().ok()?.size())
    };
    let bytes = signature.inputs.iter().map(input).sum::<Option<usize>>()?;
    Some(bytes).filter(|b| signature.is_batched && *b > 0)
}

/// A version of a model that is being served.
pub struct Served {
    /// Tells it from every other one of this process.
    pub id: u64,
    /// The name that requests use.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// What runs it.
    pub model: Arc<dyn Executable>,
    /// How it is batched.
    pub policy: Policy,
    /// Its counters.
    pub stats: Arc<Stats>,
    /// By engine.
    pub(crate) lanes: Vec<Lane>,
    row_bytes: Option<usize>,
    last_used_us: AtomicU64,
}

impl Served {
    /// A model for so many engines.
    pub fn new(name: &str, version: u64, model: Arc<dyn Executable>, policy: Policy, engines: usize) -> Served {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let row_bytes = row_bytes(model.signature());
        Served {
            row_bytes,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
            version,
            model,
            policy,
            stats: Arc::new(Stats::default()),
            lanes: (0..engines).map(|_| Lane::default()).collect(),
            last_used_us: AtomicU64::new(now_us()),
        }
    }
    /// What runs it at these sizes; counts what it takes to compile.
    pub(crate) fn prepare(&self, sizes: &[usize]) -> Result<Arc<dyn Run>> {
        let began = now_us();
        let made = self.model.prepare(sizes);
        self.stats.programs.fetch_add(1, Ordering::Relaxed);
        self.stats.compile_us.fetch_add(now_us() - began, Ordering::Relaxed);
        made
    }
    /// Rows of a request whose inputs have so many bytes; 1 where that is not known before it was read.
    pub fn rows_of(&self, bytes: usize) -> usize {
        self.row_bytes.map_or(1, |row| bytes / row).max(1)
    }
    /// Whether inputs of so many bytes can be a batch by themselves: their rows are those of a program. Such sizes are few,
    /// so their memory is used again by other requests.
    pub fn is_batch(&self, bytes: usize) -> bool {
        self.row_bytes.is_some_and(|row| bytes.is_multiple_of(row) && rung(bytes / row) == bytes / row)
    }
    /// Notes that it is used now.
    pub fn touch(&self) {
        self.last_used_us.store(now_us(), Ordering::Relaxed);
    }
    /// How long it has not been used.
    pub fn idle_us(&self) -> u64 {
        now_us().saturating_sub(self.last_used_us.load(Ordering::Relaxed))
    }
    /// What admission keeps free of the latency target, at most of all engines.
    pub fn margin_us(&self) -> u64 {
        self.lanes.iter().map(|l| l.margin_us.load(Ordering::Relaxed)).max().unwrap_or(0)
    }
    /// Requests that wait or run.
    pub fn pending(&self) -> usize {
        self.lanes.iter().map(|l| l.requests.load(Ordering::Relaxed)).sum()
    }
}
