//! The live page of `talweg launch --dashboard`: a very small web server on this machine, one page
//! that asks it for the job's state twice a second, nothing else.

use crate::{Error, Result};
use dist::Consistency;
use dist::launch::{Dashboard, Snapshot};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What Prometheus wants to hear of its text.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The page.
const PAGE: &str = include_str!("page.html");
/// A browser that says or takes nothing for so long is cut off.
const PATIENCE: Duration = Duration::from_secs(5);
/// A request is short; what is longer is not one.
const REQUEST_MAX: usize = 16 << 10;
/// Requests answered at once; more are told to come again.
const REQUESTS_MAX: usize = 32;
/// How long to wait when the system has no file or thread to give.
const PAUSE: Duration = Duration::from_millis(20);
/// The page has its own styles and scripts, and asks this server alone.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves the page from separate threads until the process ends.
pub fn serve(port: u16, board: Arc<Dashboard>, rule: Arc<dyn Consistency>) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .and_then(|l| l.local_addr().map(|at| (l, at)))
        .map_err(|e| Error::value(format!("the dashboard cannot listen at port {port}: {e}")));
    let (listener, at) = listener?;
    board.note(&format!("dashboard: http://{at}/"));
    let asked = Arc::new(AtomicUsize::new(0));
    let accepting = move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                std::thread::sleep(PAUSE);
                continue;
            };
            if asked.fetch_add(1, Ordering::Relaxed) >= REQUESTS_MAX {
                asked.fetch_sub(1, Ordering::Relaxed);
                refuse(&stream);
                continue;
            }
            let (board, counted, rule) = (board.clone(), asked.clone(), rule.clone());
            let answering = move || {
                // A browser that went away is no reason to say anything.
                let _ = answer(&stream, &board, &*rule);
                counted.fetch_sub(1, Ordering::Relaxed);
            };
            if std::thread::Builder::new().spawn(answering).is_err() {
                asked.fetch_sub(1, Ordering::Relaxed);
                std::thread::sleep(PAUSE);
            }
        }
    };
    let spawned = std::thread::Builder::new().name("page".into()).spawn(accepting);
    spawned.map(drop).map_err(|e| Error::value(format!("the dashboard has no thread: {e}")))
}

/// Says that there are too many, if that can be said without waiting.
fn refuse(mut stream: &TcpStream) {
    if stream.set_nonblocking(true).is_ok() {
        let _ = stream.write(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\r\n");
    }
}

/// Reads a request up to its empty line, in all within `PATIENCE`.
fn request(mut stream: &TcpStream) -> std::io::Result<String> {
    let deadline = Instant::now() + PATIENCE;
    let (mut text, mut piece) = (Vec::new(), [0; 2048]);
    while !text.windows(4).any(|w| w == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || text.len() > REQUEST_MAX {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => break,
            n => text.extend_from_slice(&piece[..n]),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn answer(stream: &TcpStream, board: &Dashboard, rule: &dyn Consistency) -> std::io::Result<()> {
    let text = request(stream)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = text.lines();
    let request = lines.next().unwrap_or_default();
    let mut host = String::new();
    for line in lines.take_while(|l| !l.is_empty()) {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("host")
        {
            host = value.trim().to_string();
        }
    }
    // A page from elsewhere must not read the job through a name that it made point here.
    let name = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
    let is_here = matches!(name, "localhost" | "127.0.0.1");
    let (status, kind, body) = match request.split(' ').collect::<Vec<_>>()[..] {
        _ if !is_here => ("403 Forbidden", "text/plain", "not by this name\n".to_string()),
        ["GET", "/", ..] => ("200 OK", "text/html; charset=utf-8", PAGE.to_string()),
        ["GET", "/state", ..] => ("200 OK", "application/json", state(&board.snapshot(), rule).to_string()),
        ["GET", "/metrics", ..] => ("200 OK", METRICS, metrics(&board.snapshot())),
        ["GET", ..] => ("404 Not Found", "text/plain", "there is /, /state and /metrics\n".to_string()),
        _ => ("405 Method Not Allowed", "text/plain", "GET is all there is\n".to_string()),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n");
    let mut stream = stream;
    stream.write_all(head.as_bytes())?;
    write!(stream, "Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\n")?;
    stream.write_all(b"Cache-Control: no-store\r\nConnection: close\r\n\r\n")?;
    stream.write_all(body.as_bytes())
}

/// The job in Prometheus' text format.
fn metrics(s: &Snapshot) -> String {
    let mut out = String::new();
    let mut family = |name: &str, kind: &str, help: &str, rows: Vec<(String, f64)>| {
        out += &format!("# HELP talweg_{name} {help}\n# TYPE talweg_{name} {kind}\n");
        rows.iter().for_each(|(labels, value)| out += &format!("talweg_{name}{labels} {value}\n"));
    };
    let workers = |f: &dyn Fn(&dist::launch::WorkerState) -> f64| -> Vec<(String, f64)> {
        s.workers.iter().map(|w| (format!("{{rank=\"{}\"}}", w.rank), f(w))).collect()
    };
    let servers = |f: &dyn Fn(&dist::launch::ServerState) -> u64| -> Vec<(String, f64)> {
        s.servers.iter().map(|v| (format!("{{server=\"{}\"}}", v.server), f(v) as f64)).collect()
    };
    let processes = |f: &dyn Fn(&dist::launch::ProcessState) -> f64| -> Vec<(String, f64)> {
        s.processes.iter().map(|p| (format!("{{process=\"{}\"}}", p.name), f(p))).collect()
    };
    family("job_seconds", "gauge", "Seconds since the job began.", vec![(String::new(), s.seconds)]);
    family("worker_step", "gauge", "Steps that a worker has done.", workers(&|w| w.step as f64));
    family("worker_steps_total", "gauge", "Steps that a worker has to do.", workers(&|w| w.steps as f64));
    family("worker_loss", "gauge", "Last loss of a worker.", workers(&|w| w.loss));
    let help = "Samples that the worker's process has trained on.";
    family("worker_samples_total", "counter", help, workers(&|w| w.samples as f64));
    let help = "Samples in a second over the last seconds.";
    family("worker_samples_per_second", "gauge", help, workers(&|w| w.samples_per_second));
    family("server_primaries", "gauge", "Partitions that a server answers for.", servers(&|v| v.primaries));
    family("server_bytes", "gauge", "Bytes of values that a server holds.", servers(&|v| v.bytes));
    family("server_applied_total", "counter", "Updates that a server has applied.", servers(&|v| v.applied));
    family("server_reads_total", "counter", "Reads that a server has answered.", servers(&|v| v.reads));
    family("server_parked_total", "counter", "Reads that had to wait.", servers(&|v| v.parked));
    let is_up = |p: &dist::launch::ProcessState| if p.is_alive { 1.0 } else { 0.0 };
    family("process_up", "gauge", "Whether a process runs.", processes(&is_up));
    family("process_restarts_total", "counter", "Restarts in a place.", processes(&|p| f64::from(p.restarts)));
    out
}

fn state(s: &Snapshot, rule: &dyn Consistency) -> Value {
    // JSON has no NaN: what is not a number is null.
    json!({
        "seconds": s.seconds,
        "consistency": rule.text(),
        "bound": rule.worker_rule().bound,
        "workers": s.workers.iter().map(|w| json!({
            "rank": w.rank, "step": w.step, "steps": w.steps, "loss": w.loss,
            "samples": w.samples, "samples_per_second": w.samples_per_second, "staleness": w.staleness,
        })).collect::<Vec<_>>(),
        "servers": s.servers.iter().map(|v| json!({
            "server": v.server, "primaries": v.primaries, "bytes": v.bytes, "applied": v.applied,
            "reads": v.reads, "parked": v.parked,
        })).collect::<Vec<_>>(),
        "processes": s.processes.iter().map(|p| json!({
            "name": p.name, "id": p.id, "alive": p.is_alive, "restarts": p.restarts,
        })).collect::<Vec<_>>(),
        "history": s.history.iter().map(|h| json!([h.seconds, h.step, h.loss, h.samples_per_second]))
            .collect::<Vec<_>>(),
        "events": s.events.iter().map(|e| json!([e.seconds, e.text])).collect::<Vec<_>>(),
    })
}
