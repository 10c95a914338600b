//! Counters of an engine, and their text for Prometheus under vLLM's names.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Bounds of the time to the first token, in seconds.
const FIRST: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
/// Bounds of the time between two tokens.
const BETWEEN: &[f64] =
    &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
/// Bounds of whole requests.
const WHOLE: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];
/// Bounds of tokens in a step.
const TOKENS: &[f64] = &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];

/// Counts by upper bound.
pub struct Histogram {
    bounds: &'static [f64],
    counts: Vec<AtomicU64>,
    /// In millionths.
    sum: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum: AtomicU64::new(0) }
    }
    /// Counts a value.
    pub fn record(&self, x: f64) {
        let at = self.bounds.partition_point(|b| *b < x);
        self.counts[at].fetch_add(1, Relaxed);
        self.sum.fetch_add((x.max(0.0) * 1e6) as u64, Relaxed);
    }
    /// Counts a time.
    pub fn time(&self, d: Duration) {
        self.record(d.as_secs_f64());
    }
    fn text(&self, out: &mut String, name: &str, help: &str, label: &str) {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        let mut total = 0;
        let bounds = self.bounds.iter().map(|b| b.to_string()).chain(["+Inf".to_string()]);
        for (bound, count) in bounds.zip(&self.counts) {
            total += count.load(Relaxed);
            let _ = writeln!(out, "{name}_bucket{{{label},le=\"{bound}\"}} {total}");
        }
        let _ = writeln!(out, "{name}_sum{{{label}}} {}", self.sum.load(Relaxed) as f64 / 1e6);
        let _ = writeln!(out, "{name}_count{{{label}}} {total}");
    }
}

macro_rules! stats {
    ($($(#[$doc:meta])* $field:ident: $kind:literal $name:literal $help:literal,)*) => {
        /// Counters of an engine.
        pub struct Stats {
            $($(#[$doc])* pub $field: AtomicU64,)*
            /// Share of the KV cache in use, in millionths.
            pub usage: AtomicU64,
            /// Finished requests: stopped, at their length, aborted.
            pub finished: [AtomicU64; 3],
            /// Arrival to first token.
            pub first: Histogram,
            /// Between two tokens of a request.
            pub between: Histogram,
            /// Arrival to end.
            pub whole: Histogram,
            /// Arrival to the first step.
            pub queued: Histogram,
            /// Tokens of a step.
            pub step_tokens: Histogram,
        }
        impl Default for Stats {
            fn default() -> Stats {
                Stats {
                    $($field: AtomicU64::new(0),)*
                    usage: AtomicU64::new(0),
                    finished: std::array::from_fn(|_| AtomicU64::new(0)),
                    first: Histogram::new(FIRST),
                    between: Histogram::new(BETWEEN),
                    whole: Histogram::new(WHOLE),
                    queued: Histogram::new(WHOLE),
                    step_tokens: Histogram::new(TOKENS),
                }
            }
        }
        impl Stats {
            fn rows(&self) -> Vec<(&'static str, &'static str, &'static str, u64)> {
                vec![$(($name, $kind, $help, self.$field.load(Relaxed)),)*]
            }
        }
    };
}

stats! {
    /// Sequences that run.
    running: "gauge" "vllm:num_requests_running" "Sequences that run",
    /// Sequences that wait.
    waiting: "gauge" "vllm:num_requests_waiting" "Sequences that wait",
    /// Tokens of prompts that were computed or shared.
    prompt_tokens: "counter" "vllm:prompt_tokens_total" "Tokens of prompts",
    /// Generated tokens.
    generation_tokens: "counter" "vllm:generation_tokens_total" "Generated tokens",
    /// Tokens of prompts that were looked up.
    prefix_queries: "counter" "vllm:prefix_cache_queries_total" "Tokens looked up in the prefix cache",
    /// Tokens of prompts that were shared.
    prefix_hits: "counter" "vllm:prefix_cache_hits_total" "Tokens found in the prefix cache",
    /// Sequences that lost their KV to others.
    preemptions: "counter" "vllm:num_preemptions_total" "Preempted sequences",
    /// Drafts that were verified.
    drafts: "counter" "vllm:spec_decode_num_drafts_total" "Drafts",
    /// Tokens of drafts.
    draft_tokens: "counter" "vllm:spec_decode_num_draft_tokens_total" "Tokens of drafts",
    /// Tokens of drafts that were accepted.
    accepted_tokens: "counter" "vllm:spec_decode_num_accepted_tokens_total" "Accepted tokens of drafts",
}

impl Stats {
    /// The exposition format of Prometheus.
    pub fn exposition(&self, model: &str) -> String {
        let model = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let label = format!("model_name=\"{model}\"");
        let mut out = String::new();
        for (name, kind, help, value) in self.rows() {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{{{label}}} {value}");
        }
        let name = "vllm:kv_cache_usage_perc";
        let usage = self.usage.load(Relaxed) as f64 / 1e6;
        let _ = writeln!(out, "# HELP {name} KV cache in use, 0 to 1\n# TYPE {name} gauge\n{name}{{{label}}} {usage}");
        let name = "vllm:request_success_total";
        let _ = writeln!(out, "# HELP {name} Finished requests\n# TYPE {name} counter");
        for (reason, count) in ["stop", "length", "abort"].iter().zip(&self.finished) {
            let _ = writeln!(out, "{name}{{{label},finished_reason=\"{reason}\"}} {}", count.load(Relaxed));
        }
        self.first.text(&mut out, "vllm:time_to_first_token_seconds", "Arrival to first token", &label);
        self.between.text(&mut out, "vllm:inter_token_latency_seconds", "Between two tokens", &label);
        self.whole.text(&mut out, "vllm:e2e_request_latency_seconds", "Arrival to end", &label);
        self.queued.text(&mut out, "vllm:request_queue_time_seconds", "Arrival to first step", &label);
        self.step_tokens.text(&mut out, "vllm:iteration_tokens_total", "Tokens of a step", &label);
        out
    }
}
