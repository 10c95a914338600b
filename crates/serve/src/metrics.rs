//! Counters and histograms, and their text for Prometheus. Names are Triton's where Triton has the metric. Its counters
//! do not end in `_total`, which the client libraries insist on.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Upper bounds of latencies, in microseconds.
pub const LATENCY_US: [u64; 18] = [
    100, 250, 500, 1_000, 2_500, 5_000, 7_500, 10_000, 15_000, 20_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 10_000_000,
];
/// Upper bounds of batch sizes.
pub const SIZES: [u64; 12] = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256];

/// Counts by upper bound; the last is without bound.
pub struct Histogram<const N: usize> {
    bounds: &'static [u64; N],
    counts: [AtomicU64; N],
    beyond: AtomicU64,
    sum: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    fn new(bounds: &'static [u64; N]) -> Histogram<N> {
        let counts = std::array::from_fn(|_| AtomicU64::new(0));
        Histogram { bounds, counts, beyond: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }
    /// Counts a value.
    pub fn record(&self, value: u64) {
        let at = self.bounds.partition_point(|&b| b < value);
        self.counts.get(at).unwrap_or(&self.beyond).fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }
    /// Bounds with their counts; `None` is without bound.
    pub fn buckets(&self) -> Vec<(Option<u64>, u64)> {
        let counts = self.bounds.iter().map(|b| Some(*b)).zip(self.counts.iter().map(|c| c.load(Relaxed)));
        counts.chain([(None, self.beyond.load(Relaxed))]).collect()
    }
    fn text(&self, out: &mut String, name: &str, labels: &str, scale: f64) {
        let mut total = 0;
        for (bound, count) in self.buckets() {
            total += count;
            let bound = bound.map_or("+Inf".to_string(), |b| (b as f64 / scale).to_string());
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {total}");
        }
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}", self.sum.load(Relaxed) as f64 / scale);
        let _ = writeln!(out, "{name}_count{{{labels}}} {total}");
    }
}

/// Counters of one version of a model.
pub struct Stats {
    /// Requests that were answered.
    pub success: AtomicU64,
    /// Rows that were computed, padding excluded.
    pub rows: AtomicU64,
    /// Batches that ran.
    pub executions: AtomicU64,
    /// Rows of padding.
    pub padding: AtomicU64,
    /// Time of answered requests, from arrival to answer.
    pub request_us: AtomicU64,
    /// Time they waited.
    pub queue_us: AtomicU64,
    /// Time to join inputs.
    pub input_us: AtomicU64,
    /// Time in the model.
    pub infer_us: AtomicU64,
    /// Time to hand out the results.
    pub output_us: AtomicU64,
    /// Time from the last byte of a request in its socket to the queue.
    pub receive_us: AtomicU64,
    /// Time from the end of a batch to the write of its answers.
    pub send_us: AtomicU64,
    /// Answers from the cache.
    pub cache_hits: AtomicU64,
    /// Requests that the cache did not know.
    pub cache_misses: AtomicU64,
    /// Programs that were compiled, one for each size.
    pub programs: AtomicU64,
    /// Time to compile them.
    pub compile_us: AtomicU64,
    /// Requests without an answer, by reason.
    pub failures: Mutex<BTreeMap<&'static str, u64>>,
    /// Time of answered requests.
    pub latency: Histogram<18>,
    /// Rows of batches.
    pub sizes: Histogram<12>,
}

impl Default for Stats {
    fn default() -> Stats {
        let zero = || AtomicU64::new(0);
        Stats {
            success: zero(),
            rows: zero(),
            executions: zero(),
            padding: zero(),
            request_us: zero(),
            queue_us: zero(),
            input_us: zero(),
            infer_us: zero(),
            output_us: zero(),
            receive_us: zero(),
            send_us: zero(),
            cache_hits: zero(),
            cache_misses: zero(),
            programs: zero(),
            compile_us: zero(),
            failures: Mutex::default(),
            latency: Histogram::new(&LATENCY_US),
            sizes: Histogram::new(&SIZES),
        }
    }
}

impl Stats {
    /// Counts the time of an answer, once it was written.
    pub fn written(&self, us: u64) {
        self.request_us.fetch_add(us, Relaxed);
        self.latency.record(us);
    }
    /// Counts a request without an answer.
    pub fn failed(&self, reason: &'static str) {
        *self.failures.lock().entry(reason).or_default() += 1;
    }
}

/// Counters at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // As in [`Stats`].
pub struct Totals {
    pub success: u64,
    pub failures: u64,
    pub rows: u64,
    pub executions: u64,
    pub request_us: u64,
    pub queue_us: u64,
    pub input_us: u64,
    pub infer_us: u64,
    pub output_us: u64,
    pub cache_hits: u64,
    pub cache_misses: u64,
}

impl Stats {
    /// All counters.
    pub fn totals(&self) -> Totals {
        let n = |x: &AtomicU64| x.load(Relaxed);
        Totals {
            success: n(&self.success),
            failures: self.failures.lock().values().sum(),
            rows: n(&self.rows),
            executions: n(&self.executions),
            request_us: n(&self.request_us),
            queue_us: n(&self.queue_us),
            input_us: n(&self.input_us),
            infer_us: n(&self.infer_us),
            output_us: n(&self.output_us),
            cache_hits: n(&self.cache_hits),
            cache_misses: n(&self.cache_misses),
        }
    }
}

/// A model's counters with what labels them.
pub struct Labeled {
    /// The model.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// Requests that wait or run.
    pub pending: usize,
    /// What admission keeps free of the latency target.
    pub margin_us: u64,
    /// The counters.
    pub stats: Arc<Stats>,
}

/// Answers over HTTP by route, then by method and status. Routes are patterns, never the text that a client sent.
#[derive(Default)]
pub struct Requests(Mutex<BTreeMap<String, BTreeMap<(&'static str, u16), u64>>>);

/// Methods that are labels; clients may send any word.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];

impl Requests {
    /// Counts an answer.
    pub fn record(&self, route: &str, method: &str, status: u16) {
        let method = METHODS.into_iter().find(|m| *m == method).unwrap_or("OTHER");
        let mut routes = self.0.lock();
        // Only the first answer of a route allocates.
        match routes.get_mut(route) {
            Some(counts) => *counts.entry((method, status)).or_default() += 1,
            None => drop(routes.insert(route.into(), BTreeMap::from([((method, status), 1)]))),
        }
    }
}

type Read = fn(&Stats) -> u64;
const COUNTERS: [(&str, &str, Read); 16] = [
    ("nv_inference_request_success", "Requests that were answered", |s| s.success.load(Relaxed)),
    ("nv_inference_count", "Rows that were computed", |s| s.rows.load(Relaxed)),
    ("nv_inference_exec_count", "Batches that ran", |s| s.executions.load(Relaxed)),
    ("nv_inference_request_duration_us", "Time of answered requests", |s| s.request_us.load(Relaxed)),
    ("nv_inference_queue_duration_us", "Time that requests waited", |s| s.queue_us.load(Relaxed)),
    ("nv_inference_compute_input_duration_us", "Time to join inputs", |s| s.input_us.load(Relaxed)),
    ("nv_inference_compute_infer_duration_us", "Time in the model", |s| s.infer_us.load(Relaxed)),
    ("nv_inference_compute_output_duration_us", "Time to hand out results", |s| s.output_us.load(Relaxed)),
    ("nv_cache_num_hits_per_model", "Answers from the response cache", |s| s.cache_hits.load(Relaxed)),
    ("nv_cache_num_misses_per_model", "Requests unknown to the response cache", |s| s.cache_misses.load(Relaxed)),
    ("talweg_receive_duration_us", "Time from a request in its socket to the queue", |s| s.receive_us.load(Relaxed)),
    ("talweg_send_duration_us", "Time from the end of a batch to the write of an answer", |s| s.send_us.load(Relaxed)),
    ("talweg_padding_rows", "Rows of padding that were computed", |s| s.padding.load(Relaxed)),
    ("talweg_compiled_programs", "Programs that were compiled", |s| s.programs.load(Relaxed)),
    ("talweg_compile_duration_us", "Time to compile programs", |s| s.compile_us.load(Relaxed)),
    ("nv_inference_request_failure", "Requests without an answer", |_| 0),
];

fn labels(m: &Labeled) -> String {
    let name = m.name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("model=\"{name}\",version=\"{}\"", m.version)
}

/// The exposition format of Prometheus.
pub fn exposition(models: &[Labeled], requests: &Requests, is_ready: bool) -> String {
    let mut out = String::new();
    let head = |out: &mut String, name: &str, help: &str, kind: &str| {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    };
    for (name, help, read) in COUNTERS {
        head(&mut out, name, help, "counter");
        for m in models {
            if name == "nv_inference_request_failure" {
                for (reason, count) in m.stats.failures.lock().iter() {
                    let _ = writeln!(out, "{name}{{{},reason=\"{reason}\"}} {count}", labels(m));
                }
            } else {
                let _ = writeln!(out, "{name}{{{}}} {}", labels(m), read(&m.stats));
            }
        }
    }
    head(&mut out, "nv_inference_pending_request_count", "Requests that wait or run", "gauge");
    for m in models {
        let _ = writeln!(out, "nv_inference_pending_request_count{{{}}} {}", labels(m), m.pending);
    }
    let margin = "talweg_admission_margin_us";
    head(&mut out, margin, "What admission keeps free of the latency target", "gauge");
    for m in models {
        let _ = writeln!(out, "{margin}{{{}}} {}", labels(m), m.margin_us);
    }
    head(&mut out, "talweg_request_duration_seconds", "Time of answered requests", "histogram");
    for m in models {
        m.stats.latency.text(&mut out, "talweg_request_duration_seconds", &labels(m), 1e6);
    }
    head(&mut out, "talweg_batch_size", "Rows of batches", "histogram");
    for m in models {
        m.stats.sizes.text(&mut out, "talweg_batch_size", &labels(m), 1.0);
    }
    head(&mut out, "http_requests_total", "Answers over HTTP", "counter");
    for (route, counts) in requests.0.lock().iter() {
        for ((method, status), count) in counts {
            let labels = format!("route=\"{route}\",method=\"{method}\",status=\"{status}\"");
            let _ = writeln!(out, "http_requests_total{{{labels}}} {count}");
        }
    }
    head(&mut out, "talweg_ready", "Whether the server takes requests", "gauge");
    let _ = writeln!(out, "talweg_ready {}", u8::from(is_ready));
    if let Some(bytes) = resident_bytes() {
        head(&mut out, "process_resident_memory_bytes", "Memory of the process", "gauge");
        let _ = writeln!(out, "process_resident_memory_bytes {bytes}");
    }
    out
}

/// Memory of this process, where the system tells.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(1)?.parse::<u64>().ok().map(|pages| pages * 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_clients_are_no_labels() {
        let requests = Requests::default();
        for method in ["POST", "7OST", "&OST", "post"] {
            requests.record("/v2", method, 405);
        }
        let text = exposition(&[], &requests, true);
        assert!(text.contains("method=\"OTHER\",status=\"405\"} 3"), "{text}");
    }
}
