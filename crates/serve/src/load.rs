//! A load generator, to size a deployment: closed loop (so many clients, each waits for its answer) or open loop (so
//! many requests a second, whether or not answers come). Only an open loop shows what a queue does: a closed loop slows
//! down with the server.

use crate::client::Client;
use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// What load to put on a server.
#[derive(Clone, Debug)]
pub struct Load {
    /// `HOST:PORT`.
    pub host: String,
    /// An API key.
    pub key: Option<String>,
    /// The path that requests are sent to.
    pub path: String,
    /// Headers of each request.
    pub headers: Vec<(String, String)>,
    /// The body of each request.
    pub body: Bytes,
    /// Clients of a closed loop, or connections at most of an open one.
    pub clients: usize,
    /// Requests a second of an open loop; none: closed.
    pub rate: Option<f64>,
    /// How long.
    pub duration: Duration,
    /// Answers within this time are good.
    pub latency: Duration,
    /// The same arrivals for the same seed.
    pub seed: u64,
}

/// What came of it.
#[derive(Default)]
struct Tally {
    sent: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    /// Requests that an open loop could not send in time because every connection was busy.
    missed: AtomicU64,
    latencies_us: parking_lot::Mutex<Vec<u64>>,
    refusals_us: parking_lot::Mutex<Vec<u64>>,
}

impl Tally {
    /// Sends one request, whose latency counts from `due`; returns whether it was answered.
    async fn send(&self, client: &mut Client, load: &Load, due: Instant) -> bool {
        let headers: Vec<(&str, &str)> = load.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        self.sent.fetch_add(1, Relaxed);
        let sent = Instant::now();
        match client.send(Method::POST, &load.path, &headers, load.body.clone()).await {
            Ok(reply) if reply.status == 200 => {
                self.latencies_us.lock().push(due.elapsed().as_micros() as u64);
                return true;
            }
            Ok(reply) if reply.status == 429 || reply.status == 503 => {
                self.refused.fetch_add(1, Relaxed);
                self.refusals_us.lock().push(sent.elapsed().as_micros() as u64);
            }
            _ => drop(self.failed.fetch_add(1, Relaxed)),
        }
        false
    }
}

/// How long a client of a closed loop waits after a refusal.
const PAUSE: Duration = Duration::from_millis(5);

fn percentile(sorted: &[u64], p: f64) -> f64 {
    let at = ((sorted.len() as f64 * p).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).map_or(0.0, |us| *us as f64 / 1e3)
}

/// Runs the load; returns counts, latency percentiles in milliseconds, and goodput: answers a second within the target.
pub async fn run(load: Load) -> Value {
    let (load, tally) = (Arc::new(load), Arc::new(Tally::default()));
    let began = Instant::now();
    match load.rate {
        None => closed(&load, &tally, began).await,
        Some(rate) => open(&load, &tally, began, rate).await,
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut latencies = std::mem::take(&mut *tally.latencies_us.lock());
    let mut refusals = std::mem::take(&mut *tally.refusals_us.lock());
    latencies.sort_unstable();
    refusals.sort_unstable();
    let good = latencies.partition_point(|us| *us <= load.latency.as_micros() as u64);
    let mean = latencies.iter().sum::<u64>() as f64 / latencies.len().max(1) as f64 / 1e3;
    json!({
        "mode": if load.rate.is_some() { "open" } else { "closed" },
        "clients": load.clients, "rate": load.rate, "seconds": seconds,
        "sent": tally.sent.load(Relaxed), "answered": latencies.len(), "refused": tally.refused.load(Relaxed),
        "failed": tally.failed.load(Relaxed), "missed": tally.missed.load(Relaxed),
        "throughput": latencies.len() as f64 / seconds, "goodput": good as f64 / seconds,
        "mean_ms": mean, "p50_ms": percentile(&latencies, 0.5), "p90_ms": percentile(&latencies, 0.9),
        "p99_ms": percentile(&latencies, 0.99), "max_ms": percentile(&latencies, 1.0),
        "refusal_p99_ms": percentile(&refusals, 0.99),
    })
}

async fn closed(load: &Arc<Load>, tally: &Arc<Tally>, began: Instant) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..load.clients {
        let (load, tally) = (load.clone(), tally.clone());
        tasks.spawn(async move {
            let mut client = Client::new(&load.host, load.key.as_deref());
            while began.elapsed() < load.duration {
                if !tally.send(&mut client, &load, Instant::now()).await {
                    // A client that asks again at once would measure refusals.
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// Requests at random times, as independent users send them: the time between two is exponentially distributed.
async fn open(load: &Arc<Load>, tally: &Arc<Tally>, began: Instant, rate: f64) {
    let idle: Arc<parking_lot::Mutex<Vec<Client>>> = Arc::default();
    let room = Arc::new(Semaphore::new(load.clients));
    let live = Arc::new(AtomicUsize::new(0));
    let mut state = load.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut due = began;
    while due.duration_since(began) < load.duration {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let uniform = ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        due += Duration::from_secs_f64(-uniform.ln() / rate.max(1e-6));
        tokio::time::sleep_until(due.into()).await;
        let Ok(permit) = room.clone().try_acquire_owned() else {
            tally.missed.fetch_add(1, Relaxed);
            continue;
        };
        let (load, tally, idle, live) = (load.clone(), tally.clone(), idle.clone(), live.clone());
        live.fetch_add(1, Relaxed);
        tokio::spawn(async move {
            let _permit = permit;
            let spare = idle.lock().pop();
            let mut client = spare.unwrap_or_else(|| Client::new(&load.host, load.key.as_deref()));
            tally.send(&mut client, &load, due).await;
            idle.lock().push(client);
            live.fetch_sub(1, Relaxed);
        });
    }
    let last = Instant::now();
    while live.load(Relaxed) > 0 && last.elapsed() < Duration::from_secs(30) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
