//! A load generator, to size a deployment: closed loop (so many clients, each waits for its answer) or open loop (so
//! many requests a second, whether or not answers come). Only an open loop shows what a queue does: a closed loop slows
//! down with the server.

use crate::client::{Socket, connect, host_of};
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

/// What load to put on a server.
#[derive(Clone, Debug)]
pub struct Load {
    /// `HOST:PORT` or `unix:PATH`.
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
    /// How long a client of a closed loop waits after an answer before it asks again.
    pub pause: Duration,
    /// How long.
    pub duration: Duration,
    /// Answers within this time are good.
    pub latency: Duration,
    /// The same arrivals for the same seed.
    pub seed: u64,
}

impl Load {
    fn address(&self) -> &str {
        self.host.trim_start_matches("http://").trim_end_matches('/')
    }
    /// The request, as it is sent each time: the generator shares processors with the server.
    fn message(&self) -> Bytes {
        let length = self.body.len();
        let mut out =
            format!("POST {} HTTP/1.1\r\nhost: {}\r\ncontent-length: {length}\r\n", self.path, host_of(self.address()));
        for (name, value) in &self.headers {
            out += &format!("{name}: {value}\r\n");
        }
        if let Some(key) = &self.key {
            out += &format!("authorization: Bearer {key}\r\n");
        }
        out += "\r\n";
        Bytes::from([out.as_bytes(), &self.body].concat())
    }
}

/// A connection, kept open, that knows as much of HTTP as counting answers takes.
#[derive(Default)]
struct Connection {
    stream: Option<Box<dyn Socket>>,
    buffer: Vec<u8>,
}

/// Bytes of the head of an answer at most.
const HEAD_MAX: usize = 1 << 16;

/// Whether the other side closed the connection.
fn is_closed(e: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(e.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

impl Connection {
    /// Sends a request and waits for the whole answer; returns its status. A server closes connections that were idle for
    /// long, perhaps just when the request is sent: then it is sent again, as every client of HTTP does.
    async fn ask(&mut self, address: &str, message: &[u8]) -> io::Result<u16> {
        if let Some(stream) = self.stream.take() {
            match self.exchange(stream, message).await {
                Err(e) if is_closed(&e) && self.buffer.is_empty() => {}
                done => return done,
            }
        }
        let stream = connect(address).await?;
        self.exchange(stream, message).await
    }

    async fn exchange(&mut self, mut stream: Box<dyn Socket>, message: &[u8]) -> io::Result<u16> {
        self.buffer.clear();
        stream.write_all(message).await?;
        let bad = |e: &str| io::Error::new(io::ErrorKind::InvalidData, e);
        let head = loop {
            if stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                Some(at) => break at,
                None if self.buffer.len() > HEAD_MAX => return Err(bad("the head of the answer has no end")),
                None => {}
            }
        };
        let text = std::str::from_utf8(&self.buffer[..head]).map_err(|_| bad("the head is not text"))?;
        let (mut length, mut is_kept) = (None, true);
        for (name, value) in text.lines().skip(1).filter_map(|l| l.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse::<usize>().ok();
            }
            is_kept &= !(name.eq_ignore_ascii_case("connection") && value.trim().eq_ignore_ascii_case("close"));
        }
        let status = text.get(9..12).and_then(|s| s.parse().ok()).ok_or_else(|| bad("the answer has no status"))?;
        let end = head + 4 + length.ok_or_else(|| bad("the answer has no Content-Length"))?;
        while self.buffer.len() < end {
            if stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.stream = is_kept.then_some(stream);
        Ok(status)
    }
}

/// What came of it.
#[derive(Default)]
struct Tally {
    sent: AtomicU64,
    refused: AtomicU64,
    /// Requests without an answer, by status or by what happened to the connection.
    failures: parking_lot::Mutex<BTreeMap<String, u64>>,
    /// Requests that an open loop could not send in time because every connection was busy.
    missed: AtomicU64,
    latencies_us: parking_lot::Mutex<Vec<u64>>,
    /// By how much requests of an open loop were sent after they were due.
    lags_us: parking_lot::Mutex<Vec<u64>>,
    refusals_us: parking_lot::Mutex<Vec<u64>>,
}

impl Tally {
    /// Sends one request, whose latency counts from `due`; returns whether it was answered.
    async fn send(&self, client: &mut Connection, load: &Load, message: &[u8], due: Instant) -> bool {
        self.sent.fetch_add(1, Relaxed);
        let sent = Instant::now();
        if load.rate.is_some() {
            self.lags_us.lock().push(sent.saturating_duration_since(due).as_micros() as u64);
        }
        match client.ask(load.address(), message).await {
            Ok(200) => {
                self.latencies_us.lock().push(due.elapsed().as_micros() as u64);
                return true;
            }
            Ok(429 | 503) => {
                self.refused.fetch_add(1, Relaxed);
                self.refusals_us.lock().push(sent.elapsed().as_micros() as u64);
            }
            Ok(status) => *self.failures.lock().entry(status.to_string()).or_default() += 1,
            Err(e) => *self.failures.lock().entry(e.kind().to_string()).or_default() += 1,
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
    let failures = std::mem::take(&mut *tally.failures.lock());
    let mut refusals = std::mem::take(&mut *tally.refusals_us.lock());
    let mut lags = std::mem::take(&mut *tally.lags_us.lock());
    latencies.sort_unstable();
    refusals.sort_unstable();
    lags.sort_unstable();
    let good = latencies.partition_point(|us| *us <= load.latency.as_micros() as u64);
    let mean = latencies.iter().sum::<u64>() as f64 / latencies.len().max(1) as f64 / 1e3;
    json!({
        "mode": if load.rate.is_some() { "open" } else { "closed" },
        "clients": load.clients, "rate": load.rate, "seconds": seconds,
        "sent": tally.sent.load(Relaxed), "answered": latencies.len(), "refused": tally.refused.load(Relaxed),
        "failed": failures.values().sum::<u64>(), "failures": failures, "missed": tally.missed.load(Relaxed),
        "throughput": latencies.len() as f64 / seconds, "goodput": good as f64 / seconds,
        "mean_ms": mean, "p50_ms": percentile(&latencies, 0.5), "p90_ms": percentile(&latencies, 0.9),
        "p99_ms": percentile(&latencies, 0.99), "max_ms": percentile(&latencies, 1.0),
        "refusal_p99_ms": percentile(&refusals, 0.99), "lag_p99_ms": percentile(&lags, 0.99),
    })
}

async fn closed(load: &Arc<Load>, tally: &Arc<Tally>, began: Instant) {
    let (mut tasks, message) = (tokio::task::JoinSet::new(), load.message());
    for _ in 0..load.clients {
        let (load, tally, message) = (load.clone(), tally.clone(), message.clone());
        tasks.spawn(async move {
            let mut client = Connection::default();
            while began.elapsed() < load.duration {
                if !tally.send(&mut client, &load, &message, Instant::now()).await {
                    // A client that asks again at once would measure refusals.
                    tokio::time::sleep(PAUSE).await;
                }
                if !load.pause.is_zero() {
                    tokio::time::sleep(load.pause).await;
                }
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// Requests at random times, as independent users send them: the time between two is exponentially distributed.
async fn open(load: &Arc<Load>, tally: &Arc<Tally>, began: Instant, rate: f64) {
    let idle: Arc<parking_lot::Mutex<Vec<Connection>>> = Arc::default();
    let message = load.message();
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
        let message = message.clone();
        live.fetch_add(1, Relaxed);
        tokio::spawn(async move {
            let _permit = permit;
            let mut client = idle.lock().pop().unwrap_or_default();
            tally.send(&mut client, &load, &message, due).await;
            idle.lock().push(client);
            live.fetch_sub(1, Relaxed);
        });
    }
    let last = Instant::now();
    while live.load(Relaxed) > 0 && last.elapsed() < Duration::from_secs(30) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Ten minutes at a steady load had failures that were none: connections that a burst had opened lay idle until the
    /// server closed them, and the next burst used them.
    #[tokio::test]
    async fn a_connection_that_was_closed_while_idle_is_no_failure() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move {
            for _ in 0..20 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                assert!(stream.read(&mut request).await.unwrap() > 0);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
                // Without saying so before, as after a time limit.
            }
        });
        let mut client = Connection::default();
        for _ in 0..20 {
            let message = b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n";
            assert_eq!(client.ask(&host, message).await.unwrap(), 200);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        server.await.unwrap();
        assert!(client.ask(&host, b"POST / HTTP/1.1\r\n\r\n").await.is_err(), "no server listens");
    }
}
